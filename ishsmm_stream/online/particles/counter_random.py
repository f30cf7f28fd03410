"""Random numbers that are a function of (seed, time, slot, purpose): a stream gives the same answers whatever batches
it arrives in.

A key is mixed into the state of a small generator (Doty-Humphrey's sfc32), which then gives as many numbers as the
purpose needs. All arithmetic is on words of 32 bits held in int64, so that compiled code, which wraps around silently,
and plain Python, which does not wrap, agree.
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import SMALLEST_LOG, log_add

# Purposes: what a number is drawn for.
HYPERPARAMETERS, BIRTH, RESAMPLING = 0, 1, 2
_PURPOSES = 4

_WORD = 0xFFFFFFFF
_MIXING_ROUNDS = 15  # what the generator's author asks for after seeding
_ODD = 0x9E3779B1
_LOG_TINY_SHAPE = -650.0


def seed_words(seed: int) -> np.ndarray:
    """A seed of any size as two words of 32 bits. Plain Python."""
    return np.random.SeedSequence(seed).generate_state(2, np.uint32).astype(np.int64)


def make_stream() -> np.ndarray:
    """The state of a generator, to be set by ``key``. Plain Python."""
    return np.zeros(4, dtype=np.int64)


@kernel
def key(stream, seed, time, slot, purpose):
    """Set ``stream`` to the first number of a key; ``seed`` from ``seed_words``."""
    stream[0] = seed[0]
    stream[1] = seed[1] ^ (time & _WORD)
    stream[2] = (slot * _PURPOSES + purpose + (time >> 32) * _ODD) & _WORD
    stream[3] = 1
    for _ in range(_MIXING_ROUNDS):
        word(stream)


@kernel
def word(stream):
    """A whole number below 2^32."""
    a, b, c, counter = stream[0], stream[1], stream[2], stream[3]
    result = (a + b + counter) & _WORD
    stream[0] = b ^ (b >> 9)
    stream[1] = (c + (c << 3)) & _WORD
    stream[2] = (((c << 21) & _WORD | (c >> 11)) + result) & _WORD
    stream[3] = (counter + 1) & _WORD
    return result


@kernel
def uniform(stream):
    """A number in [0, 1) with 53 random bits."""
    high = word(stream) >> 5
    return (high * 67108864.0 + (word(stream) >> 6)) / 9007199254740992.0


@kernel
def shuffle(stream, items, count):
    """Put the first ``count`` items into a random order (Fisher and Yates)."""
    for i in range(count - 1, 0, -1):
        j = (word(stream) * (i + 1)) >> 32
        items[i], items[j] = items[j], items[i]


@kernel
def _normal(stream):
    """Marsaglia's polar method; the second number of the pair is not kept."""
    while True:
        x = 2.0 * uniform(stream) - 1.0
        y = 2.0 * uniform(stream) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square)


@kernel
def _draw_log_gamma_from_one(stream, shape):
    """``draw_log_gamma`` for shape >= 1 (Marsaglia and Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = _normal(stream)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            if math.log(1.0 - uniform(stream)) < 0.5 * x * x + d - d * v + d * math.log(v):
                return math.log(d) + math.log(v)


@kernel
def draw_log_gamma(stream, shape):
    """ln of a Gamma(shape, 1) variate, without underflow at small shapes; shape 0 is the point mass at zero."""
    if shape <= 0.0:
        return -np.inf
    if shape >= 1.0:
        return _draw_log_gamma_from_one(stream, shape)
    # G(shape) = G(shape + 1) U^(1/shape) in law
    log_value = _draw_log_gamma_from_one(stream, shape + 1.0) + math.log(1.0 - uniform(stream)) / shape
    return max(log_value, SMALLEST_LOG)


@kernel
def draw_log_beta(stream, log_a, log_b):
    """(ln x, ln(1 - x)) of a Beta(a, b) variate, as ``_special.draw_log_beta``: parameters may be below any double."""
    if log_a < _LOG_TINY_SHAPE and log_b < _LOG_TINY_SHAPE:
        if math.log(1.0 - uniform(stream)) < log_a - log_add(log_a, log_b):
            return 0.0, SMALLEST_LOG
        return SMALLEST_LOG, 0.0
    first = draw_log_gamma(stream, math.exp(log_a))
    second = draw_log_gamma(stream, math.exp(log_b))
    total = log_add(first, second)
    return max(first - total, SMALLEST_LOG), max(second - total, SMALLEST_LOG)
