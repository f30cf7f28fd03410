"""What weighted chains say together: the state, its start, changes, the evidence.

States are compared by their uid, the index at which they were born: chains that share a past share its uids.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.online.particles.chains import TIME, Chains


@kernel
def gather(numbers, log_weight, found, masses):
    """The distinct ``numbers`` of the chains, ascending, with their weights; returns how many."""
    count = 0
    for i in range(log_weight.shape[0]):
        if log_weight[i] == -np.inf:
            continue
        mass = math.exp(log_weight[i])
        place = count
        while place > 0 and found[place - 1] > numbers[i]:
            place -= 1
        if place > 0 and found[place - 1] == numbers[i]:
            masses[place - 1] += mass
            continue
        for j in range(count, place, -1):
            found[j] = found[j - 1]
            masses[j] = masses[j - 1]
        found[place] = numbers[i]
        masses[place] = mass
        count += 1
    return count


@kernel
def heaviest(found, masses, count):
    """(number, weight) of the largest weight, the smaller number where two are equal."""
    best = 0
    for i in range(1, count):
        if masses[i] > masses[best]:
            best = i
    return found[best], masses[best]


def _grouped(numbers: np.ndarray, log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found = np.empty(len(log_weight), dtype=np.int64)
    masses = np.empty(len(log_weight))
    count = gather(np.ascontiguousarray(numbers), log_weight, found, masses)
    return found[:count], masses[:count]


def _heaviest_of(numbers: np.ndarray, log_weight: np.ndarray) -> tuple[int, float]:
    """Return the number that most chains have, by weight, and that weight."""
    found, masses = _grouped(numbers, log_weight)
    number, mass = heaviest(found, masses, len(found))
    return int(number), float(mass)


class CurrentState(NamedTuple):
    """The state that most chains, by weight, are in."""

    uid: int
    probability: float
    since: int  # first observation of its segment, the most probable one
    visits: int  # segments of this state so far, the current one included, in the heaviest chain that is in it


def current_state(chains: Chains) -> CurrentState:
    """The state now; segments of one state in a row count as one."""
    size = len(chains.log_weight)
    uids = chains.uid[np.arange(size), chains.state]
    uid, probability = _heaviest_of(uids, chains.log_weight)
    log_weight = np.where(uids == uid, chains.log_weight, -math.inf)
    since, _ = _heaviest_of(chains.run_start, log_weight)
    return CurrentState(uid, probability, since, _visits(chains, int(np.argmax(log_weight))))


def _visits(chains: Chains, i: int) -> int:
    """How often chain ``i`` has entered its current state from another one."""
    k, count = int(chains.state[i]), int(chains.count[i])
    return int(chains.counts[i, : count + 1, k].sum() - chains.counts[i, k + 1, k])


def state_stats(chains: Chains, uid: int) -> tuple[np.ndarray, np.ndarray]:
    """(emission statistics, statistics of complete dwells) of a state in the heaviest chain that knows it."""
    for i in np.argsort(-chains.log_weight, kind="stable"):
        slots = np.flatnonzero(chains.uid[i, : chains.count[i]] == uid)
        if chains.log_weight[i] > -math.inf and len(slots) > 0:
            return chains.pool[chains.stats_at[i, slots[0]]].copy(), chains.dwells[i, slots[0]].copy()
    raise KeyError(f"no chain knows a state {uid}")


def run_starts(chains: Chains) -> tuple[np.ndarray, np.ndarray]:
    """(starts, weights): the posterior of the current segment's first observation, ascending."""
    return _grouped(chains.run_start, chains.log_weight)


def change_probability(chains: Chains, lag: int) -> np.ndarray:
    """P(a change at t | y) for the last ``lag`` observations (fewer at the start), the last one last; 1 at index 0."""
    time, recent = int(chains.clock[TIME]), chains.recent_uid.shape[1]
    lag = min(lag, recent - 1, time)
    times = np.arange(time - lag, time)
    changes = chains.recent_uid[:, times % recent] != chains.recent_uid[:, (times - 1) % recent]
    changes[:, times == 0] = True
    return np.exp(chains.log_weight) @ changes


def number_of_states(chains: Chains) -> int:
    """The most probable number of states visited so far."""
    return _heaviest_of(chains.count, chains.log_weight)[0]
