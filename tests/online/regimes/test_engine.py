"""``model="recurring"`` as users meet it: states with names that stay, what comes next, and news of states."""

import math

import numpy as np
import pytest
import switching
from online.test_hostile_streams import published

import ishsmm_stream as hs
from ishsmm_stream.experiments.labels import adjusted_mutual_information
from ishsmm_stream.online.regimes.news import LEARNING


def labelled(values, late=20, **settings):
    """The detector, its events, and its labels: at once and revised ``late`` readings later."""
    detector, events = hs.OnlineDetector("recurring", **settings), []
    at_once, revised = (np.zeros(len(values), dtype=int) for _ in range(2))
    for t, value in enumerate(values):
        events += detector.update(value)
        recent = detector.recent_states
        if len(recent):
            at_once[t] = recent[-1]
        if len(recent) > late:
            revised[t - late] = recent[-1 - late]
    revised[-late:] = at_once[-late:]
    return detector, events, at_once, revised


def cycle_of(levels, dwell, visits, seed=0, sd=0.3):
    """Readings that go round ``levels``, a visit to each lasting exactly ``dwell`` readings; their modes."""
    rng = np.random.default_rng(seed)
    modes = np.repeat(np.arange(visits) % len(levels), dwell)
    return np.array(levels)[modes] + sd * rng.standard_normal(len(modes)), modes


@pytest.fixture(scope="module")
def stream():
    return switching.switching(1, length=5000)


@pytest.fixture(scope="module")
def watched(stream):
    return labelled(stream.values)


def test_labels_follow_the_modes_of_a_switching_stream(stream, watched):
    _, _, at_once, late = watched
    assert adjusted_mutual_information(at_once, stream.modes) > 0.93
    assert adjusted_mutual_information(late, stream.modes) > 0.97


def test_the_dictionary_knows_levels_noise_and_time(stream, watched):
    detector, *_ = watched
    for mode in np.unique(stream.modes):
        own = stream.modes == mode
        level = np.median(stream.values[own])
        closest = min(detector.states, key=lambda state: abs(state.mean - level))
        assert closest.mean == pytest.approx(level, abs=0.5)
        assert closest.sd == pytest.approx(1.0, abs=0.4)
        assert closest.readings == pytest.approx(own.sum(), rel=0.1)
        assert closest.last_seen == pytest.approx(np.flatnonzero(own)[-1], abs=5)
        starts = own & ~np.concatenate([[False], own[:-1]])
        assert closest.visits == pytest.approx(starts.sum(), rel=0.25, abs=2)
        low, median, high = closest.dwell
        assert 1.0 <= low < median < high
    assert sum(state.readings for state in detector.states) == len(stream.values)


def test_a_state_keeps_its_name(stream, watched):
    """The name that the stream had in a mode's second half is the one it had before."""
    _, _, _, late = watched
    names = {}
    for mode in np.unique(stream.modes):
        own = np.flatnonzero(stream.modes == mode)
        for part in np.array_split(own[len(own) // 4 :], 3):
            values, counts = np.unique(late[part], return_counts=True)
            names.setdefault(mode, set()).add(int(values[counts.argmax()]))
    assert all(len(found) == 1 for found in names.values())
    assert len(set().union(*names.values())) == len(names)


def test_what_comes_next_is_what_came_before():
    values, _ = cycle_of([0.0, 5.0, 10.0], 25, 60)
    detector, _, _, late = labelled(values)
    order = [int(late[at + 12]) for at in (1425, 1450, 1475)]
    assert detector.state.id == order[2]
    known = {state.id: state.probability for state in detector.next_states}
    assert sum(known.values()) == pytest.approx(1.0)
    assert detector.next_states[0].id == order[0]
    assert known[order[0]] > 0.8
    assert 0.0 < known[None] < 0.1
    moves = {(one.before, one.after): one.count for one in detector.transitions}
    assert max(moves, key=moves.get) in {(order[0], order[1]), (order[1], order[2]), (order[2], order[0])}
    low, median, high = detector.state.dwell
    assert low <= 25 <= high
    assert median == pytest.approx(25, abs=4)
    assert detector.state.readings == pytest.approx(500, abs=10)


def test_the_end_of_a_regular_visit_is_foreseen():
    values, _ = cycle_of([0.0, 5.0], 30, 80)
    early, late = hs.OnlineDetector("recurring"), hs.OnlineDetector("recurring")
    early.update_many(values[: 30 * 79 + 5])
    late.update_many(values[: 30 * 79 + 29])
    assert late.remaining < 0.3 * early.remaining
    assert early.remaining == pytest.approx(25, abs=6)


def test_nothing_is_new_during_the_cold_start_and_a_first_visit_is_later():
    values, _ = cycle_of([0.0, 5.0], 25, 40)
    detector = hs.OnlineDetector("recurring")
    for t, value in enumerate(values):
        detector.update(value)
        if t < LEARNING - 1:
            assert detector.novelty is None
    assert detector.novelty < 0.05
    detector.update_many(12.0 + 0.3 * np.random.default_rng(1).standard_normal(8))
    assert detector.novelty > 0.9
    detector.update_many(12.0 + 0.3 * np.random.default_rng(2).standard_normal(30))
    assert detector.novelty < 0.05  # it is known by now


def test_a_new_state_is_news_an_alarm_and_open_until_it_is_left():
    values, _ = cycle_of([0.0, 5.0], 25, 60)
    visit = 12.0 + 0.3 * np.random.default_rng(1).standard_normal(60)
    detector = hs.OnlineDetector("recurring")
    detector.update_many(values)
    events = detector.update_many(visit)
    (news,) = [event for event in events if event.kind == "new_state"]
    assert 1500 <= news.index < 1505
    assert news.at < 1515
    assert news.probability > 0.5
    (alarm,) = [event for event in events if event.kind == "alarm"]
    assert 1500 <= alarm.at < 1515
    assert detector.unusual[-1].cleared_at is None
    again = 12.0 + 0.3 * np.random.default_rng(2).standard_normal(300)
    assert not [event for event in detector.update_many(again) if event.kind == "cleared"]
    events = detector.update_many(values[:200])
    (cleared,) = [event for event in events if event.kind == "cleared"]
    assert cleared.at > 1860
    events = detector.update_many(visit)
    assert not [event for event in events if event.kind == "new_state"]
    entered = [event for event in events if event.kind == "entered"]
    assert [event.state for event in entered] == [news.state]
    assert "new_state" not in entered[0].reasons


def test_the_alarm_of_a_state_that_was_left_clears_soon():
    """Also with a budget so small that other alarms stay open for thousands of readings."""
    values, _ = cycle_of([0.0, 5.0, 10.0], 25, 120, sd=1.0)
    visit = 7.5 + 0.05 * np.random.default_rng(1).standard_normal(60)
    detector = hs.OnlineDetector("recurring", alarm_policy=hs.AlarmPolicy(every=100_000))
    detector.update_many(values)
    assert [event.at for event in detector.update_many(visit) if event.kind == "alarm"]
    assert "new_state" in detector.unusual[-1].reasons
    (cleared,) = [event for event in detector.update_many(values[:400]) if event.kind == "cleared"]
    assert 3060 + 40 < cleared.at < 3060 + 200


def test_an_accepted_new_state_raises_no_alarm_when_it_returns():
    values, _ = cycle_of([0.0, 5.0], 25, 60)
    visit = 12.0 + 0.3 * np.random.default_rng(1).standard_normal(60)
    detector = hs.OnlineDetector("recurring")
    detector.update_many(np.concatenate([values, visit]))
    assert detector.unusual[-1].cleared_at is None
    assert [event.kind for event in detector.accept()] == ["cleared"]
    assert not [event for event in detector.update_many(visit[:20]) if event.kind == "alarm"]


def test_the_threshold_of_new_states_is_a_setting():
    values, _ = cycle_of([0.0, 5.0], 25, 60)
    visit = 12.0 + 0.3 * np.random.default_rng(1).standard_normal(40)
    detector = hs.OnlineDetector("recurring", alarm_policy=hs.AlarmPolicy(new_state=1.0))
    assert not [e for e in detector.update_many(np.concatenate([values, visit])) if e.kind == "new_state"]
    with pytest.raises(ValueError, match="new_state"):
        hs.AlarmPolicy(new_state=-0.1)


def test_a_sensor_that_meets_new_states_all_the_time_keeps_to_its_budget():
    """A level that jumps every 60 readings: 160 new states, few alarms."""
    rng = np.random.default_rng(0)
    values = np.repeat(np.cumsum(rng.choice([-1.0, 1.0], 160) * rng.uniform(4.0, 8.0, 160)), 60)
    values += 0.3 * rng.standard_normal(len(values))
    detector = hs.OnlineDetector("recurring")
    events = detector.update_many(values)
    told = [event for event in events if event.kind == "new_state"]
    alarms = [event for event in events if event.kind == "alarm" and "new_state" in event.reasons]
    assert len(told) > 15
    assert len(alarms) <= 3 + len(values) / 1000.0 + 1


def test_a_first_transition_is_told():
    values, modes = cycle_of([0.0, 5.0, 10.0], 25, 60)
    detector, events, _, late = labelled(np.concatenate([values, values[modes == 0][:25], values[modes == 2][:25]]))
    # 2 -> 0 was usual, 0 -> 2 is new
    last = [event for event in events if event.kind == "entered"][-1]
    assert last.index == pytest.approx(1525, abs=2)
    assert last.reasons == ("new_transition",)
    assert last.state == late[1475 + 12]
    assert detector.state.id == last.state


def test_a_visit_that_lasts_too_long_raises_an_alarm():
    values, _ = cycle_of([0.0, 5.0], 25, 100)
    rng = np.random.default_rng(3)
    detector = hs.OnlineDetector("recurring")
    before = detector.update_many(values)
    assert not [event for event in before if "unusual_dwell" in event.reasons]
    events = detector.update_many(0.3 * rng.standard_normal(100))
    alarms = [event for event in events if event.kind == "alarm"]
    assert any("unusual_dwell" in event.reasons for event in alarms)
    first = min(event.at for event in alarms if "unusual_dwell" in event.reasons)
    assert 2500 + 28 < first < 2500 + 80


def test_a_spike_beyond_all_readings_is_told_once():
    rng = np.random.default_rng(4)
    values = rng.standard_normal(1000)
    values[[600, 601]] = 60.0, 61.0
    detector = hs.OnlineDetector("recurring")
    events = detector.update_many(values)
    assert [event.at for event in events if event.kind == "spike"] == [600]


def test_units_do_not_matter():
    values, _ = cycle_of([0.0, 5.0], 25, 20)
    first, second = hs.OnlineDetector("recurring"), hs.OnlineDetector("recurring")
    first.update_many(values)
    second.update_many(4.0 * values - 400.0)
    assert [state.id for state in first.states] == [state.id for state in second.states]
    for one, other in zip(first.states, second.states, strict=True):
        assert other.mean == pytest.approx(4.0 * one.mean - 400.0, abs=1e-6)
        assert other.sd == pytest.approx(4.0 * one.sd)
    assert second.forecast(3).mean == pytest.approx(4.0 * first.forecast(3).mean - 400.0, abs=1e-6)


@pytest.mark.parametrize("kind", ["integers", "quantised", "missing", "outliers"])
def test_labels_survive_what_sensors_do(kind):
    values, modes = cycle_of([0.0, 5.0, 10.0], 40, 40, sd=0.6)
    rng = np.random.default_rng(5)
    if kind == "integers":
        values = np.round(10.0 * values)
    elif kind == "quantised":
        values = np.round(2.0 * values) / 2.0
    elif kind == "missing":
        values[rng.random(len(values)) < 0.2] = math.nan
    else:
        values += 100.0 * rng.standard_normal(len(values)) * (rng.random(len(values)) < 0.01)
    detector, _, _, late = labelled(values)
    assert adjusted_mutual_information(late[200:], modes[200:]) > 0.93
    assert 3 <= len(detector.states) <= 5


HOSTILE = {
    "constant": np.full(1500, 7.3), "zeros": np.zeros(800), "tiny": np.random.default_rng(0).choice([0.0, 5e-324], 800),
    "huge": 1e300 * np.random.default_rng(1).standard_normal(800), "missing": np.full(200, math.nan),
    "one value": np.concatenate([np.full(300, math.nan), [4.0], np.full(300, math.nan)]),
    "two values": (np.random.default_rng(2).random(1500) < 0.02).astype(float),
    "walk": np.cumsum(np.random.default_rng(3).standard_normal(3000)),
    "heavy tails": np.random.default_rng(4).standard_cauchy(2000), "ramp": np.arange(2000.0),
    "extremes": np.random.default_rng(5).choice([1.7e308, -1.7e308, 0.0, math.nan], 800),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_streams_give_numbers_and_few_alarms(name):
    detector = hs.OnlineDetector("recurring")
    events = []
    for rows in np.array_split(HOSTILE[name], 9):
        found = detector.update_many(rows)
        events += found
        assert np.isfinite(published(detector, found)).all()
        for state in detector.states:
            assert np.isfinite([state.mean, state.sd, *(state.dwell or ())]).all()
        assert sum(one.probability for one in detector.next_states) == pytest.approx(1.0 if detector.next_states else 0)
        restored = hs.OnlineDetector.restore(detector.snapshot())
        assert restored.snapshot() == detector.snapshot()
        assert restored.states == detector.states
        assert restored.next_states == detector.next_states
    assert sum(event.kind == "alarm" for event in events) <= (6 if name == "heavy tails" else 4)


def test_a_forecast_covers_what_comes():
    hits, total = 0, 0
    for seed in range(8):
        stream = switching.switching(seed, length=2000)
        detector = hs.OnlineDetector("recurring")
        for first in range(0, 2000, 100):
            ahead = stream.values[first : first + 10]
            if first >= 500:
                forecast = detector.forecast(10)
                hits += ((ahead >= forecast.low) & (ahead <= forecast.high)).sum()
                total += 10
            detector.update_many(stream.values[first : first + 100])
    assert 0.82 < hits / total < 0.97


def test_several_channels_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"recurring.*one channel"):
        hs.OnlineDetector("recurring").update_many(np.zeros((5, 2)))


def test_the_answers_do_not_depend_on_questions(stream):
    asked, quiet = hs.OnlineDetector("recurring"), hs.OnlineDetector("recurring")
    for rows in np.array_split(stream.values[:600], 30):
        asked.update_many(rows)
        quiet.update_many(rows)
        _ = asked.states, asked.transitions, asked.recent_states, asked.novelty, asked.next_states, asked.remaining
        _ = asked.state, asked.forecast(3), asked.change_points, asked.change_probability(20)
    assert asked.snapshot() == quiet.snapshot()
