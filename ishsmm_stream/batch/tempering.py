"""Parallel tempering: chains that see fewer of the readings, and exchange their explanations with their neighbours.

A chain that sees fewer readings moves more freely, and its explanations wander up to the chain that sees all of them.
Rung i sees the readings whose uniform number is below its share, so each rung sees all that the next one sees. Two
rungs exchange trajectory z, weights and shared numbers with the probability that keeps both posteriors as they are,
theta integrated out:

    min(1, p(y_i | z_j) p(y_j | z_i) / (p(y_i | z_i) p(y_j | z_j)))
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ishsmm_stream.batch import segments
from ishsmm_stream.batch.burn_in import Report, burnt_in
from ishsmm_stream.batch.chain import Chain, Draw
from ishsmm_stream.model.presets import Model

# Readings that a rung does not see though the one before does: with many more, neighbours hardly ever exchange.
_FEWER = 40
_LEAST_SHARE = 0.3  # of the readings, on the last rung


def thinned(y: np.ndarray, rungs: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the series as each rung sees it: what it does not see is missing."""
    keys = rng.random((len(y), 1))
    shares = np.linspace(1.0, max(1.0 - _FEWER * (rungs - 1) / len(y), _LEAST_SHARE), rungs)
    return [y] + [np.where(keys < share, y, np.nan) for share in shares[1:]]


def tempered(
    model: Model,
    y: np.ndarray,
    rng: np.random.Generator,
    sweeps: int,
    rungs: int,
    settings: dict[str, Any],
    report: Report,
) -> TemperedChain:
    """Return a tempered chain after burn-in: half of the sweeps each rung for itself, half of them together."""
    alone = sweeps // 2
    # the other rungs' sweeps do not count, but an interrupt must get through
    reports = [report] + [lambda _: report(0)] * (rungs - 1)
    seen = thinned(y, rungs, rng)
    chains = [burnt_in(model, part, rng, alone, settings, tell) for part, tell in zip(seen, reports, strict=True)]
    chain = TemperedChain(chains, rng)
    for _ in range(sweeps - alone):
        chain.sweep()
        report(1)
    return chain


class TemperedChain:
    """Chains by how much they see, all of it first. It is used as a chain is: ``sweep``, then ``draw``."""

    def __init__(self, chains: list[Chain], rng: np.random.Generator) -> None:
        self._chains = chains
        self._rng = rng
        self.exchanged = np.zeros(len(chains) - 1, dtype=np.int64)  # how often neighbours did

    def sweep(self, weigh: bool = False) -> None:
        """Let neighbours exchange their explanations, then sweep every chain."""
        for i in range(len(self._chains) - 1):
            if math.log(1.0 - self._rng.random()) < self._log_ratio(*self._chains[i : i + 2]):
                self._exchange(i)
        for i, chain in enumerate(self._chains):
            chain.sweep(weigh=weigh and i == 0)

    def draw(self) -> Draw:
        """Return the state of the chain that sees all readings."""
        return self._chains[0].draw()

    def _log_ratio(self, a: Chain, b: Chain) -> float:
        return _log_data(a, b.y) + _log_data(b, a.y) - _log_data(a, a.y) - _log_data(b, b.y)

    def _exchange(self, i: int) -> None:
        """Two chains change places and readings."""
        a, b = self._chains[i : i + 2]
        a.see(b.see(a.y))
        self._chains[i : i + 2] = [b, a]
        self.exchanged[i] += 1


def _log_data(chain: Chain, y: np.ndarray) -> float:
    """ln p(y | the chain's trajectory), theta integrated out."""
    return float(segments.log_data(chain.emission, y, chain.starts, chain.labels, chain.count))
