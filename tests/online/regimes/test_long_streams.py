"""Long streams of states that return: the same cost, memory and names from beginning to end."""

import time

import numpy as np
import pytest
import switching

import ishsmm_stream as hs

BATCH = 10_000


def batches(kind, total):
    """Readings in batches. "jumping" meets a new level once in 300 readings and never an old one."""
    if kind == "switching":
        yield from np.split(switching.switching(5, length=total).values, total // BATCH)
        return
    rng = np.random.default_rng(1)
    level = 0.0
    for _ in range(total // BATCH):
        levels = level + np.cumsum(rng.normal(0.0, 6.0, BATCH) * (rng.random(BATCH) < 1.0 / 300.0))
        level = levels[-1]
        yield levels + rng.standard_normal(BATCH)


def followed(kind, total):
    """CPU time and snapshot size by batch, and the detector; names are checked on the way."""
    detector = hs.OnlineDetector("recurring")
    seconds, sizes = [], []
    known, gone = set(), set()
    for rows in batches(kind, total):
        began = time.process_time()
        detector.update_many(rows)
        seconds.append(time.process_time() - began)
        sizes.append(len(detector.snapshot()))
        chains = detector._engine.chains
        now = {int(uid) for i in np.flatnonzero(chains.weight) for uid in chains.uid[i, : chains.count[i]]}
        assert not now & gone, "a retired name came back"
        gone |= known - now
        known = now
        assert len(detector.states) <= 32
        assert np.isfinite(detector.log_evidence)
        assert all(np.isfinite([state.mean, state.sd]).all() for state in detector.states)
    return detector, seconds, sizes


@pytest.mark.parametrize("kind", ["switching", "jumping"])
def test_cost_size_and_names_hold_over_a_hundred_thousand_readings(kind):
    detector, seconds, sizes = followed(kind, 100_000)
    assert min(seconds[-3:]) < 2.0 * max(seconds[1:5])
    assert max(sizes) < (40_000 if kind == "jumping" else 20_000)
    if kind == "switching":
        assert max(state.visits for state in detector.states) > 100


@pytest.mark.long
@pytest.mark.parametrize("kind", ["switching", "jumping"])
def test_cost_size_and_names_hold_over_a_million_readings(kind):
    detector, seconds, sizes = followed(kind, 1_000_000)
    assert np.median(seconds[-10:]) < 1.5 * np.median(seconds[10:20])
    assert max(sizes[50:]) < 1.3 * max(sizes[:50])
    if kind == "switching":
        assert sum(state.readings > 1_000 for state in detector.states) == 6  # one a mode
        assert len(detector.states) <= 12  # spikes leave states of a few readings behind
        assert min(state.id for state in detector.states) == 0
