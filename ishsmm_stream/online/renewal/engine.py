"""A stream under a left-to-right model: filter, alarms and settled change points, one observation after another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream._checks import count_complete
from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream.online import alarms, episodes, lattice, rarity, scaling, stillness
from ishsmm_stream.online.alarms import AlarmPolicy, Watch
from ishsmm_stream.online.renewal import adaptive, forecasting, predictors, run_length, smoothing
from ishsmm_stream.online.renewal.hazard import Hazard
from ishsmm_stream.online.renewal.pool import House, Room
from ishsmm_stream.online.renewal.run_length import COUNT, DISCARDED, LOG_EVIDENCE, TIME
from ishsmm_stream.online.results import ChangePoint, StateEstimate
from ishsmm_stream.online.start_posterior import StartPosterior
from ishsmm_stream.online.validation import LARGEST_STATE, refuse_others, require

# The most probable path is searched for change points to settle once in so many observations, in a short lag more
# often: a change point is looked at while it is in the oldest quarter.
SETTLE_EVERY = 8


class Work(NamedTuple):
    """Room for what a step needs: of the filter, of settling, and of the posterior of the current segment's start, by
    ascending starts, as the alarm policy reads it."""

    step: run_length.Work
    path: np.ndarray
    starts: np.ndarray
    weights: np.ndarray
    parents: np.ndarray
    levels: np.ndarray
    noises: np.ndarray


@owning_kernel
def _make_work(cap, grid, lag):
    longest = smoothing.longest_path(lag)
    step = run_length.Work(np.empty(grid), np.empty(cap), np.empty(cap))
    path, starts, parents = np.empty(longest, np.int64), np.empty(cap, np.int64), np.empty(cap, np.int64)
    return Work(step, path, starts, np.empty(cap), parents, np.empty(cap), np.empty(cap))


@kernel
def _posterior_of_start(emission, memory, filter, asks_level, work):
    """The hypotheses in the order of their starts. Returns the heaviest start."""
    starts, weights, parents = work.starts, work.weights, work.parents
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
            work.levels[i], work.noises[i] = predictors.level_and_noise(emission, memory, position)
    return starts[heaviest]


@kernel
def _jump(emission, memory, filter, work, index):
    """Return by how many standard deviations of the noise the level moved at the change announced at ``index``, from
    the heaviest hypotheses on both sides; nan if the family has no level."""
    count = filter.clock[COUNT]
    before, after = -1, -1
    for i in range(count):
        if work.starts[i] >= index:
            after = i if after < 0 or work.weights[i] > work.weights[after] else after
        else:
            before = i if before < 0 or work.weights[i] > work.weights[before] else before
    if before < 0 or after < 0:
        return np.nan
    level_before, _ = predictors.level_and_noise(emission, memory, filter.order[before])
    level, noise = predictors.level_and_noise(emission, memory, filter.order[after])
    return abs(level - level_before) / noise


@kernel
def _extend(
    emission, duration, hazard, filter, memory, tracker, y, is_still, first, last, least_share, policy, watch, stops,
    events, settled, work,
):  # fmt: skip
    asks_level = policy.min_effect > 0.0 or policy.min_effect_sd > 0.0
    n_events, n_settled = 0, 0
    settle_every = max(1, min(SETTLE_EVERY, filter.record_slot.shape[0] // 4))
    for row in range(first, last):
        run_length.advance(
            emission, duration, hazard, filter, memory, y, row, is_still[row - first], least_share, work.step
        )
        state = _posterior_of_start(emission, memory, filter, asks_level, work)
        time = filter.clock[TIME]
        n_before = n_events
        n_events = alarms.follow(
            policy, watch, time - 1, work.starts, work.weights, work.parents, work.levels, work.noises,
            filter.clock[COUNT], state, events, n_events,
        )  # fmt: skip
        change, index = alarms.announced(events, n_before, n_events)
        jump = _jump(emission, memory, filter, work, index) if change >= 0 else np.nan
        period = episodes.note_changes(tracker, jump, events, n_before, n_events)
        n_events = episodes.follow(policy, tracker, y, row, time - 1, change, index, period, state, events, n_events)
        if time % settle_every == 0:
            n_settled = smoothing.settle(hazard, filter, work.path, settled, n_settled)
        if stops and n_events > 0:
            return n_events, n_settled, row + 1
    return n_events, n_settled, last


@owning_kernel
def extend(
    emission, duration, hazard, filter, memory, tracker, y, is_still, first, last, least_share, policy, watch, stops,
    events, settled,
):  # fmt: skip
    """Take rows ``first`` to ``last - 1`` of ``y`` in, where it ``stops`` only up to the first that causes an event.
    ``is_still``: one entry a row from ``first`` on, see ``run_length.advance``.

    Returns how many rows of ``events`` and of ``settled`` are filled, and the next row of ``y``.
    """
    work = _make_work(filter.start.shape[0], filter.mass.shape[1], filter.record_slot.shape[0])
    return _extend(
        emission, duration, hazard, filter, memory, tracker, y, is_still, first, last, least_share, policy, watch,
        stops, events, settled, work,
    )  # fmt: skip


class Window(NamedTuple):
    """Readings of many detectors of one block, one after the other, and what each detector knows beside its engine."""

    rooms: np.ndarray  # (detectors,) int64
    begins: np.ndarray  # (detectors + 1,) int64: where its readings begin
    values: np.ndarray  # (readings, 1)
    location: np.ndarray  # (detectors,), as the next three: see ``scaling``
    scale: np.ndarray
    latest: np.ndarray  # see ``stillness``
    repeats: np.ndarray  # int64
    places: np.ndarray  # (detectors, 7), as the next: see ``alarms.Watch``
    amounts: np.ndarray  # (detectors, 2)


class Taken(NamedTuple):
    """What came of a window: one entry a detector, and the rows of all of them."""

    readings: np.ndarray  # how many were taken,
    complete: np.ndarray  # how many of them have a value
    event_ends: np.ndarray  # where its rows of ``events`` end
    settled_ends: np.ndarray
    events: np.ndarray
    settled: np.ndarray


@kernel
def _extend_many(
    emission, duration, hazard, filters, memories, trackers, window, least_share, policy, stops, taken, rows, repeats,
    is_still, work,
):  # fmt: skip
    n_events, n_settled = 0, 0
    for i in range(window.rooms.shape[0]):
        begin, end = window.begins[i], window.begins[i + 1]
        raw, own, still = window.values[begin:end], rows[begin:end], repeats[begin:end]
        stillness.count_repeats(raw, window.latest[i : i + 1], window.repeats[i], still)
        scaling.standardise(raw, window.location[i : i + 1], window.scale[i : i + 1], own)
        for row in range(begin, end):
            is_still[row] = repeats[row] > stillness.REPEATS
        events, settled, length = _extend(
            emission, duration, hazard, run_length.at(filters, window.rooms[i]),
            predictors.at(emission, memories, window.rooms[i]), rarity.slot_view(trackers, window.rooms[i]), own,
            is_still[begin:end], 0, end - begin, least_share, policy, Watch(window.places[i], window.amounts[i]),
            stops, taken.events[n_events:], taken.settled[n_settled:], work,
        )  # fmt: skip
        n_events += events
        n_settled += settled
        window.latest[i] = raw[length - 1, 0]
        window.repeats[i] = still[length - 1]
        taken.readings[i] = length
        taken.complete[i] = count_complete(own[:length])
        taken.event_ends[i] = n_events
        taken.settled_ends[i] = n_settled


@owning_kernel
def extend_many(emission, duration, hazard, filters, memories, trackers, window, least_share, policy, stops, taken):
    """``extend`` for many detectors of a block, with the readings standardised on the way."""
    readings = window.values.shape[0]
    rows, repeats = np.empty(window.values.shape), np.empty(readings, np.int64)
    work = _make_work(filters.start.shape[1], filters.mass.shape[2], filters.record_slot.shape[1])
    _extend_many(
        emission, duration, hazard, filters, memories, trackers, window, least_share, policy, stops, taken, rows,
        repeats, np.empty(readings, np.bool_), work,
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


class Standing(NamedTuple):
    """What a stream has come to with its last observation."""

    starts: StartPosterior
    changes: list[ChangePoint]  # of the most probable path, those that are not settled yet
    since: int  # the start of its last segment
    position: int  # of the hypothesis that began there


class State(NamedTuple):
    """What a stream has taught."""

    filter: run_length.RunLength
    memory: Any  # of the emission family
    tracker: rarity.Tracker


@functools.lru_cache(maxsize=256)
def _house(emission: Any, grid: int, cap: int, lag: int, parents: int, channels: int) -> House:
    """Where the states of detectors lie that one compiled call can serve."""
    return House(
        lambda: State(
            run_length.make_run_length(grid, cap, lag, parents),
            predictors.make_memory(emission, cap),
            rarity.make_tracker(channels),
        )
    )


def check_size(emission: Any, *, grid: int, cap: int, lag: int, parents: int, channels: int) -> None:
    """Raise SnapshotError unless an engine with these settings fits into memory."""
    needed = run_length.state_bytes(grid, cap, lag, min(parents, cap)) + predictors.memory_bytes(emission, cap)
    needed += rarity.tracker_bytes(channels)
    require(needed <= LARGEST_STATE, f"its settings ask for {needed} bytes, at most {LARGEST_STATE} are made")


def check_arrays(
    emission: Any, arrays: dict[str, np.ndarray], *, grid: int, cap: int, lag: int, parents: int, channels: int
) -> int:
    """Raise SnapshotError unless ``arrays`` can be those of an engine with these settings. Returns its time."""
    check_size(emission, grid=grid, cap=cap, lag=lag, parents=parents, channels=channels)
    run_length.check_packed(arrays, grid, cap, lag, min(parents, cap))
    time, count = arrays["clock"][[TIME, COUNT]].tolist()
    names = predictors.check_packed(emission, count, arrays)
    refuse_others(arrays, run_length.PACKED | names)
    return time


class LeftToRight:
    """The engine of models in which no state returns."""

    def __init__(
        self,
        emission: Any,
        duration: Any,
        hazard: Hazard,
        *,
        cap: int,
        lag: int,
        parents: int,
        least_share: float,
        channels: int,
    ) -> None:
        self.emission = emission
        self.duration = duration
        self.hazard = hazard
        self.least_share = least_share
        self._size = (len(hazard.prior), cap, lag, min(parents, cap), channels)
        self._room = _house(emission, *self._size).room()
        self._standing: Standing | None = None  # as of the last observation, once somebody has asked

    # Copies, by whatever way they are made, have a room of their own.

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_room": self._room.state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._room = _house(self.emission, *self._size).room(state["_room"])

    def extend(
        self, y: np.ndarray, is_still: np.ndarray, first: int, policy: AlarmPolicy, watch: Watch, stops: bool = False
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Take rows from ``first`` on in (those before it are only looked back at), where it ``stops`` only up to the
        first that causes an event; returns events, settled rows and the next row."""
        self.forget_answers()
        rows = len(y) - first
        events = np.empty((alarms.MOST_EVENTS * rows, alarms.EVENT_NUMBERS))
        settled = np.empty((rows + len(self.filter.record_slot), 4))
        n_events, n_settled, row = extend(
            self.emission, self.duration, self.hazard, self.filter, self.memory, self.tracker, y, is_still, first,
            len(y), self.least_share, policy, watch, stops, events, settled,
        )  # fmt: skip
        return events[:n_events], settled[:n_settled], row

    def begin(self, first_rows: np.ndarray) -> None:
        """Look at the rows that come first before they are taken in."""
        if isinstance(self.emission, adaptive.Adaptive) and self.emission.dequantises:
            self.memory.stream[adaptive.STEP] = lattice.step_of(first_rows)

    def forget_answers(self) -> None:
        """Observations came: what was answered before holds no longer."""
        self._standing = None

    @property
    def filter(self) -> run_length.RunLength:
        """The hypotheses about where the current segment starts."""
        return self._room.state.filter

    @property
    def memory(self) -> Any:
        """What they know of their segments."""
        return self._room.state.memory

    @property
    def tracker(self) -> rarity.Tracker:
        """How unusual the newest reading is, and the open alarm."""
        return self._room.state.tracker

    @property
    def room(self) -> Room:
        """Where all of that lies."""
        return self._room

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
        """Every segment is a state of its own."""
        return change_points + 1

    @property
    def standing(self) -> Standing:
        """Where the stream stands, after its first observation: found by one compiled call, however much is asked."""
        if self._standing is None:
            cap, lag = len(self.filter.start), len(self.filter.record_slot)
            starts, weights, changes = np.empty(cap, dtype=np.int64), np.empty(cap), np.empty((lag + 1, 4))
            count, n_changes, since, position = _describe(self.hazard, self.filter, starts, weights, changes)
            found = [smoothing.change_point(row) for row in changes[:n_changes]]
            posterior = StartPosterior(starts[:count].tolist(), weights[:count].tolist())
            self._standing = Standing(posterior, found, since, position)
        return self._standing

    def starts(self) -> StartPosterior:
        """Where the current segment may have begun."""
        return self.standing.starts

    def change_probability(self) -> np.ndarray:
        """P(a segment starts at t | y) over the lag, oldest first."""
        return smoothing.change_probability(self.hazard, self.filter)

    def open_change_points(self) -> list[ChangePoint]:
        """The change points of the most probable path that are not settled yet."""
        return list(self.standing.changes)

    def state(self, change_points: list[ChangePoint], make_rng: Callable[[], np.random.Generator]) -> StateEstimate:
        """The segment that the most probable path is in. Every segment is a state of its own, named by its start."""
        starts, _, since, position = self.standing
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
        """(draws, steps, channels) continuations of the stream."""
        channels = recent.shape[1]
        paths = np.empty((draws, steps, channels))
        forecasting.simulate_paths(
            self.emission, self.duration, self.hazard, self.filter, self.memory, recent, rng, paths
        )
        return paths

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that the next observation depends on, by name, without the room that is not in use.

        Copies: another detector may have its room one day.
        """
        views = {**run_length.pack(self.filter), **predictors.pack(self.emission, self.memory, self._count)}
        return {name: array.copy() for name, array in views.items()}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Become what ``arrays`` describe."""
        self.forget_answers()
        run_length.unpack(self.filter, arrays)
        predictors.unpack(self.emission, self.memory, self._count, arrays)

    @property
    def _count(self) -> int:
        return int(self.filter.clock[COUNT])
