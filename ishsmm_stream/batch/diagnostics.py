"""How well chains have mixed: effective sample size and R-hat (Gelman et al., Bayesian Data Analysis, 11.4-11.5)."""

from __future__ import annotations

import numpy as np


def _split(values: np.ndarray) -> np.ndarray:
    """Each chain's two halves as chains of their own, so that a drift shows too."""
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def rhat(values: np.ndarray) -> float:
    """Split R-hat of ``values`` (chains, draws): near 1 where chains agree. NaN for fewer than four draws."""
    values = np.asarray(values, dtype=float)
    if values.shape[1] < 4:
        return float("nan")
    if np.ptp(values) == 0.0:
        return 1.0
    halves = _split(values)
    length = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean()
    between = length * halves.mean(axis=1).var(ddof=1)
    if within == 0.0:
        return float("inf")
    return float(np.sqrt((length - 1) / length + between / (length * within)))


def _autocovariance(chain: np.ndarray) -> np.ndarray:
    """Biased autocovariances at all lags, by FFT."""
    length = len(chain)
    centred = chain - chain.mean()
    spectrum = np.fft.rfft(centred, 2 * length)
    return np.fft.irfft(spectrum * np.conj(spectrum), 2 * length)[:length] / length


def effective_sample_size(values: np.ndarray) -> float:
    """Independent draws that would be worth as much as ``values`` (chains, draws), by Geyer's monotone sequence over
    split chains. NaN for fewer than four draws; the number of draws for a constant."""
    values = np.asarray(values, dtype=float)
    if values.shape[1] < 4:
        return float("nan")
    if np.ptp(values) == 0.0:
        return float(values.size)
    halves = _split(values)
    chains, length = halves.shape
    covariance = np.mean([_autocovariance(chain) for chain in halves], axis=0)
    within = covariance[0] * length / (length - 1.0)
    pooled = covariance[0] + halves.mean(axis=1).var(ddof=1)
    correlation = 1.0 - (within - covariance * length / (length - 1.0)) / pooled
    correlation[0] = 1.0
    pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    kept = np.minimum.accumulate(pairs[: negative[0] if len(negative) else len(pairs)])
    time = max(2.0 * kept.sum() - 1.0, 1.0 / np.log10(chains * length))
    return float(chains * length / time)
