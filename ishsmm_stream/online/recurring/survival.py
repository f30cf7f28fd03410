"""ln P(r >= n) of a duration given its parameter, for one n however large: what a segment that began long before a
window needs."""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import by_family
from ishsmm_stream.model.durations import DelayedGeometric, Fixed, NegativeBinomial, Poisson
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.durations.negative_binomial import LARGEST_Q, log_tail


@by_family
def log_survival(prior, params, r):
    """ln P(remaining count >= ``r`` | lambda)."""


@log_survival.register(Poisson)
def _poisson(prior, params, r):
    rate = params[0]
    if r <= 0:
        return 0.0
    if rate == 0.0:
        return -np.inf
    total = 0.0
    term = 1.0
    if r > rate:  # F(r) (1 + rate / (r + 1) + ...)
        n = float(r)
        while term > 1e-17 * total:
            total += term
            n += 1.0
            term *= rate / n
        return min(0.0, durations.log_pmf(prior, params, r) + math.log(total))
    n = r - 1.0  # 1 - F(r - 1) (1 + (r - 1) / rate + ...)
    while term > 1e-17 * total:
        total += term
        term *= n / rate
        n -= 1.0
    below = math.exp(durations.log_pmf(prior, params, r - 1)) * total
    return math.log1p(-min(below, LARGEST_Q))


@log_survival.register(NegativeBinomial)
def _negative_binomial(prior, params, r):
    return log_tail(params[0], (1.0 - params[1]) / params[1], float(r))


@log_survival.register(DelayedGeometric)
def _delayed_geometric(prior, params, r):
    waited = r - params[0]
    if waited <= 0.0:
        return 0.0
    if params[1] >= 1.0:
        return -np.inf
    return waited * math.log1p(-params[1])


@log_survival.register(Fixed)
def _fixed(prior, params, r):
    return 0.0 if r <= params[0] else -np.inf
