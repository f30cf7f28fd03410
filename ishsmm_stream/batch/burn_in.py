"""Burn-in as a competition: chains begin from different guesses, and the better ones go on.

Guesses are judged by the posterior mass around them, see ``Chain.sweep``, not by the highest log joint: a single
segment has no other explanations beside it, while many short segments have very many that are nearly as good. Which
guess wins depends on the data and the chain's random numbers only. After burn-in the chain is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ishsmm_stream.batch import starts
from ishsmm_stream.batch.chain import Chain
from ishsmm_stream.batch.starts import Trajectory
from ishsmm_stream.model.presets import Model

# What competes: None is a clustering of single observations, a number the mean dwell of segments that are clustered.
# Chosen on the paper's ``comparison`` data; see docs/sampler.md.
_GUESSES = (None, 10.0, 30.0, 100.0, 3.0, 10.0, 30.0, None)
_SHARE = 0.5  # of burn-in
_FEWEST_SWEEPS = 3  # of a guess in a round

Report = Callable[[int], None]


def burnt_in(
    model: Model, y: np.ndarray, rng: np.random.Generator, sweeps: int, settings: dict[str, Any], report: Report
) -> Chain:
    """Return a chain after burn-in: ``sweeps`` of all competitors together.

    ``settings``: those of ``Chain``. With the paper's slice, and where no state returns, nothing competes.
    """
    chain, used = _winner(model, y, rng, sweeps, settings, report)
    for _ in range(sweeps - used):
        chain.sweep()
        report(1)
    return chain


def _winner(
    model: Model, y: np.ndarray, rng: np.random.Generator, sweeps: int, settings: dict[str, Any], report: Report
) -> tuple[Chain, int]:
    """Return the best chain and how many sweeps all of them took. In each round half of them drop out."""
    budget = int(_SHARE * sweeps)
    count = len(_GUESSES)
    while count > 1 and budget < _FEWEST_SWEEPS * count * _rounds(count):
        count //= 2
    if count == 1 or model.is_renewal or settings.get("paper_slice"):
        return Chain(model, y, rng, **settings), 0
    most = min(
        starts.MOST_STATES, settings.get("max_states", starts.MOST_STATES), model.topology.states or starts.MOST_STATES
    )
    guesses = [_guess(guess, model, y, rng, most) for guess in _GUESSES[:count]]
    chains = [Chain(model, y, rng, **settings, first=guess) for guess in guesses]
    per_round = budget // _rounds(count)
    used = 0
    while len(chains) > 1:
        each = per_round // len(chains)
        scores = []
        for chain in chains:
            masses = []
            for i in range(each):
                chain.sweep(weigh=i >= each // 2)
                if i >= each // 2:
                    masses.append(chain.log_mass)
                report(1)
            scores.append(float(np.mean(masses)))
        used += each * len(chains)
        order = np.argsort(scores, kind="stable")[::-1]
        chains = [chains[i] for i in order[: (len(chains) + 1) // 2]]
    return chains[0], used


def _rounds(count: int) -> int:
    return max(count - 1, 1).bit_length()


def _guess(
    mean_dwell: float | None, model: Model, y: np.ndarray, rng: np.random.Generator, most: int
) -> Trajectory | None:
    if mean_dwell is None:
        return None
    seen = starts.without_isolated(y) if model.outliers else y
    return starts.by_segment(rng, model, seen, mean_dwell, most)
