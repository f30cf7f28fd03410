"""The alarm policy on posteriors made by hand."""

import math

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.online import alarms

POLICY = hs.AlarmPolicy(threshold=0.9, retract=0.5, confirm_after=5, min_segment=10)


class Played:
    """A policy that follows whatever posterior it is told."""

    def __init__(self, policy=POLICY):
        self.policy = policy
        self.alarm_state = alarms.make_alarm_state()
        self.events = []

    def step(self, t, posterior, parents=None, levels=None, noise=1.0):
        """``posterior``, ``parents`` and ``levels``: by start. Returns the events of this observation."""
        starts = np.array(sorted(posterior), dtype=np.int64)
        weights = np.array([posterior[s] for s in starts.tolist()], dtype=float)
        before = np.array([(parents or {}).get(s, -1) for s in starts.tolist()], dtype=np.int64)
        means = np.array([(levels or {}).get(s, math.nan) for s in starts.tolist()])
        noises = np.full(len(starts), noise)
        buffer = np.full((20, alarms.EVENT_NUMBERS), np.nan)
        state = int(starts[np.argmax(weights)])
        count = alarms.apply_policy(
            self.policy, self.alarm_state, t, starts, weights, before, means, noises, len(starts), state, buffer, 0
        )
        assert count <= alarms.MOST_EVENTS
        found = alarms.read_events(buffer[:count])
        self.events += found
        return found

    def steps(self, times, posterior, **more):
        return [event for t in times for event in self.step(t, posterior, **more)]


def kinds(events):
    return [(event.kind, event.at, event.alarm, event.index) for event in events]


def test_an_alarm_is_raised_where_the_probability_exceeds_the_threshold():
    played = Played()
    assert played.step(29, {0: 0.1, 25: 0.9}) == []  # not yet: at the threshold is not above it
    (event,) = played.step(30, {0: 0.05, 24: 0.05, 25: 0.5, 26: 0.4})
    assert event == hs.Event("raised", 30, 0, 25, pytest.approx(0.95), 24, 26, 25, change=0)


def test_the_interval_leaves_out_five_percent_on_each_side():
    played = Played()
    (event,) = played.step(40, {0: 0.0, 20: 0.04, 21: 0.02, 25: 0.88, 29: 0.02, 30: 0.04})
    assert (event.low, event.high) == (21, 29)


def test_starts_close_to_the_announced_one_are_no_new_segment():
    played = Played()
    assert played.step(12, {0: 0.01, 9: 0.99}) == []
    assert kinds(played.step(13, {0: 0.01, 10: 0.99})) == [("raised", 13, 0, 10)]
    found = played.step(14, {10: 0.01, 19: 0.99})
    assert "raised" not in [event.kind for event in found]
    played = Played(POLICY._replace(min_segment=3))
    assert kinds(played.step(5, {0: 0.01, 3: 0.99})) == [("raised", 5, 0, 3)]


def test_an_alarm_is_confirmed_after_its_time_and_not_before():
    played = Played()
    posterior = {0: 0.05, 30: 0.95}
    assert kinds(played.steps(range(31, 60), posterior)) == [("raised", 31, 0, 30), ("confirmed", 36, 0, 30)]


def test_an_alarm_is_retracted_when_the_probability_falls_and_never_once_confirmed():
    played = Played()
    played.step(31, {0: 0.05, 30: 0.95})
    assert played.step(32, {0: 0.5, 30: 0.5}) == []  # at the limit is not below it
    (event,) = played.step(33, {0: 0.51, 30: 0.49})
    assert (event.kind, event.alarm, event.probability) == ("retracted", 0, pytest.approx(0.49))
    # the state is as if nothing had been announced, but for the number
    assert kinds(played.step(34, {0: 0.05, 30: 0.95})) == [("raised", 34, 1, 30)]
    assert kinds(played.steps(range(35, 40), {0: 0.05, 30: 0.95})) == [("confirmed", 39, 1, 30)]
    assert "retracted" not in {event.kind for event in played.steps(range(40, 60), {0: 0.9, 30: 0.1})}


def test_an_alarm_is_relocated_only_when_its_place_leaves_the_published_interval():
    played = Played(POLICY._replace(confirm_after=100))
    played.step(40, {0: 0.05, 28: 0.1, 30: 0.7, 32: 0.15})  # published: 28 to 32
    assert played.step(41, {0: 0.05, 28: 0.15, 30: 0.2, 32: 0.6}) == []
    (event,) = played.step(42, {0: 0.05, 30: 0.15, 33: 0.7, 34: 0.1})
    assert event == hs.Event("relocated", 42, 0, 33, pytest.approx(0.95), 30, 34, 33, change=0)
    assert played.step(43, {0: 0.05, 30: 0.15, 33: 0.7, 34: 0.1}) == []


def test_an_alarm_that_stands_still_is_not_relocated():
    """A place spread thin over many starts, the heaviest of them in the tail that the interval leaves out."""
    played = Played(POLICY._replace(confirm_after=100))
    posterior = {0: 0.01, 30: 0.0401, **dict.fromkeys(range(31, 55), 0.95 / 24)}
    first = played.step(60, posterior)
    assert kinds(first) == [("raised", 60, 0, 30)]
    assert first[0].low <= first[0].index <= first[0].high
    assert played.steps(range(61, 70), posterior) == []


def test_the_next_alarm_confirms_the_one_before_and_takes_the_next_number():
    played = Played(POLICY._replace(confirm_after=100))
    played.step(31, {0: 0.05, 30: 0.95})
    found = played.step(60, {30: 0.04, 55: 0.96}, parents={55: 30, 30: 0})
    assert kinds(found) == [("confirmed", 60, 0, 30), ("raised", 60, 1, 55)]
    assert kinds(played.steps(range(61, 200), {55: 1.0}, parents={55: 30})) == [("confirmed", 160, 1, 55)]


def test_a_change_that_turns_out_to_be_elsewhere_moves_its_alarm_and_raises_no_other():
    """The path to the new place does not pass through the announced one: it is the same change."""
    for confirm_after, expected in ((100, ["relocated"]), (2, ["relocated"])):
        played = Played(POLICY._replace(confirm_after=confirm_after))
        played.steps((60, 61, 62), {0: 0.05, 30: 0.95})
        found = played.step(63, {0: 0.02, 30: 0.03, 50: 0.95}, parents={50: 0, 30: 0})
        assert [event.kind for event in found] == expected
        assert found[0].index == 50
        assert played.alarm_state.ints[alarms.INDEX] == 50


def test_an_alarm_for_nothing_is_taken_back_when_something_happens_after_it():
    """The heaviest start lies after the alarm was raised and follows the segment before it."""
    played = Played(POLICY._replace(confirm_after=100))
    played.step(40, {0: 0.05, 30: 0.95})
    found = played.step(60, {0: 0.02, 30: 0.03, 55: 0.95}, parents={55: 0, 30: 0})
    assert kinds(found) == [("retracted", 60, 0, 30), ("raised", 60, 1, 55)]


def test_a_confirmed_alarm_never_moves_to_a_place_that_nobody_believes_in():
    """Its hypotheses were all dropped: there is nothing to follow any more."""
    played = Played()
    played.steps(range(61, 70), {0: 0.05, 50: 0.95}, parents={50: 0})
    assert kinds(played.events) == [("raised", 61, 0, 50), ("confirmed", 66, 0, 50)]
    assert played.steps(range(70, 75), {0: 1.0, 65: 0.0}) == []
    assert played.alarm_state.ints[alarms.INDEX] == 50


LEVELS = {0: 10.0, 30: 12.0}


@pytest.mark.parametrize(("policy", "is_raised"), [
    ({"min_effect": 1.9}, True),
    ({"min_effect": 2.1}, False),
    ({"min_effect_sd": 3.9}, True),
    ({"min_effect_sd": 4.1}, False),
    ({"min_effect": 1.9, "min_effect_sd": 4.1}, False),
])  # fmt: skip
def test_a_change_below_the_least_effect_is_kept_quiet(policy, is_raised):
    played = Played(hs.AlarmPolicy(threshold=0.9, **policy))
    played.steps(range(20, 30), {0: 1.0}, levels=LEVELS, noise=0.5)
    found = played.steps(range(35, 40), {0: 0.01, 30: 0.99}, levels=LEVELS, noise=0.5)
    assert [event.kind for event in found] == (["raised"] if is_raised else [])


def test_small_changes_that_add_up_to_the_least_effect_are_told():
    played = Played(hs.AlarmPolicy(threshold=0.9, min_effect=2.5))
    levels = {0: 0.0, 30: 1.0, 60: 2.0, 90: 3.0}
    played.steps(range(20, 30), {0: 1.0}, levels=levels)
    played.steps(range(35, 60), {30: 1.0}, levels=levels)
    assert played.steps(range(65, 90), {60: 1.0}, levels=levels) == []
    assert [event.index for event in played.step(95, {90: 1.0}, levels=levels)] == [90]


def test_a_family_without_a_level_lets_every_change_through():
    played = Played(hs.AlarmPolicy(threshold=0.9, min_effect=1e9))
    assert kinds(played.step(31, {0: 0.05, 30: 0.95})) == [("raised", 31, 0, 30)]


def random_posteriors(rng, length):
    """Posteriors that jump about: mass on old starts, on new ones, spread out, and back again."""
    logs = {0: 0.0}
    for t in range(length):
        top = max(logs.values())
        if t and rng.random() < 0.7:
            logs[t] = top - rng.exponential(6.0)
        if len(logs) > 12:
            del logs[min(list(logs)[:-1], key=logs.__getitem__)]
        for s in logs:
            logs[s] += rng.normal()
        if rng.random() < 0.1:
            recent = list(logs)[-4:] if rng.random() < 0.6 else list(logs)
            logs[recent[rng.integers(len(recent))]] = top + rng.uniform(0.0, 10.0)
        weights = np.exp(np.array(list(logs.values())) - max(logs.values()))
        parents = {s: int(rng.choice([-1, *(p for p in logs if p < s)])) for s in logs}
        yield t, dict(zip(logs, (weights / weights.sum()).tolist(), strict=True)), parents


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_posterior_does_the_events_tell_a_consistent_story(seed):
    rng = np.random.default_rng(seed)
    policy = hs.AlarmPolicy(
        threshold=float(rng.uniform(0.5, 0.99)),
        retract=float(rng.uniform(0.05, 0.5)),
        confirm_after=int(rng.integers(0, 25)),
        min_segment=int(rng.integers(1, 12)),
    )
    played = Played(policy)
    status = {}
    for t, posterior, parents in random_posteriors(rng, 700):
        for event in played.step(t, posterior, parents=parents):
            assert event.at == t
            assert 0.0 <= event.probability <= 1.0
            if event.kind == "raised":
                assert event.alarm == len(status)
                assert event.probability > policy.threshold
                assert event.index in posterior
                assert event.index - played.alarm_state.ints[alarms.BEFORE] >= policy.min_segment
            else:
                assert event.alarm == max(status), "only the last alarm has events"
                assert status[event.alarm] != "retracted"
            if event.kind == "retracted":
                assert status[event.alarm] == "raised"
            if event.kind == "confirmed":
                assert status[event.alarm] == "raised"
            if event.kind == "relocated":
                assert event.index in posterior, "a place that no hypothesis has"
            if event.kind in ("raised", "relocated"):
                assert event.low <= event.index <= event.high <= t
            status[event.alarm] = event.kind if event.kind != "relocated" else status[event.alarm]
    assert len(status) > 10
    assert {"confirmed", "retracted"} <= set(status.values())


def test_the_threshold_follows_from_a_rate_of_false_alarms():
    """A share 1 - threshold of the alarms is false: c true ones come with c (1 - p) / p false ones."""
    assert hs.AlarmPolicy.from_false_alarms(1.0, 9.0).threshold == pytest.approx(0.9)
    assert hs.AlarmPolicy.from_false_alarms(1e-3, 1.0).threshold == pytest.approx(1.0 / 1.001)
    assert hs.AlarmPolicy.from_false_alarms(1.0, 9.0, min_segment=3).min_segment == 3


@pytest.mark.parametrize(("false_alarms", "changes"), [(1.0, 1.0), (10.0, 1.0), (1e6, 1.0)])
def test_any_rate_of_false_alarms_gives_a_policy(false_alarms, changes):
    policy = hs.AlarmPolicy.from_false_alarms(false_alarms, changes)
    assert policy.threshold == pytest.approx(changes / (changes + false_alarms))
    assert policy.retract <= policy.threshold


def test_the_threshold_follows_from_costs_by_shiryaevs_rule():
    """1 - threshold = cost of an observation's delay / (cost of a false alarm x effect^2 / 2)."""
    assert hs.AlarmPolicy.from_costs(200.0, 1.0).threshold == pytest.approx(1.0 - 1.0 / 100.0)
    assert hs.AlarmPolicy.from_costs(200.0, 1.0, per_minute=10.0).threshold == pytest.approx(1.0 - 0.1 / 100.0)
    assert hs.AlarmPolicy.from_costs(200.0, 1.0, effect=2.0).threshold == pytest.approx(1.0 - 1.0 / 400.0)
    assert 0.0 < hs.AlarmPolicy.from_costs(1.0, 1e9).threshold < 1.0
    assert 0.0 < hs.AlarmPolicy.from_costs(1e30, 1.0).threshold < 1.0


@pytest.mark.parametrize(("arguments", "message"), [
    ({"threshold": 1.0}, "threshold must lie between 0 and 1, got 1.0"),
    ({"threshold": math.nan}, "threshold must be finite, got nan"),
    ({"threshold": "high"}, "threshold must be a number, got 'high'"),
    ({"threshold": 0.6, "retract": 0.7}, "retract must not exceed threshold = 0.6, got 0.7"),
    ({"retract": 0.0}, "retract must lie between 0 and 1"),
    ({"confirm_after": -1}, "confirm_after must be at least 0"),
    ({"confirm_after": 2.5}, "confirm_after must be a whole number"),
    ({"min_segment": 0}, "min_segment must be at least 1"),
    ({"min_effect": -1.0}, "min_effect must not be negative"),
    ({"min_effect_sd": math.inf}, "min_effect_sd must be finite"),
])  # fmt: skip
def test_a_policy_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        hs.AlarmPolicy(**arguments)
