"""The part of every chain's past that moves no longer change.

A move redraws the last ``lag`` observations. What lies before them is kept as statistics, to which a move first adds
what has left the window since the last one. Statistics can in general not be subtracted: those of the whole past are
the frozen ones with the window and its new path added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import assign
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.online.recurring.chains import FOLDED, SIDE
from ishsmm_stream.online.recurring.window_beam import NO_STATE


class Frozen(NamedTuple):
    """What a chain's past before the window has left, its states in the chain's slots."""

    counts: np.ndarray  # (M + 1, M) transitions
    dwells: np.ndarray  # (M, numbers) complete segments
    stats: np.ndarray  # (M, numbers) emissions
    edge: np.ndarray  # (3,) state of the last observation (NO_STATE: there is none), start of its segment, of its run


STATE, START, RUN_START = range(3)


@kernel
def slot_of(uids, count, uid):
    """The slot of the state with this name, NO_STATE where there is none."""
    for k in range(count):
        if uids[k] == uid:
            return k
    return NO_STATE


@kernel
def _carry_over(emission, duration, is_frozen, count, frozen_count, old, new):
    """What was frozen at the last move, for the states that there are now. Those born since have nothing; what followed
    a state that was retired counts as having followed the start."""
    for k in range(count):
        for row in range(count + 1):
            new.counts[row, k] = 0
        if not is_frozen[k]:
            durations.clear(duration, new.dwells[k])
            emissions.clear(emission, new.stats[k])
            continue
        assign(new.dwells[k], old.dwells[k])
        assign(new.stats[k], old.stats[k])
        new.counts[0, k] = old.counts[0, k]
        for m in range(frozen_count):
            if is_frozen[m]:
                new.counts[m + 1, k] = old.counts[m + 1, k]
            else:
                new.counts[0, k] += old.counts[m + 1, k]


@kernel
def _fold(emission, duration, uids, count, recent_uid, recent_start, values, base, first, last, frozen):
    """Add observations ``first`` to ``last - 1`` of a chain's path; row 0 of ``values`` is observation ``base``."""
    size = recent_uid.shape[0]
    edge = frozen.edge
    if first == 0:
        edge[STATE] = NO_STATE
    else:
        edge[STATE] = slot_of(uids, count, recent_uid[(first - 1) % size])
        edge[START] = recent_start[(first - 1) % size]
    for t in range(first, last):
        k = slot_of(uids, count, recent_uid[t % size])
        if recent_start[t % size] == t:
            if edge[STATE] != NO_STATE:
                durations.add(duration, frozen.dwells[edge[STATE]], t - edge[START] - 1)
            if edge[STATE] != k:
                edge[RUN_START] = t
            frozen.counts[edge[STATE] + 1, k] += 1
            edge[STATE] = k
            edge[START] = t
        emissions.add(emission, frozen.stats[k], values, t - base)


@kernel
def frozen_of(chains, side, i):
    """The frozen past in slot ``i`` of a side."""
    return Frozen(
        chains.frozen_counts[side, i], chains.frozen_dwells[side, i], chains.frozen_stats[side, i],
        chains.frozen_edge[side, i],
    )  # fmt: skip


@kernel
def freeze(emission, duration, chains, values, base, begin):
    """Add the observations before ``begin`` to every chain's frozen past; ``values`` start at observation ``base``."""
    side, folded = chains.clock[SIDE], chains.clock[FOLDED]
    for i in range(chains.log_weight.shape[0]):
        if chains.log_weight[i] > -np.inf:
            origin, count, uids = chains.origin[i], chains.count[i], chains.uid[i]
            old, new = frozen_of(chains, side, origin), frozen_of(chains, 1 - side, i)
            assign(new.edge, old.edge)
            _carry_over(emission, duration, chains.is_frozen[i], count, chains.frozen_count[side, origin], old, new)
            _fold(
                emission, duration, uids, count, chains.recent_uid[i], chains.recent_start[i], values, base, folded,
                begin, new,
            )  # fmt: skip
    for i in range(chains.log_weight.shape[0]):
        chains.origin[i] = i
    chains.clock[FOLDED] = begin
    chains.clock[SIDE] = 1 - side
