"""The exact posterior where no state returns (ILR-HMM).

The path never visits an index twice, so the segments' parameters are independent draws from their priors whatever the
weights and rows are, and everything but the segmentation integrates out:

    p(y, segments) = prod over complete segments f(D_i) m(block_i)  x  S(D_last) m(block_last)

with f and S the dwell's marginal pmf and survival and m a block's marginal likelihood: a renewal model. Its sums over
segmentations are forward and backward recursions over starts s and ends e, O(T^2) time and O(T) memory:

    A[0] = 0,  A[e] = ln sum_{s<e} e^(A[s] + ln f(e-s) + ln m(s,e))
    B[s] = ln( S(T-s) m(s,T) + sum_{s<e<T} f(e-s) m(s,e) e^B[e] ),   ln Z = B[0]
    P(a segment starts at s | y) = e^(A[s] + B[s] - ln Z)

The paper samples this posterior by beam sampling; that is right too (``sample(..., method="beam")``) and mixes slowly.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import log_add
from ishsmm_stream.batch import segments
from ishsmm_stream.batch.chain import Draw
from ishsmm_stream.batch.posterior import Posterior
from ishsmm_stream.batch.weights import HYPERPARAMETERS
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.generate import draw_hyperparameters
from ishsmm_stream.model.presets import Model

# Fewer than one in 1e18: such counts of change points are left out of the sums.
_NEGLIGIBLE = 1e-18


@owning_kernel
def _dwell_marginals(duration, length):
    """(ln f(D), ln S(D)) for dwells D = 0..length; S(D) = P(dwell >= D)."""
    stats = np.empty(durations.stats_size(duration))
    durations.clear(duration, stats)
    log_f = np.full(length + 1, -np.inf)
    log_s = np.full(length + 1, -np.inf)
    for dwell in range(1, length + 1):
        log_f[dwell] = durations.log_predictive_pmf(duration, stats, dwell - 1)
    log_s[length] = durations.log_predictive_survival(duration, stats, length - 1)
    for dwell in range(length - 1, 0, -1):
        log_s[dwell] = min(0.0, log_add(log_s[dwell + 1], log_f[dwell]))
    return log_f, log_s


@kernel
def _block_marginals(emission, y, start, stats, out):
    """out[e] = ln m(start, e) for e = start + 1..T."""
    emissions.clear(emission, stats)
    total = 0.0
    for t in range(start, y.shape[0]):
        total += emissions.log_predictive(emission, stats, y, t)
        emissions.add(emission, stats, y, t)
        out[t + 1] = total


@owning_kernel
def _forward(emission, y, log_f):
    """A[e] for e = 0..T-1."""
    length = y.shape[0]
    stats = np.empty((length, emissions.stats_size(emission)))
    blocks = np.zeros(length)
    log_a = np.full(length, -np.inf)
    log_a[0] = 0.0
    for t in range(length - 1):
        emissions.clear(emission, stats[t])
        top = -np.inf
        for s in range(t + 1):
            blocks[s] += emissions.log_predictive(emission, stats[s], y, t)
            emissions.add(emission, stats[s], y, t)
            top = max(top, log_a[s] + log_f[t + 1 - s] + blocks[s])
        if top > -np.inf:
            total = 0.0
            for s in range(t + 1):
                total += math.exp(log_a[s] + log_f[t + 1 - s] + blocks[s] - top)
            log_a[t + 1] = top + math.log(total)
    return log_a


@owning_kernel
def _backward(emission, y, log_f, log_s):
    """(B, best, successor): B[s]; the weight of the best segmentation from s on and where its next segment starts
    (T where the segment is the last)."""
    length = y.shape[0]
    stats = np.empty(emissions.stats_size(emission))
    blocks = np.empty(length + 1)
    log_b = np.empty(length)
    best = np.empty(length)
    successor = np.empty(length, dtype=np.int64)
    for s in range(length - 1, -1, -1):
        _block_marginals(emission, y, s, stats, blocks)
        best[s] = log_s[length - s] + blocks[length]
        successor[s] = length
        top = best[s]
        for e in range(s + 1, length):
            step = log_f[e - s] + blocks[e]
            if step + best[e] > best[s]:
                best[s] = step + best[e]
                successor[s] = e
            blocks[e] = step + log_b[e]
            top = max(top, blocks[e])
        total = math.exp(log_s[length - s] + blocks[length] - top)
        for e in range(s + 1, length):
            total += math.exp(blocks[e] - top)
        log_b[s] = top + math.log(total)
    return log_b, best, successor


@owning_kernel
def _count_changes(emission, y, log_f, log_s, log_b):
    """P(k change points), k = 0..T-1: the number of changes carried along the chain of starts.

    Given that a segment starts at s, the next one starts at e with probability f m e^(B[e] - B[s]).
    """
    length = y.shape[0]
    stats = np.empty(emissions.stats_size(emission))
    blocks = np.empty(length + 1)
    arrivals = np.zeros((length, 8))  # arrivals[s, k - lowest[s]] = P(the k-th change is at s)
    lowest = np.zeros(length, dtype=np.int64)
    highest = np.full(length, -1, dtype=np.int64)
    result = np.zeros(length)
    arrivals[0, 0] = 1.0
    highest[0] = 0
    for s in range(length):
        if highest[s] < 0:
            continue
        _block_marginals(emission, y, s, stats, blocks)
        last = math.exp(log_s[length - s] + blocks[length] - log_b[s])
        for k in range(highest[s] + 1):
            result[k] += arrivals[s, k] * last
        for e in range(s + 1, length):
            step = math.exp(log_f[e - s] + blocks[e] + log_b[e] - log_b[s])
            if step > 0.0:
                for k in range(lowest[s], highest[s] + 1):
                    value = arrivals[s, k] * step
                    if value > _NEGLIGIBLE:
                        if k + 1 >= arrivals.shape[1]:
                            wider = np.zeros((length, 2 * arrivals.shape[1]))
                            wider[:, : arrivals.shape[1]] = arrivals
                            arrivals = wider
                        if highest[e] < 0:
                            lowest[e] = k + 1
                        lowest[e] = min(lowest[e], k + 1)
                        highest[e] = max(highest[e], k + 1)
                        arrivals[e, k + 1] += value
    return result


@owning_kernel
def _draw_segmentations(rng, emission, y, log_f, log_s, log_b, draws):
    """``is_start[i, s]`` of ``draws`` independent segmentations, start by start for all draws at once."""
    length = y.shape[0]
    stats = np.empty(emissions.stats_size(emission))
    blocks = np.empty(length + 1)
    is_start = np.zeros((draws, length), dtype=np.bool_)
    is_start[:, 0] = True
    for s in range(length):
        prepared = False
        for i in range(draws):
            if not is_start[i, s]:
                continue
            if not prepared:  # blocks[e] becomes P(the next start is at most e)
                _block_marginals(emission, y, s, stats, blocks)
                total = 0.0
                for e in range(s + 1, length):
                    total += math.exp(log_f[e - s] + blocks[e] + log_b[e] - log_b[s])
                    blocks[e] = total
                prepared = True
            target = rng.random()
            if s + 1 < length and target < blocks[length - 1]:
                below, above = s, length - 1
                while above - below > 1:
                    middle = (below + above) // 2
                    if blocks[middle] > target:
                        above = middle
                    else:
                        below = middle
                is_start[i, above] = True
    return is_start


class ExactPosterior:
    """The exact posterior of a left-to-right model. Made by ``exact_posterior``.

    ``log_evidence``: ln p(y). ``change_probability``: entry t = P(a segment starts at t | y), entry 0 is 1.
    ``n_changes``: entry k = P(k change points | y). ``map_change_points``: starts of the most probable segmentation.
    """

    def __init__(self, y: np.ndarray, model: Model) -> None:
        self.model = model
        self._y = y
        self._log_f, self._log_s = _dwell_marginals(model.duration, len(y))
        log_a = _forward(model.emission, y, self._log_f)
        self._log_b, self._best, self._successor = _backward(model.emission, y, self._log_f, self._log_s)
        self.log_evidence = float(self._log_b[0])
        self.change_probability = np.minimum(np.exp(log_a + self._log_b - self.log_evidence), 1.0)

    @cached_property
    def n_changes(self) -> np.ndarray:
        return _count_changes(self.model.emission, self._y, self._log_f, self._log_s, self._log_b)

    @property
    def map_change_points(self) -> tuple[int, ...]:
        found = []
        s = int(self._successor[0])
        while s < len(self._y):
            found.append(s)
            s = int(self._successor[s])
        return tuple(found)

    @property
    def map_log_joint(self) -> float:
        """ln p(y, the most probable segmentation)."""
        return float(self._best[0])

    def draw(self, draws: int, seed: int = 0, chains: int = 1) -> Posterior:
        """Independent draws from the posterior: segmentations, parameters, and hyperparameters from their priors,
        which the data do not touch. They are dealt out to ``chains``, so that callers see the shape that they know."""
        _checks.whole("draws", draws, at_least=1)
        _checks.whole("chains", chains, at_least=1)
        rng = np.random.default_rng(seed)
        model, y = self.model, self._y
        is_start = _draw_segmentations(rng, model.emission, y, self._log_f, self._log_s, self._log_b, draws * chains)
        made = [self._complete(rng, np.flatnonzero(row)) for row in is_start]
        best = self._complete(rng, np.array([0, *self.map_change_points]))
        return Posterior(model, y, [made[i * draws : (i + 1) * draws] for i in range(chains)], best)

    def _complete(self, rng: np.random.Generator, starts: np.ndarray) -> Draw:
        model, y = self.model, self._y
        count = len(starts)
        labels = np.arange(count)
        theta = np.zeros((count, emissions.params_size(model.emission)))
        lam = np.zeros((count, durations.params_size(model.duration)))
        segments.draw_parameters(rng, model.emission, model.duration, y, starts, labels, theta, lam, count)
        log_joint = segments.log_data(model.emission, y, starts, labels, count) + segments.log_dwells(
            model.duration, len(y), starts, labels, count
        )
        drawn = draw_hyperparameters(model, rng)
        hyper = np.array([drawn[name] for name in HYPERPARAMETERS])
        none = np.empty(0, dtype=np.int32)
        return Draw(
            starts.astype(np.int32), labels.astype(np.int32), theta, lam, hyper, float(log_joint), model.emission, none
        )


def exact_posterior(y: Any, model: Model) -> ExactPosterior:
    """The exact posterior of ``y`` under a model in which no state returns (``ilr``).

    >>> import ishsmm_stream as hs
    >>> model = hs.ilr(hs.emissions.Poisson(shape=1.0, rate=1.0), hs.durations.Poisson(shape=1.0, scale=100.0))
    >>> posterior = hs.exact_posterior(hs.datasets.coal_disasters().counts, model)
    >>> posterior.map_change_points
    (41,)
    """
    if not isinstance(model, Model):
        raise ValueError(f"model must be made by a preset such as ishsmm_stream.ilr, got {model!r}")
    if not model.is_renewal:
        raise ValueError(
            f"exact_posterior takes a model in which no state returns, such as ilr, got {model.name!r}; "
            f"use ishsmm_stream.sample for it"
        )
    return ExactPosterior(emissions.checked_series("y", y, model.emission), model)
