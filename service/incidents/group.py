"""One group: its changes by the hour, the windows in which too many sensors changed, and what they come to.

Only hours that something happened to are looked at again.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from typing import NamedTuple

from service.incidents.change import HOUR, SensorChange
from service.incidents.usual import HISTORIES, least_sensors, recent

Extent = tuple[int, int]  # first and last onset


class Windows(NamedTuple):
    """What a group's changes are looked at with; times in microseconds."""

    widths: tuple[int, ...]  # from narrow to wide
    min_sensors: int

    @property
    def span(self) -> int:
        """The widest."""
        return self.widths[-1]

    @property
    def quiet(self) -> int:
        """What is further apart is another incident."""
        return 6 * self.span


class GroupSession(NamedTuple):
    """What one incident is made of."""

    start: int
    end: int
    changes: list[SensorChange]  # the first of each sensor, in order


class Group:
    """The changes of one group. ``refresh`` after any were put or taken, then ``sessions``."""

    def __init__(self, windows: Windows) -> None:
        self._look = windows
        self._changes: dict[int, list[SensorChange]] = {}  # by hour
        # sensors in each stretch of a window's width, by width and hour; also of hours whose changes are gone
        self._counts: tuple[dict[int, int], ...] = tuple({} for _ in windows.widths)
        self._least: dict[int, list[float]] = {}  # sensors that are too many, by hour and width
        self._exceeding: dict[int, list[list[Extent]]] = {}  # by hour of the start and width
        self._touched: set[int] = set()
        self._stale: set[int] = set()

    def put(self, change: SensorChange) -> None:
        """One more."""
        bisect.insort(self._changes.setdefault(change.hour, []), change)
        self._touched.add(change.hour)

    def take(self, change: SensorChange) -> None:
        """One less."""
        found = self._changes[change.hour]
        del found[bisect.bisect_left(found, change)]
        if not found:
            del self._changes[change.hour]
            self._least.pop(change.hour, None)
        self._touched.add(change.hour)

    def distrust(self, hours: Iterable[int]) -> bool:
        """Look at these hours again: what is usual in them has changed. Whether there is anything to look at."""
        concerned = [hour for hour in hours if hour in self._changes]
        for hour in concerned:
            self._least.pop(hour, None)
        self._stale.update(concerned)
        return bool(concerned)

    def refresh(self, before: Callable[[int], tuple[int, float]]) -> None:
        """Find the windows that exceed; ``before`` is of ``Usual``."""
        for hour in self._touched:
            self._recount(hour)
            # windows that begin in the hour before reach into this one
            self._stale |= {hour - 1, hour}
            self.distrust([later for later in self._changes if later > hour])
        for hour in self._stale:
            found = self._windows_from(hour, before)
            if any(found):
                self._exceeding[hour] = found
            else:
                self._exceeding.pop(hour, None)
        self._touched.clear()
        self._stale.clear()

    def _recount(self, hour: int) -> None:
        changes = self._changes.get(hour, ())
        for width, counts in zip(self._look.widths, self._counts, strict=True):
            count = len({(change.sensor, change.onset // width) for change in changes})
            if count:
                counts[hour] = count
            else:
                counts.pop(hour, None)

    def _windows_from(self, hour: int, before: Callable[[int], tuple[int, float]]) -> list[list[Extent]]:
        starts = self._changes.get(hour)
        if starts is None:
            return []
        changes = starts + self._changes.get(hour + 1, [])
        if len(changes) < self._look.min_sensors:
            return []
        sensors = len({change.sensor for change in changes})
        if sensors < self._look.min_sensors:
            return []
        if hour not in self._least:
            self._least[hour] = self._compute_least(hour, *before(hour))
        return [
            _exceeding(changes, len(starts), width, least) if sensors >= least else []
            for width, least in zip(self._look.widths, self._least[hour], strict=True)
        ]

    def _compute_least(self, hour: int, hours: int, chance: float) -> list[float]:
        return [
            max(
                least_sensors(changes, known, width / HOUR, chance, self._look.min_sensors)
                for changes, known in recent(counts, hour, hours)
            )
            for width, counts in zip(self._look.widths, self._counts, strict=True)
        ]

    def sessions(self) -> list[GroupSession]:
        """The incidents, in order."""
        if not self._exceeding:
            return []
        hours = sorted(self._exceeding)
        extents: list[Extent] = []
        for i in range(len(self._look.widths)):
            windows = [window for hour in hours for window in self._exceeding[hour][i]]
            extents = _united(extents + self._unexplained(windows, i, extents))
        found: list[list[Extent]] = []
        for extent in extents:
            if found and extent[0] - found[-1][-1][1] <= self._look.quiet:
                found[-1].append(extent)
            else:
                found.append([extent])
        return [GroupSession(extents[0][0], extents[-1][1], self._within(extents)) for extents in found]

    def _unexplained(self, windows: list[Extent], i: int, explained: list[Extent]) -> list[Extent]:
        """The windows of a width that exceed still when everything in extents of narrower ones counts as one sensor."""
        if not windows or not explained:
            return windows
        changes = self._between(windows[0][0], windows[-1][1])
        is_explained = [_touches(change.onset, change.onset, explained) for change in changes]
        found = []
        inside: dict[str, int] = {}
        n_explained = first = end = 0
        for start, last in windows:  # in order of start, and so of their last change
            while end < len(changes) and changes[end].onset <= last:
                if is_explained[end]:
                    n_explained += 1
                else:
                    inside[changes[end].sensor] = inside.get(changes[end].sensor, 0) + 1
                end += 1
            while changes[first].onset < start:
                if is_explained[first]:
                    n_explained -= 1
                else:
                    _remove(inside, changes[first].sensor)
                first += 1
            if len(inside) + (n_explained > 0) >= self._least[start // HOUR][i]:
                found.append((start, last))
        return found

    def _within(self, extents: list[Extent]) -> list[SensorChange]:
        """The first change of each sensor that is, or may be, in one of the extents."""
        found: dict[str, SensorChange] = {}
        for change in self._between(extents[0][0] - self._look.span, extents[-1][1] + self._look.span):
            if _touches(change.low, change.high, extents):
                found.setdefault(change.sensor, change)
        return list(found.values())

    def _between(self, start: int, end: int) -> list[SensorChange]:
        """The changes of the hours from one time to another."""
        hours = range(start // HOUR, end // HOUR + 1)
        return [change for hour in hours for change in self._changes.get(hour, ())]

    def forget(self, first: int) -> int:
        """Drop changes before the hour ``first``, and counts that no rate after it needs. How many changes went."""
        gone = [hour for hour in self._changes if hour < first]
        for hour in gone:
            self._exceeding.pop(hour, None)
            self._least.pop(hour, None)
        for counts in self._counts:
            for hour in [hour for hour in counts if hour < first - HISTORIES[0]]:
                del counts[hour]
        return sum(len(self._changes.pop(hour)) for hour in gone)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of it."""
        return not any(self._counts)


def _exceeding(changes: list[SensorChange], starts: int, width: int, least: float) -> list[Extent]:
    """The windows that begin with one of the first ``starts`` changes and have at least so many sensors."""
    found = []
    inside: dict[str, int] = {}
    end = 0
    for start in range(starts):
        onset = changes[start].onset
        while end < len(changes) and changes[end].onset - onset <= width:
            sensor = changes[end].sensor
            inside[sensor] = inside.get(sensor, 0) + 1
            end += 1
        if len(inside) >= least:
            found.append((onset, changes[end - 1].onset))
        _remove(inside, changes[start].sensor)
    return found


def _remove(inside: dict[str, int], sensor: str) -> None:
    inside[sensor] -= 1
    if not inside[sensor]:
        del inside[sensor]


def _touches(low: int, high: int, extents: list[Extent]) -> bool:
    """Whether an interval has a moment in common with one of the extents, which are apart and in order."""
    place = bisect.bisect_left(extents, low, key=_end)
    return place < len(extents) and extents[place][0] <= high


def _end(extent: Extent) -> int:
    return extent[1]


def _united(extents: list[Extent]) -> list[Extent]:
    """Those that overlap as one, in order."""
    found: list[Extent] = []
    for start, end in sorted(extents):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
