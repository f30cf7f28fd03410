"""How a chain comes by a new state, and what it gives up where it is full.

A chain holds a bounded number of states. Where all places are taken and a path goes to a new state, the state that is
least likely to return is retired: its weights go to the tail, its transitions and statistics are dropped, and the
probability of its return is added up. States of the recent past are never retired.
"""

from __future__ import annotations

import math

from ishsmm_stream._jit import kernel
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.online.particles import counter_random
from ishsmm_stream.online.particles.chains import EMPTY, RETIRED
from ishsmm_stream.online.particles.names import free_uid
from ishsmm_stream.online.particles.transitions import (
    drop_counts,
    give_to_tail,
    least_likely_to_return,
    open_tail,
    take_from_tail,
)


@kernel
def _oldest_kept(recent, t):
    """The first observation that the recent past still holds at t: states seen since are not retired."""
    return t - recent + 1


@kernel
def can_retire(states, recent, last_seen, count, t):
    """Whether a full chain has a state that it can retire. A finite space has no other states to make room for."""
    for k in range(count):
        if states == 0 and last_seen[k] < _oldest_kept(recent, t):
            return True
    return False


@kernel
def _make_room(chains, i, t):
    """(slot for a new state, how many states there are beside it)."""
    count = chains.count[i]
    if count < chains.uid.shape[1]:
        chains.count[i] = count + 1
        return count, count
    before = _oldest_kept(chains.recent_uid.shape[1], t)
    slot, probability = least_likely_to_return(
        chains.hyper[i], chains.log_g[i], chains.tail[i], chains.counts[i], chains.last_seen[i], before, count
    )
    chains.sums[RETIRED] += math.exp(chains.log_weight[i]) * probability
    give_to_tail(chains.log_w[i], chains.log_g[i], chains.tail[i], slot)
    drop_counts(chains.counts[i], slot, count)
    return slot, count - 1


@kernel
def give_birth(stream, duration, rules, chains, i, t):
    """A new state in chain ``i``, which is entered at t; returns its slot."""
    k, known = _make_room(chains, i, t)
    counter_random.key(stream, chains.seed, t, i, counter_random.BIRTH)
    if t == 0:
        open_tail(stream, rules, chains.hyper[i], chains.tail[i])
    take_from_tail(stream, rules, chains.hyper[i], chains.log_w[i], chains.log_g[i], chains.tail[i], k, known)
    chains.uid[i, k] = free_uid(chains.uid[i], chains.count[i], k, t)
    chains.stats_at[i, k] = EMPTY
    chains.first_seen[i, k] = t
    durations.clear(duration, chains.dwells[i, k])
    for j in range(chains.count[i]):
        chains.counts[i, j, k] = 0
        chains.counts[i, k + 1, j] = 0
    chains.counts[i, chains.count[i], k] = 0
    return k
