"""Change points as both engines describe them, and as rows of a buffer."""

from __future__ import annotations

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
