"""Weighted chains: explanations of a stream whose states recur, as arrays.

Each chain is one explanation of the data so far: which states there are, when each was visited, and the weights gamma
and w above the transition rows. The emissions' theta, the durations' lambda and the rows are integrated out.
``particle_filter.py`` continues the chains by an observation, ``beliefs.py`` says what they know together.

All that the sampler knows is in ``Chains``, arrays and nothing else. Randomness is a function of (seed, time, slot,
purpose): no result depends on how the observations were batched.

Chains that share a past have seen the same of a state. Emission statistics are therefore kept in a pool, each stored
and evaluated once whatever the number of chains that refer to it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel
from ishsmm_stream.batch.weights import HYPERPARAMETERS
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.presets import Model
from ishsmm_stream.model.priors import Beta, Gamma
from ishsmm_stream.online.particles import counter_random, dwell_hazards, prepared
from ishsmm_stream.online.particles.transitions import StepRules, make_step_rules
from ishsmm_stream.online.validation import LARGEST_COUNT, WHOLE, Field, check, columns, require

# Entries of Chains.clock and Chains.sums.
TIME, CURSOR = range(2)
LOG_EVIDENCE, RETIRED = range(2)
_BELOW_ONE = math.nextafter(1.0, 0.0)
EMPTY = 0  # the pool's entry of a state without data


class Plan(NamedTuple):
    """What is fixed for a run."""

    emission: Any
    duration: Any
    rules: StepRules


class Chains(NamedTuple):
    """N chains of at most M states each, R observations of their recent past. Arrays are changed in place.

    A slot is a state's place in its chain. Entries from ``count`` on are meaningless, and so is a chain whose
    ``log_weight`` is minus infinity.
    """

    seed: np.ndarray  # (2,)
    clock: np.ndarray  # (2,) observations seen, where to look for room in the pool
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
    # The recent past, observation t in column t % R
    recent_uid: np.ndarray  # (N, R)
    # Shared by the chains
    pool: np.ndarray  # (P, numbers) emission statistics
    prepared: np.ndarray  # (P, numbers) what predictions from them need
    hazard_keys: np.ndarray
    hazard_logs: np.ndarray


# Remembered function values: a snapshot may leave them as ``make_chains`` makes them.
CACHES = ("hazard_keys", "hazard_logs")


# What is valid in a snapshot

_LARGEST_LOG = 700.0  # of a weight above the rows: its exponential is a number
_LEAST_LOG = -1e295  # variates below any double have the logarithm -1e290


def state_bytes(model: Model, *, size: int, lag: int, max_states: int) -> int:
    """Return how much memory chains and their work space take, roughly."""
    states = model.topology.states or max_states
    stats, dwells = emissions.stats_size(model.emission), durations.stats_size(model.duration)
    chain = 4 * states * (states + 1) + 8 * states * (6 + dwells) + 8 * (lag + 1)
    return size * (chain + 8 * (states + 1) * (stats + 12))


def _fields(chains: Chains, time: int) -> dict[str, Field]:
    """What the arrays must be beside their types and shapes, which are those of ``chains``."""
    states = chains.uid.shape[1]
    entries, last = len(chains.pool), max(time - 1, 0)
    clock_low, clock_high = [0, EMPTY + 1], [LARGEST_COUNT, entries - 1]
    hyper_low, hyper_high = [1e-300, 1e-300, 1e-300, 0.0, 0.0], [1e100, 1e100, 1e100, _BELOW_ONE, _BELOW_ONE]
    by_column = {
        "clock": columns(clock_low, clock_high),
        "hyper": columns(hyper_low, hyper_high),
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
    }
    fields = {name: Field(array.dtype, array.shape, nan=True) for name, array in chains._asdict().items()}
    for name, (low, high) in limits.items():
        fields[name] = fields[name]._replace(low=low, high=high, nan=False)
    for name, valid in by_column.items():
        fields[name] = fields[name]._replace(columns=valid)
    # pool, dwells and the like may be anything here, see ``check_arrays``
    return {name: field for name, field in fields.items() if name not in CACHES}


_CONTRADICTIONS = (
    "",
    "weights of chains add up to 1",
    "a chain is in one of its states, and has been since the start of the segment",
    "the probabilities of the next state, and the weights of all states, add up to 1",
    "transitions are no more than observations",
)


@kernel
def _contradiction(time, log_weight, tail, log_w, count, state, start, run_start, log_row, counts, last_seen):
    """The number of the first relation that does not hold, 0 if all do. All indices are in range."""
    new = log_row.shape[1] - 1
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
    return 0 if abs(weight - 1.0) < 1e-3 else 1


def check_arrays(plan: Plan, chains: Chains, arrays: dict[str, np.ndarray]) -> int:
    """Raise SnapshotError unless ``arrays`` can be those of chains like these. Returns their time."""
    emission, duration, _ = plan
    check(arrays, {"clock": Field(WHOLE, (2,), 0, LARGEST_COUNT)})
    time = int(arrays["clock"][TIME])
    check(arrays, _fields(chains, time))
    require(emissions.are_valid(emission, arrays["pool"][EMPTY : EMPTY + 1]), "statistics are those of possible data")
    if time == 0:
        weights = float(np.exp(arrays["log_weight"]).sum())
        require(not arrays["count"].any() and abs(weights - 1.0) < 1e-3, "chains that have seen nothing know no state")
        return time
    a = arrays
    wrong = _contradiction(
        time, a["log_weight"], a["tail"], a["log_w"], a["count"], a["state"], a["start"], a["run_start"], a["log_row"],
        a["counts"], a["last_seen"],
    )  # fmt: skip
    require(wrong == 0, _CONTRADICTIONS[wrong])
    alive = a["log_weight"] > -math.inf
    known = (np.arange(a["uid"].shape[1]) < a["count"][:, np.newaxis]) & alive[:, np.newaxis]
    require(emissions.are_valid(emission, a["pool"][a["stats_at"][known]]), "statistics are those of possible data")
    require(durations.are_valid(duration, a["dwells"][known], time), "statistics are those of possible segments")
    require(prepared.are_valid(emission, a["prepared"]), "predictions are those of possible data")
    return time


def without_moves(arrays: dict[str, np.ndarray], lag: int) -> dict[str, np.ndarray]:
    """Return the arrays of a snapshot without what moves of the recent past needed, which earlier versions made."""
    if "is_frozen" not in arrays:
        return arrays
    kept = {name: arrays[name] for name in (*(set(Chains._fields) - set(CACHES)), "considered")}
    kept["clock"] = kept["clock"][:2]
    old = kept["recent_uid"]
    time, room = int(kept["clock"][TIME]), lag + 1
    times = np.arange(max(0, time - min(room, old.shape[1])), time)
    kept["recent_uid"] = np.zeros((len(old), room), dtype=old.dtype)
    kept["recent_uid"][:, times % room] = old[:, times % old.shape[1]]
    return kept


# Making chains


def make_plan(model: Model) -> Plan:
    """The fixed part of a run; ValueError for models that these chains cannot follow."""
    rules = make_step_rules(model)
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
    return Plan(model.emission, model.duration, rules)


def make_chains(model: Model, *, size: int = 100, lag: int = 64, max_states: int = 32, seed: int = 0) -> Chains:
    """``size`` chains that have seen nothing, their hyperparameters drawn from their priors."""
    _checks.whole("size", size, at_least=1)
    _checks.whole("lag", lag, at_least=1)
    _checks.whole("max_states", max_states, at_least=2)
    _checks.whole("seed", seed, at_least=0)
    states = make_plan(model).rules.states or max_states
    recent = lag + 1
    # all that N chains can refer to, the next version of each chain's current state, and the empty one
    entries = size * (states + 1) + 2
    stats = emissions.stats_size(model.emission)
    dwells = durations.stats_size(model.duration)
    keys, logs = dwell_hazards.make_table(model.duration)
    words = counter_random.seed_words(seed)
    chains = Chains(
        seed=words,
        clock=np.array([0, 1]),
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
        recent_uid=np.zeros((size, recent), dtype=np.int64),
        pool=np.zeros((entries, stats)),
        prepared=np.zeros((entries, prepared.prepared_size(model.emission))),
        hazard_keys=keys,
        hazard_logs=logs,
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
