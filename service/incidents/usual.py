"""How many changes are usual, and how many sensors in a window are more than that."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping

from scipy.special import betainc

# Hours before, from which rates are learned; the first is the longest.
HISTORIES = (168, 24, 3)
_HOURS_A_WEEK = 168


@functools.lru_cache(maxsize=65_536)
def least_sensors(changes: int, hours: int, width: float, chance: float, minimum: int) -> float:
    """The least number of sensors within ``width`` hours of a change that come by chance at most this often.

    ``changes`` were counted in the ``hours`` before.

    >>> [least_sensors(n, 168, 1 / 6, 0.001, 3) for n in (0, 10, 100, 1000)]
    [3, 3, 4, 7]
    """
    if hours == 0:
        return math.inf
    share = width / (hours + width)
    count = minimum
    while betainc(count - 1, changes + 1.5, share) > chance:
        count += 1
    return count


def recent(counts: Mapping[int, int], hour: int, hours: int) -> Iterable[tuple[int, int]]:
    """(changes, hours) in each of the histories before an hour, of the ``hours`` that there are."""
    for length in HISTORIES:
        first = hour - length
        changes = sum(count for at, count in counts.items() if first <= at < hour)
        if changes or length == HISTORIES[0]:
            yield changes, min(length, hours)


class Usual:
    """The fleet's hourly changes: how many hours are known before an hour, and what chance each change has there."""

    def __init__(self, false_per_window: float) -> None:
        self.counts: dict[int, int] = {}
        self._false_per_window = false_per_window
        self._began: int | None = None  # where it is known from more than the counts
        self._before: dict[int, tuple[int, float]] = {}

    def before(self, hour: int) -> tuple[int, float]:
        """Hours that are known before this one, and the chance of each change in it to begin a window that exceeds."""
        found = self._before.get(hour)
        if found is None:
            found = self._before[hour] = self._compute(hour)
        return found

    def _compute(self, hour: int) -> tuple[int, float]:
        began = min(self.counts, default=hour)
        if self._began is not None:
            began = min(began, self._began)
        hours = max(0, min(hour - began - 1, HISTORIES[0]))  # whole ones, without the first
        if hours == 0:
            return 0, 0.0
        weekly = max((changes + 0.5) / known * _HOURS_A_WEEK for changes, known in recent(self.counts, hour, hours))
        # in steps, so that a late change seldom concerns every group
        return hours, self._false_per_window / 2.0 ** math.ceil(math.log2(weekly))

    def count(self, hour: int, step: int) -> None:
        """One change more or less."""
        count = self.counts.get(hour, 0) + step
        if count:
            self.counts[hour] = count
        else:
            del self.counts[hour]

    def begin(self, hour: int) -> None:
        """The fleet is known since this hour, if not longer."""
        self._began = hour if self._began is None else min(hour, self._began)

    def refresh(self, since: float) -> set[int]:
        """The hours for which the answer is another one, after changes in the hours from ``since`` on."""
        later = [hour for hour in self._before if hour > since]
        different = set()
        for hour in later:
            found = self._compute(hour)
            if found != self._before[hour]:
                self._before[hour] = found
                different.add(hour)
        return different

    def forget(self, first: int) -> None:
        """Drop what is no longer asked for: answers before the hour ``first``, and counts that none after needs."""
        if self.counts:
            self.begin(min(self.counts))
        self._before = {hour: answer for hour, answer in self._before.items() if hour >= first}
        self.counts = {hour: count for hour, count in self.counts.items() if hour >= first - HISTORIES[0]}
