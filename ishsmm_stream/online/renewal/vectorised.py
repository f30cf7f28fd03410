"""Functions of whole arrays, written so that the compiler uses vector instructions: no calls, no branches.

The C library's exp and log are called once a number and are most of what a filter step would cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 x 2^52: added, it leaves the nearest whole number in the low bits
_MANTISSA = 0x000FFFFFFFFFFFFF
_SQRT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_TO_SQRT2 = 0x3FF0000000000000 - _SQRT_HALF
_TWO_TO_52_BITS = 0x4330000000000000
_TWO_TO_52 = 4503599627370496.0
_SMALLEST_EXPONENT = -700.0


class VectorScratch(NamedTuple):
    """Work space of the functions below: arguments go into ``x`` and results come out there."""

    x: np.ndarray
    n: np.ndarray


def make_scratch(size: int) -> VectorScratch:
    """Make work space for ``size`` numbers."""
    return VectorScratch(np.zeros(size), np.zeros(size))


@kernel
def slot_view(scratches, slot):
    """Return the work space in a slot of a slab."""
    return VectorScratch(scratches.x[slot], scratches.n[slot])


@kernel
def exp_below(scratch, count):
    """x <- e^x for numbers of at most 0; below -700 it is e^-700.

    Relative error below 1e-15: e^x = 2^n e^r, |r| <= ln 2 / 2, and a Taylor series of e^r.
    """
    # the same memory as whole numbers; loops that touch only one of the two are what the compiler vectorises
    x, n, x_bits, n_bits = scratch.x, scratch.n, scratch.x.view(np.int64), scratch.n.view(np.int64)
    for i in range(count):
        value = x[i] if x[i] > _SMALLEST_EXPONENT else _SMALLEST_EXPONENT
        shifted = value * _LOG2_E + _ROUND
        n[i] = shifted
        whole = shifted - _ROUND
        r = (value - whole * _LN2_HIGH) - whole * _LN2_LOW
        series = 1.0 / 6227020800.0
        series = series * r + 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        x[i] = series * r + 1.0
    for i in range(count):
        x_bits[i] += n_bits[i] << 52  # the low bits of ``shifted`` are the whole number


@kernel
def log_from_one(scratch, count):
    """x <- ln x for finite numbers of at least 1.

    Absolute error below 1e-15 (1 + ln x): x = 2^n m, sqrt(1/2) <= m < sqrt(2), ln m = 2 artanh((m - 1) / (m + 1)).
    """
    # the same memory as whole numbers; loops that touch only one of the two are what the compiler vectorises
    x, n, x_bits, n_bits = scratch.x, scratch.n, scratch.x.view(np.int64), scratch.n.view(np.int64)
    for i in range(count):
        # adding 1 - sqrt(1/2) in bits carries into the exponent where the mantissa is above sqrt(2)
        raised = x_bits[i] + _TO_SQRT2
        n_bits[i] = (raised >> 52) | _TWO_TO_52_BITS
        x_bits[i] = (raised & _MANTISSA) + _SQRT_HALF
    for i in range(count):
        whole = n[i] - _TWO_TO_52 - 1023.0
        m = x[i]
        s = (m - 1.0) / (m + 1.0)
        z = s * s
        series = 2.0 / 21.0
        series = series * z + 2.0 / 19.0
        series = series * z + 2.0 / 17.0
        series = series * z + 2.0 / 15.0
        series = series * z + 2.0 / 13.0
        series = series * z + 2.0 / 11.0
        series = series * z + 2.0 / 9.0
        series = series * z + 2.0 / 7.0
        series = series * z + 2.0 / 5.0
        series = series * z + 2.0 / 3.0
        x[i] = whole * _LN2_HIGH + (whole * _LN2_LOW + s * (series * z + 2.0))


@kernel
def gamma_ratio(a, out, count):
    """out <- Gamma(a + 1/2) / Gamma(a) for a >= 1/2; relative error below 1e-9.

    Seven steps of the recurrence, then the asymptotic series at a + 7.
    """
    for i in range(count):
        x = a[i]
        upper = x * (x + 1.0) * (x + 2.0) * (x + 3.0) * (x + 4.0) * (x + 5.0) * (x + 6.0)
        lower = (x + 0.5) * (x + 1.5) * (x + 2.5) * (x + 3.5) * (x + 4.5) * (x + 5.5) * (x + 6.5)
        x = x + 7.0
        z = 1.0 / x
        series = 869.0 / 4194304.0
        series = series * z - 399.0 / 262144.0
        series = series * z - 21.0 / 32768.0
        series = series * z + 5.0 / 1024.0
        series = series * z + 1.0 / 128.0
        series = series * z - 1.0 / 8.0
        out[i] = np.sqrt(x) * (series * z + 1.0) * (upper / lower)
