"""A known remaining count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream.model.durations import family


class _FixedFields(NamedTuple):
    remaining: int


class Fixed(_FixedFields):
    """F is the point mass at r = ``remaining``: every segment lasts remaining + 1 observations.

    ``remaining=0`` makes the model a plain HMM: every observation is its own segment, and self-transitions keep a
    state. Statistics: number and sum of complete r. Parameter: the remaining count, so that arrays are never empty.
    """

    __slots__ = ()

    def __new__(cls, remaining: int = 0):
        checked = _checks.whole("remaining", remaining, 0)
        if checked >= family.LARGEST_COUNT:
            raise ValueError(f"remaining must be below 2**60, got {remaining!r}")
        return super().__new__(cls, checked)


@family.stats_size.register(Fixed)
def _stats_size(prior):
    return 2


@family.log_predictive_pmf.register(Fixed)
def _log_predictive_pmf(prior, stats, r):
    return 0.0 if r == prior.remaining else -np.inf


@family.log_predictive_survival.register(Fixed)
def _log_predictive_survival(prior, stats, r):
    return 0.0 if r <= prior.remaining else -np.inf


@family.draw_parameters.register(Fixed)
def _draw_parameters(prior, stats, censored, rng, params):
    params[0] = prior.remaining


@family.log_pmf.register(Fixed)
def _log_pmf(prior, params, r):
    return 0.0 if r == params[0] else -np.inf


@family.tabulate.register(Fixed)
def _tabulate(prior, params, pmf, survival):
    length = pmf.shape[0]
    low = min(int(params[0]), length)
    high = min(low + 1, length)
    for r in range(high):
        survival[r] = 1.0
    if low < high:
        pmf[low] = 1.0
    return low, high


@family.table_length.register(Fixed)
def _table_length(prior, params, log_threshold):
    return int(params[0]) + 1 if log_threshold <= 0.0 else 0


@family.draw.register(Fixed)
def _draw(prior, params, rng):
    return int(params[0])


@family.draw_beyond.register(Fixed)
def _draw_beyond(prior, params, lowest, rng):
    return max(int(params[0]), lowest)


@family.mean.register(Fixed)
def _mean(prior, params):
    return params[0] + 1.0


@family.parameter_names.register(Fixed)
def _parameter_names(prior):
    return ("remaining",)
