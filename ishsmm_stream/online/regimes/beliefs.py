"""What weighted chains say together. A state has the same name in all chains that share its birth."""

from __future__ import annotations

import numpy as np
from scipy import special

from ishsmm_stream._jit import kernel
from ishsmm_stream.online.regimes import states, transitions
from ishsmm_stream.online.regimes.chains import FIRST_SEEN, LEAST_READINGS, RegimeChains
from ishsmm_stream.online.results import NextState

YOUNG = 20  # readings since its first one for which a state is new
_LONGEST, _BISECTIONS = 1e12, 30
_SEPARATION = 2.0  # between a new level and each known one, in units of the stream or of the known state's readings


@kernel
def gather(numbers, weight, found, masses):
    """The distinct ``numbers`` of the chains, ascending, with their weights; returns how many."""
    count = 0
    for i in range(weight.shape[0]):
        if weight[i] == 0.0:
            continue
        at = count
        while at > 0 and found[at - 1] > numbers[i]:
            at -= 1
        if at > 0 and found[at - 1] == numbers[i]:
            masses[at - 1] += weight[i]
            continue
        for j in range(count, at, -1):
            found[j] = found[j - 1]
            masses[j] = masses[j - 1]
        found[at] = numbers[i]
        masses[at] = weight[i]
        count += 1
    return count


@kernel
def heaviest_chain(chains, uid):
    """Return the heaviest chain that is in the state ``uid``; -1 if there is none."""
    best = -1
    for i in range(chains.weight.shape[0]):
        is_in_it = chains.weight[i] > 0.0 and chains.uid[i, chains.state[i]] == uid
        if is_in_it and (best < 0 or chains.weight[i] > chains.weight[best]):
            best = i
    return best


@kernel
def is_new(chains, i, t):
    """Whether chain ``i`` is in a state that it first entered less than ``YOUNG`` readings ago.

    A visit counts from its third reading: fewer can be outliers.
    """
    is_young = t - chains.life[i, chains.state[i], FIRST_SEEN] < YOUNG
    return is_young and t - chains.run_start[i] + 1 >= LEAST_READINGS


@kernel
def is_apart(chains, i):
    """Whether the level of the current state is unlike that of all others."""
    s = chains.state[i]
    level = chains.prepared[i, s, states.LEVEL]
    for k in range(chains.count[i]):
        if k != s:
            distance = level - chains.prepared[i, k, states.LEVEL]
            if distance * distance < _SEPARATION * _SEPARATION * min(chains.prepared[i, k, states.ENTRY_V], 1.0):
                return False
    return True


@kernel
def outlier_mass(chains):
    """P(the last reading belongs to no state)."""
    mass = 0.0
    for i in range(chains.weight.shape[0]):
        if chains.weight[i] > 0.0 and not chains.follows[i]:
            mass += chains.weight[i]
    return mass


@kernel
def full_mass(chains, max_states):
    """P(the dictionary is full): the weight of chains without room for another state."""
    mass = 0.0
    for i in range(chains.weight.shape[0]):
        if chains.weight[i] > 0.0 and chains.count[i] >= max_states:
            mass += chains.weight[i]
    return mass


# Answers


def live(chains: RegimeChains) -> np.ndarray:
    """Return the slots of the chains that are in use."""
    return np.flatnonzero(chains.weight > 0.0)


def grouped(numbers: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct numbers of the chains, ascending, and their weights."""
    found, masses = np.empty(len(weight), dtype=np.int64), np.empty(len(weight))
    count = gather(np.ascontiguousarray(numbers), weight, found, masses)
    return found[:count], masses[:count]


def current_uids(chains: RegimeChains) -> np.ndarray:
    """Return the name of each chain's current state."""
    return chains.uid[np.arange(len(chains.weight)), chains.state]


def path(chains: RegimeChains, times: np.ndarray) -> np.ndarray:
    """Return the name of most weight at each of ``times``, all in the recent past; the smaller if two are equal."""
    uids = chains.recent_uid[live(chains)][:, times % chains.recent_uid.shape[1]]
    weight = chains.weight[live(chains)]
    same = uids[:, np.newaxis, :] == uids[np.newaxis, :, :]
    masses = np.einsum("i,ijt->jt", weight, same)
    is_best = masses >= masses.max(axis=0) - 1e-12
    return np.where(is_best, uids, np.iinfo(np.int64).max).min(axis=0)


def next_states(chains: RegimeChains) -> list[NextState]:
    """Return what may come after the current visit, most probable first."""
    mass: dict[int | None, float] = {}
    for i in live(chains):
        new = transitions.new_probability(chains, i)
        mass[None] = mass.get(None, 0.0) + chains.weight[i] * new
        for k in range(chains.count[i]):
            if k != chains.state[i]:
                uid = int(chains.uid[i, k])
                known = (1.0 - new) * transitions.known_probability(chains, i, k)
                mass[uid] = mass.get(uid, 0.0) + chains.weight[i] * known
    ranked = sorted(mass.items(), key=lambda entry: (-entry[1], -1 if entry[0] is None else entry[0]))
    return [NextState(uid, float(probability)) for uid, probability in ranked]


def remaining(chains: RegimeChains) -> float:
    """Return how many more readings the current visit lasts with probability 1/2."""
    laws = np.array([transitions.visit_law(chains, i) for i in live(chains)])
    weight, shape, a, b, elapsed = chains.weight[live(chains)], *laws.T
    is_geometric = b == 0.0

    def log_survival(more: float) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            length = elapsed + more
            return np.where(
                is_geometric, more * np.log1p(-a), np.log(special.betaincc(shape, a, length / (length + b)))
            )

    start = log_survival(0.0)
    low, high = 0.0, 1.0
    while high < _LONGEST and float(weight @ np.exp(log_survival(high) - start)) > 0.5:
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        is_longer = float(weight @ np.exp(log_survival(middle) - start)) > 0.5
        low, high = (middle, high) if is_longer else (low, middle)
    return high
