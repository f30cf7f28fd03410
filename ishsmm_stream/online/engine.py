"""What an engine is: the inference behind a detector. There are three.

``renewal`` is for models in which no state returns: an exact filter over run lengths. ``particles`` is for models
with given priors whose states return: weighted chains. ``regimes`` is for ``model="recurring"``: chains that learn what
the states share. An engine follows the stream as the intake hands it on, in units that suit its priors.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ishsmm_stream.online.alarms import AlarmPolicy
from ishsmm_stream.online.intake import Batch
from ishsmm_stream.online.rarity import Tracker
from ishsmm_stream.online.results import ChangePoint, StateEstimate


class BatchResult(NamedTuple):
    """What came of a batch: an entry for each detector, and the rows of all of them, one detector after the other."""

    readings: np.ndarray  # how many were taken,
    complete: np.ndarray  # how many of them have a value
    event_ends: np.ndarray  # where the detector's rows of ``events`` end
    settled_ends: np.ndarray
    events: np.ndarray  # rows of ``alarms``' event buffer
    settled: np.ndarray  # change points that are no longer revised, as rows


class StartPosterior(NamedTuple):
    """P(the current segment began at s | y). Lists: there are a few dozen, for which arrays are slow."""

    indices: list[int]  # ascending
    weights: list[float]  # their probabilities

    def between(self, first: int, end: float = math.inf) -> float:
        """Return P(it began with observation ``first`` or later, and before ``end``)."""
        return math.fsum(self.weights[bisect_left(self.indices, first) : bisect_left(self.indices, end)])

    def run_length(self, time: int, quantiles: Sequence[float]) -> tuple[int, ...]:
        """Return quantiles of the number of observations in the segment, ``time`` after the first of all."""
        cumulative = list(itertools.accumulate(reversed(self.weights)))  # from the newest on
        backs = [min(bisect_left(cumulative, quantile), len(cumulative) - 1) for quantile in quantiles]
        return tuple(time - self.indices[-1 - back] for back in backs)


class Engine(Protocol):
    """The inference of one detector."""

    emission: Any

    # Observations in

    @property
    def batch_key(self) -> Hashable | None:
        """What engines have in common that one ``extend`` can serve; None if each is served alone."""

    @property
    def slot_number(self) -> int:
        """Which slot of a batch's shared memory is this engine's."""

    def begin(self, first_rows: np.ndarray) -> None:
        """Look at the first rows of the stream before they are taken in."""

    def extend(self, batch: Batch, policy: AlarmPolicy, stops: bool) -> BatchResult:
        """Take a batch in: readings of this engine, or of several with its ``batch_key``.

        With ``stops``, each detector takes its readings up to the first that causes an event. The batch's entries for
        units, repeats and alarm states are updated in place.
        """

    def forget_answers(self) -> None:
        """Drop what was computed for questions: observations came."""

    # Answers

    @property
    def tracker(self) -> Tracker:
        """How unusual the newest reading is, and the open alarm."""

    @property
    def time(self) -> int:
        """Observations seen."""

    @property
    def log_evidence(self) -> float:
        """ln p(y) so far, or the logarithm of an unbiased estimate."""

    @property
    def discarded(self) -> float:
        """Mass of the hypotheses that were dropped to bound the work, added up."""

    @property
    def effective_sample_size(self) -> float | None:
        """Effective number of particles; None if the engine is exact."""

    def n_states(self, change_points: int) -> int:
        """Return the number of states so far, of a stream with this many change points."""

    def starts(self) -> StartPosterior:
        """Return where the current segment may have begun."""

    def change_probability(self) -> np.ndarray:
        """Return P(a change at t | y) over the lag, oldest first."""

    def open_change_points(self) -> list[ChangePoint]:
        """Return the change points that are not settled yet."""

    def state(self, change_points: list[ChangePoint], make_rng: Callable[[], np.random.Generator]) -> StateEstimate:
        """Return the state that the stream is in. ``make_rng`` makes a generator for parameters that are drawn."""

    def simulate(self, steps: int, draws: int, recent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return continuations of the stream (draws, steps, channels); ``recent``: its last rows."""

    # Snapshots

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything that the next observation depends on, by name, but the tracker."""

    def check_arrays(self, arrays: dict[str, np.ndarray]) -> int:
        """Raise SnapshotError unless ``arrays`` can be those of an engine with these settings. Returns its time."""

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Become what checked ``arrays`` describe."""
