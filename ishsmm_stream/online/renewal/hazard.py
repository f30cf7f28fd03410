"""How probable it is that a segment ends now: by its age, or by a constant that is learned.

A hypothesis carries its mass on a grid of hazards. With a learned hazard g ~ Beta(a, b), shared by all segments,
entry i of the mass belongs to the grid's hazard i, and what the stream says about g is exact on the grid. With the
durations of a model the grid has one entry and the hazard depends on the age of the segment.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.priors import Beta

GRID_SIZE = 16
_LOWEST, _HIGHEST = 1e-5, 0.3
# Ages beyond the table are computed when they are asked for.
_TABLE = 512


class Hazard(NamedTuple):
    """Never written to, since detectors share it.

    ``grid``, ``prior``: the learned hazard's values and their weights; ``by_age``: entry e, the hazard at age e.
    """

    learned: bool
    min_dwell: int  # a segment of the learned hazard lasts at least this long
    grid: np.ndarray
    prior: np.ndarray
    by_age: np.ndarray


@functools.lru_cache(maxsize=64)
def learned_hazard(prior: Beta, min_dwell: int = 1, size: int = GRID_SIZE) -> Hazard:
    """A constant hazard, from the age ``min_dwell`` on, with a Beta prior on a logarithmic grid."""
    grid = np.geomspace(_LOWEST, _HIGHEST, size)
    log_weight = prior.a * np.log(grid) + (prior.b - 1.0) * np.log1p(-grid)  # the density times g, for the spacing
    weight = np.exp(log_weight - log_weight.max())
    return Hazard(True, min_dwell, grid, weight / weight.sum(), np.zeros(1))


@functools.lru_cache(maxsize=64)
def duration_hazard(duration: Any) -> Hazard:
    """The hazard of the model's own durations, their parameter integrated out."""
    by_age = np.zeros(_TABLE)
    for age in range(1, _TABLE):
        by_age[age] = _at_age(duration, age)
    return Hazard(False, 1, np.zeros(1), np.ones(1), by_age)


@owning_kernel
def _at_age(duration, age):
    stats = np.empty(durations.stats_size(duration))
    durations.clear(duration, stats)
    log_survival = durations.log_predictive_survival(duration, stats, age - 1)
    if log_survival == -np.inf:
        return 1.0
    return min(math.exp(durations.log_predictive_pmf(duration, stats, age - 1) - log_survival), 1.0)


@kernel
def at_age(duration, hazard, age):
    """P(a segment that has lasted ``age`` observations ends here)."""
    if age < hazard.by_age.shape[0]:
        return hazard.by_age[age]
    return _at_age(duration, age)


@kernel
def risks_survived(hazard, dwell):
    """How many times a segment that ended after ``dwell`` observations could have ended before."""
    return max(dwell - hazard.min_dwell, 0)
