"""Series of single sensors: the most suspicious ones, and those on the allow-list. All others have none.

Everything is computed at the scrape from what is remembered of a few sensors, so that series end with their sensors: a
partition that went, a sensor that was forgotten or that is no longer among the most suspicious.
"""

from __future__ import annotations

import fnmatch
import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from service.sensors.partition import Partition
from service.sensors.records import Outbound
from service.settings import Settings
from service.settings.sinks import STATUSES
from service.wire.messages import DeadLetter, StateDictionary, StateRecord, status_of
from service.wire.readings import Reading

log = logging.getLogger(__name__)

# Below this nobody is suspicious, and above it a sensor is remembered for so many seconds after its last state record.
LEAST_SUSPICIOUS = 0.01
SUSPICIOUS_FOR = 900.0
MOST_STATES = 10  # of a listed sensor with series of their own
MOST_TRANSITIONS = 20  # between states of a listed sensor


@dataclass
class _Listed:
    """A sensor with series of its own."""

    partition: Partition
    is_critical: bool
    events: dict[str, int]  # by status
    state: StateRecord | None = None
    dictionary: StateDictionary | None = None

    @property
    def level(self) -> float | None:
        return self._parameter("mean", "rate", "mean[0]")

    @property
    def noise(self) -> float | None:
        return self._parameter("sd", "sd[0]")

    def _parameter(self, *names: str) -> float | None:
        found = {} if self.state is None or self.state.state is None else self.state.state.parameters
        return next((found[name] for name in names if name in found), None)


class SensorSeries(Collector):
    """Follows a worker's sensors. The worker tells, scrapes ask from threads of their own."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._options = settings.metrics
        self._clock = clock
        has_critical = any(rule.labels.get("critical") is True for rule in settings.rules)
        self._looks_at_rules = self._options.critical and has_critical
        self._lock = threading.Lock()
        self._partitions: dict[int, Partition] = {}
        self._listed: dict[str, _Listed] = {}
        # What sensors have counted stays when they go: after a rollback they are back at once, and a count that began
        # anew before it was scraped would hide an event.
        self._events: dict[str, dict[str, int]] = {}
        self._suspicious: dict[str, tuple[float, float]] = {}  # probability, and when that was said
        self._is_full = False

    # The worker tells

    def follow(self, partitions: Mapping[int, Partition]) -> None:
        """These are the worker's partitions now."""
        with self._lock:
            is_other = partitions.keys() != self._partitions.keys()
            if is_other or any(self._partitions[number] is not one for number, one in partitions.items()):
                self._partitions = dict(partitions)
                self._drop_the_gone()
            self._meet()

    def _meet(self) -> None:
        """Look at the sensors that are new."""
        for partition in self._partitions.values():
            for sensor in partition.take_arrived():
                self._consider(sensor, partition)

    def _drop_the_gone(self) -> None:
        held = {id(partition) for partition in self._partitions.values()}
        self._listed = {sensor: one for sensor, one in self._listed.items() if id(one.partition) in held}
        self._suspicious = {sensor: said for sensor, said in self._suspicious.items() if self._is_here(sensor)}

    def _is_here(self, sensor: str) -> bool:
        return any(partition.last_seen(sensor) is not None for partition in self._partitions.values())

    def _consider(self, sensor: str, partition: Partition) -> None:
        is_critical = self._looks_at_rules and self._settings.rule_for(sensor).labels.get("critical") is True
        if not is_critical and not any(fnmatch.fnmatchcase(sensor, one) for one in self._options.sensors):
            return
        if len(self._listed) < self._options.most_sensors or sensor in self._listed:
            events = self._events.setdefault(sensor, dict.fromkeys(STATUSES, 0))
            self._listed[sensor] = _Listed(partition, is_critical, events)
        elif not self._is_full:
            self._is_full = True
            log.warning(
                "metrics.most_sensors = %d sensors have series of their own: %r and others that come have none",
                self._options.most_sensors, sensor,
            )  # fmt: skip

    def committed(self, outputs: Iterable[Outbound]) -> None:
        """These messages were published."""
        now = self._clock()
        with self._lock:
            self._meet()
            for output in outputs:
                message = output.message
                if isinstance(message, StateRecord):
                    self._note_state(message, now)
                elif isinstance(message, StateDictionary):
                    if message.sensor in self._listed:
                        self._listed[message.sensor].dictionary = message
                elif isinstance(message, Reading | DeadLetter):
                    continue
                elif (listed := self._listed.get(message.sensor)) is not None:
                    listed.events[status_of(message)] += 1

    def _note_state(self, state: StateRecord, now: float) -> None:
        sensor, probability = state.sensor, state.change_probability
        if self._options.top and probability is not None and probability >= LEAST_SUSPICIOUS:
            self._suspicious[sensor] = (probability, now)
        else:
            self._suspicious.pop(sensor, None)
        if (listed := self._listed.get(sensor)) is not None:
            listed.state = state

    # Scrapes ask

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        with self._lock:
            top, listed = self._most_suspicious(), list(self._listed.items())
        yield _gauge(
            "top_sensor_change_probability", "That a sensor changed, of the most suspicious ones", ("sensor",), top
        )
        here = [(sensor, one) for sensor, one in listed if one.partition.last_seen(sensor) is not None]
        yield from _listed_series(here)

    def _most_suspicious(self) -> list[tuple[tuple[str, ...], float | None]]:
        since = self._clock() - SUSPICIOUS_FOR
        self._suspicious = {name: said for name, said in self._suspicious.items() if said[1] >= since}
        # a few more than are shown, as some may have been forgotten meanwhile
        most = heapq.nlargest(2 * self._options.top, self._suspicious.items(), key=lambda item: item[1][0])
        shown = [((sensor,), probability) for sensor, (probability, _) in most if self._is_here(sensor)]
        return list(shown[: self._options.top])


def _listed_series(listed: list[tuple[str, _Listed]]) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
    labels = ("sensor", "critical")
    rows = [((sensor, str(one.is_critical).lower()), one) for sensor, one in listed]
    events = CounterMetricFamily(
        "ishsmm_sensor_events", "Events of a listed sensor by status, committed", labels=(*labels, "status")
    )
    for names, one in rows:
        for status, count in one.events.items():
            events.add_metric((*names, status), count)
    yield events

    def gauge(name: str, says: str, number: Callable[[str, _Listed], float | None]) -> GaugeMetricFamily:
        return _gauge(f"sensor_{name}", says, labels, [(names, number(names[0], one)) for names, one in rows])

    yield gauge(
        "change_probability",
        "That a listed sensor changed within its last window",
        lambda _, one: None if one.state is None else one.state.change_probability,
    )
    yield gauge(
        "run_length",
        "Observations since a listed sensor's last change, the median",
        lambda _, one: None if one.state is None else one.state.run_length.median,
    )
    yield gauge("level", "Mean or rate of a listed sensor's state", lambda _, one: one.level)
    yield from _state_series(labels, rows)
    yield gauge("noise", "Standard deviation of a listed sensor's state", lambda _, one: one.noise)
    yield gauge(
        "silent", "1 while a listed sensor is silent", lambda sensor, one: float(one.partition.is_silent(sensor))
    )
    yield gauge(
        "last_reading_timestamp_seconds",
        "Time of a listed sensor's newest reading",
        lambda sensor, one: (one.partition.last_seen(sensor) or 0) / 1e6,
    )


def _state_series(
    labels: tuple[str, ...], rows: Sequence[tuple[tuple[str, ...], _Listed]]
) -> Iterable[GaugeMetricFamily]:
    """Yield the readings in each state, the visits to it and the transitions; states beyond ``MOST_STATES`` are one."""
    readings, visits, transitions = [], [], []
    for names, one in rows:
        known = [] if one.dictionary is None else sorted(one.dictionary.states, key=lambda state: -state.readings)
        for state in known[:MOST_STATES]:
            readings.append(((*names, str(state.id)), float(state.readings)))
            visits.append(((*names, str(state.id)), float(state.visits)))
        if known[MOST_STATES:]:
            readings.append(((*names, "other"), float(sum(state.readings for state in known[MOST_STATES:]))))
            visits.append(((*names, "other"), float(sum(state.visits for state in known[MOST_STATES:]))))
        ranked = [] if one.dictionary is None else sorted(one.dictionary.transitions, key=lambda move: -move[2])
        transitions += [((*names, str(a), str(b)), float(count)) for a, b, count in ranked[:MOST_TRANSITIONS]]
    labels = (*labels, "state")
    yield _gauge("sensor_state_readings", "Readings of a listed sensor in each known state", labels, readings)
    yield _gauge("sensor_state_visits", "Visits of a listed sensor to each known state", labels, visits)
    says = "How often a listed sensor went from one state to another"
    yield _gauge("sensor_state_transitions", says, (*labels, "next"), transitions)


def _gauge(
    name: str, says: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"ishsmm_{name}", says, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric(values, number)
    return family
