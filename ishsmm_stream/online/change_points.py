"""Change points as all engines describe them, and as rows of a buffer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream.online.results import ChangePoint

LEAST_PROBABILITY = 0.5  # of a change point that is listed


@owning_kernel
def describe_change(probability, first, path, i):
    """(probability, low, high) of the change at path[i]: the sum over its basin, at most 1, and the 5% and 95%
    quantiles of the unit of mass nearest to it. ``probability[j]`` belongs to observation ``first + j``.

    The basin holds the indices that are nearer to this change than to another one, ties to the earlier.
    """
    index = path[i]
    last_index = first + probability.shape[0] - 1
    low = max(first, 1)
    if i > 0 and path[i - 1] > 0:  # the stream's beginning is no change
        low = max(low, (path[i - 1] + index) // 2 + 1)
    high = last_index
    if i + 1 < path.shape[0]:
        high = min(high, (index + path[i + 1]) // 2)
    taken = np.zeros(high - low + 1)
    total = 0.0
    for distance in range(high - low + 1):
        for side in range(2):
            t = index - distance if side == 0 else index + distance
            if low <= t <= high and (side == 0 or distance > 0):
                share = min(probability[t - first], 1.0 - total)
                taken[t - low] = share
                total += share
    five, ninety_five = index, index
    running = 0.0
    seen_low, seen_high = False, False
    for j in range(taken.shape[0]):
        running += taken[j]
        if not seen_low and taken[j] > 0.0 and running >= 0.05 * total:
            five, seen_low = low + j, True
        if not seen_high and taken[j] > 0.0 and running >= 0.95 * total:
            ninety_five, seen_high = low + j, True
    return total, five, ninety_five


class ChangeColumns(NamedTuple):
    """Columns of a change point in a buffer."""

    index: int  # type: ignore[assignment]
    probability: int
    low: int
    high: int


CHANGE = ChangeColumns(0, 1, 2, 3)


def change_point(row: np.ndarray) -> ChangePoint:
    """Return the change point that a buffer's row holds."""
    index, probability, low, high = row.tolist()
    return ChangePoint(int(index), probability, int(low), int(high))


@kernel
def write_change(changes, row, index, probability, low, high):
    """Write a change point to a row of a buffer."""
    changes[row, CHANGE.index] = index
    changes[row, CHANGE.probability] = probability
    changes[row, CHANGE.low] = low
    changes[row, CHANGE.high] = high


class PathSettling(ABC):
    """Change points of an engine of weighted chains: those of the heaviest one, settled before they leave the lag."""

    lag: int
    considered: np.ndarray  # (1,) change points up to here have been settled or passed over

    @property
    @abstractmethod
    def time(self) -> int:
        """Observations seen."""

    @abstractmethod
    def change_probability(self) -> np.ndarray:
        """Return P(a change at t | y) over the lag, oldest first."""

    @abstractmethod
    def _path(self) -> np.ndarray:
        """Return where the heaviest chain changes state within the lag."""

    def _described(self, above: int, up_to: int) -> list[tuple[int, float, int, int]]:
        path = self._path()
        wanted = np.flatnonzero((path > above) & (path <= up_to))
        if not len(wanted):
            return []
        probability = self.change_probability()
        first = self.time - len(probability)
        return [(int(path[i]), *describe_change(probability, first, path, i)) for i in wanted]

    def _settle(self) -> list[list[float]]:
        """Freeze the change points that are about to leave the lag."""
        horizon = self.time - 1 - (self.lag - self.lag // 4)
        found = self._described(int(self.considered[0]), horizon)
        if found:
            self.considered[0] = max(found[-1][0], found[-1][3])  # if its index still moves, it is the same change
        return [list(row) for row in found if row[1] >= LEAST_PROBABILITY]

    def open_change_points(self) -> list[ChangePoint]:
        """Return the change points of the heaviest chain that are not settled yet."""
        found = self._described(int(self.considered[0]), self.time)
        return [
            ChangePoint(index, float(total), int(low), int(high))
            for index, total, low, high in found
            if total >= LEAST_PROBABILITY
        ]
