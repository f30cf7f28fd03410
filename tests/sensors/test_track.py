"""One sensor: what it publishes depends on its own readings and its rule, and on nothing else."""

from __future__ import annotations

import zlib

import msgspec
import numpy as np
import pytest

import ishsmm_stream as hs
from service.sensors.inference import infer
from service.sensors.rules import prepare_rule
from service.sensors.track import REMEMBERED, Track, TrackError, _SavedTrack, tally
from service.settings.rules import Alarms, DetectorSettings, Rule, Window
from service.settings.times import TimePolicy
from service.wire import messages
from service.wire.readings import BadRecord, Reading

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND


def readings(values, step=SECOND, begin=BEGIN, sensor="boiler-1"):
    rows = np.reshape(values, (len(values), -1)).tolist()
    return [Reading(sensor, begin + i * step, tuple(row)) for i, row in enumerate(rows)]


def steps(seed=0, sizes=(0.0, 6.0, -2.0), length=150):
    return np.repeat(sizes, length) + np.random.default_rng(seed).normal(size=length * len(sizes))


def feed(track, batch):
    """Judge and take readings; returns the bytes of what was published, events and states."""
    accepted = []
    for reading in batch:
        prepare = track.prepared.prepare
        values = reading.values if prepare is None else prepare(reading.values)
        missing = track.judge(reading, reading.time // 1000)
        accepted.append((reading.time, values, missing))
    published = infer(track, accepted)
    return [messages.encode(message) for message in published.events], [
        messages.encode(message) for message in published.states
    ]


def run(rule, batch, size, through_bytes=False):
    track, prepared = Track("boiler-1", prepare_rule(rule)), prepare_rule(rule)
    events, states = [], []
    for at in range(0, len(batch), size):
        found = feed(track, batch[at : at + size])
        events += found[0]
        states += found[1]
        if through_bytes:
            track = Track.load("boiler-1", track.dump(), prepared)
    return track, events, states


RULES = {
    "default": Rule(),
    "short windows": Rule(window=Window(readings=7, max_wait_s=3.0)),
    "gaps": Rule(time=TimePolicy(interval_s=1.0, gap="insert")),
    "recurring": Rule(model="recurring", window=Window(readings=20)),
}


@pytest.mark.parametrize("name", RULES)
def test_cycles_and_restores_change_nothing(name):
    rule, batch = RULES[name], readings(steps())
    if name == "gaps":
        batch = [reading for i, reading in enumerate(batch) if i % 37 not in (5, 6, 7)]
    _, events, states = run(rule, batch, len(batch))
    assert len(events) >= 4
    for size in (1, 7, 64):
        assert run(rule, batch, size)[1:] == (events, states), size
    assert run(rule, batch, 50, through_bytes=True)[1:] == (events, states)


def test_promised_alarms_are_readings_over_the_budget_and_outlive_restores_and_generations():
    every_minute = Rule(alarms=Alarms(per_sensor="1 per day"), time=TimePolicy(interval_s=60.0, gap="insert"))
    batch = readings(np.random.default_rng(0).normal(size=300), step=60 * SECOND)
    del batch[100:103]  # three steps are inserted, which promise nothing
    track, _, states = run(every_minute, batch, 50, through_bytes=True)
    assert track.inserted == 3
    assert track.budget_s == pytest.approx(86_400.0, rel=0.01)
    # the first window has the budget of a sensor with a reading per second, and the gap counts into the mean interval
    assert track.promised == pytest.approx(297 / 1440, rel=0.02)
    told = [messages.decode(state) for state in states]
    promised = [state.promised for state in told]
    assert promised == sorted(promised)
    assert promised[-1] == pytest.approx(track.promised, rel=0.005)  # less the readings since
    assert told[-1].budget_s == track.budget_s
    # the next generation goes on counting: after a reset, and where a rule infers otherwise
    assert track.next_generation(1).promised == track.promised
    other = prepare_rule(Rule(alarms=Alarms(per_sensor="1 per day"), transform="difference"))
    assert Track.load("boiler-1", track.dump(), other).promised == pytest.approx(track.promised)


def test_an_event_says_what_happened_in_words_with_times():
    _, events, states = run(Rule(labels={"site": "north"}), readings(steps()), 64)
    told = [messages.decode(event) for event in events]
    first = [event for event in told if event.id == told[0].id]
    assert [event.status for event in first][:1] == ["provisional"]
    assert first[-1].status in ("confirmed", "relocated")
    assert [event.revision for event in first] == list(range(len(first)))
    assert first[0].index == pytest.approx(150, abs=2)
    assert first[0].time == messages.place(0, BEGIN + first[0].index * SECOND).time
    assert first[0].before.level == pytest.approx(0.0, abs=0.4)
    assert first[0].before.noise == pytest.approx(1.0, abs=0.3)
    assert first[-1].after.level == pytest.approx(6.0, abs=0.6)
    assert "->" in first[0].summary
    assert first[0].labels == {"site": "north"}
    assert len({event.id for event in told}) == 2
    # a state record comes with the change, besides one every 60 readings
    indices = [messages.decode(state).index for state in states]
    assert {event.at.index for event in told} <= set(indices)
    assert {59, 119, 179} <= set(indices)
    assert len(indices) == len(set(indices))


def test_a_window_also_ends_by_the_sensors_own_time():
    rule = Rule(window=Window(readings=1000, max_wait_s=30.0))
    _, _, states = run(rule, readings(np.random.default_rng(0).normal(size=100), step=10 * SECOND), 13)
    assert [messages.decode(state).index for state in states] == list(range(3, 100, 4))


def test_a_state_record_describes_the_present():
    track, _, states = run(Rule(), readings(steps()), 64)
    last = messages.decode(states[-1])
    detector = hs.OnlineDetector()
    detector.update_many(steps()[: last.index + 1])
    assert last.state.since.index == detector.state.since
    assert last.run_length.median == detector.run_length()[1]
    assert last.n_states == 3
    assert len(last.recent) <= 60
    assert last.recent[-1][0] <= (BEGIN + last.index * SECOND) // 1000
    assert track.index == 449


def test_missing_steps_are_inserted_and_counted():
    rule = Rule(time=TimePolicy(interval_s=1.0, gap="insert"))
    batch = readings(steps(length=40))
    track, _, _ = run(rule, batch[:50] + batch[53:], 9)
    assert (track.accepted, track.inserted, track.index) == (117, 3, 119)
    found = tally(track.dump())
    assert (found.generation, found.accepted, found.inserted, found.final_index) == (0, 117, 3, 119)
    detector = hs.OnlineDetector()
    values = steps(length=40)
    values[50:53] = np.nan
    detector.update_many(values)
    assert track.detector.log_evidence == detector.log_evidence


def test_readings_are_refused_with_a_reason_and_leave_no_trace():
    rule = Rule(time=TimePolicy(late="reject"), transform="log")
    batch = readings(np.exp(steps(length=60)))
    track = Track("boiler-1", prepare_rule(rule))
    feed(track, batch[:100])
    before = track.dump()
    for reading, timestamp, reason in (
        (batch[50], 0, "late"),
        (batch[99], 0, "duplicate"),
        (batch[100]._replace(time=batch[100].time + 10**12), batch[100].time // 1000, "clock_ahead"),
        (batch[100]._replace(values=(1.0, 2.0)), 0, "wrong_channels"),
    ):
        with pytest.raises(BadRecord) as refused:
            track.judge(reading, timestamp or reading.time // 1000)
        assert refused.value.reason == reason
    with pytest.raises(BadRecord, match="log takes numbers above 0"):
        track.prepared.prepare((-1.0,))
    assert track.dump() == before


def test_another_alarm_policy_keeps_the_state_another_model_starts_afresh():
    batch = readings(steps())
    track, _, _ = run(Rule(), batch[:300], 64)
    told = prepare_rule(Rule(alarms=Alarms(threshold=0.999999)))
    same = Track.load("boiler-1", track.dump(), told)
    assert (same.generation, same.accepted) == (0, 300)
    assert same.detector.alarm_policy.threshold == 0.999999
    other = Track.load("boiler-1", track.dump(), prepare_rule(Rule(detector_settings=DetectorSettings(seed=1))))
    assert (other.generation, other.accepted, other.index) == (1, 0, -1)
    _, events, _ = run(Rule(), batch, 64)
    found, _ = feed(other, batch)
    assert {messages.decode(event).id for event in found}.isdisjoint(messages.decode(event).id for event in events)


def test_bytes_that_are_no_track_are_an_error_that_says_so():
    track, _, _ = run(Rule(), readings(steps())[:200], 64)
    data = track.dump()
    for bad in (b"", b"something", data[:-3], data[:40]):
        with pytest.raises(TrackError):
            Track.load("boiler-1", bad, prepare_rule(Rule()))


@pytest.mark.parametrize("damage", [
    {"times": b""},
    {"times": b"no zlib"},
    {"times": zlib.compress(b"\0" * 80)},
    {"times": zlib.compress(b"\0" * 100_000_000)},
    {"times": zlib.compress(b"\0" * 81)},
    {"values": b"\0" * 7},
    {"values": b""},
    {"values": b"\0" * 8 * 10_000},
    {"channels": 3},
    {"channels": -1},
    {"detector": b""},
], ids="-".join)  # fmt: skip
def test_a_damaged_field_of_a_state_is_a_track_error(damage):
    track, _, _ = run(Rule(), readings(steps()), 50)
    saved = msgspec.msgpack.decode(track.dump(), type=_SavedTrack)
    state = msgspec.msgpack.encode(msgspec.structs.replace(saved, **damage))
    with pytest.raises(TrackError, match="boiler-1"):
        Track.load("boiler-1", state, prepare_rule(Rule()))


def test_a_track_is_small_and_forgets_what_is_long_ago():
    track, _, _ = run(Rule(), readings(np.random.default_rng(1).normal(size=2000)), 500)
    assert len(track.dump()) < 57 * 300, "300 bytes a reading at 1 Hz, saved every 57 s"
    assert len(track._times) == REMEMBERED


def test_recurring_states_keep_their_names():
    from service.settings.models import ModelTable

    model = ModelTable(
        kind="ied", emission={"family": "normal", "mean": 0.0}, duration={"family": "poisson", "scale": 50.0}
    )
    rule = Rule(model=model, detector_settings=DetectorSettings(chains=50), state_names={"0": "idle"})
    _, _, states = run(rule, readings(steps(sizes=(0.0, 8.0, 0.0), length=100)), 64)
    told = [messages.decode(state) for state in states]
    assert {state.state.name for state in told if state.index < 100} == {"idle"}
    assert told[-1].state.name == "idle"
    assert told[-1].state.visits == 2


# model = "recurring"


RETURNING = Rule(model="recurring", window=Window(readings=20), state_names={"0": "idle"})
LENGTH = 60  # of a visit


@pytest.fixture(scope="module")
def returning():
    """What is published about two states that take turns, the last visit three times as long: events and states."""
    sizes = (0.0, 8.0) * 4
    values = np.r_[steps(sizes=sizes, length=LENGTH), np.random.default_rng(1).normal(size=3 * LENGTH)]
    _, events, states = run(RETURNING, readings(values), 64)
    return [messages.decode(event) for event in events], [messages.decode(state) for state in states]


def test_entries_of_states_are_announced(returning):
    entries = [event for event in returning[0] if isinstance(event, messages.StateEvent)]
    assert {event.status for event in entries} == {"entered"}
    assert [event.index // LENGTH for event in entries] == list(range(1, 9))
    idle, other = entries[1].state, entries[0].state
    assert (idle, [event.state for event in entries]) == (0, [other, idle] * 4)
    assert [event.name for event in entries[:4]] == [None, "idle", None, "idle"]
    assert [event.visits for event in entries[-4:]] == [3, 4, 4, 5]
    assert [event.reasons for event in entries[:3]] == [["new_state"], ["new_transition"], []]
    assert entries[0].summary.startswith(f"new state {other}, level ")
    assert entries[3].summary.startswith("state idle again, visit 3, level ")
    assert len({event.id for event in entries}) == len(entries)


def test_the_dictionary_is_published_when_a_window_closes_around_a_change(returning):
    states = returning[1]
    found = [message for message in states if isinstance(message, messages.StateDictionary)]
    assert all((one.index + 1) % 20 == 0 for one in found)
    assert max(one.index for one in found) <= 8 * LENGTH + 2 * 20 + 5 < states[-1].index
    last = found[-1]
    assert [(one.name, one.visits) for one in last.states] == [("idle", 5), (None, 4)]
    assert [one.level for one in last.states] == pytest.approx([0.0, 8.0], abs=0.5)
    assert sum(one.share for one in last.states) == pytest.approx(1.0, abs=1e-5)
    assert [low <= LENGTH <= high for low, _, high in (one.dwell for one in last.states)] == [True, True]
    first, second = (one.id for one in last.states)
    assert sorted(last.transitions) == [[first, second, 4], [second, first, 4]]
    assert last.interval_s == 1.0
    assert (last.sensor, last.generation, last.labels) == ("boiler-1", 0, {})


def test_state_records_tell_what_comes_next(returning):
    record = [message for message in returning[1] if isinstance(message, messages.StateRecord)][-1]
    assert record.state.name == "idle"
    assert (record.state.visits, record.state.readings) == (5, pytest.approx(7 * LENGTH, abs=5))
    assert 0.0 <= record.novelty < 0.01
    assert record.remaining > 0.0
    assert record.next[0].id != record.state.id
    chances = [one.probability for one in record.next]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) <= 1.0 + 1e-5


def test_other_models_have_no_dictionary_and_no_outlook():
    _, events, states = run(RULES["short windows"], readings(steps()), 64)
    assert {type(messages.decode(event)) for event in events} <= {messages.ChangeEvent, messages.AlarmEvent}
    for state in states:
        told = msgspec.json.decode(state)
        assert told["type"] == "state"
        assert not {"novelty", "next", "remaining"} & set(told)
        assert not {"readings", "dwell"} & set(told["state"] or {})
