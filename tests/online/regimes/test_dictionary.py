"""Moves over states keep the books: counts agree after every reading, and names are never used again."""

import math

import numpy as np
import pytest
from online.regimes.test_filter import modes, run

from ishsmm_stream.online import lattice
from ishsmm_stream.online.regimes import dictionary, filter, states
from ishsmm_stream.online.regimes.chains import (
    ALL_EXITS,
    ALL_TABLES,
    ALL_TIME,
    DWELL_N,
    EXITS,
    FIRST_SEEN,
    LAST_SEEN,
    READINGS,
    STEP,
    VISITS,
    make_chains,
    shared,
)


def check_books(chains, t):
    """Raise AssertionError unless every chain's counts agree. ``t``: readings seen."""
    live = np.flatnonzero(chains.weight > 0.0)
    assert chains.weight[live].sum() == pytest.approx(1.0)
    for i in live:
        n = chains.count[i]
        life, moves = chains.life[i, :n], chains.moves[i, :n, :n]
        assert 0 <= chains.state[i] < n
        assert len(set(chains.uid[i, :n].tolist())) == n
        assert (life[:, READINGS] >= 1).all()
        assert (life[:, VISITS] >= 1).all()
        assert (life[:, EXITS] >= 0).all()
        assert (life[:, FIRST_SEEN] <= life[:, LAST_SEEN]).all()
        assert (np.diag(moves) == 0.0).all()
        assert (moves >= 0.0).all()
        assert chains.leavings[i, :n] == pytest.approx(moves.sum(axis=1), abs=1e-6)
        assert chains.totals[i, ALL_TABLES] == pytest.approx(chains.tables[i, :n].sum())
        assert (chains.tables[i, :n] > 0.0).all()
        assert chains.totals[i, ALL_EXITS] == pytest.approx(life[:, EXITS].sum())
        assert chains.totals[i, ALL_TIME] == pytest.approx(life[:, READINGS].sum(), abs=1.0)
        assert (chains.dwells[i, :n, DWELL_N] >= 0.0).all()
        assert chains.run_start[i] < t
        count = chains.sums[i, :n, states.STAY_N] + chains.sums[i, :n, states.ENTRY_N]
        assert (count < 200.0 + 1e-6).all()
        visit = chains.visit[i, states.STAY_N] + chains.visit[i, states.ENTRY_N]
        assert visit <= count[chains.state[i]] + 1e-6
        for k in range(n):
            kept = chains.prepared[i, k].copy()
            states.prepare(chains.sums[i, k], chains.origin[i, k], *shared(chains, i), chains.prepared[i, k])
            assert chains.prepared[i, k] == pytest.approx(kept)


def streams():
    rng = np.random.default_rng(0)
    walk = np.cumsum(0.3 * rng.standard_normal(700))
    missing, _ = modes(3, 700)
    missing[rng.random(700) < 0.2] = np.nan
    spikes = rng.standard_normal(700)
    spikes[rng.random(700) < 0.05] *= 100.0
    near = np.repeat([0.0, 3.0] * 10, 35) * 0.35 + 0.3 * rng.standard_normal(700)
    return {
        "modes": modes(1, 700)[0], "walk": walk, "missing": missing, "spikes": spikes, "near": near,
        "counts": rng.poisson(2.0 + 9.0 * (np.arange(700) // 50 % 2)).astype(float), "far": 1e6 + modes(2, 700)[0],
    }  # fmt: skip


STREAMS = streams()


@pytest.mark.parametrize("max_states", [4, 32])
@pytest.mark.parametrize("name", STREAMS)
def test_the_books_agree_after_every_reading(name, max_states):
    limits = filter.Approximations(max_states=max_states)
    chains = make_chains(20, 64, 1, 34)
    chains.amounts[STEP] = lattice.step_of(STREAMS[name][:10, None])
    scratch = filter.make_scratch(20, 34)
    for t, y in enumerate(STREAMS[name]):
        filter.observe(chains, scratch, float(y), limits)
        check_books(chains, t + 1)
    assert chains.count[chains.weight > 0.0].max() <= max_states


def test_names_are_never_used_again():
    """A walk meets new states for ever. A name is the reading of its birth: one that was retired does not come back."""
    rng = np.random.default_rng(1)
    y = np.repeat(np.cumsum(rng.normal(0.0, 4.0, 300)), 40) + 0.3 * rng.standard_normal(12_000)
    chains = make_chains(20, 64, 1, 12)
    chains.amounts[STEP] = lattice.CONTINUOUS
    scratch = filter.make_scratch(20, 12)
    limits = filter.Approximations(max_states=10)
    known, gone = set(), set()
    for t, value in enumerate(y):
        filter.observe(chains, scratch, float(value), limits)
        if t % 20 == 0:
            live = np.flatnonzero(chains.weight > 0.0)
            now = {int(uid) for i in live for uid in chains.uid[i, : chains.count[i]]}
            assert not now & gone
            gone |= known - now
            known = now
    assert len(gone) > 50


def test_a_mode_that_was_absorbed_by_a_neighbour_is_split_off():
    """Three sds from a level that was learned with room to spare: without splits the visit stays part of it."""
    rng = np.random.default_rng(2)
    found = {}
    for splits in (True, False):
        counts = []
        for seed in range(10):
            rng = np.random.default_rng([2, seed])
            which = np.repeat(np.r_[np.zeros(4, int), [1, 0] * 4], 50)
            y = 0.3 * rng.standard_normal(len(which)) + 0.75 * which
            chains = run(y, 20, filter.Approximations(splits=splits), seed)
            counts.append(int(chains.count[np.argmax(chains.weight)]))
        found[splits] = counts
    assert found[True].count(2) >= 8
    assert found[True].count(2) >= found[False].count(2)


def test_a_split_divides_the_readings():
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.normal(level, 0.2, 40) for level in (0.0, 5.0, 0.0)])
    chains = run(y, 20, filter.Approximations(splits=False))
    i = int(np.argmax(chains.weight))
    assert chains.count[i] == 2
    s, visit = chains.state[i], chains.visit[i]
    rest, work = np.zeros(states.SUMS), np.zeros(states.SUMS)
    assert not dictionary.split_current(chains, i, 120, 5, rest, work)
    # as if the visit under way had lain 2 higher
    other = chains.sums[i, s] - visit
    states.shift(visit, -2.0)
    chains.sums[i, s] = other + visit
    before = chains.sums[i, :2].sum(axis=0)
    assert dictionary.split_current(chains, i, 120, 5, rest, work)
    assert chains.count[i] == 3
    assert chains.uid[i, 2] == chains.run_start[i]
    assert chains.sums[i, :3].sum(axis=0) == pytest.approx(before)
    assert chains.sums[i, 2] == pytest.approx(visit)
    assert chains.life[i, :3, READINGS].sum() == 120
    check_books(chains, 120)


def test_states_that_are_the_same_are_merged_under_the_older_name():
    rng = np.random.default_rng(4)
    chains = run(np.concatenate([rng.normal(0, 0.2, 60), rng.normal(4, 0.2, 60)]), 20, filter.Approximations(), lag=200)
    i = int(np.argmax(chains.weight))
    assert chains.count[i] == 2
    work = np.zeros(states.SUMS)
    assert not dictionary.merge_current(chains, i, 120, work)
    s = chains.state[i]
    chains.sums[i, s] = chains.sums[i, 1 - s]
    chains.origin[i, s] = chains.origin[i, 1 - s]
    chains.visit[i] = 0.0
    assert dictionary.merge_current(chains, i, 120, work)
    assert chains.count[i] == 1
    assert chains.uid[i, 0] == 0
    assert chains.run_start[i] == 0
    assert (chains.recent_uid[i] == 0).all()


def test_the_state_that_is_missed_least_makes_room():
    rng = np.random.default_rng(5)
    lengths, levels = [200, 30, 150, 180, 120], [0.0, 3.0, 6.0, 9.0, -3.0]
    y = np.concatenate([rng.normal(level, 0.2, length) for length, level in zip(lengths, levels, strict=True)])
    chains = run(y, 20, filter.Approximations(max_states=4))
    i = int(np.argmax(chains.weight))
    kept = np.sort(chains.prepared[i, : chains.count[i], states.LEVEL])
    assert kept == pytest.approx([-3.0, 0.0, 6.0, 9.0], abs=0.3)
    check_books(chains, sum(lengths))


def test_what_states_share_is_drawn_by_its_probability():
    """The empirical law of the draws against the exact conditional one of each, on a grid of three."""
    y, _ = modes(0, 120)
    chains = run(y, 1, filter.Approximations(draws=False, merges=False, splits=False, fuses=False))
    n = chains.count[0]
    scratch = filter.make_scratch(1, 32)
    phi, noise, spread = shared(chains, 0)
    del phi
    logs = np.array(
        [sum(states.log_likelihood(chains.sums[0, k], p, noise, spread) for k in range(n)) for p in states.PHIS]
    )
    expected = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    counts = np.zeros(len(expected))
    kept = {name: getattr(chains, name).copy() for name in ("phi_at", "noise_at", "spread_at")}
    for t in range(dictionary.EARLY, dictionary.EARLY + 4000):
        for name, array in kept.items():
            getattr(chains, name)[:] = array
        dictionary.draw_shared(chains, 0, t, scratch.stream, scratch.scores)
        counts[chains.phi_at[0]] += 1
    error = np.sqrt(expected * (1.0 - expected) / 4000)
    assert (np.abs(counts / 4000 - expected) <= 4.5 * error + 1e-9).all()
    assert math.isfinite(logs.sum())


def test_no_early_chain_takes_the_modes_for_one_state_that_wanders():
    y, _ = modes(0, dictionary.EARLY)
    chains = run(np.cumsum(y), 20, filter.Approximations())
    assert states.PHIS[chains.phi_at[chains.weight > 0.0].max()] <= 0.6
