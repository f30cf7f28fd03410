"""A plain twin of the engine's model: every path through states written out, nothing dropped, nothing shared drawn.

A path gives each reading the number of its state, in the order of first visits. A state's readings are kept as a list
of regressions (x, z, weight) on its level, from which everything is computed anew each time.
"""

import math
from typing import NamedTuple

import numpy as np
from online.oracles import cauchy, student_t

from ishsmm_stream.online.regimes import states, transitions

PHI = states.PHIS[states.FIRST_PHI]
NOISE = states.NOISES[states.FIRST_NOISE]
SPREAD = states.SPREADS[states.FIRST_SPREAD]
STATIONARY = math.sqrt(1.0 - PHI * PHI)


class Visited:
    """What a path knows of a state."""

    def __init__(self, origin):
        self.origin = origin
        self.terms = []
        self.readings = self.exits = 0
        self.tables = 1.0
        self.moves = {}

    def law(self, x):
        """(freedom, level, sd) of the law of z, a reading on the level with regressor x."""
        terms = np.array(self.terms).reshape(-1, 3)
        xs, zs, weights = terms.T
        kappa = NOISE / SPREAD + (weights * xs * xs).sum()
        level = (weights * xs * zs).sum() / kappa
        a = states.A0 + 0.5 * weights.sum()
        b = states.A0 * NOISE + 0.5 * ((weights * zs * zs).sum() - kappa * level * level)
        return 2.0 * a, level, math.sqrt(b / a * (1.0 + x * x / kappa)), math.sqrt(b / a)

    def density(self, y, before):
        """(p(y), P(no outlier)); ``before``: the last reading if y follows it, else None."""
        x, scale = (1.0 - PHI, 1.0) if before is not None else (STATIONARY, STATIONARY)
        freedom, level, sd, noise = self.law(x)
        y = y - self.origin
        z = y - PHI * (before - self.origin) if before is not None else STATIONARY * y
        usual = (1.0 - states.OUTLIERS) * scale * student_t(z, freedom, x * level, sd)
        if before is not None:
            usual /= scale
        outlier = states.OUTLIERS * cauchy(y, level, 10.0 * noise / STATIONARY)
        return usual + outlier, usual / (usual + outlier)

    def take(self, y, before, weight):
        y = y - self.origin
        if before is None:
            self.terms.append((STATIONARY, STATIONARY * y, weight))
        else:
            self.terms.append((1.0 - PHI, y - PHI * (before - self.origin), weight))


class Weighted(NamedTuple):
    path: tuple[int, ...]  # the state's first reading, for each reading
    weight: float


def birth(y):
    scale = math.sqrt(SPREAD + NOISE / STATIONARY**2)
    usual = (1.0 - states.OUTLIERS) * student_t(y, 2.0 * states.A0, 0.0, scale)
    outlier = states.OUTLIERS * cauchy(y, 0.0, 10.0 * math.sqrt(SPREAD))
    return usual + outlier, usual / (usual + outlier)


def paths_over(length):
    """Every way to give readings to states: numbers in the order of their first use."""
    paths = [(0,)]
    for _ in range(length - 1):
        paths = [(*path, k) for path in paths for k in range(max(path) + 2)]
    return paths


def weigh(y, path):
    """p(y, path), reading by reading."""
    weight, share = birth(y[0])
    known = [Visited(y[0] if share < 0.5 else 0.0)]
    known[0].take(y[0], None, 1.0)
    known[0].readings = 1
    follows = True
    gap, last = 0, y[0]
    for t in range(1, len(y)):
        if math.isnan(y[t]):  # a missing reading belongs to the state before it
            if path[t] != path[t - 1]:
                return 0.0
            gap, follows = gap + 1, False
            continue
        s, k = path[t - 1], path[t]
        own = known[s]
        exits, time = sum(state.exits for state in known), sum(state.readings for state in known)
        overall = (1.0 + exits) / (20.0 + time)
        h = 1.0 - (1.0 - min(0.5, (10.0 * overall + own.exits) / (10.0 + own.readings))) ** (gap + 1)
        before = last if follows else None
        if k == s:
            density, share = own.density(y[t], before)
            weight *= (1.0 - h) * density
            own.take(y[t], before, share)
            own.readings += 1 + gap
            follows = share >= 0.5
        else:
            tables, left = sum(state.tables for state in known), sum(own.moves.values())
            alpha, gamma = transitions.ALPHA, transitions.GAMMA
            new = min(0.5, alpha * gamma / (gamma + tables) / (left + alpha)) if len(known) > 1 else 1.0
            if k == len(known):
                density, share = birth(y[t])
                weight *= h * new * density
                known.append(Visited(y[t] if share < 0.5 else 0.0))
                share = 1.0
            else:
                above = alpha * known[k].tables / (tables - own.tables)
                count = own.moves.get(k, 0.0)
                density, share = known[k].density(y[t], None)
                weight *= h * (1.0 - new) * (count + above) / (left + alpha) * density
                known[k].tables += above / (count + above)
            own.moves[k] = own.moves.get(k, 0.0) + 1.0
            own.exits += 1
            known[k].take(y[t], None, share)
            known[k].readings += 1
            follows = share >= 0.5
        gap, last = 0, y[t]
    return weight


def enumerate_paths(y):
    """(ln p(y), every path with its probability)."""
    found = [Weighted(path, weigh(y, path)) for path in paths_over(len(y))]
    total = sum(one.weight for one in found)
    return math.log(total), [Weighted(path, weight / total) for path, weight in found if weight > 0.0]
