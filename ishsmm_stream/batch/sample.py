"""Posterior sampling of any model: chains, threads and progress."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream.batch.burn_in import burnt_in
from ishsmm_stream.batch.chain import Chain, Draw
from ishsmm_stream.batch.exact import ExactPosterior
from ishsmm_stream.batch.posterior import ConvergenceWarning, Posterior
from ishsmm_stream.batch.tempering import TemperedChain, tempered
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.presets import Model, recurring

DrawsDone = Callable[[int, int], None]


def sample(
    y: Any,
    model: Model,
    *,
    draws: int = 1000,
    burn_in: int = 100,
    chains: int = 4,
    seed: int = 0,
    temperature: float = 3.0,
    slice: str | None = None,
    method: str = "auto",
    progress: bool | DrawsDone = False,
    max_states: int = 512,
    rungs: int = 1,
) -> Posterior:
    """Draw from the posterior of ``model`` given ``y`` (length, or length x channels; NaN = missing).

    ``method``: "auto" draws exactly and independently where no state returns (``ilr``) and runs the beam sampler
    elsewhere; "beam" runs the paper's sampler for every model.
    ``slice``: "transition" cuts transition probabilities only (faster, mixes better), "paper" cuts durations too, as
    the paper does; the default is "transition", except where no state returns: there it reaches ever more states.
    ``temperature``: K of the slices' Beta(1/K, K); more reaches farther in a sweep at more work.
    ``progress``: True for a bar on the terminal, or a function called with (done, total).
    ``max_states``: a limit that raises StateLimitError when it is met; it never cuts silently.
    ``rungs``: above 1, parallel tempering: with each chain go ``rungs - 1`` others, each of which sees 40 readings
    fewer, and neighbours exchange their explanations. It costs ``rungs`` times as much.

    The first half of burn-in is a competition of eight guesses per chain (fewer if ``burn_in`` is below 144); the
    paper's slice begins from one guess. If chains disagree all the same, ``sample`` warns (``ConvergenceWarning``).

    The result depends on the data, the model and ``seed`` only, not on the number of threads.
    """
    if not isinstance(model, Model):
        raise ValueError(f"model must be made by a preset such as ishsmm_stream.ied, got {model!r}")
    _checks.whole("draws", draws, at_least=1)
    _checks.whole("burn_in", burn_in, at_least=0)
    _checks.whole("chains", chains, at_least=1)
    _checks.whole("seed", seed, at_least=0)
    _checks.whole("max_states", max_states, at_least=1)
    _checks.whole("rungs", rungs, at_least=1)
    _checks.positive("temperature", temperature)
    _checks.one_of("method", method, ("auto", "beam"))
    if slice is None:
        slice = "paper" if model.is_renewal else "transition"
    _checks.one_of("slice", slice, ("transition", "paper"))
    data = emissions.checked_series("y", y, model.emission)
    if model.is_renewal and method == "auto":
        with _reporter(progress, draws * chains) as report:
            posterior = ExactPosterior(data, model).draw(draws, seed, chains)
            report(draws * chains)
        return posterior
    if emissions.is_segment_local(model.emission):
        raise ValueError(
            f"{type(model.emission).__name__} with a trend inside segments can only be used where no state returns and "
            f"method='auto' (ilr), got model {model.name!r} with method {method!r}"
        )
    if rungs > 1 and model.outliers:
        raise ValueError(
            f"rungs > 1 is for models without outliers, got model {model.name!r}; use rungs=1, more chains"
        )
    settings = {"temperature": float(temperature), "paper_slice": slice == "paper", "max_states": max_states}
    with _reporter(progress, chains * (burn_in + draws)) as report:

        def run(seeds: np.random.SeedSequence) -> list[Draw]:
            rng = np.random.default_rng(seeds)
            chain: Chain | TemperedChain
            if rungs == 1:
                chain = burnt_in(model, data, rng, burn_in, settings, report)
            else:
                chain = tempered(model, data, rng, burn_in, rungs, settings, report)
            kept: list[Draw] = []
            for _ in range(draws):
                chain.sweep(weigh=True)
                kept.append(chain.draw())
                report(1)
            return kept

        with ThreadPoolExecutor(min(chains, os.cpu_count() or 1)) as pool:
            results = list(pool.map(run, np.random.SeedSequence(seed).spawn(chains)))
    posterior = Posterior(model, data, results)
    for warning in posterior.disagreements():
        warnings.warn(warning, ConvergenceWarning, stacklevel=2)
    return posterior


def fit(model: str, y: Any, **settings: Any) -> Posterior:
    """Draw from the posterior of a model that needs no priors: "recurring", as ``OnlineDetector("recurring")`` has it.

    Units come from ``y``, see ``recurring``; ``settings`` are those of ``sample``. Chains can stay at different
    explanations for long: run several, and read ``map``, the explanation with the highest log joint of all.
    """
    _checks.one_of("model", model, ("recurring",))
    return sample(y, recurring(y), **settings)


class _reporter:
    """Counts sweeps of all chains and passes them on to a function or a bar; used as a context."""

    def __init__(self, progress: bool | DrawsDone, total: int) -> None:
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self._bar: Any = None
        self._tell: DrawsDone | None = None
        if callable(progress):
            self._tell = progress
        elif progress:
            from rich.progress import Progress as Bar

            self._bar = Bar(transient=True)
            task = self._bar.add_task("sampling", total=total)
            self._tell = lambda done, total: self._bar.update(task, completed=done)

    def __enter__(self) -> Callable[[int], None]:
        if self._bar:
            self._bar.start()
        return self._report

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def _report(self, steps: int) -> None:
        if self._tell:
            with self._lock:
                self._done += steps
                self._tell(self._done, self._total)
