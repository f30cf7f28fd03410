"""One-dimensional slice sampling for the three conditionals that are not conjugate.

The targets are told apart by a number and not handed over as functions: a kernel that takes a kernel as argument is
compiled anew in every process.
"""

from __future__ import annotations

import math

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import log_gamma, log_sigmoid

TILTED_BETA = 0
STICK_CONCENTRATION = 1
STICK_DISCOUNT = 2

_WIDTH = 2.0
_MOST_STEPS = 50
_MOST_SHRINKS = 200


@kernel
def _log_sticks(c, d, facts):
    """ln p(sticks | c, d) up to a constant; what the sticks are is written out where ``facts`` is made.

    facts[0] = 1: sticks in their own order, v_k ~ Beta(1 - d, c + k d) for k = 1..count;
    facts[0] = 0: the weights of the ``count`` states in use, their order forgotten (Pitman's posterior).
    """
    count = int(facts[1])
    total = 0.0
    if facts[0] == 1.0:
        # facts[2:] = sum ln v_k, sum ln(1 - v_k), sum k ln(1 - v_k)
        for k in range(1, count + 1):
            total += log_gamma(1.0 - d + c + k * d) - log_gamma(c + k * d)
        return total - count * log_gamma(1.0 - d) - d * facts[2] + (c - 1.0) * facts[3] + d * facts[4]
    # facts[2:] = sum ln w_k, ln w_+
    for i in range(1, count):
        total += math.log(c + i * d)
    return (
        total
        + log_gamma(c + 1.0)
        - count * log_gamma(1.0 - d)
        - log_gamma(c + count * d)
        - (d + 1.0) * facts[2]
        + (c + count * d - 1.0) * facts[3]
    )


@kernel
def _log_target(which, x, facts):
    """The target at ``x``, a logit or a logarithm; the Jacobian is in it."""
    if which == TILTED_BETA:
        # v^(a-1) (1-v)^(b-1) e^(-tilt v), facts = (a, b, tilt)
        return facts[0] * log_sigmoid(x) + facts[1] * log_sigmoid(-x) - facts[2] * math.exp(log_sigmoid(x))
    if which == STICK_CONCENTRATION:
        # facts[5:] = d, shape and rate of the gamma prior of c
        if x < -600.0 or x > 600.0:
            return -math.inf
        c = math.exp(x)
        return _log_sticks(c, facts[5], facts) + facts[6] * x - facts[7] * c
    # STICK_DISCOUNT: facts[5:] = c, a and b of the beta prior of d
    d = math.exp(log_sigmoid(x))
    if d >= 1.0 or x < -600.0:
        return -math.inf
    return _log_sticks(facts[5], d, facts) + facts[6] * log_sigmoid(x) + facts[7] * log_sigmoid(-x)


@kernel
def slice_step(rng, which, x, facts):
    """One slice-sampling step from ``x`` (Neal 2003: stepping out with a limit, then shrinking)."""
    height = _log_target(which, x, facts) + math.log(1.0 - rng.random())
    left = x - _WIDTH * rng.random()
    right = left + _WIDTH
    steps_left = int(_MOST_STEPS * rng.random())
    steps_right = _MOST_STEPS - 1 - steps_left
    while steps_left > 0 and _log_target(which, left, facts) > height:
        left -= _WIDTH
        steps_left -= 1
    while steps_right > 0 and _log_target(which, right, facts) > height:
        right += _WIDTH
        steps_right -= 1
    for _ in range(_MOST_SHRINKS):
        proposal = left + (right - left) * rng.random()
        if _log_target(which, proposal, facts) > height:
            return proposal
        if proposal < x:
            left = proposal
        else:
            right = proposal
    return x  # the interval has shrunk to the point we came from
