"""Transforms that remember: the same whatever happens in between, and a season that hides no change."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

import ishsmm_stream as hs
from service.sensors.history import History
from service.sensors.inference import infer
from service.sensors.rules import prepare_rule
from service.sensors.track import Track, _SavedTrack
from service.settings.rules import Alarms, Rule, Window
from service.settings.times import TimePolicy
from service.settings.transforms import Season
from service.wire import messages
from service.wire.readings import BadRecord, Reading

SECOND = 1_000_000
DAY = 86_400 * SECOND
BEGIN = 1_700_000_000 * SECOND


def readings(values, step=SECOND, sensor="pump"):
    rows = np.reshape(values, (len(values), -1)).tolist()
    return [Reading(sensor, BEGIN + i * step, tuple(row)) for i, row in enumerate(rows)]


def feed(track, batch):
    """Judge and take readings; returns what was published as bytes, and how many readings were refused."""
    accepted, refused = [], 0
    for reading in batch:
        try:
            prepare = track.prepared.prepare
            values = reading.values if prepare is None else prepare(reading.values)
            accepted.append((reading.time, values, track.judge(reading, reading.time // 1000)))
        except BadRecord:
            refused += 1
    published = infer(track, accepted)
    return [messages.encode(message) for message in (*published.events, *published.states)], refused


def taken(rule, batch):
    """What the detector gets."""
    history, prepare = History(rule), prepare_rule(rule).prepare
    return [history.take(r.time, prepare(r.values) if prepare else r.values)[0] for r in batch]


# Difference and rate


def test_a_difference_is_to_the_reading_before():
    values = np.random.default_rng(0).normal(size=(50, 2))
    history = History(Rule(transform="difference"))
    rows = np.array([history.take(r.time, r.values) for r in readings(values)])
    np.testing.assert_array_equal(rows[1:], np.diff(values, axis=0))
    assert np.isnan(rows[0]).all()


def test_transforms_follow_one_another_in_their_order():
    values = np.exp(np.random.default_rng(0).normal(size=50))
    found = taken(Rule(transform=("log", "difference", "difference")), readings(values))
    np.testing.assert_allclose(found[2:], np.diff(np.log(values), 2))
    assert np.isnan(found[:2]).all()
    np.testing.assert_allclose(
        taken(Rule(transform=("counter_rate", "log1p")), readings(values.cumsum()))[1:], np.log1p(values[1:])
    )


def test_a_counters_rate_is_per_second_and_begins_again_when_it_falls():
    times = [0, 2, 4, 4, 3, 10, 11]
    counts = [10.0, 14.0, 4.0, 5.0, 2.0, 10.0, 10.0]
    batch = [Reading("pump", BEGIN + t * SECOND, (c,)) for t, c in zip(times, counts, strict=True)]
    found = taken(Rule(transform="counter_rate"), batch)
    # 4 a reset, then one of the same time and a late one, which the next rate passes over
    np.testing.assert_array_equal(found, [math.nan, 2.0, 2.0, math.nan, math.nan, 1.0, 0.0])


def test_a_late_reading_has_no_difference_and_leaves_the_next_one_alone():
    batch = readings([1.0, 3.0, 7.0, 8.0])
    late = batch[1]._replace(values=(99.0,))
    np.testing.assert_array_equal(
        taken(Rule(transform="difference"), [*batch[:3], late, batch[3]]), [math.nan, 2.0, 4.0, math.nan, 1.0]
    )


def test_differences_too_large_for_a_number_are_the_largest_one():
    found = taken(Rule(transform="difference"), readings([-1.7e308, 1.7e308, 0.0]))
    assert found[1] == np.finfo(float).max


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (("difference", "log"), "'log' before 'difference'"),
        (("counter_rate", "log"), "'log1p' after 'counter_rate'"),
        (("log1p", "counter_rate"), "first place"),
    ],
)
def test_an_order_that_could_refuse_readings_late_is_refused_early(transform, said):
    with pytest.raises(ValueError, match=said):
        Rule(transform=transform)


@pytest.mark.parametrize("season", ["1x", "", "d", "0d", "-1d"])
def test_a_period_is_a_number_with_a_unit(season):
    with pytest.raises(ValueError, match="season takes a period such as '1d'"):
        Rule(season=season)


# The track


RULES = {
    "difference": Rule(transform="difference", window=Window(readings=7)),
    "rate": Rule(transform=("counter_rate", "sqrt"), time=TimePolicy(interval_s=1.0, gap="insert")),
    "season": Rule(season=Season(period_s=60.0, bins=12)),
    "both": Rule(transform=("log1p", "difference"), season="50s"),
}


def stream(seed=0, n=400):
    rng = np.random.default_rng(seed)
    values = np.abs(
        10.0 + 3.0 * np.sin(np.arange(n) * math.tau / 60.0) + rng.normal(size=n) + 6.0 * (np.arange(n) > 300)
    )
    batch = readings(values.cumsum())
    return [reading for i, reading in enumerate(batch) if i % 50 not in (17, 18)]


@pytest.mark.parametrize("name", RULES)
def test_cycles_and_restores_change_nothing(name):
    rule, batch = RULES[name], stream()
    prepared = prepare_rule(rule)
    together, _ = feed(Track("pump", prepared), batch)
    assert together
    one_by_one, through_bytes = Track("pump", prepared), Track("pump", prepared)
    found, restored = [], []
    for reading in batch:
        found += feed(one_by_one, [reading])[0]
        through_bytes = Track.load("pump", through_bytes.dump(), prepared)
        restored += feed(through_bytes, [reading])[0]
    assert sorted(found) == sorted(together)
    assert restored == found
    assert through_bytes.dump() == one_by_one.dump()


@pytest.mark.parametrize("name", RULES)
def test_refused_readings_leave_no_trace(name):
    rule = RULES[name]
    rule = Rule(transform=rule.transform, season=rule.season, time=TimePolicy(late="reject", duplicate="reject"))
    batch = stream()
    track, other = Track("pump", prepare_rule(rule)), Track("pump", prepare_rule(rule))
    feed(track, batch)
    bad = [batch[5]._replace(time=batch[5].time + 1), batch[100], batch[101]._replace(values=(1.0, 2.0))]
    for i, reading in enumerate(batch):
        feed(other, [reading])
        if i > 150:
            assert feed(other, bad) == ([], 3)
    assert other.dump() == track.dump()


def test_tracks_of_the_time_before_transforms_remembered_still_load():
    track = Track("pump", prepare_rule(Rule(transform="log")))
    feed(track, stream())
    saved = msgspec.msgpack.decode(track.dump())
    assert len(saved) == len(msgspec.structs.fields(_SavedTrack))
    old = msgspec.msgpack.encode(saved[:-3])
    again = Track.load("pump", old, prepare_rule(Rule(transform="log")))
    assert again.accepted == track.accepted
    again._learn_interval(track._values, track._times)  # the interval is learned anew
    assert msgspec.msgpack.decode(again.dump())[:12] == saved[:12]


def test_another_season_or_order_is_another_generation_and_names_for_the_same_are_not():
    def fingerprint(**fields):
        return Rule(**fields).inference_fingerprint()

    assert fingerprint(season="1d") == fingerprint(season=Season(period_s=86400.0))
    assert fingerprint(transform=("log",)) == fingerprint(transform="log")
    assert fingerprint(transform=()) == fingerprint()
    kinds = [
        fingerprint(), fingerprint(season="1d"), fingerprint(season="12h"), fingerprint(transform="log"),
        fingerprint(transform=("log", "difference")), fingerprint(transform=("sqrt", "difference")),
    ]  # fmt: skip
    assert len(set(kinds)) == len(kinds)


def test_a_track_with_a_season_is_small():
    rule = Rule(season="10m")
    track = Track("pump", prepare_rule(rule))
    feed(track, readings(np.random.default_rng(1).normal(size=3000)))
    assert len(track.dump()) < 57 * 320, "320 bytes a reading at 1 Hz, saved every 57 s"
    assert len(track.dump()) - len(track.detector.snapshot()) < 4000


# The season


def daily(seed, days, cycle, step=300):
    times = np.arange(days * 86400 // step) * step
    return times, 5.0 * cycle(times / 86400.0) + np.random.default_rng(seed).normal(size=len(times))


CYCLES = {
    "sine": lambda x: np.sin(math.tau * x),
    "schedule": lambda x: (np.abs(x % 1.0 - 0.55) < 0.2051).astype(float),
    "none": lambda x: 0.0 * x,
}


def raised(rule, values, step=300):
    track = Track("pump", prepare_rule(rule))
    found, _ = feed(track, readings(values, step * SECOND))
    told = [messages.decode(message) for message in found]
    changes = [one for one in told if isinstance(one, messages.ChangeEvent) and one.status == "provisional"]
    return changes, [one for one in told if isinstance(one, messages.StateRecord)]


@pytest.mark.parametrize("cycle", CYCLES)
def test_a_daily_cycle_of_five_sigma_is_quiet_after_three_days_and_a_change_on_top_is_found(cycle):
    rule = Rule(season="1d", alarms=Alarms(threshold=0.9999, min_effect_sd=1.0))
    for seed in range(2):
        _, values = daily(seed, 10, CYCLES[cycle])
        change = 288 * 6 + 100 * seed
        values[change:] += 4.0
        found, _ = raised(rule, values)
        assert [one.index for one in found if one.index > 3 * 288] == [pytest.approx(change, abs=6)]
        assert "->" in found[-1].summary
        assert found[-1].after.level - found[-1].before.level == pytest.approx(4.0, abs=1.5)


def test_without_the_season_the_same_cycle_is_many_changes():
    _, values = daily(0, 5, CYCLES["sine"])
    assert len(raised(Rule(), values)[0]) > 10


def test_while_the_first_period_is_learned_the_state_is_null():
    _, values = daily(0, 3, CYCLES["sine"])
    _, states = raised(Rule(season="1d", window=Window(readings=12)), values)
    known = [state.index for state in states if state.state is not None]
    assert known[0] == pytest.approx(288, abs=12)
    assert known == [state.index for state in states if state.index >= known[0]]
    assert states[0].recent == []
    assert abs(states[-1].state.parameters["mean"]) < 1.0


def test_a_season_takes_several_channels():
    times, values = daily(0, 4, CYCLES["sine"])
    profile = hs.SeasonalProfile(86400, channels=2)
    left = np.array([profile.update(t, (y, 3.0 - y)) for t, y in zip(times.tolist(), values.tolist(), strict=True)])
    np.testing.assert_allclose(left[288 * 2 :].std(axis=0), 1.0, atol=0.3)
    np.testing.assert_allclose(left[288:, 0] + left[288:, 1], 3.0, atol=1e-2)
