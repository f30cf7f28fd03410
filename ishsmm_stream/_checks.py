"""Checks of what a caller hands in. Each failure names the argument, what it got and what it takes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ishsmm_stream._jit import kernel


def number(name: str, value: Any) -> float:
    """A finite real number as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return float(value)


def positive(name: str, value: Any) -> float:
    """A number above zero."""
    checked = number(name, value)
    if checked <= 0.0:
        raise ValueError(f"{name} must be greater than 0, got {value!r}")
    return checked


def whole(name: str, value: Any, at_least: int) -> int:
    """An integer that is not below ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value!r}")
    return int(value)


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """A name from a list; the message offers the nearest one."""
    names = list(known)
    if value in names:
        return str(value)
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}{hint}")


def series(name: str, values: Any) -> np.ndarray:
    """Observations as a float64 array of shape (length, channels). NaN and masked values mean missing; infinities and
    complex numbers are refused."""
    if isinstance(values, np.ndarray) and np.iscomplexobj(values):
        raise ValueError(f"{name} must be real numbers, got complex ones; hand over two channels, .real and .imag")
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers (NaN where missing): {error}") from None
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        raise ValueError(f"{name} must have 1 or 2 dimensions (length, channels), got shape {array.shape}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} is empty: at least one observation is needed")
    infinite = first_infinite(array)
    if infinite >= 0:
        raise ValueError(f"{name} is infinite at index {infinite}; use NaN for a missing value")
    return array


@kernel
def first_infinite(array):
    """The first row with an infinity; -1 where there is none."""
    for i in range(array.shape[0]):
        for channel in range(array.shape[1]):
            if math.isinf(array[i, channel]):
                return i
    return -1


@kernel
def count_complete(rows):
    """How many rows have no missing value."""
    complete = 0
    for i in range(rows.shape[0]):
        is_complete = True
        for channel in range(rows.shape[1]):
            is_complete = is_complete and not math.isnan(rows[i, channel])
        complete += is_complete
    return complete
