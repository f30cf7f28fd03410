"""Alarms from their raise to their clear: by return periods made by hand, and by whole detectors."""

import math

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.online import alarms, episodes, rarity, snapshot

EVERY = 1_000.0


def policy(every=EVERY):
    return hs.AlarmPolicy(every=every)


def by_hand(monkeypatch, script, changes=None):
    """Let a script give the return periods of the levels by the number of readings so far, None for a missing reading.

    Returns a function that judges reading ``t`` and returns its events. ``changes``: by ``t``, the number of an
    announced change and how much it counts.
    """
    follow = getattr(episodes.follow, "py_func", episodes.follow)  # plain Python, so that ``observe`` can be replaced
    tracker = rarity.make_tracker(1)
    rows = np.zeros((1, 1))

    def observe(tracker, rows, row, memory):
        periods = script(tracker.ints[rarity.CLOCK])
        if periods is None:
            return False
        tracker.periods[:] = periods
        tracker.kinds[:] = rarity.LEVEL, rarity.DRIFT, rarity.DRIFT
        return True

    monkeypatch.setattr(rarity, "observe", observe)
    buffer = np.full((alarms.MOST_EVENTS, alarms.EVENT_NUMBERS), np.nan)

    def step(t, every):
        change, change_period = (changes or {}).get(t, (-1, 0.0))
        index = t if change >= 0 else -1
        tracker.floats[rarity.EVERY] = every
        count = follow(policy(every), tracker, rows, 0, t, change, index, change_period, 0, buffer, 0)
        return alarms.read_events(buffer[:count])

    return step


def kinds(events):
    return [(event.kind, event.at, event.alarm) for event in events]


def spikes(*times, high=2_000.0, width=1):
    return lambda t: [high if any(0 <= t - at < width for at in times) else 100.0, 0.0, 0.0]


def test_an_alarm_is_raised_at_the_budget_and_clears_after_fifty_low_readings(monkeypatch):
    step = by_hand(monkeypatch, lambda t: [{10: 999.9, 20: 1_000.0, 40: 5_000.0, 60: 500.0}.get(int(t), 499.9), 0, 0])
    events = [event for t in range(200) for event in step(t, EVERY)]
    assert kinds(events) == [("alarm", 20, 0), ("cleared", 110, 0)]
    assert events[0] == hs.Event("alarm", 20, 0, 20, 0.0, 20, 20, 0, 1_000.0, ("level",))
    assert (events[1].index, events[1].return_period) == (20, 499.9)


def test_a_larger_budget_needs_a_longer_calm_below_a_tenth_of_it(monkeypatch):
    high = {10: 20_000.0, 300: 2_000.0}
    step = by_hand(monkeypatch, lambda t: [high.get(int(t), 1_999.0), 0, 0])
    events = [event for t in range(2_000) for event in step(t, 20_000.0)]
    assert kinds(events) == [("alarm", 10, 0), ("cleared", 1_300, 0)]


def test_missing_readings_neither_raise_nor_clear(monkeypatch):
    gap = {"is_on": False}
    step = by_hand(monkeypatch, lambda t: None if gap["is_on"] else spikes(10)(t))
    events = [event for t in range(20) for event in step(t, EVERY)]
    gap["is_on"] = True
    events += [event for t in range(20, 1_020) for event in step(t, EVERY)]
    gap["is_on"] = False
    events += [event for t in range(1_020, 1_100) for event in step(t, EVERY)]
    assert kinds(events) == [("alarm", 10, 0), ("cleared", 1_060, 0)]


def test_at_most_three_alarms_are_raised_in_any_stretch_of_the_budget(monkeypatch):
    step = by_hand(monkeypatch, spikes(*range(0, 4_000, 60)))
    raised = [event.at for t in range(4_000) for event in step(t, EVERY) if event.kind == "alarm"]
    assert len(raised) >= 9
    assert raised[:3] == [0, 60, 120]
    for first, fourth in zip(raised, raised[3:], strict=False):
        assert fourth - first >= EVERY


def test_after_ten_thousand_readings_it_is_a_habit_until_it_has_been_low(monkeypatch):
    def script(t):
        return [2_000.0 if t < 15_000 or t >= 16_000 else 100.0, 0.0, 0.0]

    step = by_hand(monkeypatch, script)
    events = [event for t in range(17_000) for event in step(t, EVERY)]
    assert kinds(events) == [("alarm", 0, 0), ("cleared", 10_000, 0), ("alarm", 16_000, 1)]


def test_a_level_that_has_become_a_habit_does_not_hide_the_others(monkeypatch):
    step = by_hand(monkeypatch, lambda t: [3_000.0 if t >= 12_000 else 0.0, 2_000.0, 0.0])
    events = [event for t in range(12_100) for event in step(t, EVERY)]
    assert kinds(events) == [("alarm", 0, 0), ("cleared", 10_000, 0), ("alarm", 12_000, 1)]
    assert [event.reasons for event in events] == [("drift",), ("drift",), ("level",)]


def test_another_budget_takes_effect_at_once(monkeypatch):
    step = by_hand(monkeypatch, lambda t: [500.0, 0.0, 0.0])
    assert [event for t in range(10) for event in step(t, EVERY)] == []
    assert kinds(step(10, 500.0)) == [("alarm", 10, 0)]


def test_a_change_raises_an_alarm_if_the_return_period_of_its_jump_is_long_enough(monkeypatch):
    step = by_hand(monkeypatch, spikes(), changes={50: (4, 999.0), 80: (5, 1_000.0)})
    events = [event for t in range(100) for event in step(t, EVERY)]
    assert kinds(events) == [("alarm", 80, 0)]
    assert (events[0].change, events[0].reasons) == (5, ("change",))


def test_changes_are_ranked_by_their_jump():
    """(300 + n) / (3 + k) x n / (n + 300): a change like three before it has half the return period of a larger one."""
    tracker = rarity.make_tracker(1)
    tracker.ints[rarity.CLOCK] = 9_700
    start = 9_700 / 10_000
    found = [episodes._rank_change(tracker, jump) for jump in (2.0, 2.0, 2.0, 2.0, 8.0, 0.1, math.nan)]
    expected = [10_000 / (3 + k) * start for k in (0, 1, 2, 3, 0, 5, 5)]
    np.testing.assert_allclose(found, expected)


# Whole detectors


def faulty(seed=0, length=6_000):
    """A stream with several alarms: a level that moves, a spike, a sensor that sticks, missing readings."""
    rng = np.random.default_rng(seed)
    values = 20.0 + rng.normal(size=length)
    values[rng.random(length) < 0.02] = math.nan
    values[2_000:2_150] += 6.0
    values[3_500] += 30.0
    values[4_500:4_600] = values[4_498] if values[4_498] == values[4_498] else 20.0
    values[5_000:] += 15.0
    return values


def detector(every=EVERY, **settings):
    return hs.OnlineDetector(alarm_policy=policy(every), **settings)


VALUES = faulty()
WHOLE = detector()
EVENTS = WHOLE.update_many(VALUES)


def unusual(events):
    return [event for event in events if event.kind in ("alarm", "cleared")]


def test_the_faults_raise_alarms_that_are_opened_and_cleared_in_turn():
    found = unusual(EVENTS)
    raised = [event for event in found if event.kind == "alarm"]
    assert [event.kind for event in found] == ["alarm", "cleared"] * (len(found) // 2) + ["alarm"] * (len(found) % 2)
    assert [event.alarm for event in raised] == list(range(len(raised)))
    for start in (2_000, 3_500, 4_500, 5_000):
        assert any(start <= event.at < start + 100 for event in raised), start
    assert len(raised) <= 8


def test_alarms_are_numbered_apart_from_changes():
    changes = [event for event in EVENTS if event.kind == "raised"]
    assert [event.alarm for event in changes] == list(range(len(changes)))
    behind = [event.change for event in unusual(EVENTS) if event.change >= 0]
    assert behind
    assert set(behind) <= {event.alarm for event in changes}
    assert all(event.return_period > 0.0 for event in changes)


def test_unusual_lists_the_episodes():
    found = WHOLE.unusual
    raised = [event for event in EVENTS if event.kind == "alarm"]
    cleared = {event.alarm: event.at for event in EVENTS if event.kind == "cleared"}
    assert [(e.number, e.raised_at, e.return_period, e.reasons) for e in found] == [
        (event.alarm, event.at, event.return_period, event.reasons) for event in raised
    ]
    assert [e.cleared_at for e in found] == [cleared.get(e.number) for e in found]


def test_alarms_do_not_depend_on_batches():
    one_by_one = detector()
    assert [event for value in VALUES for event in one_by_one.update(value)] == EVENTS
    pieces = detector()
    assert [event for piece in np.array_split(VALUES, 37) for event in pieces.update_many(piece)] == EVENTS
    to_event, found, taken = detector(), [], 0
    while taken < len(VALUES):
        count, events = to_event.update_to_event(VALUES[taken:])
        taken += count
        found += events
    assert found == EVENTS
    fleet, together = [detector() for _ in range(3)], [[], [], []]
    for begin in range(0, len(VALUES), 500):
        for own, events in zip(
            together, hs.update_fleet(fleet, [VALUES[begin : begin + 500]] * 3, threads=1), strict=True
        ):
            own += events
    assert together == [EVENTS] * 3
    for other in (one_by_one, pieces, to_event, *fleet):
        assert other.snapshot() == WHOLE.snapshot()


def recurring():
    emission = hs.emissions.Normal(mean=20.0, mean_weight=0.1, shape=2.0, scale=1.0)
    return hs.ied(emission=emission, duration=hs.durations.Poisson(shape=2.0, scale=50.0))


def test_chains_raise_alarms_too_and_they_do_not_depend_on_batches():
    values = VALUES[:2_400]
    whole = detector(model=recurring(), chains=5)
    events = whole.update_many(values)
    assert [event.at for event in unusual(events) if event.kind == "alarm" and 2_000 <= event.at < 2_050]
    pieces = detector(model=recurring(), chains=5)
    assert [event for piece in np.array_split(values, 7) for event in pieces.update_many(piece)] == events
    assert pieces.snapshot() == whole.snapshot()


def test_a_snapshot_within_an_episode_goes_on_alike():
    opened = next(event.at for event in EVENTS if event.kind == "alarm" and event.at >= 2_000)
    for stop in (opened - 1, opened + 1, opened + 30, opened + 500):
        original = detector()
        before = original.update_many(VALUES[:stop])
        restored = hs.OnlineDetector.restore(original.snapshot())
        assert restored.unusual == original.unusual
        assert restored.rarity == original.rarity
        assert before + restored.update_many(VALUES[stop:]) == EVENTS
        assert restored.snapshot() == WHOLE.snapshot()


@pytest.mark.parametrize("settings", [{}, {"model": recurring(), "chains": 5}])
def test_a_snapshot_from_before_there_were_alarms_starts_to_learn(settings):
    original = detector(**settings)
    original.update_many(VALUES[:600])
    header, arrays = snapshot.read(original.snapshot())
    del header["unusual"]
    header["settings"]["alarm_policy"] = header["settings"]["alarm_policy"][:6]
    old = snapshot.write(header, {name: a for name, a in arrays.items() if not name.startswith("rarity.")})
    restored = hs.OnlineDetector.restore(old)
    assert restored.unusual == ()
    assert restored.rarity == hs.Rarity(0.0, (), 0, rarity.LEARNING)
    assert restored.alarm_policy.every == 1_000.0
    events = restored.update_many(VALUES[600:2_400])
    assert restored.rarity.readings == np.count_nonzero(~np.isnan(VALUES[600:2_400]))
    assert any(event.kind == "alarm" and 2_000 <= event.at < 2_100 for event in events)


def test_accept_clears_the_alarm_and_is_in_the_snapshot():
    opened = next(event.at for event in EVENTS if event.kind == "alarm" and event.at >= 5_000)
    accepting = detector()
    accepting.update_many(VALUES[: opened + 20])
    assert accepting.unusual[-1].cleared_at is None
    (event,) = accepting.accept()
    assert (event.kind, event.at, event.alarm) == ("cleared", opened + 19, accepting.unusual[-1].number)
    assert accepting.unusual[-1].cleared_at == opened + 19
    assert accepting.accept() == []
    restored = hs.OnlineDetector.restore(accepting.snapshot())
    assert restored.unusual == accepting.unusual
    after = VALUES[opened + 20 :]
    assert restored.update_many(after) == accepting.update_many(after)
    assert hs.OnlineDetector().accept() == []


def test_use_policy_changes_the_budget_at_once():
    values = VALUES[:3_400]
    patient = detector(every=1e6)
    assert unusual(patient.update_many(values)) == []
    spiked = np.append(values, 50.0)
    copy = hs.OnlineDetector.restore(patient.snapshot())
    assert unusual(copy.update_many(spiked[3_400:])) == []
    patient.use_policy(policy(1_000.0))
    assert [event.kind for event in unusual(patient.update_many(spiked[3_400:]))] == ["alarm"]


def test_two_channels_share_alarms():
    """The detector of two channels has one budget and one list of alarms."""
    rng = np.random.default_rng(11)
    values = rng.normal(size=(3_000, 2))
    values[2_000:2_020, 1] += 8.0
    both = detector()
    events = unusual(both.update_many(values))
    raised = [event.at for event in events if event.kind == "alarm"]
    assert any(2_000 <= at < 2_020 for at in raised)
    assert len(raised) == len(both.unusual)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"every": 99}, "every must be at least 100 readings, got 99"),
    ({"every": math.inf}, "every must be finite, got inf"),
    ({"every": math.nan}, "every must be finite, got nan"),
    ({"every": "day"}, "every must be a number, got 'day'"),
    ({"memory": 999.0}, r"memory must be at least 1000 readings, got 999\.0"),
])  # fmt: skip
def test_a_budget_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        hs.AlarmPolicy(**arguments)


def test_the_old_name_of_announced_changes_warns():
    with pytest.warns(DeprecationWarning, match="use announced_changes"):
        assert WHOLE.alarms == WHOLE.announced_changes
    assert len(WHOLE.announced_changes) > 2
