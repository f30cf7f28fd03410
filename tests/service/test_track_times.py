"""The short way that most readings take through a track's judgement ends where the long one does."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from service.arrival import judge
from service.readings import BadRecord, Reading
from service.settings import Rule
from service.track import Track, prepare_rule

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
