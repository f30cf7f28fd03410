"""Incidents are what the definition says, whatever the order in which events come."""

from __future__ import annotations

import random

import naive_incidents
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incident_streams import BEGIN, HOUR, SECOND, change

from service.incidents import Incidents
from service.settings import IncidentPolicy
from service.wire.messages import incident_id

# Chance may open many, so that small cases have some; a span whose windows are short beside the hours.
POLICY = IncidentPolicy(false_per_week=100.0, span_s=640.0)
NOISY = IncidentPolicy(false_per_week=20.0, span_s=640.0)
QUIET = 6 * 640 * SECOND
PERIODS_BEGIN = 1397 * SECOND
LAST = BEGIN + 60 * HOUR


@st.composite
def revised_events(draw):
    """Few sensors, clusters of changes in few hours, and revisions of which some retract or relocate."""
    events = [change("g0/first", BEGIN)]
    minutes = st.one_of(st.integers(115, 125), st.integers(120, 360), st.integers(120, 59 * 60))
    clusters = draw(st.lists(minutes, min_size=1, max_size=3))
    for number in range(draw(st.integers(6, 24))):
        sensor = f"g{draw(st.sampled_from([0, 0, 0, 1]))}/s{draw(st.integers(0, 6))}"
        cluster = draw(st.sampled_from(clusters))
        for revision in range(draw(st.sampled_from([1, 1, 2, 3]))):
            offset = draw(st.sampled_from([0, 1, 2, 5, 9, 30, 70, 200, 600, 4000]))
            status = draw(st.sampled_from(["confirmed"] * 5 + ["relocated", "retracted"]))
            onset = BEGIN + cluster * 60 * SECOND + offset * SECOND
            error = draw(st.sampled_from([0, 20 * SECOND, 5000 * SECOND]))
            events.append(change(sensor, onset, number=number, revision=revision, status=status, error=error))
    return events


def summary(incidents):
    """What does not depend on the way: everything but revisions, and incidents that are no more."""
    return {
        (one.id, one.group, one.status): [(member.sensor, member.event) for member in one.members]
        for one in incidents.all
        if one.status != "retracted"
    }


def expected(events, now, policy=POLICY, since=None):
    found = naive_incidents.incidents(events, policy, now, since)
    return {
        (incident_id(group, (start - PERIODS_BEGIN) // QUIET), group, status): members
        for (group, start, status), members in found.items()
    }


@settings(max_examples=300, deadline=None, derandomize=True)
@given(revised_events(), st.randoms(use_true_random=False), st.integers(1, 5))
def test_any_order_and_any_batches_give_what_the_definition_says(events, rng, size):
    shuffled = events + rng.sample(events, len(events) // 3)  # some twice
    rng.shuffle(shuffled)
    incidents = Incidents(POLICY)
    said = {}
    for i in range(0, len(shuffled), size):
        for one in incidents.observe_many(shuffled[i : i + size]):
            assert one.revision == (said[one.id].revision + 1 if one.id in said else 0)
            said[one.id] = one
    for one in incidents.advance(LAST):
        said[one.id] = one
    assert summary(incidents) == expected(events, LAST)
    assert sorted(said.values(), key=lambda one: one.id) == sorted(incidents.all, key=lambda one: one.id)


def dense(seed, hours):
    """(time of arrival, event) of a few noisy sensors: clusters, relocations, retractions, some up to 23 hours late."""
    rng = random.Random(seed)
    events = [(BEGIN, change("g0/first", BEGIN))]
    clusters = [rng.uniform(2.0, hours) for _ in range(hours // 6)]
    for number in range(5 * hours):
        onset = BEGIN + int(rng.choice([rng.uniform(2.0, hours), rng.choice(clusters)]) * HOUR)
        onset += int(rng.choice([3, 40, 300]) * rng.random() * SECOND)
        late = 0.0
        for revision in range(rng.choice([1, 1, 1, 2, 3])):
            late = min(late + rng.choice([0.0, 0.01, 12.0 * rng.random()]), 23.0)
            moved = onset + rng.choice([0, 0, rng.randint(-1500, 1500)]) * SECOND
            status = "retracted" if rng.random() < 0.1 else "confirmed"
            sensor = f"g{number % 2}/s{number % 9}"
            one = change(sensor, moved, number=number, revision=revision, status=status, error=10 * SECOND)
            events.append((moved + int(late * HOUR), one))
    return sorted(events, key=lambda pair: (pair[0], pair[1].id))


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_many_events_gives_what_the_definition_says(seed):
    """Rates, and with them what is too many, change with every event that comes for an earlier hour."""
    events = [event for _, event in dense(seed, 30)]
    wanted = expected(events, None, NOISY)
    assert wanted
    for size in (1, 5, 20, len(events)):
        random.Random(size).shuffle(events)
        incidents = Incidents(NOISY)
        for i in range(0, len(events), size):
            incidents.observe_many(events[i : i + size])
        assert summary(incidents) == wanted


@pytest.mark.parametrize("seed", range(6))
def test_what_was_forgotten_on_the_way_makes_no_difference(seed):
    """Time passes with the events, which are up to 23 hours late: in the end all is as if they had come at once."""
    events = dense(seed, 72)
    incidents = Incidents(NOISY)
    incidents.advance(BEGIN)
    for at, event in events:
        incidents.advance(at)
        incidents.observe(event)
    end = BEGIN + 100 * HOUR
    incidents.advance(end)
    wanted = expected([event for _, event in events], end, NOISY, since=BEGIN)
    assert not incidents.refused
    assert len(wanted) >= 3
    assert summary(incidents) == wanted
