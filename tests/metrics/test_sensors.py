"""Which sensors have series of their own, from when and until when."""

from __future__ import annotations

import logging

import msgspec
import pytest
from events import change, notice
from prometheus_client import CollectorRegistry, generate_latest
from view_helpers import dictionary, known_state, state_record

from service.metrics.sensors import MOST_STATES, MOST_TRANSITIONS, STATUSES, SUSPICIOUS_FOR, SensorSeries
from service.sensors.records import Outbound
from service.settings import Rule, Settings
from service.settings.sections import MetricsSettings
from service.wire.messages import RunLength, dictionary_key


class Straw:
    """A partition as the series see it."""

    def __init__(self, *sensors):
        self.seen = dict.fromkeys(sensors, 1_700_000_000_000_000)
        self.arrived = list(sensors)
        self.silent = set()

    def take_arrived(self):
        taken, self.arrived = self.arrived, []
        return taken

    def last_seen(self, sensor):
        return self.seen.get(sensor)

    def is_silent(self, sensor):
        return sensor in self.silent


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def series(rules=(), **options):
    clock = Clock()
    found = SensorSeries(Settings(rules=tuple(rules), metrics=MetricsSettings(**options)), clock)
    return found, clock


def said(series):
    """What is scraped: value by (name, label values)."""
    registry = CollectorRegistry()
    registry.register(series)
    samples = [sample for family in registry.collect() for sample in family.samples]
    assert generate_latest(registry)
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def state(sensor, probability, parameters=None):
    record = state_record(sensor, probability=probability)
    found = None if parameters is None else msgspec.structs.replace(record.state, parameters=parameters)
    length = RunLength(low=1, median=7, high=9)
    return Outbound("states", sensor.encode(), msgspec.structs.replace(record, state=found, run_length=length))


def event(sensor, status):
    return Outbound("events", sensor.encode(), change(sensor, status=status))


def top(series):
    return {key[1]: value for key, value in said(series).items() if key[0] == "ishsmm_top_sensor_change_probability"}


# The most suspicious


def test_no_sensor_has_series_by_default_but_the_most_suspicious():
    found, _ = series(top=2)
    names = [f"s{i}" for i in range(50)]
    found.follow({0: Straw(*names)})
    assert said(found) == {}
    found.committed([state(name, i / 100) for i, name in enumerate(names)])
    assert said(found) == {("ishsmm_top_sensor_change_probability", f"s{i}"): i / 100 for i in (49, 48)}


def test_series_end_when_sensors_are_no_longer_suspicious():
    found, clock = series(top=2)
    found.follow({0: Straw("a", "b", "c", "d")})
    found.committed([state("a", 0.9), state("b", 0.8), state("c", 0.7), state("d", 0.001)])
    assert top(found) == {"a": 0.9, "b": 0.8}
    found.committed([state("a", 0.002)])
    assert top(found) == {"b": 0.8, "c": 0.7}
    clock.now += SUSPICIOUS_FOR / 2
    found.committed([state("c", 0.6), state("b", None)])
    clock.now += SUSPICIOUS_FOR * 0.6
    found.committed([state("d", 0.5)])
    assert top(found) == {"c": 0.6, "d": 0.5}
    clock.now += SUSPICIOUS_FOR * 0.6  # c has said nothing for too long
    assert top(found) == {"d": 0.5}


def test_series_end_with_their_partition_and_when_forgotten():
    found, _ = series(top=5, sensors=("*",))
    first, second = Straw("a"), Straw("b", "c")
    found.follow({0: first, 1: second})
    found.committed([state("a", 0.9), state("b", 0.8), state("c", 0.7), event("b", "provisional")])
    del second.seen["c"]
    assert top(found) == {"a": 0.9, "b": 0.8}
    assert ("ishsmm_sensor_silent", "c", "false") not in said(found)
    found.follow({1: second})
    assert top(found) == {"b": 0.8}
    assert said(found)["ishsmm_sensor_events_total", "b", "false", "provisional"] == 1
    found.follow({})
    assert said(found) == {}


def test_counts_go_on_when_a_sensor_is_back():
    """After a rollback, say: an event that no scrape has seen yet would be lost."""
    found, _ = series(top=0, sensors=("*",))
    found.follow({1: Straw("a")})
    found.committed([event("a", "provisional")])
    found.follow({})
    assert said(found) == {}
    found.follow({1: Straw("a")})
    assert said(found)["ishsmm_sensor_events_total", "a", "false", "provisional"] == 1
    assert ("ishsmm_sensor_run_length", "a", "false") not in said(found)


def test_top_0_shows_none():
    found, _ = series(top=0)
    found.follow({0: Straw("a")})
    found.committed([state("a", 0.9)])
    assert said(found) == {}


# The allow-list


def test_listed_sensors_begin_at_0_before_anything_happens():
    critical = Rule(match="pump-*", labels={"critical": True})
    found, _ = series([critical], sensors=("north/*", "exact"), top=0)
    found.follow({0: Straw("north/1", "exact", "exactly", "pump-1", "south/1")})
    shown = said(found)
    assert {key[1:3] for key in shown} == {("north/1", "false"), ("exact", "false"), ("pump-1", "true")}
    counters = [value for key, value in shown.items() if key[0] == "ishsmm_sensor_events_total"]
    assert counters == [0] * 3 * len(STATUSES)
    assert shown["ishsmm_sensor_last_reading_timestamp_seconds", "exact", "false"] == 1_700_000_000.0
    assert ("ishsmm_sensor_level", "exact", "false") not in shown


def test_what_listed_sensors_say():
    found, _ = series(sensors=("a",), top=0)
    part = Straw("a", "b")
    found.follow({0: part})
    fell_silent = Outbound("events", b"a", notice(kind="silent"))
    found.committed([event("a", "provisional"), event("a", "retracted"), event("b", "provisional"), fell_silent])
    found.committed([state("a", 0.25, {"mean": 4.5, "sd": None})])
    part.silent.add("a")
    shown = said(found)
    assert {key[3]: value for key, value in shown.items() if key[0] == "ishsmm_sensor_events_total" and value} == {
        "provisional": 1, "retracted": 1, "silent": 1,
    }  # fmt: skip
    assert shown["ishsmm_sensor_change_probability", "a", "false"] == 0.25
    assert shown["ishsmm_sensor_run_length", "a", "false"] == 7
    assert shown["ishsmm_sensor_level", "a", "false"] == 4.5
    assert ("ishsmm_sensor_noise", "a", "false") not in shown
    assert shown["ishsmm_sensor_silent", "a", "false"] == 1
    assert len(shown) < len(STATUSES) + 6


def test_the_states_that_a_listed_sensor_returns_to():
    found, _ = series(sensors=("a",), top=0)
    found.follow({0: Straw("a", "b")})
    found.committed([Outbound("states", dictionary_key(name), dictionary(name)) for name in ("a", "b")])
    shown = said(found)
    for metric, values in (("readings", (120, 60, 20)), ("visits", (4, 2, 1))):
        series_of = {key[1:]: value for key, value in shown.items() if key[0] == f"ishsmm_sensor_state_{metric}"}
        assert series_of == {
            ("a", "false", state): value for state, value in zip(("0", "40", "70"), values, strict=True)
        }
    found.committed([Outbound("states", dictionary_key("a"), dictionary("a", states=[known_state(40, 1.0, 3, 61, 9)]))])
    assert said(found)["ishsmm_sensor_state_readings", "a", "false", "40"] == 61
    assert ("ishsmm_sensor_state_readings", "a", "false", "0") not in said(found)


def test_states_beyond_the_most_frequent_are_one_series():
    found, _ = series(sensors=("a",), top=0)
    found.follow({0: Straw("a")})
    states = [known_state(i, 1.0, i + 1, 10 * (i + 1), 9) for i in range(MOST_STATES + 3)]
    found.committed([Outbound("states", dictionary_key("a"), dictionary("a", states=states))])
    readings = {key[3]: value for key, value in said(found).items() if key[0] == "ishsmm_sensor_state_readings"}
    visits = {key[3]: value for key, value in said(found).items() if key[0] == "ishsmm_sensor_state_visits"}
    assert set(readings) == set(visits) == {*(str(i) for i in range(3, MOST_STATES + 3)), "other"}
    assert (readings["12"], readings["other"], visits["other"]) == (130, 60, 6)


def test_the_most_frequent_transitions_have_series():
    found, _ = series(sensors=("a",), top=0)
    found.follow({0: Straw("a")})
    moves = [[i, i + 1, i + 1] for i in range(MOST_TRANSITIONS + 5)]
    message = msgspec.structs.replace(dictionary("a"), transitions=moves)
    found.committed([Outbound("states", dictionary_key("a"), message)])
    counts = {key[3:]: value for key, value in said(found).items() if key[0] == "ishsmm_sensor_state_transitions"}
    assert counts == {(str(i), str(i + 1)): i + 1 for i in range(5, MOST_TRANSITIONS + 5)}


@pytest.mark.parametrize("parameters", [{"rate": 3.0}, {"mean[0]": 3.0, "mean[1]": 4.0}])
def test_a_level_is_a_mean_or_a_rate(parameters):
    found, _ = series(sensors=("a",), top=0)
    found.follow({0: Straw("a")})
    found.committed([state("a", 0.5, parameters)])
    assert said(found)["ishsmm_sensor_level", "a", "false"] == 3.0


def test_an_event_in_a_sensors_first_cycle_counts():
    found, _ = series(sensors=("a",))
    part = Straw()
    found.follow({0: part})
    part.seen["a"] = 0
    part.arrived.append("a")
    found.committed([event("a", "confirmed")])
    assert said(found)["ishsmm_sensor_events_total", "a", "false", "confirmed"] == 1


def test_critical_rules_can_be_left_out():
    found, _ = series([Rule(match="p", labels={"critical": True})], critical=False)
    found.follow({0: Straw("p")})
    assert said(found) == {}


def test_the_list_has_an_end_and_the_log_says_so(caplog):
    found, _ = series(sensors=("*",), most_sensors=2)
    with caplog.at_level(logging.WARNING):
        found.follow({0: Straw("a", "b", "c", "d")})
    assert {key[1] for key in said(found)} == {"a", "b"}
    assert [record.message for record in caplog.records] == [
        "metrics.most_sensors = 2 sensors have series of their own: 'c' and others that come have none"
    ]
