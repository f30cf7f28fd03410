"""Poisson remaining counts with a gamma prior; the marginal is negative binomial (geometric at shape 1)."""

from __future__ import annotations

import math
from typing import NamedTuple

from ishsmm_stream._special import draw_poisson, log_gamma
from ishsmm_stream.model.durations import family
from ishsmm_stream.model.durations.family import LARGEST_COUNT
from ishsmm_stream.model.durations.negative_binomial import draw_tail, fill_around, fill_survival, log_mass, log_tail


class _PoissonDurationFields(NamedTuple):
    shape: float
    scale: float


class Poisson(_PoissonDurationFields):
    """r ~ Poisson(rate) with rate ~ Gamma(shape, scale): the second argument is the paper's, a *scale*.

    With n complete segments, rate ~ Gamma(shape + sum r, 1 / (1/scale + n)), and the next r is negative binomial with
    size = shape + sum r and q = 1 / (1 + 1/scale + n). A censored segment is completed by a draw from that law beyond
    c, which makes the draw of the rate exact.

    Statistics: number and sum of complete r. Parameter: the rate (paper: lambda).
    """

    __slots__ = ()

    def __new__(cls, shape: float = 1.0, scale: float = 100.0):
        return super().__new__(cls, family.hyperparameter("shape", shape), family.hyperparameter("scale", scale))


@family.stats_size.register(Poisson)
def _stats_size(prior):
    return 2


@family.log_predictive_pmf.register(Poisson)
def _log_predictive_pmf(prior, stats, r):
    return log_mass(prior.shape + stats[1], 1.0 / prior.scale + stats[0], float(r))


@family.log_predictive_survival.register(Poisson)
def _log_predictive_survival(prior, stats, r):
    return log_tail(prior.shape + stats[1], 1.0 / prior.scale + stats[0], float(r))


@family.draw_parameters.register(Poisson)
def _draw_parameters(prior, stats, censored, rng, params):
    shape = prior.shape + stats[1]
    rate = 1.0 / prior.scale + stats[0]
    if censored > 0:  # r >= 0 would say nothing
        shape += draw_tail(shape, rate, None, float(censored), rng)
        rate += 1.0
    params[0] = rng.standard_gamma(shape) / rate


@family.log_pmf.register(Poisson)
def _log_pmf(prior, params, r):
    rate = params[0]
    if rate == 0.0:
        return 0.0 if r == 0 else -math.inf
    return r * math.log(rate) - rate - log_gamma(r + 1.0)


@family.tabulate.register(Poisson)
def _tabulate(prior, params, pmf, survival):
    rate = params[0]
    peak = int(min(rate, pmf.shape[0] - 1.0))
    if peak < 0:
        return 0, 0
    low, high = fill_around(pmf, survival, peak, family.log_pmf(prior, params, peak), rate, None)
    if low == high:
        return low, high
    # P(r' >= high); the sum is short: where F(high - 1) is not negligible, the mode is not far
    beyond = 0.0
    term = pmf[high - 1]
    r = high
    while term > 0.0 and (r <= rate or term > 1e-17 * beyond):
        term *= rate / r
        beyond += term
        r += 1
    fill_survival(pmf, survival, low, high, beyond)
    return low, high


@family.table_length.register(Poisson)
def _table_length(prior, params, log_threshold):
    mode = int(min(params[0], float(LARGEST_COUNT)))
    return family.unimodal_table_length(prior, params, mode, log_threshold)


@family.draw.register(Poisson)
def _draw(prior, params, rng):
    return draw_poisson(rng, min(params[0], float(LARGEST_COUNT)))


@family.draw_beyond.register(Poisson)
def _draw_beyond(prior, params, lowest, rng):
    rate = min(params[0], float(LARGEST_COUNT))
    if lowest <= rate:  # at least about half of the mass lies beyond: reject
        while True:
            r = draw_poisson(rng, rate)
            if r >= lowest:
                return r
    # P(R >= lowest) / P(R = lowest), then walk up from ``lowest``
    total = 1.0
    term = 1.0
    r = lowest
    while term > 1e-17 * total:
        r += 1
        term *= rate / r
        total += term
    remaining = rng.random() * total
    term = 1.0
    r = lowest
    while remaining > term and term > 0.0:
        remaining -= term
        r += 1
        term *= rate / r
    return r


@family.mean.register(Poisson)
def _mean(prior, params):
    return params[0] + 1.0


@family.parameter_names.register(Poisson)
def _parameter_names(prior):
    return ("rate",)
