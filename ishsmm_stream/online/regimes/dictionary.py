"""Moves over a chain's states: merge two, split one, retire one, and draw what they share.

They bound the work and mend early decisions, and they are approximations: they change a chain without changing its
weight. ``tests/online/regimes`` measures what they cost against enumeration and against chains without them.
"""

from __future__ import annotations

import math

from ishsmm_stream._jit import kernel
from ishsmm_stream.online.particles import counter_random
from ishsmm_stream.online.particles.names import free_uid
from ishsmm_stream.online.regimes import chains as arrays
from ishsmm_stream.online.regimes import dwells, states
from ishsmm_stream.online.regimes.chains import (
    ALL_EXITS,
    ALL_TABLES,
    ALL_TIME,
    EXITS,
    FIRST_SEEN,
    LAST_SEEN,
    READINGS,
    VISITS,
    refresh,
    shared,
)
from ishsmm_stream.online.regimes.states import NOISES, PHIS, SPREADS, SUMS

SHARED = 0  # purpose of random numbers
EARLY = 240  # readings; less than the cold start
# Until then phi is at most .6. A chain that takes all modes for one state that wanders never gives that up: states
# merge if it turns out that phi is larger, but one state does not fall apart.
_EARLY_PHIS = 6
_FADING = 2000.0  # readings after which a state that was not seen counts half when one has to go
_SPLIT_AT = 4.0  # log Bayes factor from which a visit becomes a state of its own
_FEWEST_VISITS = 20  # complete ones, before dwells can have another shape than the geometric one
_LONGEST_SPLIT = 64  # readings
_SAME_BIRTH = 3  # readings between the births of one state in two chains
_SHAPE_COUNT = len(dwells.SHAPES)
_PHI_COUNT, _NOISE_COUNT, _SPREAD_COUNT = len(PHIS), len(NOISES), len(SPREADS)


# What states share


@kernel
def _draw(stream, scores, count):
    """Return an index drawn with probability proportional to exp(score)."""
    top = scores[0]
    for at in range(1, count):
        top = max(top, scores[at])
    total = 0.0
    for at in range(count):
        scores[at] = math.exp(scores[at] - top)
        total += scores[at]
    left = counter_random.uniform(stream) * total
    for at in range(count):
        left -= scores[at]
        if left < 0.0:
            return at
    return count - 1


@kernel
def _score(chains, i, phi, noise, spread):
    """ln p(readings of all states of chain ``i`` | what they share), up to a constant."""
    score = 0.0
    for k in range(chains.count[i]):
        score += states.log_likelihood(chains.sums[i, k], phi, noise, spread)
    return score


@kernel
def draw_shared(chains, i, t, stream, scores):
    """Draw autocorrelation, noise level and spread of chain ``i`` in turn, given the readings of all its states."""
    counter_random.key(stream, chains.seed, t, i, SHARED)
    phi, noise, spread = shared(chains, i)
    phis = _PHI_COUNT if t >= EARLY else _EARLY_PHIS
    for at in range(phis):
        scores[at] = _score(chains, i, states.phi_of(at), noise, spread)
    phi_at = _draw(stream, scores, phis)
    phi = states.phi_of(phi_at)
    for at in range(_NOISE_COUNT):
        scores[at] = _score(chains, i, phi, states.noise_of(at), spread)
    noise_at = _draw(stream, scores, _NOISE_COUNT)
    noise = states.noise_of(noise_at)
    for at in range(_SPREAD_COUNT):
        scores[at] = _score(chains, i, phi, noise, states.spread_of(at))
    spread_at = _draw(stream, scores, _SPREAD_COUNT)
    if chains.totals[i, ALL_EXITS] >= _FEWEST_VISITS:
        mean = dwells.mean_dwell(chains.dwells[i], chains.count[i])
        for at in range(_SHAPE_COUNT):
            scores[at] = dwells.log_evidence(chains.dwells[i], chains.count[i], at, mean)
        chains.shape_at[i] = _draw(stream, scores, _SHAPE_COUNT)
        chains.ending[i, 0] = 0.0
    if phi_at != chains.phi_at[i] or noise_at != chains.noise_at[i] or spread_at != chains.spread_at[i]:
        chains.phi_at[i], chains.noise_at[i], chains.spread_at[i] = phi_at, noise_at, spread_at
        for k in range(chains.count[i]):
            refresh(chains, i, k)


# Merge


@kernel
def merge_current(chains, i, t, work):
    """Merge the current state with the one it is most likely the same as. Returns whether there is one."""
    s, count = chains.state[i], chains.count[i]
    phi, noise, spread = shared(chains, i)
    own = states.log_marginal(chains.sums[i, s], phi, noise, spread)
    best, most = -1, 0.0
    for k in range(count):
        if k == s:
            continue
        # sums about one origin, that of the older state, whose name survives
        old, young = (k, s) if chains.life[i, k, FIRST_SEEN] <= chains.life[i, s, FIRST_SEEN] else (s, k)
        _together(chains, i, old, young, work)
        factor = (
            states.log_marginal(work, phi, noise, spread)
            - own
            - states.log_marginal(chains.sums[i, k], phi, noise, spread)
        )
        if factor > most:
            best, most = k, factor
    if best < 0:
        return False
    _merge(chains, i, s, best, t, work)
    return True


@kernel
def _together(chains, i, old, young, work):
    """work <- the sums of two states about the origin of the older one."""
    for n in range(SUMS):
        work[n] = chains.sums[i, young, n]
    move = chains.origin[i, old] - chains.origin[i, young]
    if move != 0.0:
        states.shift(work, move)
    for n in range(SUMS):
        work[n] += chains.sums[i, old, n]


@kernel
def _merge(chains, i, s, k, t, work):
    """Make states ``s``, the current one, and ``k`` one state. The older name survives."""
    old, young = (k, s) if chains.life[i, k, FIRST_SEEN] <= chains.life[i, s, FIRST_SEEN] else (s, k)
    _together(chains, i, old, young, work)
    if s == young:  # the visit is part of the sums
        move = chains.origin[i, old] - chains.origin[i, young]
        if move != 0.0:
            states.shift(chains.visit[i], move)
    for n in range(SUMS):
        chains.sums[i, old, n] = work[n]
    factor = states.fade(chains.sums[i, old])
    if factor < 1.0:
        for n in range(SUMS):
            chains.visit[i, n] *= factor
    _merge_moves(chains, i, old, young)
    chains.ending[i, 0] = 0.0
    old_life, young_life = chains.life[i, old], chains.life[i, young]
    old_life[READINGS] += young_life[READINGS]
    old_life[LAST_SEEN] = max(old_life[LAST_SEEN], young_life[LAST_SEEN])
    for n in range(chains.dwells.shape[2]):
        chains.dwells[i, old, n] += chains.dwells[i, young, n]
    chains.tables[i, old] += chains.tables[i, young]
    arrays.rename(chains, i, chains.uid[i, young], chains.uid[i, old])
    chains.state[i] = old
    _find_run_start(chains, i, t)
    refresh(chains, i, old)
    _drop_slot(chains, i, young)


@kernel
def _merge_moves(chains, i, old, young):
    """Add up the transitions of two states; those between them never happened."""
    moves, leavings = chains.moves[i], chains.leavings[i]
    between = moves[old, young] + moves[young, old]
    for j in range(chains.count[i]):
        if j != old and j != young:
            moves[old, j] += moves[young, j]
            moves[j, old] += moves[j, young]
    leavings[old] += leavings[young] - between
    moves[old, young] = 0.0
    life, other = chains.life[i, old], chains.life[i, young]
    life[EXITS] += other[EXITS] - int(between)
    life[VISITS] += other[VISITS] - int(between)
    chains.totals[i, ALL_EXITS] -= between


@kernel
def _find_run_start(chains, i, t):
    """Set the start of the current visit by the recent past, after reading ``t - 1``."""
    recent = chains.recent_uid[i]
    length = min(recent.shape[0], t)
    start = t - 1
    while start > t - length and recent[(start - 1) % recent.shape[0]] == chains.uid[i, chains.state[i]]:
        start -= 1
    if start > t - length or start == 0:
        chains.run_start[i] = start
    else:
        chains.run_start[i] = min(chains.run_start[i], start)


@kernel
def _drop_slot(chains, i, k):
    """Remove a state whose transitions are dealt with: the last slot takes its place."""
    last = chains.count[i] - 1
    if k != last:
        arrays.copy_state(chains, i, k, i, last)
        for j in range(last + 1):
            chains.moves[i, k, j] = chains.moves[i, last, j]
        for j in range(last + 1):
            chains.moves[i, j, k] = chains.moves[i, j, last]
        chains.moves[i, k, k] = 0.0
        if chains.state[i] == last:
            chains.state[i] = k
    for j in range(last + 1):
        chains.moves[i, last, j] = 0.0
        chains.moves[i, j, last] = 0.0
    chains.count[i] = last


# Split


@kernel
def split_current(chains, i, t, limit, rest, work):
    """Make the current visit a state of its own if it is unlike the earlier visits of its state.

    A mode near a wider one is taken for it at first. Returns whether there was a split. ``t``: readings seen.
    """
    s = chains.state[i]
    length = t - chains.run_start[i]
    life, visit = chains.life[i, s], chains.visit[i]
    if length > _LONGEST_SPLIT or life[VISITS] < 2 or chains.count[i] == limit:
        return False
    phi, noise, spread = shared(chains, i)
    for n in range(SUMS):
        rest[n] = chains.sums[i, s, n] - visit[n]
        work[n] = visit[n]
    if rest[states.STAY_N] < 1.0 or work[states.STAY_N] < 2.0:
        return False
    if chains.origin[i, s] != 0.0:  # the new state's prior is about 0, unless it lies far out
        own = chains.origin[i, s]
    else:
        own = 0.0
    factor = (
        states.log_marginal(work, phi, noise, spread)
        + states.log_marginal(rest, phi, noise, spread)
        - states.log_marginal(chains.sums[i, s], phi, noise, spread)
    )
    if factor < _SPLIT_AT:
        return False
    start, k = chains.run_start[i], chains.count[i]
    chains.count[i] = k + 1
    old = chains.uid[i, s]
    name = free_uid(chains.uid[i], chains.count[i], -1, start)
    chains.uid[i, k] = name
    for n in range(SUMS):
        chains.sums[i, k, n] = work[n]
        chains.sums[i, s, n] = rest[n]
    chains.origin[i, k] = own
    new_life = chains.life[i, k]
    new_life[READINGS], new_life[EXITS], new_life[VISITS] = length, 0, 1
    new_life[FIRST_SEEN], new_life[LAST_SEEN] = start, t - 1
    life[READINGS] = max(life[READINGS] - length, 1)
    life[VISITS] -= 1
    life[LAST_SEEN] = start - 1
    for n in range(chains.dwells.shape[2]):
        chains.dwells[i, k, n] = 0.0
    chains.tables[i, k] = 1.0
    chains.totals[i, ALL_TABLES] += 1.0
    chains.leavings[i, k] = 0.0
    for j in range(k + 1):
        chains.moves[i, k, j] = 0.0
        chains.moves[i, j, k] = 0.0
    before = _state_before(chains, i, start)
    if before >= 0 and chains.moves[i, before, s] > 0.0:
        chains.moves[i, before, s] -= 1.0
        chains.moves[i, before, k] += 1.0
    chains.state[i] = k
    chains.ending[i, 0] = 0.0
    recent = chains.recent_uid[i]
    for past in range(max(start, t - recent.shape[0]), t):
        if recent[past % recent.shape[0]] == old:
            recent[past % recent.shape[0]] = name
    refresh(chains, i, s)
    refresh(chains, i, k)
    return True


@kernel
def _state_before(chains, i, start):
    """Return the slot of the state that was left when the current visit began; -1 if it is not known."""
    recent = chains.recent_uid[i]
    if start == 0:
        return -1
    uid = recent[(start - 1) % recent.shape[0]]
    for k in range(chains.count[i]):
        if chains.uid[i, k] == uid:
            return k
    return -1


# Retire


@kernel
def make_room(chains, i, t):
    """Retire the state that is missed least: seldom seen, and long ago. Its name is never used again."""
    worst, least = -1, math.inf
    for k in range(chains.count[i]):
        life = chains.life[i, k]
        value = life[READINGS] / (1.0 + (t - life[LAST_SEEN]) / _FADING)
        if k != chains.state[i] and value < least:
            worst, least = k, value
    for j in range(chains.count[i]):
        chains.leavings[i, j] -= chains.moves[i, j, worst]
    chains.totals[i, ALL_TIME] -= chains.life[i, worst, READINGS]
    chains.totals[i, ALL_EXITS] -= chains.life[i, worst, EXITS]
    chains.totals[i, ALL_TABLES] -= chains.tables[i, worst]
    chains.ending[i, 0] = 0.0
    _drop_slot(chains, i, worst)


# Chains that say the same


@kernel
def _say_the_same(chains, i, j):
    """Whether two chains know the same states, born at about the same time, are in the same one, and share phi."""
    count = chains.count[i]
    if chains.count[j] != count or chains.phi_at[i] != chains.phi_at[j]:
        return False
    for k in range(count):
        born = chains.life[i, k, FIRST_SEEN]
        found = -1
        for other in range(count):
            if abs(chains.life[j, other, FIRST_SEEN] - born) <= _SAME_BIRTH:
                found = other
                if (other == chains.state[j]) == (k == chains.state[i]):
                    break
        if found < 0 or (found == chains.state[j]) != (k == chains.state[i]):
            return False
    return True


@kernel
def fuse(chains):
    """Give the weight of a chain to a heavier one that says the same."""
    size = chains.weight.shape[0]
    for i in range(size):
        for j in range(i + 1, size):
            if chains.weight[i] > 0.0 and chains.weight[j] > 0.0 and _say_the_same(chains, i, j):
                heavier, lighter = (i, j) if chains.weight[i] >= chains.weight[j] else (j, i)
                chains.weight[heavier] += chains.weight[lighter]
                chains.weight[lighter] = 0.0
