"""Streams that switch between modes, and streams that have none.

A mode holds its level for a geometric dwell. Inside a dwell readings are an autoregression of order 1 around the level
with a standard deviation of 1; half a percent of the readings are spikes. Neighbouring levels lie ``separation`` to
twice that apart. One more mode appears for the first time after three quarters of the stream.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LENGTH = 10_000
LATE = 0.75  # share of the stream before the new mode
OUTLIER_SHARE, OUTLIER_SIZE = 0.005, 15.0


class Switching(NamedTuple):
    values: np.ndarray
    modes: np.ndarray  # the true mode of each reading
    new_from: int  # first reading of the mode that comes late


def switching(
    seed: int,
    *,
    phi: float = 0.5,
    separation: float = 5.0,
    drift: float = 0.0,
    outliers: float = OUTLIER_SHARE,
    length: int = LENGTH,
) -> Switching:
    """Return a stream of 3 to 6 modes. ``drift``: all levels move by this many standard deviations over the stream."""
    rng = np.random.default_rng([seed, 20])
    count = int(rng.integers(3, 7)) + 1
    levels = np.cumsum(rng.uniform(separation, 2.0 * separation, count))
    new = int(rng.integers(count))
    levels[[new, -1]] = levels[[-1, new]]  # the late mode is the last one, its level anywhere
    dwells = np.exp(rng.uniform(np.log(20.0), np.log(400.0), count))
    rows = rng.dirichlet(np.full(count, 2.0), count)
    np.fill_diagonal(rows, 0.0)
    modes = np.empty(length, dtype=np.int64)
    t, mode, late = 0, 0, int(LATE * length)
    new_from = -1
    while t < length:
        dwell = 1 + int(rng.geometric(1.0 / dwells[mode]))
        modes[t : t + dwell] = mode
        t += dwell
        row = rows[mode].copy()
        if t < late:
            row[-1] = 0.0
        if t >= late and new_from < 0 and t < length:
            mode, new_from = count - 1, t
        else:
            mode = int(rng.choice(count, p=row / row.sum()))
    values = np.empty(length)
    innovation = np.sqrt(1.0 - phi * phi)
    for t in range(length):
        if t == 0 or modes[t] != modes[t - 1]:
            values[t] = rng.normal()
        else:
            values[t] = phi * values[t - 1] + innovation * rng.normal()
    values += levels[modes] + drift * np.arange(length) / length
    spikes = rng.random(length) < outliers
    values[spikes] += OUTLIER_SIZE * rng.standard_normal(spikes.sum())
    return Switching(values, modes, new_from)


def quantised(stream: Switching, step: float) -> Switching:
    return stream._replace(values=np.round(stream.values / step) * step)


def without_modes(kind: str, seed: int, length: int = LENGTH) -> np.ndarray:
    """Return a stream that has no modes."""
    rng = np.random.default_rng([seed, 21])
    noise = rng.standard_normal(length)

    def autoregression(phi: float) -> np.ndarray:
        values = np.empty(length)
        last = noise[0]
        for t in range(length):
            last = phi * last + np.sqrt(1.0 - phi * phi) * noise[t]
            values[t] = last
        return values

    if kind == "iid":
        return noise
    if kind == "t4":
        return rng.standard_t(4, length)
    if kind == "t2":
        return rng.standard_t(2, length)
    if kind == "ar .9":
        return autoregression(0.9)
    if kind == "ar .99":
        return autoregression(0.99)
    if kind == "walk":
        return np.cumsum(noise)
    if kind == "counts":
        return rng.poisson(4.0, length).astype(float)
    if kind == "rare counts":
        return rng.poisson(0.2, length).astype(float)
    if kind == "lognormal":
        return np.exp(noise)
    if kind == "0/1":
        return (rng.random(length) < 0.3).astype(float)
    if kind == "cycle":
        return 3.0 * np.sin(2.0 * np.pi * np.arange(length) / 288.0) + noise
    if kind == "volatility":
        values = np.empty(length)
        variance = 1.0
        for t in range(length):
            values[t] = np.sqrt(variance) * noise[t]
            variance = 0.02 + 0.08 * values[t] ** 2 + 0.9 * variance
        return values
    raise ValueError(kind)


WITHOUT_MODES = (
    "iid", "t4", "t2", "ar .9", "ar .99", "walk", "counts", "rare counts", "lognormal", "0/1", "cycle", "volatility",
)  # fmt: skip
