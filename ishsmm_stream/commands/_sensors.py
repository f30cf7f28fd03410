"""Sensors that are followed: a detector each, and what is remembered of their rows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ishsmm_stream.commands._rows import Row

if TYPE_CHECKING:
    import numpy as np

    from ishsmm_stream import Event, OnlineDetector

# Rows that are remembered, and half as many after older ones are forgotten.
_MOST_REMEMBERED = 500_000


# From its first values: a detector and the numbers of its priors.
MakeDetector = Callable[["np.ndarray"], "tuple[OnlineDetector, dict[str, Any]]"]


class Happening(NamedTuple):
    """An event with the line of the row that made it known."""

    line: int
    event: dict[str, Any]


class RowLog:
    """Line, time and, where asked for, values of the rows of one sensor: of the latest ones, and those at changes."""

    def __init__(self, keeps_values: bool) -> None:
        self.first = 0  # index of the first that is remembered
        self.lines = array("q")
        self.times: list[str] = []
        self.values: array[float] | None = array("d") if keeps_values else None
        self._earlier: dict[int, tuple[int, str]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.lines.append(row.line)
            self.times.append(row.time)
            if self.values is not None:
                self.values.extend(row.values)

    def place(self, index: int) -> tuple[int | None, str | None]:
        """Line and time of an observation, None where it is forgotten or there is no time."""
        if index < self.first:
            line, time = self._earlier.get(index, (None, ""))
        else:
            line, time = self.lines[index - self.first], self.times[index - self.first]
        return line, time or None

    def forget(self, but: Callable[[], Iterable[int]]) -> None:
        """Make room where that is due; keep the places ``but`` gives."""
        surplus = len(self.lines) - _MOST_REMEMBERED // 2
        if len(self.lines) <= _MOST_REMEMBERED:
            return
        for index in but():
            if self.first <= index < self.first + surplus:
                self._earlier[index] = self.lines[index - self.first], self.times[index - self.first]
        if self.values is not None:
            del self.values[: surplus * (len(self.values) // len(self.lines))]
        del self.lines[:surplus], self.times[:surplus]
        self.first += surplus


class Sensor:
    """One stream. Its first ``n_first`` values are waited for."""

    def __init__(self, name: str, make_detector: MakeDetector, n_first: int, is_pictured: bool) -> None:
        self.name = name
        self.detector: OnlineDetector | None = None  # while its first values are waited for
        self.settings: dict[str, Any] = {}
        self.rows = RowLog(is_pictured)
        self.n_observations = 0
        self.n_missing = 0
        self._make_detector = make_detector
        self._n_first = n_first
        self._waiting: list[Row] = []
        self._n_values = 0
        if not n_first:
            self.detector, self.settings = make_detector(_values([]))

    def take(self, rows: list[Row]) -> list[Happening]:
        """Take rows in; returns what happened."""
        self.n_observations += len(rows)
        self.n_missing += sum(_is_missing(row) for row in rows)
        self.rows.add(rows)
        found: list[Happening] = []
        while self.detector is None and rows:
            row, *rows = rows
            self._waiting.append(row)
            self._n_values += not _is_missing(row)
            if self._n_values >= self._n_first:
                found += self.begin()
        if rows:
            found += self._follow(rows, 0)
        self.rows.forget(self._changes)
        return found

    def begin(self) -> list[Happening]:
        """Make the detector from the first values and let it catch up on them."""
        if self.detector is not None or not self._n_values:
            return []
        rows, self._waiting = self._waiting, []
        self.detector, self.settings = self._make_detector(_values(rows))
        return self._follow(rows, rows[-1].line)

    def _follow(self, rows: list[Row], known_at: int) -> list[Happening]:
        assert self.detector is not None
        events = self.detector.update_many(_values(rows))
        before = self.detector.time - len(rows)
        return [Happening(max(known_at, rows[event.at - before].line), self._described(event)) for event in events]

    def _changes(self) -> Iterable[int]:
        points = self.detector.change_points if self.detector else ()
        return [0, *(point.index for point in points)]

    def _described(self, event: Event) -> dict[str, Any]:
        line, time = self.rows.place(event.at)
        index_line, index_time = self.rows.place(event.index)
        return {
            "sensor": self.name or None, "kind": event.kind, "alarm": event.alarm,
            "at": event.at, "line": line, "time": time,
            "index": event.index, "index_line": index_line, "index_time": index_time,
            "probability": event.probability, "low": event.low, "high": event.high, "state": event.state,
            "return_period": event.return_period, "reasons": list(event.reasons), "change": event.change,
        }  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """What the sensor's detector says now."""
        detector = self.detector
        points = []
        for point in detector.change_points if detector else ():
            line, time = self.rows.place(point.index)
            points.append({**point._asdict(), "line": line, "time": time})
        return {
            "sensor": self.name or None,
            "n_observations": self.n_observations,
            "n_missing": self.n_missing,
            "settings": self.settings,
            "change_points": points,
            "alarms": [change._asdict() for change in detector.announced_changes] if detector else [],
            "unusual": [episode._asdict() for episode in detector.unusual] if detector else [],
            "state": self._state(),
            "states": [state._asdict() for state in detector.states] if detector else [],
            "log_evidence": detector.log_evidence if detector else 0.0,
            "discarded": detector.discarded if detector else 0.0,
        }

    def _state(self) -> dict[str, Any] | None:
        state = self.detector.state if self.detector else None
        if state is None:
            return None
        line, time = self.rows.place(state.since)
        return {**state._asdict(), "line": line, "time": time}


class Sensors:
    """All sensors, in the order in which they came."""

    def __init__(self, make_detector: MakeDetector, n_first: int = 0, n_pictured: int = 0) -> None:
        self.all: dict[str, Sensor] = {}
        self.n_rows = 0
        self._make_detector = make_detector
        self._n_first = n_first
        self._n_pictured = n_pictured  # sensors whose values are remembered for a picture

    def take(self, rows: list[Row]) -> list[dict[str, Any]]:
        """Take rows of any sensors in; returns the events in the order in which they could be known."""
        self.n_rows += len(rows)
        by_sensor: dict[str, list[Row]] = {}
        for row in rows:
            by_sensor.setdefault(row.sensor, []).append(row)
        found = [happening for name, its_rows in by_sensor.items() for happening in self._sensor(name).take(its_rows)]
        return [happening.event for happening in sorted(found, key=lambda happening: happening.line)]

    def end(self) -> list[dict[str, Any]]:
        """Catch up where first values were still waited for."""
        return [happening.event for sensor in self.all.values() for happening in sensor.begin()]

    def _sensor(self, name: str) -> Sensor:
        if name not in self.all:
            is_pictured = len(self.all) < self._n_pictured
            self.all[name] = Sensor(name, self._make_detector, self._n_first, is_pictured)
        return self.all[name]


def _is_missing(row: Row) -> bool:
    return any(map(math.isnan, row.values))


def _values(rows: list[Row]) -> np.ndarray:
    import numpy as np

    return np.array([row.values for row in rows])
