"""Geometric remaining counts after an unknown delay, with a beta prior on the rate of ending."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import draw_index, draw_log_beta, log_add, log_gamma, log_gamma_ratio
from ishsmm_stream.model.durations import family
from ishsmm_stream.model.durations.family import LARGEST_COUNT, LOG_NEGLIGIBLE

# q of a parameter does not fall below: F(d) = q is not negligible.
SMALLEST_Q = 1e-130
_LARGEST_DELAY = 10_000


class _DelayedGeometricFields(NamedTuple):
    a: float
    b: float
    max_delay: int


class DelayedGeometric(_DelayedGeometricFields):
    """P(r) = q (1 - q)^(r - d) for r >= d, with q ~ Beta(a, b) and d uniform on 0, 1, ..., max_delay.

    The paper gives d in {0, ..., 30} the prior 1/30; these are 31 values, so it is 1/31 here (and q lies in (0, 1)).

    With n complete segments and one censored at c (r >= c, which is conjugate here),

        p(d | .) is proportional to 1(d <= min r_i) B(a + n, b + sum_i (r_i - d) + max(0, c - d)),

    and q given d is Beta with these two arguments. Statistics: number, sum and minimum of complete r (infinity for
    none). Parameter: (d, q).
    """

    __slots__ = ()

    def __new__(cls, a: float = 1.0, b: float = 1.0, max_delay: int = 30):
        if _checks.whole("max_delay", max_delay, 0) > _LARGEST_DELAY:  # every prediction sums over the delays
            raise ValueError(f"max_delay must be at most {_LARGEST_DELAY}, got {max_delay!r}")
        return super().__new__(
            cls,
            family.hyperparameter("a", a),
            family.hyperparameter("b", b),
            int(max_delay),
        )


def Geometric(a: float = 1.0, b: float = 1.0) -> DelayedGeometric:
    """P(r) = q (1 - q)^r with q ~ Beta(a, b): ``DelayedGeometric(a, b, max_delay=0)``."""
    return DelayedGeometric(a, b, max_delay=0)


@kernel
def _log_evidence(a, b, count, total, longest, censored):
    """ln of the sum over d = 0, ..., longest of B(a + count, b + total - count d + max(0, censored - d)).

    B(x, y) = Gamma(x) Gamma(y) / Gamma(x + y).
    """
    ended = a + count
    log_sum = -np.inf
    for delay in range(longest + 1):
        kept = b + (total - count * delay) + max(0.0, censored - delay)
        log_sum = log_add(log_sum, -log_gamma_ratio(kept, ended))
    return log_gamma(ended) + log_sum


@kernel
def _longest_delay(max_delay, shortest):
    """The largest delay that no complete segment excludes."""
    return int(min(float(max_delay), shortest))


@family.stats_size.register(DelayedGeometric)
def _stats_size(prior):
    return 3


@family.params_size.register(DelayedGeometric)
def _params_size(prior):
    return 2


@family.clear.register(DelayedGeometric)
def _clear(prior, stats):
    stats[0] = 0.0
    stats[1] = 0.0
    stats[2] = np.inf


@family.add.register(DelayedGeometric)
def _add(prior, stats, r):
    stats[0] += 1.0
    stats[1] += r
    stats[2] = min(stats[2], float(r))


@family.log_predictive_pmf.register(DelayedGeometric)
def _log_predictive_pmf(prior, stats, r):
    count, total, shortest = stats[0], stats[1], stats[2]
    now = _log_evidence(prior.a, prior.b, count, total, _longest_delay(prior.max_delay, shortest), 0.0)
    longest = _longest_delay(prior.max_delay, min(shortest, float(r)))
    return min(0.0, _log_evidence(prior.a, prior.b, count + 1.0, total + r, longest, 0.0) - now)


@family.log_predictive_survival.register(DelayedGeometric)
def _log_predictive_survival(prior, stats, r):
    longest = _longest_delay(prior.max_delay, stats[2])
    now = _log_evidence(prior.a, prior.b, stats[0], stats[1], longest, 0.0)
    return min(0.0, _log_evidence(prior.a, prior.b, stats[0], stats[1], longest, float(r)) - now)


@family.draw_parameters.register(DelayedGeometric, owning=True)
def _draw_parameters(prior, stats, censored, rng, params):
    count, total = stats[0], stats[1]
    ended = prior.a + count
    longest = _longest_delay(prior.max_delay, stats[2])
    weights = np.empty(longest + 1)
    largest = -np.inf
    for delay in range(longest + 1):
        kept = prior.b + (total - count * delay) + max(0.0, float(censored) - delay)
        weights[delay] = -log_gamma_ratio(kept, ended)
        largest = max(largest, weights[delay])
    for delay in range(longest + 1):
        weights[delay] = math.exp(weights[delay] - largest)
    delay = draw_index(rng, weights, longest + 1)
    kept = prior.b + (total - count * delay) + max(0.0, float(censored) - delay)
    log_q, _ = draw_log_beta(rng, math.log(ended), math.log(kept))
    params[0] = delay
    params[1] = max(math.exp(log_q), SMALLEST_Q)


@family.log_pmf.register(DelayedGeometric)
def _log_pmf(prior, params, r):
    waited = r - params[0]
    q = params[1]
    if waited < 0.0:
        return -np.inf
    if waited == 0.0:
        return math.log(q)
    if q >= 1.0:
        return -np.inf
    return math.log(q) + waited * math.log1p(-q)


@family.tabulate.register(DelayedGeometric)
def _tabulate(prior, params, pmf, survival):
    length = pmf.shape[0]
    q = params[1]
    low = min(int(params[0]), length)
    for r in range(low):
        survival[r] = 1.0
    floor = math.exp(LOG_NEGLIGIBLE)
    tail = 1.0
    high = low
    while high < length and tail >= floor:  # where q is tiny, F is so before the tail is
        pmf[high] = q * tail
        survival[high] = tail
        tail *= 1.0 - q
        high += 1
    return low, high


@family.table_length.register(DelayedGeometric)
def _table_length(prior, params, log_threshold):
    return family.unimodal_table_length(prior, params, int(params[0]), log_threshold)


@owning_kernel
def _draw_geometric(q, rng):
    """Draw from q (1 - q)^r by inversion."""
    log_uniform = math.log(1.0 - rng.random())
    if q >= 1.0:
        return 0
    return int(min(log_uniform / math.log1p(-q), float(LARGEST_COUNT)))


@family.draw.register(DelayedGeometric)
def _draw(prior, params, rng):
    return int(params[0]) + _draw_geometric(params[1], rng)


@family.draw_beyond.register(DelayedGeometric)
def _draw_beyond(prior, params, lowest, rng):
    return max(int(params[0]), lowest) + _draw_geometric(params[1], rng)  # without memory beyond d


@family.are_valid.register(DelayedGeometric)
def _are_valid(prior, stats, time):
    if not family.count_and_sum_are_valid(stats, time):
        return False
    count, total, shortest = stats.T
    possible = (shortest >= 0.0) & (count * np.minimum(shortest, float(prior.max_delay)) <= total)
    return bool(possible.all())


@family.mean.register(DelayedGeometric)
def _mean(prior, params):
    return params[0] + (1.0 - params[1]) / params[1] + 1.0


@family.parameter_names.register(DelayedGeometric)
def _parameter_names(prior):
    return ("delay", "q")
