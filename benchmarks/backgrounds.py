"""Synthetic streams without a fault, of 20 kinds, in blocks so that tens of millions of readings need little memory.

A kind is a function that takes a random generator and yields blocks of readings without end. Each stream keeps its
habits for ever: whatever an alarm on it says, it is a false one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numba import njit
from scipy.signal import lfilter

BLOCK = 1 << 16  # readings
DAY, WEEK = 288, 2_016  # readings at one per 5 minutes
Blocks = Iterator[np.ndarray]
Kind = Callable[[np.random.Generator], Blocks]


def _independent(draw: Callable[[np.random.Generator], np.ndarray]) -> Kind:
    def blocks(rng: np.random.Generator) -> Blocks:
        while True:
            yield np.asarray(draw(rng), dtype=float)

    return blocks


def autoregression(phi: float) -> Kind:
    """Standard deviation 1 in the long run; a random walk with unit steps if ``phi`` is 1."""

    def blocks(rng: np.random.Generator) -> Blocks:
        scale = np.sqrt(1.0 - phi**2) or 1.0
        state = np.array([phi * rng.standard_normal() if phi < 1.0 else 0.0])
        while True:
            values, state = lfilter([1.0], [1.0, -phi], scale * rng.standard_normal(BLOCK), zi=state)
            yield values

    return blocks


def _on_clock(mean: Callable[[np.ndarray], np.ndarray], noise: Kind) -> Kind:
    """A mean that depends on the number of the reading, plus noise."""

    def blocks(rng: np.random.Generator) -> Blocks:
        for number, values in enumerate(noise(rng)):
            yield mean(np.arange(number * BLOCK, (number + 1) * BLOCK)) + values

    return blocks


def _scaled(kind: Kind, factor: float) -> Kind:
    def blocks(rng: np.random.Generator) -> Blocks:
        for values in kind(rng):
            yield factor * values

    return blocks


def _sum(one: Kind, other: Kind) -> Kind:
    def blocks(rng: np.random.Generator) -> Blocks:
        for a, b in zip(one(rng), other(rng), strict=False):
            yield a + b

    return blocks


normal = _independent(lambda rng: rng.standard_normal(BLOCK))


def _day(time: np.ndarray) -> np.ndarray:
    angle = 2.0 * np.pi * (time % DAY) / DAY
    return 3.0 * np.sin(angle) + np.sin(2.0 * angle + 1.0)


def _week(time: np.ndarray) -> np.ndarray:
    """Five working days with the daily cycle, two quiet days at a lower level."""
    is_working_day = time % WEEK < 5 * DAY
    return np.where(is_working_day, _day(time), 0.3 * _day(time) - 2.0)


def _cut(pieces: Iterator[np.ndarray]) -> Blocks:
    """Cut pieces of any length into blocks."""
    kept: list[np.ndarray] = []
    length = 0
    for piece in pieces:
        kept.append(piece)
        length += len(piece)
        if length >= BLOCK:
            values = np.concatenate(kept)
            whole = length - length % BLOCK
            yield from values[:whole].reshape(-1, BLOCK)
            kept, length = [values[whole:]], length - whole


def switching(rng: np.random.Generator) -> Blocks:
    """Three levels, each held for 300 readings on average (geometric), with AR(.5) noise."""

    def pieces() -> Iterator[np.ndarray]:
        mode = 0
        while True:
            modes = (mode + np.cumsum(rng.integers(1, 3, 512))) % 3
            mode = int(modes[-1])
            yield np.repeat(np.array([0.0, 4.0, 10.0])[modes], rng.geometric(1 / 300, 512))

    for level, noise in zip(_cut(pieces()), autoregression(0.5)(rng), strict=False):
        yield level + noise


def duty_cycle(rng: np.random.Generator) -> Blocks:
    """A machine that is on for about 60 readings and off for about 140."""

    def pieces() -> Iterator[np.ndarray]:
        while True:
            lengths = np.column_stack((rng.integers(55, 66, 512), rng.integers(130, 151, 512))).ravel()
            yield np.repeat(np.tile([5.0, 0.0], 512), lengths)

    for level, noise in zip(_cut(pieces()), normal(rng), strict=False):
        yield level + 0.3 * noise


def bursts(rng: np.random.Generator) -> Blocks:
    """Quiet noise, with bursts of about 20 readings every 500 that are 2 to 10 times as loud."""

    def pieces() -> Iterator[np.ndarray]:
        while True:
            lengths = np.column_stack((rng.geometric(1 / 500, 256), rng.geometric(1 / 20, 256))).ravel()
            loudness = np.column_stack((np.ones(256), rng.uniform(2.0, 10.0, 256))).ravel()
            yield np.repeat(loudness, lengths)

    for loudness, noise in zip(_cut(pieces()), normal(rng), strict=False):
        yield loudness * noise


def quantised_drift(rng: np.random.Generator) -> Blocks:
    """A level that wanders over thousands of readings, reported in steps of half its standard deviation."""
    for level, noise in zip(autoregression(0.9995)(rng), normal(rng), strict=False):
        yield np.round(2.0 * (level + 0.05 * noise)) / 2.0


def spikes(rng: np.random.Generator) -> Blocks:
    """A constant, with a spike of exponential height in one of 1,000 readings."""
    while True:
        yield 5.0 + np.where(rng.random(BLOCK) < 1e-3, rng.exponential(3.0, BLOCK), 0.0)


@njit
def _garch_block(noise, variance):
    values = np.empty_like(noise)
    for i in range(len(noise)):
        values[i] = np.sqrt(variance) * noise[i]
        variance = 0.02 + 0.08 * values[i] ** 2 + 0.90 * variance
    return values, variance


def garch(rng: np.random.Generator) -> Blocks:
    """GARCH(1, 1): loud and quiet times follow one another."""
    variance = 1.0
    while True:
        values, variance = _garch_block(rng.standard_normal(BLOCK), variance)
        yield values


wandering = _sum(autoregression(0.99), _scaled(normal, 0.3))
daily = _on_clock(_day, _scaled(autoregression(0.5), 0.5))
weekly = _on_clock(_week, _scaled(autoregression(0.5), 0.5))

KINDS: dict[str, Kind] = {
    "normal": normal,
    "t(4)": _independent(lambda rng: rng.standard_t(4, BLOCK)),
    "t(2)": _independent(lambda rng: rng.standard_t(2, BLOCK)),
    "AR(.5)": autoregression(0.5),
    "AR(.9)": autoregression(0.9),
    "AR(.99)": autoregression(0.99),
    "random walk": autoregression(1.0),
    "trend": _on_clock(lambda time: 1e-4 * time, normal),
    "daily cycle": daily,
    "weekly cycle": weekly,
    "switching": switching,
    "Poisson(3)": _independent(lambda rng: rng.poisson(3.0, BLOCK)),
    "rare 0/1": _independent(lambda rng: rng.random(BLOCK) < 3e-3),
    "fair 0/1": _independent(lambda rng: rng.random(BLOCK) < 0.5),
    "quantised drift": quantised_drift,
    "bursts": bursts,
    "GARCH": garch,
    "lognormal": _independent(lambda rng: rng.lognormal(0.0, 1.0, BLOCK)),
    "duty cycle": duty_cycle,
    "rare spikes": spikes,
}
WITH_HABITS: dict[str, Kind] = {  # slow movements, cycles, modes: where level shifts are hard to tell from habits
    "wandering": wandering,
    "daily cycle": daily,
    "weekly cycle": weekly,
    "switching": switching,
    "quantised drift": quantised_drift,
    "bursts": bursts,
}


def blocks(kind: Kind, seed: int, length: int) -> Blocks:
    """Yield ``length`` readings of a kind in blocks."""
    for values in kind(np.random.default_rng(seed)):
        yield values[:length]
        length -= len(values)
        if length <= 0:
            return


def stream(kind: Kind, seed: int, length: int) -> np.ndarray:
    """Return ``length`` readings of a kind in one array."""
    return np.concatenate(list(blocks(kind, seed, length)))
