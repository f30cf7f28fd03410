"""Counts with a gamma prior on their rate; the marginal is negative binomial."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._special import draw_log_gamma, draw_poisson, log_gamma
from ishsmm_stream.model.emissions import family

_LARGEST_RATE = 2.0**60  # of a draw, which is an int64


class _PoissonFields(NamedTuple):
    shape: float
    rate: float


class Poisson(_PoissonFields):
    """y ~ Poisson(mu) with mu ~ Gamma(shape, rate): the second argument is a *rate*, E[mu] = shape / rate.

    Statistics: count, sum of y and sum of ln y!.
    Parameter: (ln mu), which small shapes cannot bring to zero.
    """

    __slots__ = ()

    def __new__(cls, shape: float = 1.0, rate: float = 1.0):
        return super().__new__(cls, _checks.positive("shape", shape), _checks.positive("rate", rate))

    @classmethod
    def weak_numbers(cls, values: np.ndarray) -> dict[str, Any]:
        """Return the numbers of a weak prior for series like ``values`` (length, channels)."""
        average = float(np.nanmean(values))
        return {"shape": 1.0, "rate": family.rounded(1.0 / average) if average > 0.0 else 1.0}


@family.stats_size.register(Poisson)
def _stats_size(prior):
    return 3


@family.params_size.register(Poisson)
def _params_size(prior):
    return 1


@family.add.register(Poisson)
def _add(prior, stats, y, t):
    value = y[t, 0]
    if not np.isnan(value):
        stats[0] += 1.0
        stats[1] += value
        stats[2] += log_gamma(value + 1.0)


@family.log_predictive.register(Poisson)
def _log_predictive(prior, stats, y, t):
    value = y[t, 0]
    if np.isnan(value):
        return 0.0
    shape = prior.shape + stats[1]
    rate = prior.rate + stats[0]
    return (
        log_gamma(shape + value)
        - log_gamma(shape)
        - log_gamma(value + 1.0)
        - shape * math.log1p(1.0 / rate)
        - value * math.log1p(rate)
    )


@family.log_marginal.register(Poisson)
def _log_marginal(prior, stats):
    count, total, factorials = stats[0], stats[1], stats[2]
    return (
        log_gamma(prior.shape + total)
        - log_gamma(prior.shape)
        - prior.shape * math.log1p(count / prior.rate)
        - total * math.log(prior.rate + count)
        - factorials
    )


@family.draw_parameters.register(Poisson)
def _draw_parameters(prior, stats, rng, params):
    params[0] = draw_log_gamma(rng, prior.shape + stats[1]) - math.log(prior.rate + stats[0])


@family.log_density.register(Poisson)
def _log_density(prior, params, y, t):
    value = y[t, 0]
    if np.isnan(value):
        return 0.0
    return value * params[0] - math.exp(params[0]) - log_gamma(value + 1.0)


@family.simulate.register(Poisson)
def _simulate(prior, params, rng, y, t, position):
    y[t, 0] = draw_poisson(rng, min(math.exp(params[0]), _LARGEST_RATE))


@family.are_valid.register(Poisson)
def _are_valid(prior, stats):
    return family.within(stats[:, 0], 0.0, family.LARGEST_COUNT) and family.within(stats[:, 1:], 0.0, 1e300)


@family.check_data.register(Poisson)
def _check_data(prior, y):
    family.require_channels(y, 1, "Poisson")
    values = y[:, 0]
    wrong = ~np.isnan(values) & ((values < 0.0) | (values != np.floor(values)))
    if wrong.any():
        t = int(np.argmax(wrong))
        raise ValueError(f"y[{t}] is {values[t]:g}, but Poisson takes whole numbers from 0 (NaN where missing)")


@family.parameter_names.register(Poisson)
def _parameter_names(prior):
    return ("rate",)


@family.describe.register(Poisson)
def _describe(prior, params):
    return (math.exp(params[0]),)
