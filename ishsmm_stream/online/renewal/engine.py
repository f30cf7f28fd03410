"""The renewal engine, for models in which no state returns: run-length filter, alarms and settled change points."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream.online import alarms, change_points, episodes, intake, lattice, rarity
from ishsmm_stream.online.alarms import AlarmPolicy, AlarmState
from ishsmm_stream.online.engine import BatchResult, StartPosterior
from ishsmm_stream.online.intake import REPEATS, STANDARDISED, Batch
from ishsmm_stream.online.renewal import adaptive, forecasting, predictors, run_length, smoothing
from ishsmm_stream.online.renewal import normal_predictor as normal_predictor  # registers itself
from ishsmm_stream.online.renewal.hazard import Hazard
from ishsmm_stream.online.renewal.pool import Pool
from ishsmm_stream.online.renewal.run_length import COUNT, DISCARDED, LOG_EVIDENCE, TIME
from ishsmm_stream.online.results import ChangePoint, StateEstimate
from ishsmm_stream.online.validation import refuse_others

# The most probable path is searched for change points to settle once in so many observations, in a short lag more
# often: a change point is looked at while it is in the oldest quarter.
SETTLE_EVERY = 8


class Scratch(NamedTuple):
    """Work space of a step: of the filter, of settling, and of the posterior of the current segment's start, by
    ascending starts, as the alarm policy reads it."""

    step: run_length.StepScratch
    path: np.ndarray
    starts: np.ndarray
    weights: np.ndarray
    parents: np.ndarray
    levels: np.ndarray
    noises: np.ndarray


@owning_kernel
def _make_scratch(cap, grid, lag):
    longest = smoothing.longest_path(lag)
    step = run_length.StepScratch(np.empty(grid), np.empty(cap), np.empty(cap))
    path, starts, parents = np.empty(longest, np.int64), np.empty(cap, np.int64), np.empty(cap, np.int64)
    return Scratch(step, path, starts, np.empty(cap), parents, np.empty(cap), np.empty(cap))


@kernel
def _posterior_of_start(emission, memory, filter, asks_level, scratch):
    """The hypotheses in the order of their starts. Returns the heaviest start."""
    starts, weights, parents = scratch.starts, scratch.weights, scratch.parents
    count = filter.clock[COUNT]
    heaviest = 0
    for i in range(count):
        position = filter.order[i]
        starts[i] = filter.start[position]
        weights[i] = filter.weight[position]
        parents[i] = filter.slot_before[filter.slot[position]]
        if weights[i] > weights[heaviest]:
            heaviest = i
        if asks_level:
            scratch.levels[i], scratch.noises[i] = predictors.level_and_noise(emission, memory, position)
    return starts[heaviest]


@kernel
def _jump(emission, memory, filter, scratch, index):
    """Return by how many standard deviations of the noise the level moved at the change announced at ``index``, from
    the heaviest hypotheses on both sides; nan if the family has no level."""
    count = filter.clock[COUNT]
    before, after = -1, -1
    for i in range(count):
        if scratch.starts[i] >= index:
            after = i if after < 0 or scratch.weights[i] > scratch.weights[after] else after
        else:
            before = i if before < 0 or scratch.weights[i] > scratch.weights[before] else before
    if before < 0 or after < 0:
        return np.nan
    level_before, _ = predictors.level_and_noise(emission, memory, filter.order[before])
    level, noise = predictors.level_and_noise(emission, memory, filter.order[after])
    return abs(level - level_before) / noise


@kernel
def _extend(
    emission, duration, hazard, filter, memory, tracker, y, repeats, freezes, first, last, least_share, policy,
    alarm_state, stops, events, settled, scratch,
):  # fmt: skip
    """Take rows ``first`` to ``last - 1`` of ``y`` in, with ``stops`` only up to the first that causes an event.

    With ``freezes``, the filter is frozen at readings that repeat those before for too long. Returns how many rows of
    ``events`` and of ``settled`` are filled, and the next row of ``y``.
    """
    asks_level = policy.min_effect > 0.0 or policy.min_effect_sd > 0.0
    n_events, n_settled = 0, 0
    settle_every = max(1, min(SETTLE_EVERY, filter.record_slot.shape[0] // 4))
    for row in range(first, last):
        is_frozen = freezes and repeats[row] > REPEATS
        run_length.advance(emission, duration, hazard, filter, memory, y, row, is_frozen, least_share, scratch.step)
        state = _posterior_of_start(emission, memory, filter, asks_level, scratch)
        time = filter.clock[TIME]
        n_before = n_events
        n_events = alarms.apply_policy(
            policy, alarm_state, time - 1, scratch.starts, scratch.weights, scratch.parents, scratch.levels,
            scratch.noises, filter.clock[COUNT], state, events, n_events,
        )  # fmt: skip
        change, index = alarms.announced(events, n_before, n_events)
        jump = _jump(emission, memory, filter, scratch, index) if change >= 0 else np.nan
        period = episodes.note_changes(tracker, jump, events, n_before, n_events)
        n_events = episodes.follow(policy, tracker, y, row, time - 1, change, index, period, state, events, n_events)
        if time % settle_every == 0:
            n_settled = smoothing.settle(hazard, filter, scratch.path, settled, n_settled)
        if stops and n_events > 0:
            return n_events, n_settled, row + 1
    return n_events, n_settled, last


@kernel
def _extend_all(
    emission, duration, hazard, states, batch, least_share, policy, stops, result, repeats, scratch
):  # fmt: skip
    n_events, n_settled = 0, 0
    for i in range(batch.slots.shape[0]):
        begin, end, slot = batch.begins[i], batch.begins[i + 1], batch.slots[i]
        intake.to_rows(batch, i, repeats)
        events, settled, last = _extend(
            emission, duration, hazard, run_length.slot_view(states.filter, slot),
            predictors.slot_view(emission, states.memory, slot), rarity.slot_view(states.tracker, slot),
            batch.rows[begin:end], repeats[begin:end], batch.units == STANDARDISED, batch.firsts[i] - begin,
            end - begin, least_share, policy, AlarmState(batch.ints[i], batch.floats[i]), stops,
            result.events[n_events:], result.settled[n_settled:], scratch,
        )  # fmt: skip
        n_events += events
        n_settled += settled
        intake.record_taken(batch, i, repeats, begin + last, result)
        result.event_ends[i] = n_events
        result.settled_ends[i] = n_settled


@owning_kernel
def extend_all(emission, duration, hazard, states, batch, least_share, policy, stops, result):
    """Take a batch into the filters in the slots of a slab."""
    filters = states.filter
    scratch = _make_scratch(filters.start.shape[1], filters.mass.shape[2], filters.record_slot.shape[1])
    _extend_all(
        emission, duration, hazard, states, batch, least_share, policy, stops, result,
        np.empty(batch.values.shape[0], np.int64), scratch,
    )  # fmt: skip


@owning_kernel
def _describe(hazard, filter, starts, weights, changes):
    """Where the stream stands: fills the posterior of the current segment's start, its indices ascending, and the open
    change points; returns how many of each, and the start and position of the most probable path's last segment."""
    count = filter.clock[COUNT]
    total = 0.0
    for i in range(count):
        starts[i] = filter.start[filter.order[i]]
        weights[i] = filter.weight[filter.order[i]]
        total += weights[i]
    for i in range(count):
        weights[i] /= total
    path = smoothing.most_probable_path(filter)
    since = path[path.shape[0] - 1]
    position = 0
    while position < count - 1 and filter.start[position] != since:
        position += 1
    return count, smoothing.open_changes(hazard, filter, path, changes), since, position


class CurrentBelief(NamedTuple):
    """What the filter says of the stream after its last observation."""

    starts: StartPosterior
    changes: list[ChangePoint]  # of the most probable path, those that are not settled yet
    since: int  # the start of its last segment
    position: int  # of the hypothesis that began there


class State(NamedTuple):
    """What a stream has taught."""

    filter: run_length.RunLength
    memory: Any  # of the emission family
    tracker: rarity.Tracker


class Size(NamedTuple):
    """What the memory of an engine depends on, beside the emission."""

    grid: int  # hazards
    cap: int  # hypotheses
    lag: int
    parents: int  # of a start that are remembered
    channels: int


@functools.lru_cache(maxsize=256)
def _pool(emission: Any, size: Size) -> Pool:
    """Return the memory of the detectors that one compiled call can serve."""
    return Pool(
        lambda: State(
            run_length.make_run_length(*size[:4]),
            predictors.make_memory(emission, size.cap),
            rarity.make_tracker(size.channels),
        )
    )


def state_bytes(emission: Any, size: Size) -> int:
    """Return how much memory an engine takes."""
    own = run_length.state_bytes(*size[:4]) + predictors.memory_bytes(emission, size.cap)
    return own + rarity.tracker_bytes(size.channels)


class RenewalEngine:
    """The engine of models in which no state returns."""

    effective_sample_size = None  # exact: there are no particles

    def __init__(self, emission: Any, duration: Any, hazard: Hazard, size: Size, *, least_share: float) -> None:
        self.emission = emission
        self.duration = duration
        self.hazard = hazard
        self.least_share = least_share
        self._size = size._replace(parents=min(size.parents, size.cap))
        self._slot = _pool(emission, self._size).take_slot()
        self._belief: CurrentBelief | None = None  # as of the last observation, once it was asked for

    # Copies, by whatever way they are made, have a slot of their own.

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_slot": self._slot.state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._slot = _pool(self.emission, self._size).take_slot(state["_slot"])

    @property
    def batch_key(self) -> Hashable:
        """What engines have in common that one ``extend`` can serve."""
        return id(self._slot.slab), id(self.hazard), self.duration

    @property
    def slot_number(self) -> int:
        """Which slot of the slab is this engine's."""
        return self._slot.number

    def extend(self, batch: Batch, policy: AlarmPolicy, stops: bool) -> BatchResult:
        """Take a batch in, see ``Engine``."""
        detectors, length = len(batch.slots), len(batch.values)
        events = np.empty((alarms.MOST_EVENTS * (detectors if stops else length), alarms.EVENT_NUMBERS))
        settled = np.empty((length + detectors * self._size.lag, len(change_points.CHANGE)))
        readings, complete, event_ends, settled_ends = np.empty((4, detectors), dtype=np.int64)
        result = BatchResult(readings, complete, event_ends, settled_ends, events, settled)
        extend_all(
            self.emission, self.duration, self.hazard, self._slot.slab.arrays, batch, self.least_share, policy, stops,
            result,
        )  # fmt: skip
        return result

    def begin(self, first_rows: np.ndarray) -> None:
        """Look at the rows that come first before they are taken in."""
        if isinstance(self.emission, adaptive.Adaptive) and self.emission.dequantises:
            self.memory.stream[adaptive.STEP] = lattice.step_of(first_rows)

    def forget_answers(self) -> None:
        """Drop what was computed for questions: observations came."""
        self._belief = None

    @property
    def filter(self) -> run_length.RunLength:
        """Hypotheses about where the current segment starts."""
        return self._slot.state.filter

    @property
    def memory(self) -> Any:
        """What the hypotheses know of their segments."""
        return self._slot.state.memory

    @property
    def tracker(self) -> rarity.Tracker:
        """How unusual the newest reading is, and the open alarm."""
        return self._slot.state.tracker

    @property
    def time(self) -> int:
        """Observations seen."""
        return int(self.filter.clock[TIME])

    @property
    def log_evidence(self) -> float:
        """ln p(y) so far."""
        return float(self.filter.amounts[LOG_EVIDENCE])

    @property
    def discarded(self) -> float:
        """Mass of the hypotheses that the cap dropped, added up."""
        return float(self.filter.amounts[DISCARDED])

    def n_states(self, change_points: int) -> int:
        """Return the number of states: every segment is one."""
        return change_points + 1

    @property
    def belief(self) -> CurrentBelief:
        """What the filter says, after the first observation: found by one compiled call, however much is asked."""
        if self._belief is None:
            cap, lag = self._size.cap, self._size.lag
            starts, weights, changes = np.empty(cap, dtype=np.int64), np.empty(cap), np.empty((lag + 1, 4))
            count, n_changes, since, position = _describe(self.hazard, self.filter, starts, weights, changes)
            found = [change_points.change_point(row) for row in changes[:n_changes]]
            posterior = StartPosterior(starts[:count].tolist(), weights[:count].tolist())
            self._belief = CurrentBelief(posterior, found, since, position)
        return self._belief

    def starts(self) -> StartPosterior:
        """Return where the current segment may have begun."""
        return self.belief.starts

    def change_probability(self) -> np.ndarray:
        """Return P(a segment starts at t | y) over the lag, oldest first."""
        return smoothing.change_probability(self.hazard, self.filter)

    def open_change_points(self) -> list[ChangePoint]:
        """Return the change points of the most probable path that are not settled yet."""
        return list(self.belief.changes)

    def state(self, change_points: list[ChangePoint], make_rng: Callable[[], np.random.Generator]) -> StateEstimate:
        """Return the segment that the most probable path is in. Every segment is a state, named by its start."""
        starts, _, since, position = self.belief
        low = high = since
        if change_points and change_points[-1].index == since:
            low, high = change_points[-1].low, change_points[-1].high
        return StateEstimate(
            id=since,
            since=since,
            probability=starts.between(low, high + 1),
            parameters=forecasting.estimate(self.emission, self.memory, position, make_rng),
            visits=1,
        )

    def simulate(self, steps: int, draws: int, recent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return continuations of the stream (draws, steps, channels)."""
        channels = recent.shape[1]
        paths = np.empty((draws, steps, channels))
        forecasting.simulate_paths(
            self.emission, self.duration, self.hazard, self.filter, self.memory, recent, rng, paths
        )
        return paths

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything that the next observation depends on, by name, without memory that is not in use.

        Copies, because slots are reused.
        """
        views = {**run_length.pack(self.filter), **predictors.pack(self.emission, self.memory, self._count)}
        return {name: array.copy() for name, array in views.items()}

    def check_arrays(self, arrays: dict[str, np.ndarray]) -> int:
        """Raise SnapshotError unless ``arrays`` can be those of an engine with these settings. Returns its time."""
        run_length.check_packed(arrays, *self._size[:4])
        time, count = arrays["clock"][[TIME, COUNT]].tolist()
        refuse_others(arrays, run_length.PACKED | predictors.check_packed(self.emission, count, arrays))
        return time

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Become what ``arrays`` describe."""
        self.forget_answers()
        run_length.unpack(self.filter, arrays)
        predictors.unpack(self.emission, self.memory, self._count, arrays)

    @property
    def _count(self) -> int:
        return int(self.filter.clock[COUNT])
