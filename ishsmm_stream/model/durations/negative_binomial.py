"""Negative binomial remaining counts with a beta prior; the marginal is beta negative binomial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import draw_index, draw_log_beta, draw_poisson, log_add, log_gamma, log_gamma_ratio
from ishsmm_stream.model.durations import family
from ishsmm_stream.model.durations.family import LARGEST_COUNT, LOG_NEGLIGIBLE

# q of a parameter stays this far from 0 and from 1: F is a proper law with representable numbers.
SMALLEST_Q = 1e-300
LARGEST_Q = 1.0 - 2.0**-53


class _NegativeBinomialFields(NamedTuple):
    size: tuple[float, ...]
    a: float
    b: float


class NegativeBinomial(_NegativeBinomialFields):
    """P(r) = C(r + size - 1, r) (1 - q)^size q^r with q ~ Beta(a, b).

    ``size`` is a positive number, or a sequence of them if it is unknown: then its prior is uniform over these values.
    It is kept as a tuple either way.

    With n complete segments, q | size ~ Beta(a + sum r, b + n size), and size has the weights
    prod_i C(r_i + size - 1, r_i) B(a + sum r, b + n size). A censored segment is completed by an exact draw: first the
    size (its weight times P(r >= c | size)), then r from the beta negative binomial beyond c, then q.

    Statistics: number and sum of complete r, and for each size the sum of ln C(r + size - 1, r).
    Parameter: (size, q).
    """

    __slots__ = ()

    def __new__(cls, size: float | Sequence[float], a: float = 1.0, b: float = 1.0):
        values = tuple(size) if isinstance(size, (Sequence, np.ndarray)) and not isinstance(size, str) else (size,)
        if len(values) == 0:
            raise ValueError("size must be a positive number or a sequence of at least one, got an empty sequence")
        sizes = tuple(family.hyperparameter("size", value, 1e6) for value in values)
        if len(set(sizes)) < len(sizes):
            raise ValueError(f"size must not repeat a value, got {size!r}")
        return super().__new__(cls, sizes, family.hyperparameter("a", a), family.hyperparameter("b", b))


# The negative binomial itself. It is Poisson with a rate ~ Gamma(size, rate odds), odds = (1 - q) / q: with the odds
# neither a q near 0 nor one near 1 loses digits.


@kernel
def log_binomial(size, r):
    """ln C(r + size - 1, r)."""
    if r == 0.0:
        return 0.0
    if r < size:
        return log_gamma_ratio(size, r) - log_gamma(r + 1.0)
    return log_gamma_ratio(r + 1.0, size - 1.0) - log_gamma(size)


@kernel
def log_mass(size, odds, r):
    """ln P(R = r), R negative binomial."""
    return log_binomial(size, r) - size * math.log1p(1.0 / odds) - r * math.log1p(odds)


@kernel
def _beta_fraction(a, b, x, y, excess):
    """I_x(a, b) a B(a, b) / (x^a y^b), y = 1 - x, excess = a y - b x >= 0, by its continued fraction.

    Didonato and Morris (1992), equation 9: with x, y and the excess given apart nothing cancels when x is near 1.
    Evaluated by Lentz's method; about the root of max(a, b) steps are needed.
    """
    value = a * (excess + 1.0) / (a + 1.0)
    above = value
    below = 0.0
    for n in range(1, 1_000_000):
        odd = a + 2.0 * n - 1.0
        pull = n * (b - n) * x / odd
        alpha = (a + n - 1.0) * (a + b + n - 1.0) / odd * x * pull
        beta = n + pull + (a + n) * (excess + 1.0 + n * (1.0 + y)) / (odd + 2.0)
        below = 1.0 / (beta + alpha * below)
        above = beta + alpha / above
        factor = above * below
        value *= factor
        if abs(factor - 1.0) < 5e-16:
            break
    return a / value


@kernel
def log_tail(size, odds, r):
    """ln P(R >= r) = ln I_q(r, size), R negative binomial; below the mean by the complement."""
    if r <= 0.0:
        return 0.0
    q = 1.0 / (1.0 + odds)
    p = odds / (1.0 + odds)
    excess = q * (r * odds - size)
    log_first = log_mass(size, odds, r)  # q^r p^size / (r B(r, size))
    if excess >= 0.0:
        return min(0.0, log_first + math.log(_beta_fraction(r, size, q, p, excess)))
    below = math.exp(log_first + math.log(r) - math.log(size)) * _beta_fraction(size, r, p, q, -excess)
    return math.log1p(-min(below, LARGEST_Q))


# The beta negative binomial: q ~ Beta(a, b) integrated out. Its mass is symmetric in a and size.


@kernel
def _log_beta_ratio(a, b, more_a, more_b):
    """ln(B(a + more_a, b + more_b) / B(a, b)), grouped so that large terms that cancel never appear."""
    if more_a <= b:
        return log_gamma_ratio(a, more_a) + log_gamma_ratio(b, more_b) - log_gamma_ratio(a + b, more_a + more_b)
    return log_gamma_ratio(a, b) + log_gamma_ratio(b, more_b) - log_gamma_ratio(a + more_a, b + more_b)


@kernel
def _log_beta_mass(size, a, b, r):
    """ln P(R = r), R beta negative binomial."""
    return log_binomial(size, r) + _log_beta_ratio(a, b, r, size)


@kernel
def _ratio_sum(x, a, size, excess, end):
    """Sum over x' = x, x+1, ... < end of the product of (x+a)(x+size) / ((x+1)(x+a+size+excess)) from x up to x'.

    Returns the sum and the first term left out, 0 if the rest is negligible. As (x+a)(x+size)/(x+1) is at most
    x + c with c = a + size - 1 + e, e = max(0, (a-1)(size-1)/(x+1)), the rest after a term is at most that term times
    (x + c) / (excess - e): the sum over m of prod_(i<=m) (y+i)/(y+z+i) is y/(z-1).
    """
    bulge = max(0.0, (a - 1.0) * (size - 1.0))
    total = 0.0
    term = 1.0
    while x < end:
        total += term
        extra = bulge / (x + 1.0)
        if term * (x + a + size - 1.0 + extra) < 1e-17 * total * (excess - extra):
            return total, 0.0
        term *= (x + a) / (x + 1.0) * ((x + size) / (x + a + size + excess))
        x += 1.0
    return total, term


@kernel
def _log_beta_tail(size, a, b, r):
    """ln P(R >= r), R beta negative binomial: its tail falls as r^-b only, so the plain sum may never end.

    P(R >= r) = P(X <= q) with X ~ Beta(r, size) and q ~ Beta(a, b), which equals P(1-q <= 1-X): the same law with
    (r, size, a, b) turned into (b, a, size, r). So it is

        P(R = r) G(r, b) = P(R = r) (r / b) G(b, r)

    with G(x, excess) = ``_ratio_sum(x, a, size, excess)``, whose terms fall as j^-(excess+1): the first form is summed
    up to an index where the second one converges fast. All terms are positive. Up to the mode, (a-1)(size-1)/(b+1), it
    is 1 - P(R < r), where P(R < r) = P(q <= X) is in the same way P(R = r) (r / size) ``_ratio_sum(size, r, b, a)``.
    """
    if r <= 0.0:
        return 0.0
    if r * (b + 1.0) <= (a - 1.0) * (size - 1.0):
        if r <= 1000.0:
            below = 0.0
            term = 1.0
            for j in range(int(r) - 1, -1, -1):
                term *= (j + 1.0) / (j + size) * ((j + a + b + size) / (j + a))
                below += term
        else:
            smaller, larger = min(a, size), max(a, size)  # the law is symmetric in them
            below, _ = _ratio_sum(smaller, r, b, larger, np.inf)
            below *= r / smaller
        below *= math.exp(_log_beta_mass(size, a, b, r))
        return math.log1p(-min(below, LARGEST_Q))
    log_first = _log_beta_mass(size, a, b, r)
    turn = max(r, 30.0 + np.floor(6.0 * math.sqrt(a + b + size)))
    total, term = _ratio_sum(r, a, size, b, turn)
    if term > 0.0:
        rest, _ = _ratio_sum(b, a, size, turn, np.inf)
        if total == 0.0:
            return min(0.0, log_first + math.log(r) - math.log(b) + math.log(rest))
        log_rest = math.log(term) + math.log(turn) - math.log(b) + math.log(rest)
        return min(0.0, log_first + log_add(math.log(total), log_rest))
    return min(0.0, log_first + math.log(total))


# Draws from the tail of either law: ``b`` is None for the negative binomial itself, whose odds ``a`` are then.


@kernel
def _log_either_tail(size, a, b, r):
    """ln P(R >= r)."""
    if b is None:
        return log_tail(size, a, r)
    return _log_beta_tail(size, a, b, r)


@owning_kernel
def draw_tail(size, a, b, lowest, rng):
    """Draw R given R >= lowest, a float, by inversion: the largest r with P(R >= r) >= U P(R >= lowest)."""
    log_target = _log_either_tail(size, a, b, lowest) + math.log(1.0 - rng.random())
    low = lowest
    width = 1.0
    while width < 1e300 and _log_either_tail(size, a, b, low + width) >= log_target:
        low += width
        width *= 2.0
    high = low + width
    while high - low > 1.0:
        middle = np.floor(low + 0.5 * (high - low))
        if middle <= low or middle >= high:  # beyond 2^53 doubles are more than 1 apart
            break
        if _log_either_tail(size, a, b, middle) >= log_target:
            low = middle
        else:
            high = middle
    return low


@kernel
def _log_size_weight(prior, stats, g):
    """ln of the marginal likelihood of ``stats`` at size number ``g``."""
    return stats[2 + g] + _log_beta_ratio(prior.a, prior.b, stats[1], stats[0] * prior.size[g])


@family.stats_size.register(NegativeBinomial)
def _stats_size(prior):
    return 2 + len(prior.size)


@family.params_size.register(NegativeBinomial)
def _params_size(prior):
    return 2


@family.add.register(NegativeBinomial)
def _add(prior, stats, r):
    stats[0] += 1.0
    stats[1] += r
    for g in range(len(prior.size)):
        stats[2 + g] += log_binomial(prior.size[g], float(r))


@kernel
def _log_predictive(prior, stats, r, is_tail):
    """ln P(next r = ``r``), or of the tail from ``r`` on: the mean over sizes by their weights."""
    log_total = -np.inf
    log_joint = -np.inf
    for g in range(len(prior.size)):
        size, a, b = prior.size[g], prior.a + stats[1], prior.b + stats[0] * prior.size[g]
        log_weight = _log_size_weight(prior, stats, g)
        log_here = _log_beta_tail(size, a, b, r) if is_tail else _log_beta_mass(size, a, b, r)
        log_total = log_add(log_total, log_weight)
        log_joint = log_add(log_joint, log_weight + log_here)
    return min(0.0, log_joint - log_total)


@family.log_predictive_pmf.register(NegativeBinomial)
def _log_predictive_pmf(prior, stats, r):
    return _log_predictive(prior, stats, float(r), False)


@family.log_predictive_survival.register(NegativeBinomial)
def _log_predictive_survival(prior, stats, r):
    return _log_predictive(prior, stats, float(r), True)


@family.draw_parameters.register(NegativeBinomial, owning=True)
def _draw_parameters(prior, stats, censored, rng, params):
    chosen = 0
    if len(prior.size) > 1:
        weights = np.empty(len(prior.size))
        largest = -np.inf
        for g in range(len(prior.size)):
            size = prior.size[g]
            weights[g] = _log_size_weight(prior, stats, g)
            weights[g] += _log_beta_tail(size, prior.a + stats[1], prior.b + stats[0] * size, float(censored))
            largest = max(largest, weights[g])
        for g in range(len(prior.size)):
            weights[g] = math.exp(weights[g] - largest)
        chosen = draw_index(rng, weights, len(prior.size))
    size = prior.size[chosen]
    a = prior.a + stats[1]
    b = prior.b + stats[0] * size
    if censored > 0:  # r >= 0 would say nothing
        a += draw_tail(size, a, b, float(censored), rng)
        b += size
    log_q, _ = draw_log_beta(rng, math.log(a), math.log(b))
    params[0] = size
    params[1] = min(max(math.exp(log_q), SMALLEST_Q), LARGEST_Q)


@family.log_pmf.register(NegativeBinomial)
def _log_pmf(prior, params, r):
    return log_mass(params[0], (1.0 - params[1]) / params[1], float(r))


@kernel
def _mode(size, q):
    """The mode of F, 0 for size <= 1."""
    return int(min(max(size - 1.0, 0.0) * (q / (1.0 - q)), float(LARGEST_COUNT)))


# Tables, of the Poisson too: there ``size`` is None, and F(r) = F(r - 1) q / r.


@kernel
def _step(q, size, r):
    """r F(r) / F(r - 1)."""
    if size is None:
        return q
    return q * (r - 1.0 + size)


@kernel
def fill_around(pmf, survival, peak, log_peak, q, size):
    """Fill ``pmf`` around its peak as far as it is not negligible; returns (low, high) as ``tabulate`` does.

    If all of the table lies far below the mode, ``survival`` is filled instead, and low is high.
    """
    length = pmf.shape[0]
    if log_peak < LOG_NEGLIGIBLE:
        survival[:] = 1.0
        return length, length
    floor = math.exp(LOG_NEGLIGIBLE)
    pmf[peak] = math.exp(log_peak)
    low = peak
    while low > 0:
        value = pmf[low] * low / _step(q, size, low)
        if value < floor:
            break
        low -= 1
        pmf[low] = value
    high = peak + 1
    while high < length:
        value = pmf[high - 1] * _step(q, size, high) / high
        if value < floor:
            break
        pmf[high] = value
        high += 1
    return low, high


@kernel
def fill_survival(pmf, survival, low, high, beyond):
    """Fill ``survival`` below high from ``pmf``; ``beyond``: P(r >= high)."""
    for r in range(high - 1, low - 1, -1):
        beyond += pmf[r]
        survival[r] = min(beyond, 1.0)
    for r in range(low):
        survival[r] = 1.0


@family.tabulate.register(NegativeBinomial)
def _tabulate(prior, params, pmf, survival):
    size, q = params[0], params[1]
    odds = (1.0 - q) / q
    peak = min(_mode(size, q), pmf.shape[0] - 1)
    if peak < 0:
        return 0, 0
    low, high = fill_around(pmf, survival, peak, log_mass(size, odds, float(peak)), q, size)
    if low < high:
        fill_survival(pmf, survival, low, high, math.exp(log_tail(size, odds, float(high))))
    return low, high


@family.table_length.register(NegativeBinomial)
def _table_length(prior, params, log_threshold):
    return family.unimodal_table_length(prior, params, _mode(params[0], params[1]), log_threshold)


@family.draw.register(NegativeBinomial)
def _draw(prior, params, rng):
    rate = rng.standard_gamma(params[0]) * (params[1] / (1.0 - params[1]))
    return draw_poisson(rng, min(rate, float(LARGEST_COUNT)))


@family.draw_beyond.register(NegativeBinomial)
def _draw_beyond(prior, params, lowest, rng):
    r = draw_tail(params[0], (1.0 - params[1]) / params[1], None, float(max(lowest, 0)), rng)
    return int(min(r, float(LARGEST_COUNT)))


@family.are_valid.register(NegativeBinomial)
def _are_valid(prior, stats, time):
    return family.count_and_sum_are_valid(stats, time) and bool((np.abs(stats[:, 2:]) <= 1e18).all())


@family.mean.register(NegativeBinomial)
def _mean(prior, params):
    return params[0] * params[1] / (1.0 - params[1]) + 1.0


@family.parameter_names.register(NegativeBinomial)
def _parameter_names(prior):
    return ("size", "q")
