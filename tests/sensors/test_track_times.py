"""The short way that most readings take through a track's judgement ends where the long one does."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

import ishsmm_stream as hs
from service.sensors.arrival import judge
from service.sensors.inference import infer
from service.sensors.rules import prepare_rule
from service.sensors.track import Track
from service.settings import Rule
from service.wire.readings import BadRecord, Reading

SECOND = 1_000_000
TIMES = [0, 5, 5, 6, 3, 100, 101, 500, 499, 501]
POLICIES = [
    {},
    {"max_ahead_s": 50.0},
    {"late": "reject", "duplicate": "reject"},
    {"interval_s": 1.0, "gap": "insert"},
    {"interval_s": 1.0, "gap": "insert", "max_ahead_s": 50.0},
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("timestamp", [-1, 90_000, 10_000_000])
def test_a_track_judges_as_the_policy_does(policy, timestamp):
    rule = msgspec.convert({"time": policy}, Rule)
    track, newest = Track("a", prepare_rule(rule)), None
    for time, value in zip(TIMES, itertools.cycle((1.0, 1.0, 2.0)), strict=False):
        reading = Reading("a", time * SECOND, (value,))
        expected = judge(rule.time, newest, reading, timestamp)
        newest = expected.newest
        if expected.reason is None:
            assert track.judge(reading, timestamp) == expected.missing
        else:
            with pytest.raises(BadRecord) as refused:
                track.judge(reading, timestamp)
            assert refused.value.reason == expected.reason
        assert track.newest == newest


@pytest.mark.parametrize("batch", [1, 5, 37, 1_000])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_alarms_learn_by_the_hours_of_the_rules_zone(batch, zone):
    """The detector of a track is in the state of one that was given the times, however readings were batched."""
    rng = np.random.default_rng(0)
    begin = 1_774_746_000  # two hours before Berlin's clocks are set forward
    times = begin + np.cumsum(rng.integers(30, 900, 1_000))
    values = rng.normal(size=1_000) + 4.0 * np.sin(times * 2.0 * np.pi / 86_400.0)
    rule = msgspec.convert({"time": {"zone": zone}, "window": {"readings": 7}}, Rule)
    track = Track("a", prepare_rule(rule))
    readings = [(int(time) * SECOND, (float(value),), 0) for time, value in zip(times, values, strict=True)]
    for first in range(0, len(readings), batch):
        infer(track, readings[first : first + batch])
    expected = hs.OnlineDetector(alarm_policy=track.detector.alarm_policy)
    expected.update_many(values, times, zone)
    ours, theirs = track.detector._engine.tracker, expected._engine.tracker
    assert theirs.hours[0, 4] > 50  # hours that were learned from
    np.testing.assert_array_equal(ours.hours, theirs.hours)
    np.testing.assert_array_equal(ours.profile, theirs.profile)
    np.testing.assert_array_equal(ours.numbers, theirs.numbers)


def test_a_zone_that_does_not_exist_is_named():
    with pytest.raises(msgspec.ValidationError, match="Europe/Berlin"):
        msgspec.convert({"time": {"zone": "Europe/Berln"}}, Rule)
