"""Small numerical functions that the kernels share.

They are written out, where the standard library would do, because numba's ``math.lgamma`` differs from Python's in
the last digits: with these a kernel and its ``.py_func`` agree exactly.
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
LOG_PI = math.log(math.pi)


@kernel
def assign(target, source):
    """target <- the first entries of source: numba's ``target[:] = source`` allocates, as the two might overlap."""
    for i in range(target.shape[0]):
        target[i] = source[i]


@kernel
def _stirling_series(z):
    """x times what ln Gamma(x) has beside (x - 1/2) ln x - x + ln(2 pi) / 2, for z = 1 / x^2 and x >= 10."""
    series = 1.0 / 156.0
    series = -691.0 / 360360.0 + z * series
    series = 1.0 / 1188.0 + z * series
    series = -1.0 / 1680.0 + z * series
    series = 1.0 / 1260.0 + z * series
    series = -1.0 / 360.0 + z * series
    return 1.0 / 12.0 + z * series


@kernel
def log_gamma(x):
    """ln Gamma(x), x > 0: Stirling's series above 10, the recurrence below."""
    product = 1.0
    while x < 10.0:
        product *= x
        x += 1.0
    series = _stirling_series(1.0 / (x * x))
    return (x - 0.5) * math.log(x) - x + HALF_LOG_TWO_PI + series / x - math.log(product)


@kernel
def _stirling_rest(x):
    """ln Gamma(x) - ((x - 1/2) ln x - x + ln(2 pi) / 2), x >= 10."""
    inverse = 1.0 / x
    return _stirling_series(inverse * inverse) * inverse


@kernel
def log_gamma_ratio(x, step):
    """ln(Gamma(x + step) / Gamma(x)), x > 0, x + step > 0.

    The difference of two ``log_gamma`` loses the digits that they share; here they cancel on paper.
    """
    start, end, sign = x, x + step, 1.0
    if step < 0.0:
        start, end, step, sign = end, start, -step, -1.0
    if start < 10.0:
        return sign * (log_gamma(end) - log_gamma(start))
    rest = _stirling_rest(end) - _stirling_rest(start)
    return sign * ((start - 0.5) * math.log1p(step / start) + step * (math.log(end) - 1.0) + rest)


@kernel
def log_add(a, b):
    """ln(e^a + e^b); minus infinity stands for zero."""
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + math.log1p(math.exp(b - a))


@kernel
def log_sigmoid(x):
    """ln(1 / (1 + e^-x))."""
    if x >= 0.0:
        return -math.log1p(math.exp(-x))
    return x - math.log1p(math.exp(x))


@kernel
def log_student_t(y, freedom, location, squared_scale):
    """ln density of a Student-t with ``freedom`` degrees of freedom."""
    half = 0.5 * (freedom + 1.0)
    deviation = y - location
    return (
        log_gamma(half)
        - log_gamma(0.5 * freedom)
        - 0.5 * (math.log(freedom) + LOG_PI + math.log(squared_scale))
        - half * math.log1p(deviation * deviation / (freedom * squared_scale))
    )


# Where even the logarithm of a variate overflows, it is this: far below anything it is compared with, and still a
# number that can be added and subtracted.
SMALLEST_LOG = -1e290
_LOG_TINY_SHAPE = -650.0


@owning_kernel
def draw_log_gamma(rng, shape):
    """ln of a Gamma(shape, 1) variate, without underflow at small shapes; shape 0 is the point mass at zero."""
    if shape <= 0.0:
        return -np.inf
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    # G(shape) = G(shape + 1) U^(1/shape) in law
    log_value = math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape
    return max(log_value, SMALLEST_LOG)


@owning_kernel
def draw_log_beta(rng, log_a, log_b):
    """(ln x, ln(1 - x)) of a Beta(a, b) variate, its parameters given as logarithms: they may be below any double.

    At vanishing parameters it is a coin: x = 1 with probability a / (a + b), else 0.
    """
    if log_a < _LOG_TINY_SHAPE and log_b < _LOG_TINY_SHAPE:
        if math.log(1.0 - rng.random()) < log_a - log_add(log_a, log_b):
            return 0.0, SMALLEST_LOG
        return SMALLEST_LOG, 0.0
    first = draw_log_gamma(rng, math.exp(log_a))
    second = draw_log_gamma(rng, math.exp(log_b))
    total = log_add(first, second)
    return max(first - total, SMALLEST_LOG), max(second - total, SMALLEST_LOG)


@owning_kernel
def draw_poisson(rng, rate):
    """A Poisson variate: what numba makes of it allocates."""
    return rng.poisson(rate)


@owning_kernel
def draw_index(rng, weights, count):
    """An index below ``count`` with probability proportional to ``weights``, which are not negative."""
    total = 0.0
    for i in range(count):
        total += weights[i]
    target = rng.random() * total
    last = 0
    for i in range(count):
        if weights[i] > 0.0:
            last = i
            target -= weights[i]
            if target < 0.0:
                return i
    return last
