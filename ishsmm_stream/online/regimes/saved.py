"""Chains as the arrays of a snapshot and back: the chains that are in use, and of each the states that it knows."""

from __future__ import annotations

import numpy as np

from ishsmm_stream.online import lattice
from ishsmm_stream.online.regimes import chains as chain_arrays
from ishsmm_stream.online.regimes import states
from ishsmm_stream.online.regimes.chains import (
    AMOUNTS,
    CLOCK,
    DWELL_N,
    DWELLS,
    EXITS,
    FIRST_SEEN,
    GAP,
    LAST_SEEN,
    LIFE,
    READINGS,
    TIME,
    VISITS,
    RegimeChains,
)
from ishsmm_stream.online.regimes.dwells import SHAPES
from ishsmm_stream.online.regimes.states import NOISES, PHIS, SPREADS, SUMS
from ishsmm_stream.online.validation import (
    FLAG,
    FLOAT,
    LARGEST_COUNT,
    SHORT,
    WHOLE,
    Field,
    check,
    columns,
    require,
)

_OF_A_CHAIN = ("phi_at", "noise_at", "spread_at", "count", "state", "shape_at")
_LARGEST = 1e13  # of a standardised reading
_MOST_SUM = 1e30


def pack(chains: RegimeChains) -> dict[str, np.ndarray]:
    """Return everything that the next reading depends on, by name."""
    live = np.flatnonzero(chains.weight > 0.0)
    known = [(i, k) for i in live for k in range(chains.count[i])]
    rows, slots = np.array(known, dtype=np.int64).reshape(-1, 2).T
    time, recent = int(chains.clock[TIME]), chains.recent_uid.shape[1]
    return {
        "seed": chains.seed,
        "clock": chains.clock,
        "amounts": chains.amounts,
        "slots": live.astype(np.int32),
        "weight": chains.weight[live],
        "of_a_chain": np.stack([getattr(chains, name)[live] for name in _OF_A_CHAIN], axis=1).astype(np.int32),
        "follows": chains.follows[live],
        "run_start": chains.run_start[live],
        "totals": chains.totals[live],
        "visit": chains.visit[live],
        "uid": chains.uid[rows, slots],
        "sums": chains.sums[rows, slots],
        "origin": chains.origin[rows, slots],
        "life": chains.life[rows, slots],
        "dwells": chains.dwells[rows, slots],
        "tables": chains.tables[rows, slots],
        "leavings": chains.leavings[rows, slots],
        "moves": np.concatenate(
            [np.empty(0), *(chains.moves[i, : chains.count[i], : chains.count[i]].ravel() for i in live)]
        ),
        # what was a moment ago is mostly what is now
        "recent": (time - chains.recent_uid[live][:, (time - 1 - np.arange(min(recent, time))) % recent]),
    }


def check_packed(arrays: dict[str, np.ndarray], chains: RegimeChains, max_states: int) -> int:
    """Raise SnapshotError unless ``arrays`` can be those of ``chains``. Returns the readings that they have seen."""
    size, recent = len(chains.weight), chains.recent_uid.shape[1]
    check(
        arrays,
        {
            "seed": Field(WHOLE, (2,), 0, 2**32 - 1),
            "clock": Field(WHOLE, (CLOCK,), 0, LARGEST_COUNT),
            "amounts": Field(FLOAT, (AMOUNTS,), columns=_VALID_AMOUNTS),
        },
    )
    require(bool((arrays["seed"] == chains.seed).all()), "the seed is that of the settings")
    time = int(arrays["clock"][TIME])
    require(arrays["clock"][GAP] <= time, "readings were missing in the time that was seen")
    live = len(arrays["slots"]) if arrays["slots"].ndim == 1 else -1
    require(0 <= live <= size, f"there are at most {size} chains")
    highs = [len(PHIS) - 1, len(NOISES) - 1, len(SPREADS) - 1, max_states, max_states - 1, len(SHAPES) - 1]
    check(
        arrays,
        {
            "slots": Field(SHORT, (live,), 0, size - 1),
            "weight": Field(FLOAT, (live,), 1e-300, 1.0 + 1e-6),
            "of_a_chain": Field(SHORT, (live, len(_OF_A_CHAIN)), columns=columns([0, 0, 0, 1, 0, 0], highs)),
            "follows": Field(FLAG, (live,)),
            "run_start": Field(WHOLE, (live,), 0, max(time - 1, 0)),
            "totals": Field(FLOAT, (live, 3), 0.0, LARGEST_COUNT),
            "visit": Field(FLOAT, (live, SUMS), columns=_VALID_SUMS),
            "recent": Field(WHOLE, (live, min(recent, time)), -LARGEST_COUNT, LARGEST_COUNT),
        },
    )
    require(bool((np.diff(arrays["slots"]) > 0).all()), "chains have slots of their own, in order")
    has_begun = not np.isnan(arrays["amounts"][chain_arrays.LAST])
    require(has_begun == (live > 0), "there are chains once there was a reading")
    require(not live or abs(arrays["weight"].sum() - 1.0) < 1e-6, "weights add up to 1")
    counts, current = arrays["of_a_chain"][:, 3].astype(np.int64), arrays["of_a_chain"][:, 4]
    require(bool((current < counts).all()), "a chain is in a state that it knows")
    total = int(counts.sum())
    check(
        arrays,
        {
            "uid": Field(WHOLE, (total,), 0, LARGEST_COUNT),
            "sums": Field(FLOAT, (total, SUMS), columns=_VALID_SUMS),
            "origin": Field(FLOAT, (total,), -_LARGEST, _LARGEST),
            "life": Field(WHOLE, (total, LIFE), 0, LARGEST_COUNT),
            "dwells": Field(FLOAT, (total, DWELLS), 0.0, LARGEST_COUNT),
            "tables": Field(FLOAT, (total,), 1e-300, LARGEST_COUNT),
            "leavings": Field(FLOAT, (total,), 0.0, LARGEST_COUNT),
            "moves": Field(FLOAT, (int((counts**2).sum()),), 0.0, LARGEST_COUNT),
        },
    )
    life = arrays["life"]
    require(bool((life[:, [FIRST_SEEN, LAST_SEEN]] < max(time, 1)).all()), "states were seen before now")
    require(bool((life[:, READINGS] >= 1).all() and (life[:, VISITS] >= 1).all()), "a state has been visited")
    require(bool((life[:, EXITS] <= time).all() and (arrays["dwells"][:, DWELL_N] <= time).all()), "visits ended")
    return time


_VALID_AMOUNTS = columns(
    [-np.inf, 0.0, -_LARGEST, -_LARGEST, lattice.CONTINUOUS, 0.0, 0.0, -800.0],
    [np.inf, np.inf, _LARGEST, _LARGEST, _LARGEST, LARGEST_COUNT, LARGEST_COUNT, 800.0],
    nan=[chain_arrays.LAST, chain_arrays.RAW],
)
_SIGNED = (states.STAY_Y, states.STAY_P, states.STAY_YP, states.ENTRY_Y)
_VALID_SUMS = columns(
    [-_MOST_SUM if n in _SIGNED else 0.0 for n in range(SUMS)],
    [1e3 if n in (states.STAY_N, states.ENTRY_N) else _MOST_SUM for n in range(SUMS)],
)


def unpack(arrays: dict[str, np.ndarray], chains: RegimeChains) -> None:
    """Write checked ``arrays`` into chains that have room for their states."""
    live = arrays["slots"].astype(np.int64)
    chains.clock[:], chains.amounts[:] = arrays["clock"], arrays["amounts"]
    chains.weight[:] = 0.0
    chains.weight[live] = arrays["weight"]
    for column, name in enumerate(_OF_A_CHAIN):
        getattr(chains, name)[live] = arrays["of_a_chain"][:, column]
    for name in ("follows", "run_start", "totals", "visit"):
        getattr(chains, name)[live] = arrays[name]
    time, recent = int(arrays["clock"][TIME]), chains.recent_uid.shape[1]
    columns_of = (time - 1 - np.arange(min(recent, time))) % recent
    chains.recent_uid[live[:, np.newaxis], columns_of] = time - arrays["recent"]
    first = first_move = 0
    for i in live:
        count = int(chains.count[i])
        for name in ("uid", "sums", "origin", "life", "dwells", "tables", "leavings"):
            getattr(chains, name)[i, :count] = arrays[name][first : first + count]
        moves = arrays["moves"][first_move : first_move + count * count]
        chains.moves[i, :count, :count] = moves.reshape(count, count)
        first += count
        first_move += count * count
        for k in range(count):
            chain_arrays.refresh(chains, i, k)


def states_in(arrays: dict[str, np.ndarray]) -> int:
    """Return how many states the chain with the most of them has."""
    return int(arrays["of_a_chain"][:, 3].max(initial=0))
