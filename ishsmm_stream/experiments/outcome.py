"""What an experiment hands back, and how it tells how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ishsmm_stream import Model, Posterior
    from ishsmm_stream.batch.chain import Draw

HOLDS = "holds"
FAILS = "does not hold"
_FROM_THE_TRUTH = 50  # draws


class Claim(NamedTuple):
    """One line of the table. The verdict follows from the numbers, it is never written by hand."""

    paper: str
    ours: str
    verdict: str


class Outcome(NamedTuple):
    """The claims, the numbers behind the figures, and the figures by name."""

    claims: list[Claim]
    numbers: dict[str, Any]
    figures: dict[str, Figure]


class Progress(Protocol):
    """Where an experiment says what it is doing; the terminal's progress bar is one."""

    def step(self, description: str, total: int | None = None) -> None: ...

    def reach(self, done: int, total: int | None) -> None: ...


def judged(paper: str, ours: str, holds: Any) -> Claim:
    """A claim of the paper beside what was measured."""
    return Claim(paper, ours, HOLDS if holds else FAILS)


def sampled(progress: Progress, what: str, y: Any, model: Model, **options: Any) -> Posterior:
    """``sample`` with a step of the progress of its own."""
    import ishsmm_stream as hs

    progress.step(what)
    return hs.sample(y, model, progress=progress.reach, **options)


def from_the_truth(
    y: np.ndarray, model: Model, states: np.ndarray, seed: int, burn_in: int, **settings: Any
) -> list[Draw]:
    """Return 50 draws of a chain that begins with the true states: what chains could have found."""
    from ishsmm_stream.batch import starts
    from ishsmm_stream.batch.chain import Chain

    first = starts.from_labels(states, model)
    chain = Chain(model, y[:, np.newaxis], np.random.default_rng(seed), first=first, **settings)
    draws = []
    for i in range(burn_in + _FROM_THE_TRUTH):
        chain.sweep(weigh=i >= burn_in)
        if i >= burn_in:
            draws.append(chain.draw())
    return draws


def plain(value: Any) -> Any:
    """``value`` in types that JSON knows, floats rounded to six digits; what is not finite becomes None."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value


def shares(numbers: Any) -> dict[int, float]:
    """How often each number occurs, as shares of 1."""
    found, counts = np.unique(np.asarray(numbers), return_counts=True)
    return {int(k): float(count) / float(counts.sum()) for k, count in zip(found, counts, strict=True)}


def percent(share: float) -> str:
    return f"{100.0 * share:.0f}%"


def listed(share: dict[int, float], least: float = 0.005) -> str:
    """``share`` in one line: "3: 2%, 4: 98%"."""
    return ", ".join(f"{k}: {percent(p)}" for k, p in sorted(share.items()) if p >= least)
