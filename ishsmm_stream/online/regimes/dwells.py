"""How long visits to a state usually last: a log-normal law whose numbers are integrated out.

The logarithms of a state's complete visits have an unknown mean and variance. The variance is shrunk towards that of
all states of the chain. Both integrated out, the next visit's logarithm follows a Student-t.
"""

from __future__ import annotations

import math

from ishsmm_stream._jit import kernel
from ishsmm_stream.online.regimes.chains import DWELL_N, DWELL_SQUARES, DWELL_SUM

LEAST_VISITS = 3  # complete ones, before a dwell can be unusual
_SHAPE, _VARIANCE, _WEIGHT = 2.0, 1.0, 2.0  # of the prior: shape, pooled variance and how many visits it is worth


@kernel
def _squares(dwells):
    """Return the sum of squares of a state's log dwells about their mean."""
    if dwells[DWELL_N] < 1.0:
        return 0.0
    return max(dwells[DWELL_SQUARES] - dwells[DWELL_SUM] * dwells[DWELL_SUM] / dwells[DWELL_N], 0.0)


@kernel
def law(dwells, count, k):
    """(location, scale, degrees of freedom) of the logarithm of the next visit to state ``k``, which has visits.

    ``dwells``: those of all ``count`` states of a chain.
    """
    squares, free = _VARIANCE * _WEIGHT, _WEIGHT
    for j in range(count):
        squares += _squares(dwells[j])
        free += max(dwells[j, DWELL_N] - 1.0, 0.0)
    n = dwells[k, DWELL_N]
    shape = _SHAPE + 0.5 * (n - 1.0)
    rest = _SHAPE * squares / free + 0.5 * _squares(dwells[k])
    return dwells[k, DWELL_SUM] / n, math.sqrt(rest / shape * (1.0 + 1.0 / n)), 2.0 * shape


@kernel
def _normal_score(t, freedom):
    """The normal deviate with about the tail of a Student-t at ``t`` (Wallace 1959); its sign is left to the caller."""
    return (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0) * math.sqrt(freedom * math.log1p(t * t / freedom))


@kernel
def tail(dwells, count, k, length, is_long):
    """P(a visit to state ``k`` lasts ``length`` readings or more), or, not ``is_long``, that many or fewer."""
    location, scale, freedom = law(dwells, count, k)
    t = (math.log(length) - location) / scale
    if not is_long:
        t = -t
    score = _normal_score(t, freedom)
    return 0.5 * math.erfc(score / math.sqrt(2.0)) if t > 0.0 else 1.0 - 0.5 * math.erfc(score / math.sqrt(2.0))


def quantile(location: float, scale: float, freedom: float, score: float) -> float:
    """Return the length that a normal deviate ``score`` stands for. Plain Python."""
    factor = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)
    t = math.sqrt(freedom * math.expm1((score / factor) ** 2 / freedom))
    return math.exp(min(location + math.copysign(t, score) * scale, 700.0))
