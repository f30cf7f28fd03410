"""The engine for models with given priors whose states return: weighted chains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ishsmm_stream._special import draw_index
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.presets import Model
from ishsmm_stream.online import alarms, intake, rarity
from ishsmm_stream.online.alarms import AlarmPolicy, AlarmState
from ishsmm_stream.online.change_points import PathSettling
from ishsmm_stream.online.engine import BatchResult, StartPosterior
from ishsmm_stream.online.intake import Batch
from ishsmm_stream.online.particles import beliefs
from ishsmm_stream.online.particles.chains import (
    CACHES,
    LOG_EVIDENCE,
    RETIRED,
    TIME,
    Chains,
    check_arrays,
    make_chains,
    make_plan,
    without_moves,
)
from ishsmm_stream.online.particles.particle_filter import advance
from ishsmm_stream.online.particles.transitions import fill_log_row
from ishsmm_stream.online.results import ChangePoint, StateEstimate
from ishsmm_stream.online.validation import WHOLE, Field, check, refuse_others, require

# Change points that are due are settled once in so many observations.
SETTLE_EVERY = 16
_MOST_PATHS = 500  # of a forecast: each is simulated step by step


class ParticleEngine(PathSettling):
    """The engine of models whose states return: N weighted chains and what they say together."""

    batch_key = None  # every engine is served alone
    slot_number = 0

    def __init__(self, model: Model, *, chains: int, lag: int, max_states: int, seed: int) -> None:
        self.emission = model.emission
        self.duration = model.duration
        self.lag = lag
        self.settle_every = max(1, min(SETTLE_EVERY, lag // 4))
        self.plan = make_plan(model)
        self.chains = make_chains(model, size=chains, lag=lag, max_states=max_states, seed=seed)
        self.tracker = rarity.make_tracker(emissions.channels(model.emission))
        self.considered = np.zeros(1, dtype=np.int64)  # change points up to here have been settled or passed over

    def begin(self, first_rows: np.ndarray) -> None:
        """Nothing has to be known before the first rows."""

    def extend(self, batch: Batch, policy: AlarmPolicy, stops: bool) -> BatchResult:
        """Take the readings of this engine in, see ``Engine``.

        Readings that repeat count like any others: states that are known are not explained away.
        """
        repeats = intake.to_all_rows(batch)
        state = AlarmState(batch.ints[0], batch.floats[0])
        first, last = int(batch.firsts[0]), len(batch.rows)
        events = np.empty((alarms.MOST_EVENTS * (last - first), alarms.EVENT_NUMBERS))
        settled: list[list[float]] = []
        written = 0
        while first < last and not (stops and written > 0):
            end = min(last, first + self.settle_every - self.time % self.settle_every)
            written, first = advance(
                self.plan, self.chains, batch.rows, first, end, policy, state, self.tracker, events, written, stops
            )
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
    def log_evidence(self) -> float:
        """The logarithm of an unbiased estimate of p(y so far)."""
        return float(self.chains.sums[LOG_EVIDENCE])

    @property
    def discarded(self) -> float:
        """Predicted probability of a return, added up over the states that were retired to make room."""
        return float(self.chains.sums[RETIRED])

    @property
    def effective_sample_size(self) -> float:
        """Effective number of particles: 1 / the sum of the squared weights."""
        weights = np.exp(self.chains.log_weight)
        return float(weights.sum() ** 2 / (weights**2).sum())

    def n_states(self, change_points: int) -> int:
        """Return the most probable number of states so far."""
        return beliefs.number_of_states(self.chains)

    def starts(self) -> StartPosterior:
        """Return where the current segment may have begun."""
        starts, weights = beliefs.run_starts(self.chains)
        return StartPosterior(starts.tolist(), (weights / weights.sum()).tolist())

    def change_probability(self) -> np.ndarray:
        """Return P(a change at t | y) over the lag, oldest first."""
        return np.minimum(beliefs.change_probability(self.chains, self.lag), 1.0)

    # Change points

    def _path(self) -> np.ndarray:
        """Return where the heaviest chain changes state within the lag."""
        chain = int(np.argmax(self.chains.log_weight))
        recent = self.chains.recent_uid.shape[1]
        times = np.arange(max(1, self.time - self.lag), self.time)
        uids = self.chains.recent_uid[chain]
        return times[uids[times % recent] != uids[(times - 1) % recent]]

    # The state and the future

    def state(self, change_points: list[ChangePoint], make_rng: Callable[[], np.random.Generator]) -> StateEstimate:
        """Return the state of most weight; it has the same id whenever it returns."""
        now = beliefs.current_state(self.chains)
        stats, _ = beliefs.state_stats(self.chains, now.uid)
        parameters = emissions.median_parameters(self.emission, stats, make_rng())
        return StateEstimate(now.uid, now.since, now.probability, parameters, now.visits)

    def simulate(self, steps: int, draws: int, recent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return continuations of the stream (draws, steps, channels), at most 500 of them."""
        draws = min(draws, _MOST_PATHS)
        weights = np.exp(self.chains.log_weight)
        paths = np.empty((draws, steps, recent.shape[1]))
        for path in paths:
            y = np.concatenate([recent, path])
            self._continue(draw_index(rng, weights, len(weights)), y, len(recent), rng)
            path[:] = y[len(recent) :]
        return paths

    def _continue(self, chain: int, y: np.ndarray, first: int, rng: np.random.Generator) -> None:
        """Simulate rows ``first`` and on of ``y`` from one chain."""
        chains = self.chains
        state, count = int(chains.state[chain]), int(chains.count[chain])
        elapsed = self.time - int(chains.start[chain])
        theta, left = self._draw_segment(chain, state, elapsed, rng)
        for t in range(first, len(y)):
            if left == 0:
                state = self._draw_next(chain, state, count, rng)
                theta, left = self._draw_segment(chain, state, 0, rng)
            emissions.simulate(self.emission, theta, rng, y, t, 0)
            left -= 1

    def _draw_segment(self, chain: int, state: int, elapsed: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Draw the parameters of a state, of a new one if it is not known, and how long its segment still lasts."""
        chains = self.chains
        theta = np.empty(emissions.params_size(self.emission))
        lam = np.empty(durations.params_size(self.duration))
        stats = np.empty(chains.pool.shape[1])
        dwells = np.empty(chains.dwells.shape[2])
        emissions.clear(self.emission, stats)
        durations.clear(self.duration, dwells)
        if state < chains.count[chain]:
            stats, dwells = chains.pool[chains.stats_at[chain, state]], chains.dwells[chain, state]
        emissions.draw_parameters(self.emission, stats, rng, theta)
        durations.draw_parameters(self.duration, dwells, elapsed - 1 if elapsed else -1, rng, lam)
        if elapsed == 0:
            return theta, int(durations.draw(self.duration, lam, rng)) + 1
        return theta, int(durations.draw_beyond(self.duration, lam, elapsed - 1, rng)) + 1 - elapsed

    def _draw_next(self, chain: int, state: int, count: int, rng: np.random.Generator) -> int:
        """Draw the state after ``state``; ``count`` stands for a new one, from which any state may follow."""
        chains = self.chains
        log_row = np.full(chains.log_row.shape[1], -np.inf)
        if state >= count:
            return int(rng.integers(0, count))
        fill_log_row(
            self.plan.rules, chains.hyper[chain], chains.log_g[chain], chains.tail[chain],
            chains.counts[chain], state, count, log_row,
        )  # fmt: skip
        weights = np.exp(np.append(log_row[:count], log_row[-1]))
        return draw_index(rng, weights, count + 1)

    # Snapshots

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything that the next observation depends on, by name."""
        kept = {name: array for name, array in self.chains._asdict().items() if name not in CACHES}
        return {"considered": self.considered, **kept}

    def check_arrays(self, arrays: dict[str, np.ndarray]) -> int:
        """Raise SnapshotError unless ``arrays`` can be those of an engine with these settings. Returns its time."""
        arrays = without_moves(arrays, self.lag)
        time = check_arrays(self.plan, self.chains, arrays)
        check(arrays, {"considered": Field(WHOLE, (1,), 0, time)})
        refuse_others(arrays, {"considered", *Chains._fields})
        require(bool((arrays["seed"] == self.chains.seed).all()), "the seed is that of the settings")
        return time

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Become what ``arrays`` describe."""
        arrays = without_moves(arrays, self.lag)
        self.considered[:] = arrays["considered"]
        for name, array in self.chains._asdict().items():
            if name not in CACHES:
                array[...] = arrays[name]
