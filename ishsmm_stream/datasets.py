"""Data that examples need: facts, typed in, and the paper's synthetic series."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class CoalDisasters(NamedTuple):
    """British coal-mining disasters a year."""

    years: np.ndarray
    counts: np.ndarray


# Explosions that killed ten or more, from the dated list of 191 of them (R. G. Jarrett, "A note on the intervals
# between coal-mining disasters", Biometrika 66, 1979), counted by year. Circulating variants differ: one is a year
# short, one has other counts in 1941 and 1942.
_COAL = (
    "4 5 4 1 0 4 3 4 0 6 3 3 4 0 2 6 3 3 5 4 5 3 1 4 4 1 5 5 3 4 2 5 2 2 3 4 2 1 3 2 2 1 1 1 1 3 0 0 1 0 1 1 0 0 3 1 "
    "0 3 2 2 0 1 1 1 0 1 0 1 0 0 0 2 1 0 0 0 1 1 0 2 3 3 1 1 2 1 1 1 1 2 3 3 0 0 0 1 4 0 0 0 1 0 0 0 0 0 1 0 0 1 0 1"
)


def coal_disasters() -> CoalDisasters:
    """Counts for 1851 to 1962: 112 years, 191 disasters.

    >>> int(coal_disasters().counts.sum())
    191
    """
    counts = np.array(_COAL.split(), dtype=np.int64)
    return CoalDisasters(np.arange(1851, 1851 + len(counts)), counts)


def four_states(length: int = 500, seed: int = 0) -> np.ndarray:
    """The paper's synthetic data: dwells of rates 10, 20, 3, 7, normal with means -6, -2, 2, 6 and unit variance.

    >>> four_states(3).round(2).tolist()
    [-5.36, -5.9, -6.54]
    """
    rng = np.random.default_rng(seed)
    rates, means = (10, 20, 3, 7), (-6.0, -2.0, 2.0, 6.0)
    values: list[float] = []
    state = 0
    while len(values) < length:
        values += rng.normal(means[state], 1.0, rng.poisson(rates[state]) + 1).tolist()
        state = int(rng.choice([k for k in range(4) if k != state]))
    return np.array(values[:length])
