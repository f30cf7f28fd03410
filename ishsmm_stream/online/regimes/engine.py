"""The engine of ``model="recurring"``: states that return, without priors from the user."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.online import alarms, episodes, intake, lattice, rarity
from ishsmm_stream.online.alarms import AlarmPolicy, AlarmState
from ishsmm_stream.online.change_points import PathSettling
from ishsmm_stream.online.engine import BatchResult, StartPosterior
from ishsmm_stream.online.intake import Batch
from ishsmm_stream.online.particles.beliefs import heaviest
from ishsmm_stream.online.regimes import beliefs, dwells, filter, news, saved, states
from ishsmm_stream.online.regimes.chains import (
    DISCARDED,
    DWELL_N,
    FIRST_SEEN,
    LAST,
    LAST_SEEN,
    LOG_EVIDENCE,
    READINGS,
    STEP,
    TIME,
    VISITS,
    make_chains,
    shared,
    with_room,
)
from ishsmm_stream.online.regimes.filter import Approximations
from ishsmm_stream.online.regimes.simulate import simulate
from ishsmm_stream.online.results import ChangePoint, KnownState, NextState, StateEstimate, Transition
from ishsmm_stream.online.validation import FLOAT, LARGEST_COUNT, WHOLE, Field, check, columns, refuse_others

CHAINS = 20
MAX_STATES = 32  # of a chain; the one that is missed least makes room
_SETTLE_EVERY = 16
_MORE_ROOM = 4  # states that chains have room for at first, and are given room for when they need it


class Emission:
    """What the rest of the library asks of an engine's emission: the readings are real numbers, one at a time."""


@kernel
def _is_settling_due(chains, considered, lag, settle_every):
    """Whether the heaviest chain has a change point that is about to leave the lag, see ``_settle``."""
    time, recent = chains.clock[TIME], chains.recent_uid.shape[1]
    if time % settle_every != 0:
        return False
    heaviest = 0
    for i in range(1, chains.weight.shape[0]):
        if chains.weight[i] > chains.weight[heaviest]:
            heaviest = i
    for t in range(max(considered + 1, time - lag + 1, 1), time - (lag - lag // 4)):
        if chains.recent_uid[heaviest, t % recent] != chains.recent_uid[heaviest, (t - 1) % recent]:
            return True
    return False


@kernel
def _extend(
    chains, scratch, limits, watch, rows, first, last, policy, alarm_state, tracker, considered, lag, settle_every,
    stops, events, written,
):  # fmt: skip
    """Take rows ``first`` to ``last - 1`` in, or fewer: up to the first that causes an event if it ``stops``, up to the
    one after which a change point is to be settled, and up to the one before which chains need more room. Returns the
    next row and how many rows of ``events`` are filled."""
    row = first
    while row < last and not filter.needs_room(chains, limits) and not (stops and written > 0):
        if row > first and _is_settling_due(chains, considered, lag, settle_every):
            break
        t = chains.clock[TIME]
        filter.observe(chains, scratch, rows[row, 0], limits)
        before = written
        change, index, period = -1, -1, 0.0
        if not math.isnan(chains.amounts[LAST]):
            uids = chains.recent_uid[:, t % chains.recent_uid.shape[1]]
            count = beliefs.gather(uids, chains.weight, scratch.found, scratch.masses)
            uid, mass = heaviest(scratch.found, scratch.masses, count)
            count = beliefs.gather(chains.run_start, chains.weight, scratch.found, scratch.masses)
            written = alarms.apply_policy(
                policy, alarm_state, t, scratch.found, scratch.masses, None, None, None, count, uid, events, written
            )
            change, index = alarms.announced(events, before, written)
            jump = news.jump(chains, watch, uid) if change >= 0 else math.nan
            period = episodes.note_changes(tracker, jump, events, before, written)
            written = news.follow(
                chains, watch, policy, tracker, rows, row, t, limits.max_states, uid, mass, change,
                index, period, events, written,
            )  # fmt: skip
        else:
            written = episodes.follow(policy, tracker, rows, row, t, -1, -1, 0.0, 0, events, written)
        row += 1
    return row, written


class RegimesEngine(PathSettling):
    """Weighted chains over a dictionary of states, and what they say together."""

    batch_key = None  # every engine is served alone
    slot_number = 0

    def __init__(self, *, chains: int, lag: int, seed: int) -> None:
        self.emission: Any = Emission()
        self.lag = lag
        self.settle_every = max(1, min(_SETTLE_EVERY, lag // 4))
        self.limits = Approximations(max_states=MAX_STATES)
        self.chains = make_chains(chains, lag, seed, _MORE_ROOM)
        self.watch = news.make_watch()
        self.tracker = rarity.make_tracker(1)
        self.considered = np.zeros(1, dtype=np.int64)  # change points up to here have been settled or passed over

    def begin(self, first_rows: np.ndarray) -> None:
        """Find the step of the first rows."""
        self.chains.amounts[STEP] = lattice.step_of(first_rows)

    def extend(self, batch: Batch, policy: AlarmPolicy, stops: bool) -> BatchResult:
        """Take the readings of this engine in, see ``Engine``."""
        repeats = intake.to_all_rows(batch)
        state = AlarmState(batch.ints[0], batch.floats[0])
        first, last = int(batch.firsts[0]), len(batch.rows)
        events = np.empty((alarms.MOST_EVENTS * (last - first), alarms.EVENT_NUMBERS))
        settled: list[list[float]] = []
        written = 0
        scratch = filter.make_scratch(len(self.chains.weight), self.chains.uid.shape[1])
        while first < last and not (stops and written > 0):
            if filter.needs_room(self.chains, self.limits):
                self.chains = with_room(self.chains, min(self.chains.uid.shape[1] + _MORE_ROOM, MAX_STATES))
                scratch = filter.make_scratch(len(self.chains.weight), self.chains.uid.shape[1])
            first, written = _extend(
                self.chains, scratch, self.limits, self.watch, batch.rows, first, last, policy, state, self.tracker,
                int(self.considered[0]), self.lag, self.settle_every, stops, events, written,
            )  # fmt: skip
            if self.time % self.settle_every == 0:
                settled += self._settle()
        readings, complete, event_ends, settled_ends = np.array([[0], [0], [written], [len(settled)]])
        rows = np.reshape(settled, (-1, 4)).astype(np.float64)
        result = BatchResult(readings, complete, event_ends, settled_ends, events, rows)
        intake.record_taken(batch, 0, repeats, first, result)
        return result

    def forget_answers(self) -> None:
        """Nothing is computed ahead of questions."""

    @property
    def time(self) -> int:
        """Observations seen."""
        return int(self.chains.clock[TIME])

    @property
    def has_begun(self) -> bool:
        """Whether there was a reading with a value."""
        return bool((self.chains.weight > 0.0).any())

    @property
    def log_evidence(self) -> float:
        """An estimate of ln p(y so far): merging, splitting and fusing chains leave it approximate."""
        return float(self.chains.amounts[LOG_EVIDENCE])

    @property
    def discarded(self) -> float:
        """Mass of the continuations that were dropped as negligible, added up."""
        return float(self.chains.amounts[DISCARDED])

    @property
    def effective_sample_size(self) -> float:
        """Effective number of particles: 1 / the sum of the squared weights."""
        return float(1.0 / (self.chains.weight**2).sum()) if self.has_begun else 1.0

    def n_states(self, change_points: int) -> int:
        """Return the most probable number of states that are known."""
        found, masses = beliefs.grouped(self.chains.count, self.chains.weight)
        return int(found[masses.argmax()]) if len(found) else 1

    def starts(self) -> StartPosterior:
        """Return where the current visit may have begun."""
        starts, weights = beliefs.grouped(self.chains.run_start, self.chains.weight)
        if not len(starts):
            return StartPosterior([0], [1.0])
        return StartPosterior(starts.tolist(), (weights / weights.sum()).tolist())

    # Change points

    def _times(self) -> np.ndarray:
        """Return the times within the lag, oldest first."""
        return np.arange(self.time - min(self.lag, self.time), self.time)

    def change_probability(self) -> np.ndarray:
        """Return P(a change at t | y) over the lag, oldest first."""
        times, recent = self._times(), self.chains.recent_uid.shape[1]
        uids = self.chains.recent_uid
        changes = uids[:, times % recent] != uids[:, (times - 1) % recent]
        changes[:, times == 0] = True
        return np.minimum(self.chains.weight @ changes, 1.0)

    def _path(self) -> np.ndarray:
        """Return where the heaviest chain changes state within the lag."""
        recent, times = self.chains.recent_uid.shape[1], self._times()[-(self.lag - 1) :]
        times = times[times > 0]
        uids = self.chains.recent_uid[int(np.argmax(self.chains.weight))]
        return times[uids[times % recent] != uids[(times - 1) % recent]]

    # States

    def _current(self) -> tuple[int, float, int]:
        """Return (name, probability, heaviest chain) of the current state."""
        found, masses = beliefs.grouped(beliefs.current_uids(self.chains), self.chains.weight)
        uid, probability = heaviest(found, masses, len(found))
        return int(uid), float(probability), int(beliefs.heaviest_chain(self.chains, uid))

    def state(self, change_points: list[ChangePoint], make_rng: Callable[[], np.random.Generator]) -> StateEstimate:
        """Return the state of most weight; it has the same id whenever it returns."""
        if not self.has_begun:
            return StateEstimate(0, 0, 1.0, {}, 1)
        uid, probability, i = self._current()
        k = int(self.chains.state[i])
        chosen = np.where(beliefs.current_uids(self.chains) == uid, self.chains.weight, 0.0)
        starts, masses = beliefs.grouped(self.chains.run_start, chosen)
        since, _ = heaviest(starts, masses, len(starts))
        own = self._known(i, k)
        return StateEstimate(
            uid,
            int(since),
            min(probability, 1.0),
            {"mean": own.mean, "sd": own.sd},
            own.visits,
            own.readings,
            own.dwell,
        )

    def _known(self, i: int, k: int) -> KnownState:
        chains = self.chains
        phi, noise, spread = shared(chains, i)
        _, level, a, b = states.posterior(chains.sums[i, k], phi, noise, spread)
        life = chains.life[i, k]
        dwell = None
        if chains.dwells[i, k, DWELL_N] >= 1.0:
            dwell = dwells.usual(chains, i, k)
        return KnownState(
            id=int(chains.uid[i, k]),
            mean=float(chains.origin[i, k] + level),
            sd=math.sqrt(b / a / (1.0 - phi * phi)),
            visits=int(life[VISITS]),
            readings=int(life[READINGS]),
            first_seen=int(life[FIRST_SEEN]),
            last_seen=int(life[LAST_SEEN]),
            dwell=dwell,
        )

    def recent_states(self) -> np.ndarray:
        """Return the id of the most probable state at each reading within the lag, oldest first."""
        return beliefs.path(self.chains, self._times()) if self.has_begun else np.zeros(0, dtype=np.int64)

    def states(self) -> list[KnownState]:
        """Return the states of the heaviest chain, oldest first."""
        if not self.has_begun:
            return []
        i = int(np.argmax(self.chains.weight))
        return sorted((self._known(i, k) for k in range(int(self.chains.count[i]))), key=lambda state: state.id)

    def transitions(self) -> list[Transition]:
        """Return how often the heaviest chain went from one state to another."""
        if not self.has_begun:
            return []
        i = int(np.argmax(self.chains.weight))
        uid, count = self.chains.uid[i], int(self.chains.count[i])
        moves = self.chains.moves[i, :count, :count]
        return [
            Transition(int(uid[j]), int(uid[k]), round(float(moves[j, k])))
            for j, k in np.argwhere(moves > 0.5).tolist()
        ]

    def novelty(self) -> float | None:
        """Return P(the current state is new); None during the cold start and while the dictionary is full."""
        if self.tracker.ints[rarity.CLOCK] < news.LEARNING:
            return None
        if beliefs.full_mass(self.chains, MAX_STATES) >= 0.5:
            return None
        return float(news.novelty(self.chains, self.time - 1, False))

    def next_states(self) -> list[NextState]:
        """Return what may come after the current visit."""
        return beliefs.next_states(self.chains)

    def remaining(self) -> float | None:
        """Return how many more readings the current visit lasts with probability 1/2."""
        return beliefs.remaining(self.chains) if self.has_begun else None

    def simulate(self, steps: int, draws: int, recent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return continuations of the stream (draws, steps, 1)."""
        paths = np.zeros((draws, steps))
        if self.has_begun:
            simulate(rng, self.chains, paths)
        return paths[:, :, np.newaxis]

    # Snapshots

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything that the next observation depends on, by name."""
        own = {"considered": self.considered, "watch_ints": self.watch.ints, "watch_floats": self.watch.floats}
        return own | saved.pack(self.chains)

    def check_arrays(self, arrays: dict[str, np.ndarray]) -> int:
        """Raise SnapshotError unless ``arrays`` can be those of an engine with these settings. Returns its time."""
        refuse_others(arrays, set(self.arrays()))
        time = saved.check_packed(arrays, self.chains, MAX_STATES)
        check(
            arrays,
            {
                "considered": Field(WHOLE, (1,), 0, time),
                "watch_ints": Field(WHOLE, (len(self.watch.ints),), -1, LARGEST_COUNT),
                "watch_floats": Field(FLOAT, (len(self.watch.floats),), columns=_VALID_FLOATS),
            },
        )
        return time

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Become what ``arrays`` describe."""
        self.considered[:] = arrays["considered"]
        self.watch.ints[:], self.watch.floats[:] = arrays["watch_ints"], arrays["watch_floats"]
        room = self.chains.uid.shape[1]
        while room < saved.states_in(arrays):
            room += _MORE_ROOM
        if room > self.chains.uid.shape[1]:
            self.chains = with_room(self.chains, min(room, MAX_STATES))
        saved.unpack(arrays, self.chains)


_VALID_FLOATS = columns([0.0, -np.inf, -np.inf, -np.inf], [100.0, np.inf, np.inf, np.inf], nan=[news.JUMP_FROM])


def state_bytes(chains: int, lag: int) -> int:
    """Return how much memory an engine may take, at most."""
    state = 8 * (1 + states.SUMS + 1 + states.PREPARED + 5 + 3 + 2 + MAX_STATES)
    return chains * (MAX_STATES * state + 8 * (lag + 1) + 200)
