"""Streams whose change points are known, drawn from a seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

JUMPS = (1.0, 2.0, 4.0)  # in standard deviations of Gaussian noise


class Stream(NamedTuple):
    values: np.ndarray
    change_points: list[int]  # first observation of every segment but the first
    levels: np.ndarray  # that the noise is around


def noise(rng: np.random.Generator, length: int, kind: str) -> np.ndarray:
    """Unit variance: Gaussian, or Student-t with 4 degrees of freedom divided by its standard deviation."""
    return rng.standard_t(4, length) / np.sqrt(2.0) if kind == "t4" else rng.standard_normal(length)


def piecewise_constant(seed: int, length: int = 20_000, kind: str = "gaussian", scale: float = 1.0) -> Stream:
    """Levels that jump by 1, 2 or 4 in either direction, each level held for 50 to 500 observations."""
    rng = np.random.default_rng(seed)
    level = np.zeros(length)
    change_points = []
    begin = int(rng.integers(50, 501))
    while begin < length:
        change_points.append(begin)
        level[begin:] += rng.choice(JUMPS) * rng.choice((-1.0, 1.0))
        begin += int(rng.integers(50, 501))
    return Stream(scale * (level + noise(rng, length, kind)), change_points, scale * level)


def quiet(seed: int, length: int = 100_000, kind: str = "gaussian") -> Stream:
    return Stream(noise(np.random.default_rng(seed), length, kind), [], np.zeros(length))


def single_step(seed: int, jump: float, at: int = 500, length: int = 5_500) -> Stream:
    levels = np.where(np.arange(length) < at, 0.0, jump)
    return Stream(levels + np.random.default_rng(seed).standard_normal(length), [at], levels)


def most_likely_places(stream: Stream) -> list[int]:
    """Where one would place each change who knows the levels around it, the changes next to it, and that the noise is
    Gaussian: nobody who has to learn these can be expected to do better."""
    edges = [0, *stream.change_points, len(stream.values)]
    found = []
    for first, change, end in zip(edges, edges[1:], edges[2:], strict=False):
        values, before, after = stream.values[first:end], stream.levels[change - 1], stream.levels[change]
        gain = (values - before) ** 2 - (values - after) ** 2  # of the level after over the one before, a reading each
        found.append(first + 1 + int(np.argmax(np.cumsum(gain[:0:-1])[::-1])))
    return found
