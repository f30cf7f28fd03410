"""Faults planted into the readings of a healthy sensor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Fault(NamedTuple):
    kind: str  # shift, noise, stuck, drift, spike, none
    size: float = 0.0  # in interquartile ranges of the readings before; noise: factor on the sd of first differences
    length: int = 0  # of a stuck sensor or a ramp, in readings


class Background(NamedTuple):
    """What the size of a fault is measured by: the readings before it."""

    spread: float  # interquartile range
    step: float  # standard deviation of first differences
    last: float


def describe(history: np.ndarray) -> Background | None:
    """Describe the readings before a fault; None if they are constant, so that no fault has a size."""
    known = history[~np.isnan(history)]
    if len(known) < 2:
        return None
    low, high = np.quantile(known, (0.25, 0.75))
    spread = float(high - low) or float(known.std())
    step = float(np.diff(known).std())
    return Background(spread, step, float(known[-1])) if spread > 0.0 and step > 0.0 else None


def plant(values: np.ndarray, background: Background, fault: Fault, rng: np.random.Generator) -> np.ndarray:
    """Return the readings after a fault that begins with the first of them. Shifts and drifts go either way."""
    faulty = values.copy()
    size = fault.size * background.spread * rng.choice((-1.0, 1.0))
    if fault.kind == "shift":
        faulty += size
    elif fault.kind == "drift":
        faulty += size * np.minimum(np.arange(1, len(values) + 1) / fault.length, 1.0)
    elif fault.kind == "spike":
        faulty[0] += size
    elif fault.kind == "stuck":
        faulty[: fault.length] = background.last
    elif fault.kind == "noise":
        # first differences of independent noise have twice its variance
        added = background.step * np.sqrt((fault.size**2 - 1.0) / 2.0)
        faulty += added * rng.standard_normal(len(values))
    elif fault.kind != "none":
        raise ValueError(f"unknown kind of fault {fault.kind!r}")
    return faulty
