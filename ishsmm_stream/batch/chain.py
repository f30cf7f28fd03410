"""One Markov chain: the blocks of the Gibbs sampler in their order."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream.batch import beam as beams
from ishsmm_stream.batch import hierarchy, moves, segments, starts, weights
from ishsmm_stream.batch.starts import Trajectory
from ishsmm_stream.model.durations import Fixed
from ishsmm_stream.model.durations import family as duration_family
from ishsmm_stream.model.emissions import family as emission_family
from ishsmm_stream.model.presets import Model
from ishsmm_stream.model.topology import is_left_to_right

# Slots beyond the instantiated states that are filled from the prior before the beam asks for them.
_SPARE_SLOTS = 3
# Moves of whole segments and states in a sweep: they shall cost a fifth of it.
_FEWEST_MOVES, _LENGTH_PER_MOVE = 4, 400
# A long series starts from what these many sweeps find in these many first observations.
_FIRST_LENGTH = 500
_FIRST_SWEEPS = 100


class StateLimitError(RuntimeError):
    """The sampler needed more states than ``max_states``. Cutting them off would bias the answer, so it stops."""


class Draw(NamedTuple):
    """One draw from the posterior. States are numbered as the chain had them."""

    starts: np.ndarray  # (segments,) first index of each segment
    labels: np.ndarray  # (segments,) its state
    theta: np.ndarray  # (states, numbers) emission parameters
    lam: np.ndarray  # (states, numbers) duration parameters
    hyper: np.ndarray  # (5,) alpha0, alpha1, c, d, rho
    log_joint: float
    emission: Any  # the prior of theta, with the numbers that the states share as they were drawn
    outliers: np.ndarray  # indices of the readings that belong to no state
    log_mass: float = math.nan  # see ``Chain.sweep``

    def states(self, length: int) -> np.ndarray:
        """Return the state of each of the ``length`` observations."""
        return np.repeat(self.labels, np.diff(self.starts, append=length))


class Chain:
    """A chain over trajectories and everything above them; ``sweep`` is one round of all blocks.

    ``y`` is (length, channels), checked. All randomness comes from ``rng``. ``readings`` are the data; in ``y`` those
    that are outliers at the moment are missing.

    A trajectory is ``starts`` and ``labels``, the first index and the state of each segment, with ``last_r`` the
    remaining count of the last one. ``count`` states are instantiated; ``filled`` slots of ``theta`` and ``lam`` hold
    parameters, those from ``count`` on being prior draws for states that the beam may instantiate.
    """

    def __init__(
        self,
        model: Model,
        y: np.ndarray,
        rng: np.random.Generator,
        *,
        temperature: float = 3.0,
        paper_slice: bool = False,
        max_states: int = 512,
        moves: int | None = None,
        first: Trajectory | None = None,
    ) -> None:
        self.model = model
        self.emission = model.emission
        self.readings = y
        self.y = starts.without_isolated(y) if model.outliers else y
        self.rng = rng
        self.temperature = temperature
        self.paper_slice = paper_slice
        self.rules = weights.make_rules(model, max_states)
        self.max_states = self.rules.allowed.shape[1]
        has_moves = self.rules.index_free and not isinstance(model.duration, Fixed)
        wanted = max(_FEWEST_MOVES, len(y) // _LENGTH_PER_MOVE) if moves is None else moves
        self.moves = wanted if has_moves else 0  # per sweep
        self.weights = weights.make_weights(model, self.max_states)
        self.rows = weights.make_rows(self.rules)
        self._refresh_indices = is_left_to_right(model.topology)
        self._starts_buffer = np.empty(len(y), dtype=np.int64)
        self._labels_buffer = np.empty(len(y), dtype=np.int64)
        self._begin_with(first or self._first_guess())
        self._first_weights()
        slots = min(self.max_states, 2 * (self.count + _SPARE_SLOTS))
        self.theta = np.zeros((slots, emission_family.params_size(model.emission)))
        self.lam = np.zeros((slots, duration_family.params_size(model.duration)))
        self.beam = beams.make_beam(len(y), slots, len(y), emission_family.has_first_law(model.emission))
        self._update_hierarchy()
        self._update_parameters()

    def sweep(self, weigh: bool = False) -> None:
        """Update the trajectory by the beam, then everything above it given the trajectory.

        With ``weigh``, ``log_mass`` becomes an estimate of ln p(y, the explanations around this one): ``log_joint``
        less ln P(trajectory | parameters, y). For every trajectory z, ln p(y, z) - ln P(z | y) is ln p(y); given the
        parameters, the second term knows only the explanations that the chain visits at the moment. It changes by one
        or two from sweep to sweep where ``log_joint`` changes by ten, so modes can be compared by it.
        """
        self._update_trajectory()
        if weigh:
            self.log_mass = self.log_joint() - self._log_trajectory
        self._update_outliers()
        self._update_hierarchy()
        self._update_shared()
        self._update_parameters()

    def see(self, y: np.ndarray) -> np.ndarray:
        """Go on with other readings; return those that the chain had. Not for models with outliers."""
        before, self.y, self.readings = self.y, y, y
        self._update_parameters()
        return before

    def draw(self) -> Draw:
        """The chain's state now."""
        return Draw(
            self.starts.astype(np.int32),
            self.labels.astype(np.int32),
            self.theta[: self.count].copy(),
            self.lam[: self.count].copy(),
            self.weights.hyper.copy(),
            self.log_joint(),
            self.emission,
            self._outliers().astype(np.int32),
            self.log_mass,
        )

    def log_joint(self) -> float:
        """ln p(y, segments, labels, outliers | gamma, hyperparameters) with theta, lambda and the rows integrated out.

        Numbers that the states share count as hyperparameters. Where no state returns, the labels say nothing and are
        left out.
        """
        model = self.model
        total = segments.log_data(self.emission, self.y, self.starts, self.labels, self.count)
        total += segments.log_dwells(model.duration, len(self.y), self.starts, self.labels, self.count)
        if not model.is_renewal:
            total += hierarchy.log_labels(self.rules, self.weights, self.labels, self.count)
        if self.model.outliers:
            total += self._log_odds()[self._outliers()].sum()
        return float(total)

    # The first guess

    def _first_guess(self) -> Trajectory:
        most = min(starts.MOST_STATES, self.max_states)
        known = self._states_of_the_first_observations(most)
        return starts.by_observation(self.rng, self.model, self.y, known, most)

    def _begin_with(self, first: Trajectory) -> None:
        """Take the guess where the topology lets it stand, one segment elsewhere."""
        self.starts, self.labels = first
        if self._refresh_indices and len(self.starts) <= starts.MOST_STATES:
            self.labels = np.arange(len(self.starts))  # no state returns
        if not self.rules.allowed[self.labels[:-1] + 1, self.labels[1:]].all():
            self.starts = np.zeros(1, dtype=np.int64)
            self.labels = np.zeros(1, dtype=np.int64)
        self.last_r = 0
        self._log_trajectory = 0.0
        self.log_mass = -np.inf

    def _states_of_the_first_observations(self, most: int) -> np.ndarray:
        """None for a short series, or where they are more than ``most``.

        In a long series two states that are one take hundreds of sweeps to merge, in its beginning a few.
        """
        if len(self.y) < 2 * _FIRST_LENGTH or self.model.is_renewal:
            return np.empty(0, dtype=np.int64)
        beginning = Chain(
            self.model, self.y[:_FIRST_LENGTH], self.rng, temperature=self.temperature, max_states=self.max_states
        )
        for _ in range(_FIRST_SWEEPS):
            beginning.sweep()
        self.emission = beginning.emission
        lengths = np.diff(beginning.starts, append=_FIRST_LENGTH)
        _, labels = np.unique(beginning.labels, return_inverse=True)
        return np.repeat(labels, lengths) if labels.max() < most else np.empty(0, dtype=np.int64)

    def _first_weights(self) -> None:
        self.count = weights.reset_weights(self.rng, self.rules, self.weights)
        needed = max(int(self.labels.max()) + 1, int(self.rules.horizon[self.labels + 1].max()))
        while self.count < needed:
            weights.break_stick(self.rng, self.rules, self.weights, self.count)
            self.count += 1

    # The blocks

    def _update_trajectory(self) -> None:
        """Beam: slices given the trajectory, forward filter, a new trajectory drawn backward."""
        paper_slice = self.paper_slice and self._draw_paper_slices()
        answer, time = beams.NEEDS_STATES, 0
        while answer == beams.NEEDS_STATES:
            answer, time, self.count, found, log_probability = beams.draw_trajectory(
                self.rng, self.rules, self.weights, self.rows, self.beam, self.temperature, paper_slice, time,
                self.count, self.filled, self.starts, self.labels, self._starts_buffer, self._labels_buffer,
            )  # fmt: skip
            if answer == beams.NEEDS_STATES:
                self._fill_more_slots(paper_slice)
        if found > 0:  # otherwise no path had weight for doubles: the trajectory stays as it is
            self.starts = self._starts_buffer[-found:].copy()
            self.labels = self._labels_buffer[-found:].copy()
            self._log_trajectory = log_probability

    def _update_outliers(self) -> None:
        """Which readings are outliers, one after the other, given the trajectory and theta."""
        if self.model.outliers:
            segments.draw_outliers(
                self.rng, self.emission, self.theta, self.starts, self.labels, self.readings, self._log_odds(), self.y
            )

    def _outliers(self) -> np.ndarray:
        return np.flatnonzero(np.isnan(self.y[:, 0]) & ~np.isnan(self.readings[:, 0]))

    def _log_odds(self) -> np.ndarray:
        """ln(share p(reading | outlier) / (1 - share)) of each reading."""
        assert self.model.outliers
        share, location, width = self.model.outliers
        ratios = (self.readings[:, 0] - location) / width
        return np.log(share / (1.0 - share) / (np.pi * width)) - np.log1p(ratios * ratios)

    def _update_hierarchy(self) -> None:
        """Weights, rows and hyperparameters, after moves of whole segments and states."""
        if self.moves > 0:
            self.starts, self.labels, self.count = moves.move_and_update(
                self.rng, self.emission, self.model.duration, self.rules, self.weights, self.rows, self.y,
                self.starts, self.labels, self.count, self.moves,
            )  # fmt: skip
        else:
            self.count = hierarchy.update_hierarchy(
                self.rng, self.rules, self.weights, self.rows, self.labels, self.count, self._refresh_indices
            )
        if self.count < 0:
            raise self._state_limit()

    def _update_shared(self) -> None:
        """Numbers that the states share, one after the other: theta is integrated out, and drawn anew after this."""
        for name, values in self.model.shared:
            options = [emission_family.with_numbers(self.emission, **{name: value}) for value in values]
            log_weights = np.array(
                [segments.log_data(option, self.y, self.starts, self.labels, self.count) for option in options]
            )
            weights = np.cumsum(np.exp(log_weights - log_weights.max()))
            self.emission = options[int(np.searchsorted(weights, self.rng.random() * weights[-1], side="right"))]

    def _update_parameters(self) -> None:
        """theta and lambda of the instantiated states, and prior draws for a few that may be instantiated next."""
        self.filled = min(self.count + _SPARE_SLOTS, self.max_states)
        self._grow_slots()
        self.last_r = segments.draw_parameters_and_tables(
            self.rng, self.emission, self.model.duration, self.y, self.starts, self.labels,
            self.theta, self.lam, self.beam, self.filled,
        )  # fmt: skip

    # The paper's slice

    def _draw_paper_slices(self) -> bool:
        """Draw slices that cut durations too, with tables that hold every r whose F(r) exceeds the least slice.

        False where a first guess has durations of probability zero, which cannot be cut.
        """
        self._lengthen_tables(self.last_r + 1)
        remaining = np.append(np.diff(self.starts) - 1, self.last_r)
        low, high = self.beam.low[self.labels], self.beam.high[self.labels]
        if not ((low <= remaining) & (remaining < high)).all():
            return False
        beams.draw_slices(
            self.rng, self.temperature, True, self.rows.pi, self.beam.pmf, self.starts, self.labels, self.last_r,
            self.beam.slices, self.beam.log_stay,
        )  # fmt: skip
        self._cover_slices(0)
        return True

    def _cover_slices(self, first: int) -> None:
        threshold = float(np.log(self.beam.slices.min()))
        self._lengthen_tables(segments.longest_table(self.model.duration, self.lam, threshold, first, self.filled))

    def _lengthen_tables(self, needed: int) -> None:
        if needed > self.beam.pmf.shape[1]:
            self.beam = beams.with_tables(self.beam, 2 * needed)
            segments.fill_durations(self.model.duration, self.lam, self.beam, 0, self.filled)

    # Slots

    def _fill_more_slots(self, paper_slice: bool) -> None:
        """More states, drawn from the prior, that the forward filter can instantiate."""
        if self.filled == self.max_states:
            raise self._state_limit()
        first = self.filled
        self.filled = min(2 * self.filled, self.max_states)
        self._grow_slots()
        segments.draw_priors_and_tables(
            self.rng, self.emission, self.model.duration, self.y, self.theta, self.lam, self.beam,
            first, self.filled,
        )  # fmt: skip
        if paper_slice:
            self._cover_slices(first)

    def _grow_slots(self) -> None:
        if self.filled > len(self.theta):
            slots = min(self.max_states, 2 * self.filled)
            self.beam = beams.with_slots(self.beam, slots)
            self.theta = _with_rows(self.theta, slots)
            self.lam = _with_rows(self.lam, slots)

    def _state_limit(self) -> StateLimitError:
        return StateLimitError(
            f"the sampler needed more than max_states = {self.max_states} states; raise max_states, or use a smaller "
            f"temperature or slice='paper', which reach fewer"
        )


def _with_rows(array: np.ndarray, rows: int) -> np.ndarray:
    grown = np.zeros((rows, array.shape[1]))
    grown[: len(array)] = array
    return grown
