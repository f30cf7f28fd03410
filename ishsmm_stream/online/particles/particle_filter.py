"""A particle filter over paths whose states recur.

With every observation each chain is continued in every way that its model knows,

    stay             (1 - h_s(e)) t_s(y)
    known state k    h_s(e) P(k | s) t_k(y)
    new state        h_s(e) P(new | s) t_0(y)

(s the current state, e how long its segment has lasted, h the hazard, t the predictive of a state's emissions given
what the chain has seen of it), and the continuations are thinned to the number of chains by optimal resampling. The
sum of all continuations' weights is an unbiased estimate of the evidence's factor, and the weighted chains converge to
the exact posterior with their number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import assign
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.online import alarms, episodes, rarity
from ishsmm_stream.online.particles import counter_random, dwell_hazards, prepared
from ishsmm_stream.online.particles.beliefs import gather, heaviest
from ishsmm_stream.online.particles.births import can_retire, give_birth
from ishsmm_stream.online.particles.chains import CURSOR, EMPTY, LOG_EVIDENCE, TIME, Chains, Plan
from ishsmm_stream.online.particles.names import AGREE_EVERY, agree
from ishsmm_stream.online.particles.resampling import choose_slots, resample
from ishsmm_stream.online.particles.transitions import fill_log_row

_STAY = -1


class FilterScratch(NamedTuple):
    """Work space of ``extend``."""

    # continuations
    parent: np.ndarray  # the chain
    target: np.ndarray  # the slot of the state that it goes to, _STAY, or M for a new state
    weight: np.ndarray  # at first its logarithm
    order: np.ndarray  # for resampling
    # those that survive
    chosen: np.ndarray
    kept: np.ndarray  # new weight
    slot: np.ndarray  # the chain's slot that it gets
    is_continued: np.ndarray  # (N,) whether one of the chain's continuations has its slot
    # entries of the pool
    evaluated: np.ndarray  # the observation at which it was last evaluated,
    log_predictive: np.ndarray  # with this result
    extended: np.ndarray  # the observation at which it was last extended
    successor: np.ndarray  # into this entry
    # the posterior of the current segment's start
    starts: np.ndarray
    masses: np.ndarray
    stream: np.ndarray  # random numbers


def make_scratch(size: int, states: int, pool: int) -> FilterScratch:
    """Make work space. Plain Python; memory that is not touched costs nothing."""
    most = size * (states + 2)
    return FilterScratch(
        parent=np.empty(most, dtype=np.int64),
        target=np.empty(most, dtype=np.int64),
        weight=np.empty(most),
        order=np.empty(most, dtype=np.int64),
        chosen=np.empty(size, dtype=np.int64),
        kept=np.empty(size),
        slot=np.empty(size, dtype=np.int64),
        is_continued=np.empty(size, dtype=np.bool_),
        evaluated=np.full(pool, -1, dtype=np.int64),
        log_predictive=np.empty(pool),
        extended=np.full(pool, -1, dtype=np.int64),
        successor=np.empty(pool, dtype=np.int64),
        starts=np.empty(size, dtype=np.int64),
        masses=np.empty(size),
        stream=np.zeros(4, dtype=np.int64),
    )


# The pool


@kernel
def _evaluate(emission, pool, numbers, evaluated, log_predictive, entry, y, row, t):
    """Note ln t(y_t) of a pool entry."""
    evaluated[entry] = t
    log_predictive[entry] = prepared.log_predictive(emission, pool[entry], numbers[entry], y, row)


@kernel
def _extended(emission, pool, numbers, clock, evaluated, extended, successor, entry, y, row, t):
    """The pool entry that has seen y_t too. Every entry in use was evaluated at t, so any other one is free."""
    if extended[entry] != t:
        free = clock[CURSOR]
        while evaluated[free] == t:
            free += 1
            if free == pool.shape[0]:
                free = EMPTY + 1
        clock[CURSOR] = free
        evaluated[free] = t
        assign(pool[free], pool[entry])
        emissions.add(emission, pool[free], y, row)
        prepared.prepare(emission, pool[free], numbers[free])
        extended[entry] = t
        successor[entry] = free
    return successor[entry]


# One observation


@kernel
def _list_continuations(emission, duration, rules, chains, scratch, y, row, t):
    """Write every chain's continuations and the logarithms of their weights; returns their number and the largest."""
    log_weight, count, state, log_row, stats_at = (
        chains.log_weight, chains.count, chains.state, chains.log_row, chains.stats_at,
    )  # fmt: skip
    pool, numbers, evaluated, log_predictive = chains.pool, chains.prepared, scratch.evaluated, scratch.log_predictive
    keys, logs = chains.hazard_keys, chains.hazard_logs
    parent, target, weight = scratch.parent, scratch.target, scratch.weight
    most_states, recent = stats_at.shape[1], chains.recent_uid.shape[1]
    n = 0
    top = -np.inf
    for i in range(log_weight.shape[0]):
        if log_weight[i] == -np.inf:
            continue
        s = state[i]
        r = t - chains.start[i] - 1
        block = dwell_hazards.find_block(duration, chains.dwells[i, s], r // dwell_hazards.BLOCK, keys, logs)
        log_stays = log_weight[i] + logs[block, r % dwell_hazards.BLOCK, dwell_hazards.STAYS]
        log_ends = log_weight[i] + logs[block, r % dwell_hazards.BLOCK, dwell_hazards.ENDS]
        for k in range(count[i]):
            entry = stats_at[i, k]
            if evaluated[entry] != t:
                _evaluate(emission, pool, numbers, evaluated, log_predictive, entry, y, row, t)
            log_here = log_predictive[entry]
            if k == s:
                parent[n], target[n], weight[n] = i, _STAY, log_stays + log_here
                top = max(top, weight[n])
                n += 1
            parent[n], target[n], weight[n] = i, k, log_ends + log_row[i, k] + log_here
            top = max(top, weight[n])
            n += 1
        if count[i] < most_states or can_retire(rules.states, recent, chains.last_seen[i], count[i], t):
            parent[n], target[n], weight[n] = i, most_states, log_ends + log_row[i, most_states] + log_predictive[EMPTY]
            top = max(top, weight[n])
            n += 1
    return n, top


@kernel
def _copy_chain(chains, to, source):
    """All of a chain but its weight."""
    count = chains.count[source]
    chains.count[to] = count
    chains.state[to] = chains.state[source]
    chains.start[to] = chains.start[source]
    chains.run_start[to] = chains.run_start[source]
    chains.log_row[to, -1] = chains.log_row[source, -1]
    assign(chains.hyper[to], chains.hyper[source])
    assign(chains.tail[to], chains.tail[source])
    for k in range(count):
        chains.log_row[to, k] = chains.log_row[source, k]
        chains.uid[to, k] = chains.uid[source, k]
        chains.log_w[to, k] = chains.log_w[source, k]
        chains.log_g[to, k] = chains.log_g[source, k]
        chains.stats_at[to, k] = chains.stats_at[source, k]
        chains.first_seen[to, k] = chains.first_seen[source, k]
        chains.last_seen[to, k] = chains.last_seen[source, k]
        assign(chains.dwells[to, k], chains.dwells[source, k])
    for row in range(count + 1):
        for k in range(count):
            chains.counts[to, row, k] = chains.counts[source, row, k]
    assign(chains.recent_uid[to], chains.recent_uid[source])


@kernel
def _replace_chains(duration, rules, chains, scratch, continuations, t):
    """Resample the continuations and make them the chains."""
    size = chains.log_weight.shape[0]
    counter_random.key(scratch.stream, chains.seed, t, 0, counter_random.RESAMPLING)
    taken = resample(scratch.stream, scratch.weight, continuations, size, scratch.order, scratch.chosen, scratch.kept)
    choose_slots(scratch.parent, scratch.chosen, taken, scratch.slot, scratch.is_continued)
    total = 0.0
    for n in range(taken):
        total += scratch.kept[n]
    for n in range(taken):  # all copies before any chain changes
        i = scratch.parent[scratch.chosen[n]]
        if scratch.slot[n] != i:
            _copy_chain(chains, scratch.slot[n], i)
    chains.log_weight[:] = -np.inf
    for n in range(taken):
        chains.log_weight[scratch.slot[n]] = math.log(scratch.kept[n] / total)
        i, k = scratch.slot[n], scratch.target[scratch.chosen[n]]
        if k == _STAY:
            continue
        s = chains.state[i]
        durations.add(duration, chains.dwells[i, s], t - chains.start[i] - 1)
        if k == chains.uid.shape[1]:
            k = give_birth(scratch.stream, duration, rules, chains, i, t)
        chains.counts[i, s + 1, k] += 1
        if k != s:
            chains.run_start[i] = t
        chains.state[i] = k
        chains.start[i] = t
        fill_log_row(
            rules, chains.hyper[i], chains.log_g[i], chains.tail[i], chains.counts[i], k,
            chains.count[i], chains.log_row[i],
        )  # fmt: skip


@kernel
def _begin(duration, rules, chains, scratch, t):
    """The first observation: every chain has one state, new."""
    chains.sums[LOG_EVIDENCE] = scratch.log_predictive[EMPTY]
    for i in range(chains.log_weight.shape[0]):
        chains.state[i] = give_birth(scratch.stream, duration, rules, chains, i, t)
        chains.counts[i, 0, chains.state[i]] = 1
        fill_log_row(
            rules, chains.hyper[i], chains.log_g[i], chains.tail[i], chains.counts[i], chains.state[i],
            chains.count[i], chains.log_row[i],
        )  # fmt: skip


@kernel
def _to_weights(weight, continuations, top):
    """Weights, the largest 1, from their logarithms; returns their sum."""
    total = 0.0
    for n in range(continuations):
        weight[n] = math.exp(weight[n] - top)
        total += weight[n]
    return total


@kernel
def _observe(emission, chains, scratch, y, row, t):
    """Take y_t into the statistics of every chain's current state, and the step into the recent past."""
    pool, numbers, clock = chains.pool, chains.prepared, chains.clock
    column = t % chains.recent_uid.shape[1]
    for i in range(chains.log_weight.shape[0]):
        if chains.log_weight[i] > -np.inf:
            k = chains.state[i]
            chains.stats_at[i, k] = _extended(
                emission, pool, numbers, clock, scratch.evaluated, scratch.extended, scratch.successor,
                chains.stats_at[i, k], y, row, t,
            )  # fmt: skip
            chains.last_seen[i, k] = t
            chains.recent_uid[i, column] = chains.uid[i, k]


# Many observations


@kernel
def _judge(chains, scratch, y, row, t, policy, alarm_state, tracker, events, written):
    """Apply the policy to the posterior of the current segment's start, and to how unusual the reading is.

    Chains do not know levels, nor which start came before.
    """
    column = t % chains.recent_uid.shape[1]
    count = gather(chains.recent_uid[:, column], chains.log_weight, scratch.starts, scratch.masses)
    uid, _ = heaviest(scratch.starts, scratch.masses, count)
    count = gather(chains.run_start, chains.log_weight, scratch.starts, scratch.masses)
    before = written
    written = alarms.apply_policy(
        policy, alarm_state, t, scratch.starts, scratch.masses, None, None, None, count, uid, events, written
    )
    change, index = alarms.announced(events, before, written)
    period = episodes.note_changes(tracker, np.nan, events, before, written)
    return episodes.follow(policy, tracker, y, row, t, change, index, period, uid, events, written)


@kernel
def extend(
    emission, duration, rules, chains, scratch, y, first, last, policy, alarm_state, tracker, stops, events, written
):
    """Take rows ``first`` to ``last - 1`` of ``y``; where it ``stops``, only up to the first that causes an event.

    Returns the next row and how many rows of ``events`` are filled (at most ``alarms.MOST_EVENTS`` an observation).
    Rows before ``first`` are what the emission family looks back at.
    """
    row = first
    while row < last:
        t = chains.clock[TIME]
        _evaluate(emission, chains.pool, chains.prepared, scratch.evaluated, scratch.log_predictive, EMPTY, y, row, t)
        if t == 0:
            _begin(duration, rules, chains, scratch, t)
        else:
            continuations, top = _list_continuations(emission, duration, rules, chains, scratch, y, row, t)
            total = _to_weights(scratch.weight, continuations, top)
            chains.sums[LOG_EVIDENCE] += top + math.log(total)
            _replace_chains(duration, rules, chains, scratch, continuations, t)
        _observe(emission, chains, scratch, y, row, t)
        if (t + 1) % AGREE_EVERY == 0:
            agree(chains.log_weight, chains.uid, chains.count, chains.first_seen, chains.recent_uid, t + 1)
        written = _judge(chains, scratch, y, row, t, policy, alarm_state, tracker, events, written)
        chains.clock[TIME] = t + 1
        row += 1
        if stops and written > 0:
            break
    return row, written


def advance(
    plan: Plan,
    chains: Chains,
    y: np.ndarray,
    first: int,
    last: int,
    policy: alarms.AlarmPolicy,
    alarm_state: alarms.AlarmState,
    tracker: rarity.Tracker,
    events: np.ndarray,
    written: int = 0,
    stops: bool = False,
) -> tuple[int, int]:
    """Take rows ``first`` to ``last - 1`` of ``y``; where it ``stops``, only up to the first row that causes an event.
    Returns how many rows of ``events`` are filled, and the next row. ``y``: (length, channels) float64, NaN where
    missing.

    ``events`` has room for ``alarms.MOST_EVENTS`` rows an observation. Rows before ``first`` are those that the
    emission family looks back at, as far as the stream has them.
    """
    scratch = make_scratch(len(chains.log_weight), chains.uid.shape[1], len(chains.pool))
    row, written = extend(*plan, chains, scratch, y, first, last, policy, alarm_state, tracker, stops, events, written)
    return int(written), int(row)
