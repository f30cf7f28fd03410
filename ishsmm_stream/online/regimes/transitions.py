"""Where a chain goes from a state: hazards and rows of transitions, integrated out.

If dwells are geometric, a visit ends with a hazard that is shrunk towards that of all states together; else with the
hazard of the law of dwells. The next state follows a hierarchical
Dirichlet process without self-transitions. Its tables, which say how often a state was chosen by the law above the
rows, are kept by their expectation.
"""

from __future__ import annotations

from ishsmm_stream._jit import kernel
from ishsmm_stream.online.regimes import dwells
from ishsmm_stream.online.regimes.chains import ALL_EXITS, ALL_TABLES, ALL_TIME, EXITS, READINGS, TIME

ALPHA, GAMMA = 4.0, 1.0  # concentration of the rows, and of the law above them
_EXITS, _TIME = 1.0, 20.0  # prior of the hazard of all states
_SHRINKAGE = 10.0  # readings of a state that the hazard of all states is worth
_SMALLEST, _LARGEST_HAZARD = 1e-6, 0.95  # of hazards by the law of dwells
_LARGEST = 0.5  # of hazards, and of the probability of a new state


@kernel
def _dwell_hazard(chains, i, elapsed):
    """P(the visit ends) by the law of dwells. It is held for a sixteenth of the length, to save time."""
    since = max(elapsed - elapsed % max(elapsed // 16, 1), 1)
    if chains.ending[i, 0] != since:
        chains.ending[i, 0] = since
        chains.ending[i, 1] = min(max(dwells.hazard(chains, i, chains.state[i], since), _SMALLEST), _LARGEST_HAZARD)
    return chains.ending[i, 1]


@kernel
def hazard(chains, i, gap):
    """P(the visit ends before the next reading), after ``gap`` missing readings."""
    if chains.shape_at[i] != dwells.GEOMETRIC:
        h = _dwell_hazard(chains, i, chains.clock[TIME] - gap - chains.run_start[i])
        return 1.0 - (1.0 - h) ** (gap + 1) if gap > 0 else h
    overall = (_EXITS + chains.totals[i, ALL_EXITS]) / (_TIME + chains.totals[i, ALL_TIME])
    life = chains.life[i, chains.state[i]]
    h = min(_LARGEST, (_SHRINKAGE * overall + life[EXITS]) / (_SHRINKAGE + life[READINGS]))
    return 1.0 - (1.0 - h) ** (gap + 1) if gap > 0 else h


@kernel
def visit_law(chains, i):
    """(c, A, B, length so far) of the current visit, see ``dwells``; of a geometric one (1, hazard, 0, length)."""
    elapsed = float(chains.clock[TIME] - chains.run_start[i])
    if chains.shape_at[i] == dwells.GEOMETRIC:
        return 1.0, hazard(chains, i, 0), 0.0, elapsed
    shape, a, b = dwells.law(chains, i, chains.state[i])
    return shape, a, b, elapsed


@kernel
def new_probability(chains, i):
    """P(the next state is new | the visit ends)."""
    if chains.count[i] == 1:
        return 1.0
    above = ALPHA * GAMMA / (GAMMA + chains.totals[i, ALL_TABLES])
    return min(_LARGEST, above / (chains.leavings[i, chains.state[i]] + ALPHA))


@kernel
def from_above(chains, i, k):
    """Pseudo-count of a transition from the current state to state ``k`` by the law above the rows."""
    rest = chains.totals[i, ALL_TABLES] - chains.tables[i, chains.state[i]]
    return ALPHA * chains.tables[i, k] / rest if rest > 0.0 else 0.0


@kernel
def known_probability(chains, i, k):
    """P(the next state is k | the visit ends and the next state is known)."""
    s = chains.state[i]
    return (chains.moves[i, s, k] + from_above(chains, i, k)) / (chains.leavings[i, s] + ALPHA)


@kernel
def record_move(chains, i, k):
    """Count a transition from the current state to state ``k``, which was known before."""
    s = chains.state[i]
    above = from_above(chains, i, k)
    if above > 0.0:
        table = above / (chains.moves[i, s, k] + above)
        chains.tables[i, k] += table
        chains.totals[i, ALL_TABLES] += table
    chains.moves[i, s, k] += 1.0
    chains.leavings[i, s] += 1.0


@kernel
def record_birth(chains, i, k):
    """Count a transition to the new state ``k``; the first state of all is entered from nowhere."""
    chains.tables[i, k] = 1.0
    chains.totals[i, ALL_TABLES] += 1.0
    if chains.count[i] > 1:
        chains.moves[i, chains.state[i], k] = 1.0
        chains.leavings[i, chains.state[i]] += 1.0
