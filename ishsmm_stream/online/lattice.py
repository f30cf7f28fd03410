"""Streams whose values are multiples of a step: counts, 0/1 signals, coarse readings.

A normal law has a density, and that of a value which repeats exactly grows without bound: rare ones among zeros then
look like new segments. Such streams are therefore *dequantised*: every reading is moved by a random part of its step,
uniform in (-1/2, 1/2), so that the density of the moved readings integrates to the probability of the value. The step
is the greatest common divisor of the moves so far. A value off the lattice makes it smaller; below ``_LEAST_STEP`` the
stream counts as continuous for ever, and nothing is moved.

The random part is a function of the reading's number, so that a stream gives the same answers in whatever batches.
"""

from __future__ import annotations

import math

from ishsmm_stream._jit import kernel

CONTINUOUS = -1.0  # a step: there is none
UNKNOWN = 0.0  # all values were equal: the first that differs will be one unit away, see ``scaling``
_LEAST_STEP = 0.02  # in units of the standardised stream; less is lost in the noise
_LARGEST_RATIO = 1e6  # of a move to the step; beyond, rounding errors would decide
_TOLERANCE = 1e-4  # of a remainder, as a share of the step
_WORD = 0xFFFFFFFF


@kernel
def refine(step, move):
    """Return the step after a move between two readings."""
    if step == CONTINUOUS or move == 0.0:
        return step
    larger, smaller = abs(move), step
    if step == UNKNOWN:
        larger, smaller = 0.0, abs(move)
    elif larger > _LARGEST_RATIO * step:
        return step
    while smaller >= _LEAST_STEP:
        rest = abs(larger - smaller * math.floor(larger / smaller + 0.5))
        if rest <= _TOLERANCE * smaller:
            return smaller
        larger, smaller = smaller, rest
    return CONTINUOUS


@kernel
def step_of(rows):
    """Return the step of the values in the first column, missing ones left out."""
    step, last = UNKNOWN, math.nan
    for row in range(rows.shape[0]):
        value = rows[row, 0]
        if not math.isnan(value):
            if not math.isnan(last):
                step = refine(step, value - last)
            last = value
    return step


@kernel
def part_of_step(time):
    """Return a number in (-1/2, 1/2) that is as good as random (the finaliser of MurmurHash3)."""
    word = (time * 0x9E3779B1 + 1) & _WORD
    word ^= word >> 16
    word = (word * 0x85EBCA6B) & _WORD
    word ^= word >> 13
    word = (word * 0xC2B2AE35) & _WORD
    word ^= word >> 16
    return (word + 0.5) / 4294967296.0 - 0.5
