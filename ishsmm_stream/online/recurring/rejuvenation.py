"""Moves: every chain's recent past is drawn anew from its conditional distribution.

A chain carries no parameters. For a move they are drawn, used and forgotten: weights and hyperparameters given the
transition counts, then the rows, theta and lambda, slices on the window, and a new path of the window given all of
these and what came before it. Each of these draws leaves the posterior as it is, so the chains keep their weights.

Three steps for all chains: ``freeze`` what has left the window, ``redraw`` the window, ``rebuild`` the chains.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import assign, draw_log_beta, draw_log_gamma, log_add
from ishsmm_stream.batch.hierarchy import resample_hierarchy, resample_rows
from ishsmm_stream.batch.weights import ALPHA0, ALPHA1, GAMMA_LEVEL, TAIL_G, TAIL_W, Weights, make_rows
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.online.recurring import prepared, window_beam
from ishsmm_stream.online.recurring.chains import CURSOR, EMPTY, FOLDED, SIDE, TIME, Chains, Plan
from ishsmm_stream.online.recurring.frozen import RUN_START, START, STATE, freeze, frozen_of, slot_of
from ishsmm_stream.online.recurring.names import free_uid
from ishsmm_stream.online.recurring.transitions import fill_log_row, give_to_tail
from ishsmm_stream.online.recurring.window_beam import NO_STATE


class Path(NamedTuple):
    """A window's states, as slots, and whether a segment begins at an observation."""

    labels: np.ndarray  # (length,)
    begins: np.ndarray  # (length,)


class Moves(NamedTuple):
    """What ``redraw`` hands to ``rebuild``: each chain's new window among the states instantiated for it, and
    their weights."""

    count: np.ndarray  # type: ignore[assignment]  # (N,) states instantiated
    labels: np.ndarray  # (N, length)
    begins: np.ndarray  # (N, length)
    log_w: np.ndarray  # (N, slots)
    log_g: np.ndarray  # (N, slots)


def _make_moves(size: int, length: int, slots: int) -> Moves:
    return Moves(
        count=np.zeros(size, dtype=np.int64),
        labels=np.zeros((size, length), dtype=np.int64),
        begins=np.zeros((size, length), dtype=np.bool_),
        log_w=np.zeros((size, slots)),
        log_g=np.zeros((size, slots)),
    )


@kernel
def _read_path(uids, count, recent_uid, recent_start, begin, path):
    size = recent_uid.shape[0]
    for j in range(path.labels.shape[0]):
        column = (begin + j) % size
        path.labels[j] = slot_of(uids, count, recent_uid[column])
        path.begins[j] = recent_start[column] == begin + j


@kernel
def _load_weights(rng, step_rules, weights, hyper, tail, log_w, log_g, count):
    """A chain's weights in the form of the batch sampler; returns how many states are instantiated.

    A finite space has all of its states instantiated: the tail is shared out.
    """
    assign(weights.hyper, hyper)
    assign(weights.tail, tail)
    assign(weights.log_w[:count], log_w)
    assign(weights.log_g[:count], log_g)
    states = step_rules.states
    if states > 0:
        total = -np.inf
        for k in range(count, states):
            weights.log_w[k] = -math.log(states)
            weights.log_g[k] = weights.log_w[k]
            if step_rules.kind == GAMMA_LEVEL:
                weights.log_g[k] = draw_log_gamma(rng, hyper[ALPHA0] / states)
                total = log_add(total, weights.log_g[k])
        if step_rules.kind == GAMMA_LEVEL:
            for k in range(count, states):
                weights.log_g[k] += tail[TAIL_G] - total
        weights.tail[:] = -np.inf
        return states
    rest = tail[TAIL_W]
    for k in range(count - 1, -1, -1):
        weights.logit_v[k] = log_w[k] - rest
        rest = log_add(rest, log_w[k])
    return count


@kernel
def _draw_self_odds(rng, weights, self_odds, count):
    """HDP-HSMM: departures say nothing about a row's struck-out entry: pi_mm ~ Beta(alpha1 w_m, alpha1 (1 - w_m))."""
    log_alpha1 = math.log(weights.hyper[ALPHA1])
    for m in range(count):
        others = weights.tail[TAIL_G]
        for k in range(count):
            if k != m:
                others = log_add(others, weights.log_g[k])
        log_self, log_rest = draw_log_beta(rng, log_alpha1 + weights.log_g[m], log_alpha1 + others)
        self_odds[m + 1] = math.exp(min(log_self - log_rest, 700.0))


@owning_kernel
def _draw_hierarchy(rng, rules, weights, rows, chain_counts, count, known):
    """Weights, hyperparameters and rows given a chain's transitions among the ``known`` of ``count`` states."""
    counts = np.zeros((count + 1, count), dtype=np.int64)
    for row in range(known + 1):
        for k in range(known):
            counts[row, k] = chain_counts[row, k]
    if rules.strikes_self:
        _draw_self_odds(rng, weights, rows.self_odds, count)
    resample_hierarchy(rng, rules, weights, rows, counts)
    resample_rows(rng, rules, weights, rows, counts)


@kernel
def _draw_parameters(rng, emission, duration, window, pool, stats_at, dwells, current, censored, count, known):
    """theta and lambda of every instantiated state; the ``current`` one's segment goes on with r >= ``censored``."""
    for k in range(known):
        emissions.draw_parameters(emission, pool[stats_at[k]], rng, window.theta[k])
        durations.draw_parameters(duration, dwells[k], censored if k == current else -1, rng, window.lam[k])
    for k in range(known, count):
        window_beam.draw_slot(rng, emission, duration, window, k)


@owning_kernel
def redraw(rng, emission, duration, settings, rules, chains, values, base, begin, weights, rows, window, moves):
    """Draw every chain's weights and hyperparameters, and a new path of its window, which begins at ``begin``.

    A chain whose slices reach more states than there is room for keeps its path.
    """
    side, time = chains.clock[SIDE], chains.clock[TIME]
    length, offset = time - begin, begin - base
    for i in range(chains.log_weight.shape[0]):
        if chains.log_weight[i] == -np.inf:
            continue
        known, edge = chains.count[i], chains.frozen_edge[side, i]
        path = Path(moves.labels[i], moves.begins[i])
        _read_path(chains.uid[i], known, chains.recent_uid[i], chains.recent_start[i], begin, path)
        count = _load_weights(
            rng, settings.step_rules, weights, chains.hyper[i], chains.tail[i], chains.log_w[i], chains.log_g[i], known
        )
        _draw_hierarchy(rng, rules, weights, rows, chains.counts[i], count, known)
        _draw_parameters(
            rng, emission, duration, window, chains.pool, chains.stats_at[i], chains.dwells[i], chains.state[i],
            time - chains.start[i] - 1, count, known,
        )  # fmt: skip
        for k in range(count):
            window_beam.fill_slot(emission, duration, window, values, offset, length, k)
        window_beam.draw_slices(rng, rows.pi, window.slices, path.labels, path.begins, edge[STATE])
        count, has_room = window_beam.forward(
            rng, emission, duration, rules, weights, rows, window, values, offset, length, edge[STATE],
            begin - edge[START], count,
        )  # fmt: skip
        if has_room:
            window_beam.backward(rng, rows.pi, window, edge[STATE], count, path.labels, path.begins)
        moves.count[i] = count
        assign(moves.log_w[i, :count], weights.log_w)
        assign(moves.log_g[i, :count], weights.log_g)
        assign(chains.hyper[i], weights.hyper)
        assign(chains.tail[i], weights.tail)


# After the new path


@kernel
def _number_used(counts, labels, known, count, number):
    """``number[k]``: the place of slot ``k`` among the states in use, before the window or in it, NO_STATE for the
    others; returns how many are in use. ``counts``: the frozen transitions."""
    used = 0
    for k in range(count):
        in_use = False
        if k < known:
            for row in range(known + 1):
                in_use = in_use or counts[row, k] > 0
        for j in range(labels.shape[0]):
            in_use = in_use or labels[j] == k
        number[k] = NO_STATE
        if in_use:
            number[k] = used
            used += 1
    return used


@kernel
def _renumber_frozen(emission, duration, number, known, count, frozen):
    """Move the frozen statistics to their states' new places, which are never behind the old ones; states that the
    move made have none."""
    for k in range(known):
        if number[k] != NO_STATE:
            assign(frozen.dwells[number[k]], frozen.dwells[k])
            assign(frozen.stats[number[k]], frozen.stats[k])
    for row in range(known + 1):
        if row == 0 or number[row - 1] != NO_STATE:
            place = 0 if row == 0 else number[row - 1] + 1
            for k in range(known):
                if number[k] != NO_STATE:
                    frozen.counts[place, number[k]] = frozen.counts[row, k]
    for k in range(known, count):
        place = number[k]
        if place != NO_STATE:
            durations.clear(duration, frozen.dwells[place])
            emissions.clear(emission, frozen.stats[place])
            for other in range(place + 1):
                frozen.counts[other, place] = 0
                frozen.counts[place + 1, other] = 0
    if frozen.edge[STATE] != NO_STATE:
        frozen.edge[STATE] = number[frozen.edge[STATE]]


@kernel
def _renumber_weights(number, count, new_log_w, new_log_g, tail, log_w, log_g):
    """A chain's weights; those of states that are not in use go to the tail."""
    for k in range(count):
        if number[k] == NO_STATE:
            give_to_tail(new_log_w, new_log_g, tail, k)
        else:
            log_w[number[k]] = new_log_w[k]
            log_g[number[k]] = new_log_g[k]


@kernel
def _renumber_states(number, known, count, labels, begin, uids, first_seen, last_seen):
    """States keep their uid; one that the move made takes the index of its first observation."""
    used = 0
    for k in range(known):
        if number[k] != NO_STATE:
            uids[used] = uids[k]
            first_seen[used] = first_seen[k]
            last_seen[used] = min(last_seen[k], begin - 1)
            used += 1
    for k in range(known, count):
        if number[k] != NO_STATE:
            j = 0
            while labels[j] != k:
                j += 1
            uids[used] = free_uid(uids, used, used, begin + j)
            first_seen[used] = begin
            used += 1
    for j in range(labels.shape[0] - 1, -1, -1):
        k = number[labels[j]]
        if first_seen[k] >= begin:
            first_seen[k] = begin + j
    for j in range(labels.shape[0]):
        labels[j] = number[labels[j]]
        last_seen[labels[j]] = begin + j


@kernel
def _add_window(emission, duration, path, begin, frozen, values, offset, counts, dwells, pool, entry, used):
    """A chain's statistics: the frozen ones with the window added. Those of the emissions go to ``pool[entry:]``."""
    for k in range(used):
        assign(dwells[k], frozen.dwells[k])
        assign(pool[entry + k], frozen.stats[k])
        for row in range(used + 1):
            counts[row, k] = frozen.counts[row, k]
    state, start = frozen.edge[STATE], frozen.edge[START]
    for j in range(path.labels.shape[0]):
        k = path.labels[j]
        if path.begins[j]:
            if state != NO_STATE:
                durations.add(duration, dwells[state], begin + j - start - 1)
            counts[state + 1, k] += 1
            state, start = k, begin + j
        emissions.add(emission, pool[entry + k], values, offset + j)


@kernel
def _write_path(path, begin, edge, uids, recent_uid, recent_start):
    """Returns the start of the last segment and of the last run of equal states."""
    size = recent_uid.shape[0]
    state, start, run_start = edge[STATE], edge[START], edge[RUN_START]
    for j in range(path.labels.shape[0]):
        if path.begins[j]:
            start = begin + j
            if path.labels[j] != state:
                state, run_start = path.labels[j], begin + j
        recent_uid[(begin + j) % size] = uids[path.labels[j]]
        recent_start[(begin + j) % size] = start
    return start, run_start


@kernel
def rebuild(emission, duration, settings, chains, values, base, begin, number, moves):
    """Make what ``redraw`` drew the chains' own. ``number`` is work space."""
    side, entry = chains.clock[SIDE], chains.clock[CURSOR]
    for i in range(chains.log_weight.shape[0]):
        if chains.log_weight[i] == -np.inf:
            continue
        known, count, uids, recent_uid = chains.count[i], moves.count[i], chains.uid[i], chains.recent_uid[i]
        frozen, path = frozen_of(chains, side, i), Path(moves.labels[i], moves.begins[i])
        used = _number_used(frozen.counts, path.labels, known, count, number)
        if used > uids.shape[0]:  # more states than a chain can hold: the path stays as it is
            _read_path(uids, known, recent_uid, chains.recent_start[i], begin, path)
            used = _number_used(frozen.counts, path.labels, known, count, number)
        _renumber_frozen(emission, duration, number, known, count, frozen)
        _renumber_weights(
            number, count, moves.log_w[i], moves.log_g[i], chains.tail[i], chains.log_w[i], chains.log_g[i]
        )
        _renumber_states(number, known, count, path.labels, begin, uids, chains.first_seen[i], chains.last_seen[i])
        _add_window(
            emission, duration, path, begin, frozen, values, begin - base, chains.counts[i], chains.dwells[i],
            chains.pool, entry, used,
        )  # fmt: skip
        chains.start[i], chains.run_start[i] = _write_path(
            path, begin, frozen.edge, uids, recent_uid, chains.recent_start[i]
        )
        chains.count[i] = used
        chains.state[i] = path.labels[-1]
        for k in range(used):
            chains.is_frozen[i, k] = True
            chains.stats_at[i, k] = entry + k
            prepared.prepare(emission, chains.pool[entry + k], chains.prepared[entry + k])
        chains.frozen_count[side, i] = used
        fill_log_row(
            settings.step_rules, chains.hyper[i], chains.log_g[i], chains.tail[i], chains.counts[i], chains.state[i],
            used, chains.log_row[i],
        )  # fmt: skip
        entry += used


def _make_weights(slots: int) -> Weights:
    return Weights(np.zeros(5), np.zeros(slots), np.zeros(slots), np.zeros(slots), np.zeros(2))


def _recent_values(chains: Chains, history: int) -> np.ndarray:
    """The data from ``history`` observations before the end of the frozen past until now; NaN before the stream."""
    times = np.arange(chains.clock[FOLDED] - history, chains.clock[TIME])
    values = chains.values[times % len(chains.values)]
    values[times < 0] = np.nan
    return values


def rejuvenate(plan: Plan, chains: Chains) -> None:
    """Move every chain over the last ``lag`` observations, with random numbers that depend on the time alone."""
    emission, duration, settings, rules = plan
    time = int(chains.clock[TIME])
    rng = np.random.Generator(np.random.Philox(key=[int(chains.seed[0]) << 32 | int(chains.seed[1]), time]))
    base = int(chains.clock[FOLDED]) - settings.history
    begin = max(0, time - settings.lag)
    slots = rules.allowed.shape[1]
    values = _recent_values(chains, settings.history)
    moves = _make_moves(len(chains.log_weight), time - begin, slots)
    window = window_beam.make_window(emission, duration, slots, time - begin)
    freeze(emission, duration, chains, values, base, begin)
    redraw(
        rng, emission, duration, settings, rules, chains, values, base, begin, _make_weights(slots), make_rows(rules),
        window, moves,
    )  # fmt: skip
    chains.clock[CURSOR] = EMPTY + 1
    rebuild(emission, duration, settings, chains, values, base, begin, np.zeros(slots, dtype=np.int64), moves)
