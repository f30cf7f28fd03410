"""The chains continued by a reading, as in the paper's incremental sampler: states are instantiated when needed.

    stay             (1 - h) p(y | stay)
    known state k    h (1 - P(new)) P(k | s) p(y | enter k)
    new state        h P(new) p(y | a new state)

Continuations below ``_NEGLIGIBLE`` of the whole are dropped and the others are thinned to the number of chains by
optimal resampling. Nothing is copied unless two continuations of one chain survive.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.online import lattice
from ishsmm_stream.online.particles import counter_random
from ishsmm_stream.online.particles.names import free_uid
from ishsmm_stream.online.particles.resampling import choose_slots, resample
from ishsmm_stream.online.regimes import chains as arrays
from ishsmm_stream.online.regimes import dictionary, states, transitions
from ishsmm_stream.online.regimes.chains import (
    ALL_EXITS,
    ALL_TIME,
    DISCARDED,
    DWELL_LOGS,
    DWELL_N,
    DWELL_SUM,
    EXITS,
    FIRST_SEEN,
    GAP,
    LAST,
    LAST_SEEN,
    LEAST_READINGS,
    LOG_EVIDENCE,
    LOG_RESOLUTION,
    MOVES,
    RAW,
    READINGS,
    REPEATS,
    STEP,
    TIME,
    VISITS,
    refresh,
    shared,
)
from ishsmm_stream.online.regimes.dictionary import EARLY
from ishsmm_stream.online.regimes.dwells import SHAPES
from ishsmm_stream.online.regimes.states import NOISES, PHIS, SUMS

_NEGLIGIBLE = 1e-5
RESAMPLING = 2  # purpose of random numbers, beside ``dictionary.SHARED``
_EARLY_EVERY, _LATER_EVERY = 4, 32  # how often what states share is drawn
_FUSE_EVERY = 4  # but not early: the evidence for states may still turn, so chains must differ
_MANY_REPEATS = 0.1  # share of readings
_SMALL_MOVES = 0.2  # the quantile of moves that is the stream's resolution
_LEAST_RATE = 0.02  # at which it is followed


class Approximations(NamedTuple):
    """What bounds the work; tests switch parts of it off."""

    negligible: float = _NEGLIGIBLE
    draws: bool = True  # of what states share
    merges: bool = True
    splits: bool = True
    fuses: bool = True
    renews: bool = True  # what an outlier left behind
    max_states: int = 32


class RegimeScratch(NamedTuple):
    """Work space."""

    parent: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    inlier: np.ndarray
    order: np.ndarray
    chosen: np.ndarray
    kept: np.ndarray
    slot: np.ndarray
    is_continued: np.ndarray
    scores: np.ndarray
    sums: np.ndarray
    rest: np.ndarray
    stream: np.ndarray
    found: np.ndarray
    masses: np.ndarray


def make_scratch(size: int, room: int) -> RegimeScratch:
    """Return work space for chains with this much room."""
    most = size * (room + 2)
    return RegimeScratch(
        parent=np.empty(most, dtype=np.int64),
        target=np.empty(most, dtype=np.int64),
        weight=np.empty(most),
        inlier=np.empty(most),
        order=np.empty(most, dtype=np.int64),
        chosen=np.empty(size, dtype=np.int64),
        kept=np.empty(size),
        slot=np.empty(size, dtype=np.int64),
        is_continued=np.empty(size, dtype=np.bool_),
        scores=np.empty(max(len(PHIS), len(NOISES), len(SHAPES))),
        sums=np.empty(SUMS),
        rest=np.empty(SUMS),
        stream=counter_random.make_stream(),
        found=np.empty(size, dtype=np.int64),
        masses=np.empty(size),
    )


_NEW = -1


@kernel
def _list_continuations(chains, scratch, y):
    """Write every chain's continuations and their weights; returns their number and total weight."""
    parent, target, weight, inlier = scratch.parent, scratch.target, scratch.weight, scratch.inlier
    before, gap = chains.amounts[LAST], chains.clock[GAP]
    n = 0
    total = 0.0
    for i in range(chains.weight.shape[0]):
        mass = chains.weight[i]
        if mass == 0.0:
            continue
        s, count = chains.state[i], chains.count[i]
        phi, noise, spread = shared(chains, i)
        h = transitions.hazard(chains, i, gap)
        if chains.follows[i]:
            density, share = states.stay_density(chains.prepared[i, s], phi, y, before)
        else:
            density, share = states.entry_density(chains.prepared[i, s], y)
        parent[n], target[n], weight[n], inlier[n] = i, s, mass * (1.0 - h) * density, share
        total += weight[n]
        n += 1
        new = transitions.new_probability(chains, i)
        if new < 1.0:
            known = mass * h * (1.0 - new)
            for k in range(count):
                if k != s:
                    density, share = states.entry_density(chains.prepared[i, k], y)
                    parent[n], target[n], inlier[n] = i, k, share
                    weight[n] = known * transitions.known_probability(chains, i, k) * density
                    total += weight[n]
                    n += 1
        density, share = states.birth_density(phi, noise, spread, y)
        parent[n], target[n], weight[n], inlier[n] = i, _NEW, mass * h * new * density, share
        total += weight[n]
        n += 1
    return n, total


@kernel
def _leave(chains, i, t):
    """End the current visit before reading ``t``."""
    s = chains.state[i]
    chains.life[i, s, EXITS] += 1
    chains.totals[i, ALL_EXITS] += 1.0
    length = t - chains.run_start[i]
    dwells = chains.dwells[i, s]
    dwells[DWELL_N] += 1.0
    dwells[DWELL_SUM] += length
    dwells[DWELL_LOGS] += math.log(length)
    chains.ending[i, 0] = 0.0


@kernel
def _enter(chains, i, k, t, renews):
    """Begin a visit to state ``k`` with reading ``t``.

    A state that has seen one or two readings is the trace of an outlier. It counts as born now, under a new name.
    """
    if renews and chains.life[i, k, READINGS] < LEAST_READINGS:
        chains.uid[i, k] = free_uid(chains.uid[i], chains.count[i], k, t)
        chains.life[i, k, FIRST_SEEN] = t
    chains.state[i] = k
    chains.run_start[i] = t
    chains.life[i, k, VISITS] += 1
    for n in range(SUMS):
        chains.visit[i, n] = 0.0


@kernel
def _give_birth(chains, i, t, origin, limit):
    """Return the slot of a new state, which is entered with reading ``t``."""
    if chains.count[i] == limit:
        dictionary.make_room(chains, i, t)
    k = chains.count[i]
    chains.count[i] = k + 1
    chains.uid[i, k] = free_uid(chains.uid[i], k, k, t)
    for n in range(SUMS):
        chains.sums[i, k, n] = 0.0
    chains.origin[i, k] = origin
    life, dwells = chains.life[i, k], chains.dwells[i, k]
    for n in range(life.shape[0]):
        life[n] = 0
    for n in range(dwells.shape[0]):
        dwells[n] = 0.0
    life[FIRST_SEEN] = t
    chains.leavings[i, k] = 0.0
    for j in range(k + 1):
        chains.moves[i, k, j] = 0.0
        chains.moves[i, j, k] = 0.0
    transitions.record_birth(chains, i, k)
    return k


@kernel
def _observe(chains, i, y, t, is_entry, weight):
    """Take reading ``t`` into the current state."""
    k = chains.state[i]
    sums, visit, origin = chains.sums[i, k], chains.visit[i], chains.origin[i, k]
    if is_entry:
        states.add_entry(sums, origin, y, weight)
        states.add_entry(visit, origin, y, weight)
    else:
        states.add_stay(sums, origin, y, chains.amounts[LAST], weight)
        states.add_stay(visit, origin, y, chains.amounts[LAST], weight)
    factor = states.fade(sums)
    if factor < 1.0:
        for n in range(SUMS):
            visit[n] *= factor
    life = chains.life[i, k]
    elapsed = 1 + chains.clock[GAP] if chains.run_start[i] < t else 1
    life[READINGS] += elapsed
    life[LAST_SEEN] = t
    chains.totals[i, ALL_TIME] += elapsed
    chains.follows[i] = weight >= 0.5
    refresh(chains, i, k)


@kernel
def _continue_chains(chains, scratch, continuations, total, y, t, limits):
    """Thin the continuations out and make them the chains."""
    size = chains.weight.shape[0]
    weight = scratch.weight
    least = limits.negligible * total
    for n in range(continuations):
        if weight[n] < least:
            chains.amounts[DISCARDED] += weight[n] / total
            weight[n] = 0.0
    counter_random.key(scratch.stream, chains.seed, t, 0, RESAMPLING)
    taken = resample(scratch.stream, weight, continuations, size, scratch.order, scratch.chosen, scratch.kept)
    choose_slots(scratch.parent, scratch.chosen, taken, scratch.slot, scratch.is_continued)
    total = 0.0
    for n in range(taken):
        total += scratch.kept[n]
        i = scratch.parent[scratch.chosen[n]]
        if scratch.slot[n] != i:
            arrays.copy_chain(chains, scratch.slot[n], i)
    chains.weight[:] = 0.0
    for n in range(taken):
        i, child = scratch.slot[n], scratch.chosen[n]
        chains.weight[i] = scratch.kept[n] / total
        k, share = scratch.target[child], scratch.inlier[child]
        is_entry = not chains.follows[i]
        if k != chains.state[i]:
            _leave(chains, i, t)
            is_entry = True
            if k == _NEW:
                k = _give_birth(chains, i, t, y if share < 0.5 else 0.0, limits.max_states)
                share = 1.0
            else:
                transitions.record_move(chains, i, k)
            _enter(chains, i, k, t, limits.renews)
        _observe(chains, i, y, t, is_entry, share)


@kernel
def _begin(chains, y, t):
    """The first reading: one chain, with one state."""
    phi, noise, spread = shared(chains, 0)
    density, share = states.birth_density(phi, noise, spread, y)
    chains.amounts[LOG_EVIDENCE] = math.log(density)
    chains.weight[0] = 1.0
    k = _give_birth(chains, 0, t, y if share < 0.5 else 0.0, 1)
    _enter(chains, 0, k, t, False)
    _observe(chains, 0, y, t, True, 1.0)


@kernel
def _tidy(chains, scratch, t, limits):
    """Draw what states share, merge, split and fuse where it is due, after reading ``t - 1``."""
    is_due = t % (_EARLY_EVERY if t < EARLY else _LATER_EVERY) == 0
    looks_for_splits = limits.splits and t % _EARLY_EVERY == 0
    if is_due or looks_for_splits:
        for i in range(chains.weight.shape[0]):
            if chains.weight[i] == 0.0:
                continue
            if is_due:
                if limits.draws:
                    dictionary.draw_shared(chains, i, t, scratch.stream, scratch.scores)
                if limits.merges and chains.count[i] > 1:
                    dictionary.merge_current(chains, i, t, scratch.sums)
            if looks_for_splits:
                dictionary.split_current(chains, i, t, limits.max_states, scratch.rest, scratch.sums)
    if limits.fuses and t % _FUSE_EVERY == 0 and t >= EARLY:
        dictionary.fuse(chains)


@kernel
def needs_room(chains, limits):
    """Whether a chain might need room for one more state than there is."""
    room = chains.uid.shape[1]
    if room >= limits.max_states:
        return False
    for i in range(chains.weight.shape[0]):
        if chains.weight[i] > 0.0 and chains.count[i] >= room - 1:  # a birth and a split
            return True
    return False


@kernel
def _track_resolution(amounts, log_move):
    """Follow a small quantile of the logarithm of the moves that are none."""
    amounts[MOVES] += 1.0
    if amounts[MOVES] == 1.0:
        amounts[LOG_RESOLUTION] = log_move
        return
    rate = max(1.0 / math.sqrt(amounts[MOVES]), _LEAST_RATE)
    amounts[LOG_RESOLUTION] += rate * (_SMALL_MOVES if log_move > amounts[LOG_RESOLUTION] else _SMALL_MOVES - 1.0)


@kernel
def _dequantised(chains, y, t):
    """Return the reading moved by a random part of the stream's resolution.

    That is its step if the readings lie on a lattice, or the size of its small moves if many readings repeat the one
    before. The density of a value that repeats would grow without bound, and so would the number of states.
    """
    amounts = chains.amounts
    if not math.isnan(amounts[RAW]):
        move = y - amounts[RAW]
        amounts[STEP] = lattice.refine(amounts[STEP], move)
        if move == 0.0:
            amounts[REPEATS] += 1.0
        else:
            _track_resolution(amounts, math.log(abs(move)))
    amounts[RAW] = y
    width = max(amounts[STEP], 0.0)
    if amounts[REPEATS] > _MANY_REPEATS * (amounts[MOVES] + amounts[REPEATS]) and amounts[MOVES] > 0.0:
        width = max(width, math.exp(amounts[LOG_RESOLUTION]))
    return y + width * lattice.part_of_step(t) if width > 0.0 else y


@kernel
def observe(chains, scratch, y, limits):
    """Take the next reading in, NaN if it is missing."""
    t = chains.clock[TIME]
    if not math.isnan(y):
        y = _dequantised(chains, y, t)
    if math.isnan(y):
        if t > 0:
            chains.clock[GAP] += 1
            for i in range(chains.weight.shape[0]):
                chains.follows[i] = False
    elif math.isnan(chains.amounts[LAST]):
        _begin(chains, y, t)
    else:
        continuations, total = _list_continuations(chains, scratch, y)
        chains.amounts[LOG_EVIDENCE] += math.log(total)
        _continue_chains(chains, scratch, continuations, total, y, t, limits)
    if not math.isnan(y):
        chains.clock[GAP] = 0
        chains.amounts[LAST] = y
    column = t % chains.recent_uid.shape[1]
    for i in range(chains.weight.shape[0]):
        if chains.weight[i] > 0.0:
            chains.recent_uid[i, column] = chains.uid[i, chains.state[i]]
    if not math.isnan(y):
        _tidy(chains, scratch, t + 1, limits)
    chains.clock[TIME] = t + 1
