"""Data from hidden semi-Markov models with known parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Dwell = Callable[[np.random.Generator, int], int]


class SimulatedSeries(NamedTuple):
    """Observations with the states and levels that produced them."""

    y: np.ndarray
    states: np.ndarray
    levels: np.ndarray  # the mean of each observation

    @property
    def change_points(self) -> list[int]:
        """First observations of new segments."""
        return (np.flatnonzero(np.diff(self.states)) + 1).tolist()


def poisson_dwell(rates: Sequence[float]) -> Dwell:
    """Segments of state k last 1 + Poisson(rates[k])."""
    return lambda rng, k: 1 + int(rng.poisson(rates[k]))


def recurring(
    length: int, means: Sequence[float], sd: float, dwell: Dwell, rng: np.random.Generator
) -> SimulatedSeries:
    """States in random order, none followed by itself, from the first on."""
    labels: list[int] = []
    state = 0
    while len(labels) < length:
        labels += [state] * dwell(rng, state)
        state = int(rng.choice([k for k in range(len(means)) if k != state]))
    states = np.array(labels[:length])
    levels = np.asarray(means, dtype=float)[states]
    return SimulatedSeries(rng.normal(levels, sd), states, levels)


def left_to_right(
    length: int, means: Sequence[float], sd: float, dwell: Dwell, rng: np.random.Generator
) -> SimulatedSeries:
    """Each state once, in order; the last one lasts to the end."""
    labels: list[int] = []
    for state in range(len(means) - 1):
        labels += [state] * dwell(rng, state)
    labels += [len(means) - 1] * max(1, length - len(labels))
    states = np.array(labels[:length])
    levels = np.asarray(means, dtype=float)[states]
    return SimulatedSeries(rng.normal(levels, sd), states, levels)
