"""Alarms raised against alarms promised, as a view counts them from messages."""

from __future__ import annotations

import jsonschema
import msgspec
import numpy as np
import pytest
from http_helpers import get
from view_helpers import START, ShownFleet, alarm, shown, state_record

from service.api.openapi import document
from service.settings import Rule, Settings
from service.settings.rules import Alarms
from service.view.sensor_index import SensorIndex
from service.wire.messages import Place, rounded
from service.wire.readings import rfc3339

DAY = 86_400
WEEK = 7 * DAY
SETTINGS = Settings(
    rules=(Rule(match="pump/*", alarms=Alarms(per_sensor="1 per day")), Rule(alarms=Alarms(per_sensor="1 per week")))
)


def at(seconds):
    return rfc3339((START + seconds * 1000) * 1000)


def record(sensor, seconds, budget_s=DAY, promised=None):
    """A state record after a sensor was read for so long."""
    known = state_record(sensor, budget_s=budget_s)
    promised = seconds / budget_s if promised is None else promised
    return msgspec.structs.replace(known, time=at(seconds), promised=promised)


def raised(sensor, seconds, number=0):
    event = alarm(sensor, number)
    return msgspec.structs.replace(event, at=Place(event.at.index, at(seconds)))


def told(*messages):
    """What a view says that has taken these."""
    fleet = SensorIndex(SETTINGS)
    for message in messages:
        fleet.take(message)
    return {one.rule: one for one in fleet.promise()}


def counted(found, span):
    return found.spans[span].raised, pytest.approx(found.spans[span].promised, rel=0.02)


def test_promised_is_time_over_the_budget_and_raised_is_counted_by_the_readings_clock():
    ten_days = 10 * DAY
    found = told(
        *(record("pump/a", seconds) for seconds in range(600, ten_days + 1, 600)),
        *(raised("pump/a", ten_days - ago, i) for i, ago in enumerate((600, 7000, 2 * DAY, 8 * DAY))),
    )
    assert list(found) == ["pump/*"]
    pump = found["pump/*"]
    assert (pump.budget, pump.budget_per_week) == ("1 per day", 7.0)
    # the interval of five minutes that is under way has just begun
    assert counted(pump, "hour") == (1, 1 / 24)
    assert counted(pump, "day") == (2, 1.0)
    assert counted(pump, "week") == (3, 7.0)
    week = pump.spans["week"]
    assert week.sensor_weeks == pytest.approx(1.0, rel=0.01)
    assert week.raised_per_week == pytest.approx(3.0, rel=0.01)
    assert week.promised_per_week == pytest.approx(7.0)


def test_rules_are_apart_and_in_their_order():
    found = told(record("b", DAY, WEEK), record("pump/a", DAY), record("pump/b", DAY), raised("b", DAY))
    assert [(rule, one.budget) for rule, one in found.items()] == [("pump/*", "1 per day"), ("*", "1 per week")]
    assert counted(found["pump/*"], "day") == (0, 2.0)
    assert counted(found["*"], "day") == (1, 1 / 7)


def test_a_view_that_starts_later_says_the_same_from_the_last_state_and_the_events():
    live = [record("pump/a", seconds) for seconds in range(300, 3 * DAY, 300)]
    events = [raised("pump/a", 2.5 * DAY)]
    whole, later = told(*live, *events), told(*events, live[-1])
    for span in ("hour", "day", "week"):
        one, other = whole["pump/*"].spans[span], later["pump/*"].spans[span]
        assert (other.raised, other.promised) == (one.raised, pytest.approx(one.promised, rel=1e-3)), span


def test_a_gap_promises_nothing():
    found = told(
        record("pump/a", DAY), record("pump/a", 6 * DAY, promised=(DAY + 600) / DAY), record("b", 6 * DAY, WEEK)
    )["pump/*"]
    assert counted(found, "hour") == (0, 600 / DAY)
    assert counted(found, "day") == (0, 600 / DAY)
    assert counted(found, "week") == (0, 1.0 + 600 / DAY)


def test_a_sensor_that_lost_its_state_counts_anew():
    found = told(record("pump/a", DAY), record("pump/a", DAY + 600, promised=600 / DAY))
    assert counted(found["pump/*"], "week") == (0, 1.0 + 600 / DAY)


def test_what_is_not_known_is_not_counted():
    first = msgspec.structs.replace(record("pump/a", 60), budget_s=None)
    old = msgspec.structs.replace(record("pump/b", 60), promised=None)
    assert told(first, old) == {}
    assert counted(told(first, record("pump/a", DAY))["pump/*"], "day") == (0, 1.0)


def test_memory_does_not_grow_with_time():
    fleet = SensorIndex(SETTINGS)
    sizes = set()
    for day in (1, 30, 3000):
        fleet.take(record("pump/a", day * DAY))
        sizes.add(sum(counts.nbytes for counts in fleet._promise._counts.values()))
    assert len(sizes) == 1
    assert sizes.pop() < 100_000


def test_the_sums_over_intervals_are_what_was_added():
    """Against a sum over all records, with random times and budgets."""
    rng = np.random.default_rng(5)
    moments = np.cumsum(rng.integers(1, 900, 2000))
    steps = rng.uniform(1e-5, 1e-3, 2000)
    records = [
        record("pump/a", int(moment), promised=rounded(total))
        for moment, total in zip(moments, np.cumsum(steps), strict=True)
    ]
    found = told(*records)["pump/*"]
    for span, seconds in (("hour", 3600), ("day", DAY), ("week", WEEK)):
        # at most one interval more or less at the beginning
        most, least = (steps[moments > moments[-1] - seconds + off].sum() for off in (-900, 900))
        assert least * 0.98 <= found.spans[span].promised <= most * 1.02


def test_the_answer_over_http():
    fleet = ShownFleet(SETTINGS)
    fleet.take(record("pump/a", DAY), raised("pump/a", DAY))
    with shown(fleet) as port:
        answer = get(port, "/v1/promise")
        assert get(port, "/v1/promise?x=1").problem == (400, "bad_option")
    schemas = document(has_view=True)["components"]["schemas"]
    jsonschema.validate(answer.json, {"$ref": "#/components/schemas/Promised", "components": {"schemas": schemas}})
    assert "/v1/promise" in document(has_view=True)["paths"]
    assert "/v1/promise" not in document()["paths"]
    (rule,) = answer.json["rules"]
    assert (rule["rule"], rule["budget"]) == ("pump/*", "1 per day")
    assert rule["spans"]["day"]["raised"] == 1
    assert rule["spans"]["day"]["promised"] == pytest.approx(1.0)
    assert answer.json["newest"] == at(DAY)
