"""Change points as people list them: one line a change, with its probability and where it may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ishsmm_stream import _checks

# What the listed interval leaves out on each side.
_TAIL = 0.05


class ChangePoint(NamedTuple):
    """A change at ``index``, the first observation of the new segment."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    probability: float  # expected number of changes near ``index``, at most 1: an upper bound of P(a change there)
    low: int  # 5% and 95% quantiles of where it is, given that it is there
    high: int


def list_change_points(
    starts: Sequence[int] | np.ndarray, change_probability: np.ndarray, at_least: float = 0.5
) -> tuple[ChangePoint, ...]:
    """The ``starts`` whose neighbourhood holds a change with probability ``at_least``.

    ``starts``: the change points of one segmentation, usually the most probable one; a leading 0, the start of the
    first segment, is not a change. ``change_probability``: entry t = P(a change at t | y); entry 0 is not read.

    The neighbourhood (basin) of a start is every index that is nearer to it than to another one, ties to the earlier.
    The probability is the sum over the basin, at most 1: a change whose place is uncertain is spread over several
    indices, none of them probable alone. A basin with a sum above 1 holds more than this one change; the interval then
    is that of the unit of probability which lies nearest to the start.

    >>> list_change_points([4], np.array([1.0, 0.0, 0.0, 0.25, 0.5, 0.25, 0.0]))
    (ChangePoint(index=4, probability=1.0, low=3, high=5),)
    """
    probability = np.asarray(change_probability, dtype=float)
    indices = np.asarray(starts, dtype=np.int64)
    indices = indices[indices != 0]
    if len(indices) and (indices[0] < 0 or indices[-1] >= len(probability) or (np.diff(indices) <= 0).any()):
        raise ValueError(f"starts must ascend and lie below {len(probability)}, got {indices.tolist()}")
    _checks.number("at_least", at_least)
    # Basin i is first[i] <= t < first[i + 1].
    first = np.concatenate([[1], (indices[1:] + indices[:-1]) // 2 + 1, [len(probability)]])
    found = []
    for i, index in enumerate(indices.tolist()):
        basin = np.arange(first[i], first[i + 1])
        total = float(probability[basin].sum())
        if min(1.0, total) >= at_least:
            found.append(ChangePoint(index, min(1.0, total), *_interval(index, basin, probability[basin])))
    return tuple(found)


def shares(counts: np.ndarray) -> dict[int, float]:
    """The share of each value among the draws of a count, such as the number of change points.

    >>> shares(np.array([1, 2, 2, 2]))
    {1: 0.25, 2: 0.75}
    """
    values, numbers = np.unique(counts, return_counts=True)
    return {int(k): float(n) / len(counts) for k, n in zip(values, numbers, strict=True)}


def _interval(index: int, basin: np.ndarray, probability: np.ndarray) -> tuple[int, int]:
    """5% and 95% quantiles of the change nearest to ``index``."""
    nearest = np.argsort(np.abs(basin - index), kind="stable")
    taken = np.zeros(len(basin))
    taken[nearest] = np.diff(np.minimum(np.cumsum(probability[nearest]), 1.0), prepend=0.0)
    cumulative = np.cumsum(taken)
    if cumulative[-1] == 0.0:
        return index, index
    low, high = np.searchsorted(cumulative, np.array([_TAIL, 1.0 - _TAIL]) * cumulative[-1])
    return int(basin[low]), int(basin[high])
