"""Weighted chains: explanations of a stream whose states recur, as arrays.

Each chain is one explanation of the data so far: which states there are, when each was visited, and the weights gamma
and w above the transition rows. The emissions' theta, the durations' lambda and the rows are integrated out.
``particle_filter.py`` continues the chains by an observation, ``rejuvenation.py`` moves them, ``beliefs.py`` says what
they know together.

All that the sampler knows is in ``Chains``, arrays and nothing else. Randomness is a function of (seed, time, slot,
purpose) and moves happen at multiples of ``move_every``: no result depends on how the observations were batched.

Chains that share a past have seen the same of a state. Emission statistics are therefore kept in a pool, each stored
and evaluated once whatever the number of chains that refer to it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel
from ishsmm_stream.batch.weights import HYPERPARAMETERS, Rules, make_rules
from ishsmm_stream.model import catalogue
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.presets import Model
from ishsmm_stream.model.priors import Beta, Gamma
from ishsmm_stream.online.recurring import counter_random, dwell_hazards, prepared
from ishsmm_stream.online.recurring.transitions import StepRules, make_step_rules
from ishsmm_stream.online.validation import FLAG, LARGEST_COUNT, WHOLE, Field, check, columns, require

# Entries of Chains.clock and Chains.sums.
TIME, CURSOR, FOLDED, SIDE = range(4)
LOG_EVIDENCE, RETIRED = range(2)
# Rows that a move's work space has for each state that a chain may keep: its slices may reach more.
_MOVE_SLOTS = 4
_BELOW_ONE = math.nextafter(1.0, 0.0)
EMPTY = 0  # the pool's entry of a state without data


class Settings(NamedTuple):
    """What is fixed for a run, as kernels read it."""

    step_rules: StepRules
    lag: int
    move_every: int  # 0: never
    history: int  # rows before an observation that its emission looks back at


class Plan(NamedTuple):
    """What is fixed for a run."""

    emission: Any
    duration: Any
    settings: Settings
    rules: Rules  # for the moves


class Chains(NamedTuple):
    """N chains of at most M states each, R observations of their recent past. Arrays are changed in place.

    A slot is a state's place in its chain. Entries from ``count`` on are meaningless, and so is a chain whose
    ``log_weight`` is minus infinity.
    """

    seed: np.ndarray  # (2,)
    clock: np.ndarray  # (4,) observations seen, where to look for room in the pool, see frozen_*
    sums: np.ndarray  # (2,) ln evidence, probability of return of the states that were retired
    # A chain
    log_weight: np.ndarray  # (N,)
    hyper: np.ndarray  # (N, 5) alpha0, alpha1, c, d, rho
    tail: np.ndarray  # (N, 2) ln w_+, ln gamma_+
    count: np.ndarray  # type: ignore[assignment]  # (N,) states known
    state: np.ndarray  # (N,) slot of the current one
    start: np.ndarray  # (N,) first observation of the current segment
    run_start: np.ndarray  # (N,) the same, segments of one state in a row counted as one
    log_row: np.ndarray  # (N, M + 1) ln P(next state | the segment ends), last entry: a new one
    # A chain's states
    uid: np.ndarray  # (N, M) the state's name, see names.py
    log_w: np.ndarray  # (N, M)
    log_g: np.ndarray  # (N, M) ln gamma
    counts: np.ndarray  # (N, M + 1, M) int32: transitions; row 0 is the start
    dwells: np.ndarray  # (N, M, numbers) statistics of complete segments
    stats_at: np.ndarray  # (N, M) where the pool has the statistics of its emissions
    first_seen: np.ndarray  # (N, M)
    last_seen: np.ndarray  # (N, M)
    is_frozen: np.ndarray  # (N, M) whether the frozen past has this state, in the same slot
    # The recent past, observation t in column t % R
    recent_uid: np.ndarray  # (N, R)
    recent_start: np.ndarray  # (N, R) first observation of the segment that t belongs to
    values: np.ndarray  # (R + history, channels) the data
    # Shared by the chains
    pool: np.ndarray  # (P, numbers) emission statistics
    prepared: np.ndarray  # (P, numbers) what predictions from them need
    hazard_keys: np.ndarray
    hazard_logs: np.ndarray
    # For the moves: the past before clock[FOLDED], which no longer changes, as of the last move. Two sides, of which
    # clock[SIDE] is the valid one. Chains are copied without it: ``origin`` is the slot that a chain had then.
    origin: np.ndarray  # (N,)
    frozen_count: np.ndarray  # (2, N) states
    frozen_counts: np.ndarray  # (2, N, M + 1, M) int32
    frozen_dwells: np.ndarray  # (2, N, M, numbers)
    frozen_stats: np.ndarray  # (2, N, M, numbers)
    frozen_edge: np.ndarray  # (2, N, 3) slot of the last state there, start of its segment and of its run


# Remembered function values: a snapshot may leave them as ``make_chains`` makes them.
CACHES = ("hazard_keys", "hazard_logs")


# What is valid in a snapshot

_LARGEST_LOG = 700.0  # of a weight above the rows: its exponential is a number
_LEAST_LOG = -1e295  # variates below any double have the logarithm -1e290
_LARGEST_READING = {True: 1e31, False: 1e300}  # by whether readings are cut at 1e30, which counts are not


def state_bytes(model: Model, *, size: int, lag: int, max_states: int, move_every: int) -> int:
    """Return how much memory chains and their work space take, roughly."""
    states = model.topology.states or max_states
    stats, dwells = emissions.stats_size(model.emission), durations.stats_size(model.duration)
    frozen = (2 if move_every else 0) * (4 * states * (states + 1) + 8 * states * (stats + dwells))
    chain = 4 * states * (states + 1) + 8 * states * (6 + dwells) + 16 * (lag + move_every + 1)
    return size * (chain + frozen + 8 * (states + 1) * (stats + 12)) + 8 * (lag + move_every) * _MOVE_SLOTS * states


def _fields(chains: Chains, time: int, is_cut: bool) -> dict[str, Field]:
    """What the arrays must be beside their types and shapes, which are those of ``chains``."""
    size, states = chains.uid.shape
    entries, last = len(chains.pool), max(time - 1, 0)
    largest = _LARGEST_READING[is_cut]
    clock_low, clock_high = [0, EMPTY + 1, 0, 0], [LARGEST_COUNT, entries - 1, LARGEST_COUNT, 1]
    hyper_low, hyper_high = [1e-300, 1e-300, 1e-300, 0.0, 0.0], [1e100, 1e100, 1e100, _BELOW_ONE, _BELOW_ONE]
    by_column = {
        "clock": columns(clock_low, clock_high),
        "hyper": columns(hyper_low, hyper_high),
        "frozen_edge": columns([-1, 0, 0], [states - 1, time, time]),
    }
    limits: dict[str, tuple[Any, Any]] = {
        "seed": (0, 2**32 - 1),
        "log_weight": (-math.inf, 1e-6),
        "tail": (-math.inf, _LARGEST_LOG),
        "count": (0, states),
        "state": (0, states - 1),
        "start": (0, last),
        "run_start": (0, last),
        "log_row": (-math.inf, 1e-6),
        "uid": (0, LARGEST_COUNT),
        "log_w": (_LEAST_LOG, _LARGEST_LOG),
        "log_g": (_LEAST_LOG, _LARGEST_LOG),
        "counts": (0, time),
        "stats_at": (0, entries - 1),
        "first_seen": (0, last),
        "last_seen": (0, last),
        "recent_uid": (0, LARGEST_COUNT),
        "recent_start": (0, last),
        "values": (-largest, largest),
        "origin": (0, size - 1),
        "frozen_count": (0, states),
        "frozen_counts": (0, time),
    }
    fields = {name: Field(array.dtype, array.shape, nan=True) for name, array in chains._asdict().items()}
    for name, (low, high) in limits.items():
        fields[name] = fields[name]._replace(low=low, high=high, nan=name == "values")
    for name, valid in by_column.items():
        fields[name] = fields[name]._replace(columns=valid)
    fields["is_frozen"] = Field(FLAG, chains.is_frozen.shape)
    # pool, dwells and the like may be anything here, see ``check_arrays``
    return {name: field for name, field in fields.items() if name not in CACHES}


_CONTRADICTIONS = (
    "",
    "weights of chains add up to 1",
    "a chain is in one of its states, and has been since the start of the segment",
    "the probabilities of the next state, and the weights of all states, add up to 1",
    "transitions are no more than observations",
    "the recent past is made of known states",
    "states from before the last move are frozen, and no others",
)


@kernel
def _contradiction(
    time, moved_at, folded, side, log_weight, tail, log_w, count, state, start, run_start, log_row, uid, counts,
    first_seen, last_seen, recent_uid, recent_start, is_frozen, origin, frozen_count, frozen_counts,
):  # fmt: skip
    """The number of the first relation that does not hold, 0 if all do. All indices are in range."""
    new, recent = log_row.shape[1] - 1, recent_uid.shape[1]
    weight = 0.0
    for i in range(log_weight.shape[0]):
        if log_weight[i] == -np.inf:
            continue
        weight += math.exp(log_weight[i])
        if not (state[i] < count[i] and run_start[i] <= start[i] and last_seen[i, state[i]] == time - 1):
            return 2
        if not (tail[i, 1] > -1e300 or count[i] > 1):
            return 3
        total, sticks = math.exp(log_row[i, new]), math.exp(tail[i, 0])
        transitions = 0
        for k in range(count[i]):
            total += math.exp(log_row[i, k])
            sticks += math.exp(log_w[i, k])
            for row in range(count[i] + 1):
                transitions += counts[i, row, k]
        if not (abs(total - 1.0) < 1e-3 and abs(sticks - 1.0) < 1e-3):
            return 3
        if transitions > time:
            return 4
        if frozen_count.shape[1] == 0:  # nothing moves, and the recent past is only compared
            continue
        for t in range(max(0, time - recent), time):
            known = False
            for k in range(count[i]):
                known = known or uid[i, k] == recent_uid[i, t % recent]
            if not known or recent_start[i, t % recent] > t:
                return 5
        frozen = frozen_count[side, origin[i]]
        for k in range(count[i]):
            if is_frozen[i, k] != (first_seen[i, k] < moved_at) or (is_frozen[i, k] and k >= frozen):
                return 6
        transitions = 0
        for row in range(frozen + 1):
            for k in range(frozen):
                transitions += frozen_counts[side, origin[i], row, k]
        if transitions > folded:
            return 4
    return 0 if abs(weight - 1.0) < 1e-3 else 1


def check_arrays(plan: Plan, chains: Chains, arrays: dict[str, np.ndarray]) -> int:
    """Raise SnapshotError unless ``arrays`` can be those of chains like these. Returns their time."""
    emission, duration, settings, _ = plan
    check(arrays, {"clock": Field(WHOLE, (4,), 0, LARGEST_COUNT)})
    time, _, folded, side = arrays["clock"].tolist()
    is_cut = not catalogue.entry_of(emission).counts
    check(arrays, _fields(chains, time, is_cut))
    moves = time // settings.move_every if settings.move_every else 0
    moved_until = max(0, moves * settings.move_every - settings.lag)
    require(side == moves % 2 and folded == moved_until, "the frozen past ends where the last move began")
    emissions.check_data(emission, arrays["values"])
    require(emissions.are_valid(emission, arrays["pool"][EMPTY : EMPTY + 1]), "statistics are those of possible data")
    if time == 0:
        weights = float(np.exp(arrays["log_weight"]).sum())
        require(not arrays["count"].any() and abs(weights - 1.0) < 1e-3, "chains that have seen nothing know no state")
        return time
    a = arrays
    wrong = _contradiction(
        time, moves * settings.move_every, folded, side, a["log_weight"], a["tail"], a["log_w"], a["count"],
        a["state"], a["start"], a["run_start"], a["log_row"], a["uid"], a["counts"], a["first_seen"], a["last_seen"],
        a["recent_uid"], a["recent_start"], a["is_frozen"], a["origin"], a["frozen_count"], a["frozen_counts"],
    )  # fmt: skip
    require(wrong == 0, _CONTRADICTIONS[wrong])
    alive = a["log_weight"] > -math.inf
    known = (np.arange(a["uid"].shape[1]) < a["count"][:, np.newaxis]) & alive[:, np.newaxis]
    stats = a["pool"][a["stats_at"][known]]
    possible = durations.are_valid(duration, a["dwells"][known], time)
    if a["frozen_count"].size:
        chain, slot = np.nonzero(known & a["is_frozen"])
        stats = np.concatenate([stats, a["frozen_stats"][side, a["origin"][chain], slot]])
        frozen = a["frozen_dwells"][side, a["origin"][chain], slot]
        possible = possible and durations.are_valid(duration, frozen, folded)
    require(emissions.are_valid(emission, stats), "statistics are those of possible data")
    require(possible, "statistics are those of possible segments")
    require(prepared.are_valid(emission, a["prepared"]), "predictions are those of possible data")
    return time


# Making chains


def make_plan(model: Model, *, lag: int = 64, max_states: int = 32, move_every: int = 0) -> Plan:
    """The fixed part of a run; ValueError for models that these chains cannot follow."""
    _checks.whole("lag", lag, at_least=1)
    _checks.whole("max_states", max_states, at_least=2)
    _checks.whole("move_every", move_every, at_least=0)
    step_rules = make_step_rules(model)
    if emissions.is_segment_local(model.emission):
        raise ValueError(
            f"{type(model.emission).__name__} with a trend inside segments can only be used where no state returns "
            f"(ilr), got model {model.name!r}"
        )
    if emissions.has_first_law(model.emission) or model.shared or model.outliers:
        named = {"shared numbers": model.shared, "outliers": model.outliers, type(model.emission).__name__: True}
        what = next(name for name, has in named.items() if has)
        raise ValueError(
            f"{what} cannot be followed online as a part of {model.name!r}: use OnlineDetector('recurring'), which has "
            f"all of these, or ishsmm_stream.sample"
        )
    settings = Settings(step_rules, lag, move_every, emissions.look_back(model.emission))
    return Plan(model.emission, model.duration, settings, make_rules(model, _MOVE_SLOTS * max_states))


def make_chains(
    model: Model, *, size: int = 100, lag: int = 64, max_states: int = 32, move_every: int = 0, seed: int = 0
) -> Chains:
    """``size`` chains that have seen nothing, their hyperparameters drawn from their priors."""
    _checks.whole("size", size, at_least=1)
    _checks.whole("seed", seed, at_least=0)
    settings = make_plan(model, lag=lag, max_states=max_states, move_every=move_every).settings
    states = settings.step_rules.states or max_states
    recent = lag + move_every + 1
    moved = size if move_every > 0 else 0
    # all that N chains can refer to, the next version of each chain's current state, and the empty one
    entries = size * (states + 1) + 2
    stats = emissions.stats_size(model.emission)
    dwells = durations.stats_size(model.duration)
    keys, logs = dwell_hazards.make_table(model.duration)
    words = counter_random.seed_words(seed)
    chains = Chains(
        seed=words,
        clock=np.array([0, 1, 0, 0]),
        sums=np.zeros(2),
        log_weight=np.full(size, -math.log(size)),
        hyper=_draw_hyperparameters(model, size, words),
        tail=np.zeros((size, 2)),
        count=np.zeros(size, dtype=np.int64),
        state=np.zeros(size, dtype=np.int64),
        start=np.zeros(size, dtype=np.int64),
        run_start=np.zeros(size, dtype=np.int64),
        log_row=np.zeros((size, states + 1)),
        uid=np.zeros((size, states), dtype=np.int64),
        log_w=np.zeros((size, states)),
        log_g=np.zeros((size, states)),
        counts=np.zeros((size, states + 1, states), dtype=np.int32),
        dwells=np.zeros((size, states, dwells)),
        stats_at=np.zeros((size, states), dtype=np.int64),
        first_seen=np.zeros((size, states), dtype=np.int64),
        last_seen=np.zeros((size, states), dtype=np.int64),
        is_frozen=np.zeros((size, states), dtype=np.bool_),
        recent_uid=np.zeros((size, recent), dtype=np.int64),
        recent_start=np.zeros((size, recent), dtype=np.int64),
        values=np.full((recent + settings.history, emissions.channels(model.emission)), np.nan),
        pool=np.zeros((entries, stats)),
        prepared=np.zeros((entries, prepared.prepared_size(model.emission))),
        hazard_keys=keys,
        hazard_logs=logs,
        origin=np.arange(size),
        frozen_count=np.zeros((2, moved), dtype=np.int64),
        frozen_counts=np.zeros((2, moved, states + 1, states), dtype=np.int32),
        frozen_dwells=np.zeros((2, moved, states, dwells)),
        frozen_stats=np.zeros((2, moved, states, stats)),
        frozen_edge=np.zeros((2, moved, 3), dtype=np.int64),
    )
    emissions.clear(model.emission, chains.pool[EMPTY])
    prepared.prepare(model.emission, chains.pool[EMPTY], chains.prepared[EMPTY])
    return chains


def _draw_hyperparameters(model: Model, size: int, words: np.ndarray) -> np.ndarray:
    hyper = np.empty((size, len(HYPERPARAMETERS)))
    stream = counter_random.make_stream()
    for slot in range(size):
        counter_random.key(stream, words, 0, slot, counter_random.HYPERPARAMETERS)
        for i, name in enumerate(HYPERPARAMETERS):
            value = getattr(model, name)
            if isinstance(value, Gamma):
                drawn = math.exp(counter_random.draw_log_gamma(stream, value.shape)) / value.rate
                hyper[slot, i] = max(drawn, 1e-290)  # its logarithm is taken
            elif isinstance(value, Beta):
                log_share, _ = counter_random.draw_log_beta(stream, math.log(value.a), math.log(value.b))
                hyper[slot, i] = min(math.exp(log_share), 1.0 - 1e-12)
            else:
                hyper[slot, i] = value
    return hyper
