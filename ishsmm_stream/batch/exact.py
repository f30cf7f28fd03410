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

from functools import cached_property
from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream.batch import segmentations, segments
from ishsmm_stream.batch.chain import Draw
from ishsmm_stream.batch.posterior import Posterior
from ishsmm_stream.batch.weights import HYPERPARAMETERS
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.generate import draw_hyperparameters
from ishsmm_stream.model.presets import Model


class ExactPosterior:
    """The exact posterior of a left-to-right model. Made by ``exact_posterior``.

    ``log_evidence``: ln p(y). ``change_probability``: entry t = P(a segment starts at t | y), entry 0 is 1.
    ``n_changes``: entry k = P(k change points | y). ``map_change_points``: starts of the most probable segmentation.
    """

    def __init__(self, y: np.ndarray, model: Model) -> None:
        self.model = model
        self._y = y
        self._log_f, self._log_s = segmentations.dwell_marginals(model.duration, len(y))
        log_a = segmentations.forward(model.emission, y, self._log_f)
        self._log_b, self._best, self._successor = segmentations.backward(model.emission, y, self._log_f, self._log_s)
        self.log_evidence = float(self._log_b[0])
        self.change_probability = np.minimum(np.exp(log_a + self._log_b - self.log_evidence), 1.0)

    @cached_property
    def n_changes(self) -> np.ndarray:
        return segmentations.count_changes(self.model.emission, self._y, self._log_f, self._log_s, self._log_b)

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
        is_start = segmentations.draw_segmentations(
            rng, model.emission, y, self._log_f, self._log_s, self._log_b, draws * chains
        )
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
            starts.astype(np.int32), labels.astype(np.int32), theta, lam, hyper, float(log_joint), model.emission, none,
            self.log_evidence,
        )  # fmt: skip


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
