"""How long visits to a state usually last: a gamma law whose rate is integrated out.

    dwell | rate of the state ~ Gamma(c, rate),   rate ~ Gamma(1, mean dwell of all states / c)

The shape c is shared by the states of a chain and drawn from a grid; it is 1 (geometric dwells) at first. Then
dwell / (dwell + B) of the next visit follows Beta(c, A), where A and B are shape and rate of the state's posterior.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import log_gamma
from ishsmm_stream.online.regimes.chains import DWELL_LOGS, DWELL_N, DWELL_SUM, RegimeChains

LEAST_VISITS = 3  # complete ones, before a dwell can be unusual
SHAPES = np.array([0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0, 16.0, 32.0])
GEOMETRIC = 3  # index of the shape 1
_SHAPES = tuple(SHAPES)
_SPREAD = 1.0  # standard deviation of ln c before any visit ended
_ROUNDING = 0.5  # dwells are whole numbers
_STEPS = 300
_TINY = 1e-300
_USUAL = np.array([0.05, 0.5, 0.95])


@kernel
def mean_dwell(dwells, count):
    """Return the mean length of the complete visits to all states; 1 if there is none."""
    visits = total = 0.0
    for k in range(count):
        visits += dwells[k, DWELL_N]
        total += dwells[k, DWELL_SUM]
    return max(total, 1.0) / max(visits, 1.0)


@kernel
def log_evidence(dwells, count, at, mean):
    """ln p(complete visits of all states, shape at an index of the grid), without what does not depend on it."""
    shape = _SHAPES[at]
    rate = mean / shape
    score = -0.5 * (math.log(shape) / _SPREAD) ** 2
    log_gamma_shape, log_rate = log_gamma(shape), math.log(rate)
    for k in range(count):
        n = dwells[k, DWELL_N]
        if n > 0.0:
            a = 1.0 + n * shape
            score += (shape - 1.0) * dwells[k, DWELL_LOGS] - n * log_gamma_shape
            score += log_gamma(a) + log_rate - a * math.log(rate + dwells[k, DWELL_SUM])
    return score


@kernel
def law(chains, i, k):
    """(c, A, B) of the next visit of chain ``i`` to state ``k``, see above."""
    shape = _SHAPES[chains.shape_at[i]]
    own = chains.dwells[i, k]
    mean = mean_dwell(chains.dwells[i], chains.count[i])
    return shape, 1.0 + own[DWELL_N] * shape, mean / shape + own[DWELL_SUM]


@kernel
def _beta_fraction(a, b, x):
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        d = 1.0 + even * d
        c = 1.0 + even / c
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = c if abs(c) > _TINY else _TINY
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d = 1.0 + odd * d
        c = 1.0 + odd / c
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = c if abs(c) > _TINY else _TINY
        step = d * c
        value *= step
        if abs(step - 1.0) < 1e-12:
            break
    return value


@kernel
def beta_tail(a, b, x, is_upper):
    """P(X >= x), or, not ``is_upper``, P(X <= x), for X ~ Beta(a, b) and 0 < x < 1."""
    log_front = log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1.0) / (a + b + 2.0):
        lower = math.exp(log_front) * _beta_fraction(a, b, x) / a
        return 1.0 - lower if is_upper else lower
    upper = math.exp(log_front) * _beta_fraction(b, a, 1.0 - x) / b
    return upper if is_upper else 1.0 - upper


@kernel
def tail(chains, i, k, length, is_long):
    """P(a visit to state ``k`` lasts ``length`` readings or more), or, not ``is_long``, that many or fewer."""
    shape, a, b = law(chains, i, k)
    dwell = length - _ROUNDING if is_long else length + _ROUNDING
    return beta_tail(shape, a, dwell / (dwell + b), is_long)


@kernel
def hazard(chains, i, k, elapsed):
    """P(a visit to state ``k`` that has lasted ``elapsed`` readings ends there)."""
    shape, a, b = law(chains, i, k)
    low, high = elapsed - _ROUNDING, elapsed + _ROUNDING
    before = beta_tail(shape, a, low / (low + b), True)
    after = beta_tail(shape, a, high / (high + b), True)
    return 1.0 - after / before if before > _TINY else 1.0


def usual(chains: RegimeChains, i: int, k: int) -> tuple[float, float, float]:
    """Return the 5%, 50% and 95% quantiles of the length of the next visit to state ``k``. Plain Python."""
    shape, a, b = law(chains, i, k)
    low, middle, high = (max(b * x / (1.0 - x), 1.0) for x in special.betaincinv(shape, a, _USUAL))
    return float(low), float(middle), float(high)
