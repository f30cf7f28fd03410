"""Checks of the arrays in a snapshot, before compiled code reads them.

Compiled code does not check bounds. Each module that owns arrays states what is valid in them as a table of ``Field``,
next to their definition, and ``check`` compares arrays with the table. Relations between arrays are checked by the
module itself, which calls ``require``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.online.snapshot import SnapshotError

FLOAT, SINGLE, WHOLE, SHORT = np.dtype("<f8"), np.dtype("<f4"), np.dtype("<i8"), np.dtype("<i4")
FLAG = np.dtype("|b1")
LARGEST_COUNT = 2**53  # of readings and whatever is counted in readings: a double still counts on
LARGEST_STATE = 1 << 28  # bytes of memory that the settings in a snapshot may ask for


def columns(low: Any, high: Any, nan: Sequence[int] = (), whole: Sequence[int] = ()) -> np.ndarray:
    """Return the ranges of an axis, one for each place on it, as ``Field`` takes them: one array, as passing more to
    compiled code takes longer than the check.

    ``nan`` and ``whole``: the places where NaN is valid too, and those where only whole numbers are.
    """
    ranges = np.array([low, high, low, high])
    ranges[2:] = 0
    ranges[2, list(nan)] = 1
    ranges[3, list(whole)] = 1
    return ranges


class Field(NamedTuple):
    """What an array in a snapshot must be: its type, its shape, and the range of its entries.

    The range is that of all entries, from ``low`` to ``high``, or that of each place on the last axis, ``columns``. If
    these belong to the last axis but one, say so by ``by_row``.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    low: float = -math.inf
    high: float = math.inf
    nan: bool = False  # whether NaN is valid too
    columns: np.ndarray | None = None
    by_row: bool = False


@kernel
def _is_within(numbers, low, high, nan):
    """Whether all numbers of a flat array are between two limits, or NaN where that is valid."""
    for i in range(numbers.shape[0]):
        if not low <= numbers[i] <= high and not (nan and numbers[i] != numbers[i]):
            return False
    return True


@kernel
def _are_within(numbers, ranges):
    """The same with ranges, as ``columns`` makes them, for each entry of the second of three axes."""
    low, high, nan, whole = ranges[0], ranges[1], ranges[2], ranges[3]
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            for k in range(numbers.shape[2]):
                value = numbers[i, j, k]
                if not low[j] <= value <= high[j] and not (nan[j] != 0 and value != value):
                    return False
                if whole[j] != 0 and value != np.floor(value):
                    return False
    return True


def _fits(array: np.ndarray, field: Field) -> Any:
    if field.columns is not None:
        rows = array.shape[-1] if field.by_row else 1
        return _are_within(array.reshape(-1, field.columns.shape[1], rows), field.columns)
    if field.dtype is FLAG:
        return (array.view(np.uint8) <= 1).all()  # a byte other than 0 and 1 is neither true nor false
    return _is_within(array if array.ndim == 1 else array.reshape(-1), field.low, field.high, field.nan)


def check(arrays: Mapping[str, np.ndarray], fields: Mapping[str, Field], prefix: str = "") -> None:
    """Raise SnapshotError unless ``arrays`` holds every field, as it must be; names in it begin with ``prefix``."""
    for name, field in fields.items():
        array = arrays.get(prefix + name)
        if array is None:
            raise SnapshotError(f"the snapshot has no array {prefix + name!r}")
        if array.shape != field.shape or (array.dtype is not field.dtype and array.dtype != field.dtype):
            raise SnapshotError(
                f"array {prefix + name!r} of the snapshot is {array.dtype.str} {array.shape}, expected "
                f"{field.dtype.str} {field.shape}"
            )
        if array.size and not _fits(array, field):
            raise SnapshotError(f"array {prefix + name!r} of the snapshot has an entry outside its range")


def refuse_others(arrays: Iterable[str], known: Set[str]) -> None:
    """Raise SnapshotError if there are arrays that this version would drop."""
    for name in arrays:
        if name not in known:
            raise SnapshotError(f"the snapshot has an array {name!r}, which this version does not know")


def require(holds: Any, what: str) -> None:
    """Raise SnapshotError unless a relation holds; ``what`` states it."""
    if not holds:
        raise SnapshotError(f"the snapshot contradicts itself: {what}")


def is_whole(value: Any, low: int = 0, high: int = LARGEST_COUNT) -> bool:
    """Return whether a value of a header is a whole number in a range."""
    return type(value) is int and low <= value <= high


def is_number(value: Any) -> bool:
    """Return whether a value of a header is a number; NaN and infinities are."""
    return type(value) is float or (type(value) is int and abs(value) <= LARGEST_COUNT)
