"""Weighted chains as arrays: each is one explanation of the stream as visits to states that return.

A chain knows its states (level, noise, how long and how often it was in them), the transitions between them, and the
autocorrelation and noise level that its states share. Entries from ``count`` on are meaningless, and so is a chain
whose ``weight`` is 0. Arrays are changed in place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import assign
from ishsmm_stream.online import lattice
from ishsmm_stream.online.particles import counter_random
from ishsmm_stream.online.regimes import states
from ishsmm_stream.online.regimes.states import PREPARED, SUMS

# Entries of clock, amounts, totals, and of the last axis of life and dwells.
TIME, GAP = range(2)
LOG_EVIDENCE, DISCARDED, LAST, RAW, STEP, REPEATS, MOVES, LOG_RESOLUTION = range(8)
ALL_TIME, ALL_EXITS, ALL_TABLES = range(3)
READINGS, EXITS, VISITS, FIRST_SEEN, LAST_SEEN = range(5)
LIFE = 5
DWELL_N, DWELL_SUM, DWELL_LOGS = range(3)
DWELLS = 3
CLOCK, AMOUNTS = 2, 8
LEAST_READINGS = 3  # of a state that is more than an outlier or two

_FIRST_ROOM = 8  # states that chains have room for at first
_FIRST_SHAPE = 3  # ``dwells.GEOMETRIC``


class RegimeChains(NamedTuple):
    """N chains with room for M states each, and R readings of their recent past."""

    seed: np.ndarray  # (2,)
    clock: np.ndarray  # (2,) readings seen, missing readings since the last one
    amounts: np.ndarray  # (8,) ln evidence, mass dropped, the last reading dequantised and as read, and four that
    # ``filter._dequantised`` explains
    # A chain
    weight: np.ndarray  # (N,)
    phi_at: np.ndarray  # (N,) index of the autocorrelation
    noise_at: np.ndarray  # (N,) index of the noise level
    spread_at: np.ndarray  # (N,) index of the spread of the levels
    shape_at: np.ndarray  # (N,) index of the shape of dwells
    follows: np.ndarray  # (N,) whether the next reading follows the last one: it was neither missing nor an outlier
    count: np.ndarray  # type: ignore[assignment]  # (N,) states
    state: np.ndarray  # (N,) the current one
    run_start: np.ndarray  # (N,) first reading of the current visit
    totals: np.ndarray  # (N, 3) of its states: time, exits, tables
    ending: np.ndarray  # (N, 2) since which length of the visit a hazard holds, and the hazard; 0: not known
    visit: np.ndarray  # (N, SUMS) readings of the current visit, as part of its state's sums
    # A chain's states
    uid: np.ndarray  # (N, M) the state's name
    sums: np.ndarray  # (N, M, SUMS)
    origin: np.ndarray  # (N, M)
    prepared: np.ndarray  # (N, M, PREPARED)
    life: np.ndarray  # (N, M, 5) readings in the state, exits, visits, first and last reading
    dwells: np.ndarray  # (N, M, 3) complete visits: their number, sums of their length and of its logarithm
    tables: np.ndarray  # (N, M) how often it was chosen by the law above the rows
    leavings: np.ndarray  # (N, M) transitions out of it,
    moves: np.ndarray  # (N, M, M) and where they went, float32: whole numbers up to 16 million
    # The recent past, reading t in column t % R
    recent_uid: np.ndarray  # (N, R)


def make_chains(size: int, lag: int, seed: int, room: int = _FIRST_ROOM) -> RegimeChains:
    """Return chains that have seen nothing."""
    return RegimeChains(
        seed=counter_random.seed_words(seed),
        clock=np.zeros(CLOCK, dtype=np.int64),
        amounts=np.array([0.0, 0.0, np.nan, np.nan, lattice.UNKNOWN, 0.0, 0.0, 0.0]),
        weight=np.zeros(size),
        phi_at=np.full(size, states.FIRST_PHI),
        noise_at=np.full(size, states.FIRST_NOISE),
        spread_at=np.full(size, states.FIRST_SPREAD),
        shape_at=np.full(size, _FIRST_SHAPE),
        follows=np.zeros(size, dtype=np.bool_),
        count=np.zeros(size, dtype=np.int64),
        state=np.zeros(size, dtype=np.int64),
        run_start=np.zeros(size, dtype=np.int64),
        totals=np.zeros((size, 3)),
        ending=np.zeros((size, 2)),
        visit=np.zeros((size, SUMS)),
        uid=np.zeros((size, room), dtype=np.int64),
        sums=np.zeros((size, room, SUMS)),
        origin=np.zeros((size, room)),
        prepared=np.zeros((size, room, PREPARED)),
        life=np.zeros((size, room, LIFE), dtype=np.int64),
        dwells=np.zeros((size, room, DWELLS)),
        tables=np.zeros((size, room)),
        leavings=np.zeros((size, room)),
        moves=np.zeros((size, room, room), dtype=np.float32),
        recent_uid=np.zeros((size, lag + 1), dtype=np.int64),
    )


def with_room(chains: RegimeChains, room: int) -> RegimeChains:
    """Return the same chains with room for more states."""
    larger = make_chains(len(chains.weight), chains.recent_uid.shape[1] - 1, 0, room)
    known = chains.uid.shape[1]
    for name, array in chains._asdict().items():
        target = getattr(larger, name)
        if name == "moves":
            target[:, :known, :known] = array
        elif name in ("uid", "sums", "origin", "prepared", "life", "dwells", "tables", "leavings"):
            target[:, :known] = array
        else:
            target[...] = array
    return larger


@kernel
def shared(chains, i):
    """Return what the states of a chain share: autocorrelation, noise level, spread of the levels."""
    return states.phi_of(chains.phi_at[i]), states.noise_of(chains.noise_at[i]), states.spread_of(chains.spread_at[i])


@kernel
def refresh(chains, i, k):
    """Prepare the predictions of a state anew."""
    sums, origin = chains.sums[i, k], chains.origin[i, k]
    phi, noise, spread = shared(chains, i)
    states.prepare(sums, origin, phi, noise, spread, chains.prepared[i, k])
    level = chains.prepared[i, k, states.LEVEL]
    if states.has_left(level, origin):
        states.shift(sums, level - origin)
        if k == chains.state[i]:
            states.shift(chains.visit[i], level - origin)
        chains.origin[i, k] = level
        states.prepare(sums, level, phi, noise, spread, chains.prepared[i, k])


@kernel
def copy_chain(chains, to, source):
    """Copy all of a chain but its weight."""
    count = chains.count[source]
    chains.phi_at[to] = chains.phi_at[source]
    chains.noise_at[to] = chains.noise_at[source]
    chains.spread_at[to] = chains.spread_at[source]
    chains.shape_at[to] = chains.shape_at[source]
    chains.follows[to] = chains.follows[source]
    chains.count[to] = count
    chains.state[to] = chains.state[source]
    chains.run_start[to] = chains.run_start[source]
    assign(chains.totals[to], chains.totals[source])
    assign(chains.ending[to], chains.ending[source])
    assign(chains.visit[to], chains.visit[source])
    for k in range(count):
        copy_state(chains, to, k, source, k)
        for j in range(count):
            chains.moves[to, k, j] = chains.moves[source, k, j]
    assign(chains.recent_uid[to], chains.recent_uid[source])


@kernel
def copy_state(chains, to, k, source, j):
    """Copy state ``j`` of chain ``source`` to slot ``k`` of chain ``to``, but for its transitions."""
    chains.uid[to, k] = chains.uid[source, j]
    assign(chains.sums[to, k], chains.sums[source, j])
    chains.origin[to, k] = chains.origin[source, j]
    assign(chains.prepared[to, k], chains.prepared[source, j])
    assign(chains.life[to, k], chains.life[source, j])
    assign(chains.dwells[to, k], chains.dwells[source, j])
    chains.tables[to, k] = chains.tables[source, j]
    chains.leavings[to, k] = chains.leavings[source, j]


@kernel
def rename(chains, i, old, new):
    """Give a state's name to the recent past of another one."""
    recent = chains.recent_uid[i]
    for column in range(recent.shape[0]):
        if recent[column] == old:
            recent[column] = new
