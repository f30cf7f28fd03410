"""Recurring states in a stream, through the detector: enumeration, batches, snapshots, states that return."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from eight_observations import CHANGE8, LOG_EVIDENCE8, MODEL8, Y8

import ishsmm_stream as hs

MODEL = hs.ied(
    hs.emissions.Normal(mean=0.0, mean_weight=0.1, shape=1.0, scale=1.0), hs.durations.Poisson(shape=1.0, scale=100.0)
)


def test_weighted_chains_agree_with_the_enumeration():
    """12 seeds: |mean - truth| < 6 standard errors over seeds, and .002 for the enumeration's own error."""
    changes, evidence = [], []
    for seed in range(12):
        detector = hs.OnlineDetector(MODEL8, chains=1000, seed=seed)
        detector.update_many(Y8)
        changes.append(detector._engine.change_probability()[1:])
        evidence.append(np.exp(detector.log_evidence - LOG_EVIDENCE8))
    changes, evidence = np.array(changes), np.array(evidence)
    error = changes.std(axis=0, ddof=1) / np.sqrt(12)
    assert np.all(np.abs(changes.mean(axis=0) - CHANGE8) < 6.0 * error + 0.002)
    assert abs(evidence.mean() - 1.0) < 6.0 * evidence.std(ddof=1) / np.sqrt(12) + 0.005


def test_batches_and_snapshots_make_no_difference():
    values = hs.datasets.four_states(200)
    at_once = hs.OnlineDetector(MODEL, chains=30, seed=3)
    events = at_once.update_many(values)
    assert events
    for size in (1, 7, 64):
        detector, found = hs.OnlineDetector(MODEL, chains=30, seed=3), []
        for begin in range(0, len(values), size):
            found += detector.update_many(values[begin : begin + size])
            if begin % 5 == 0:
                detector = hs.OnlineDetector.restore(detector.snapshot())
        assert found == events
        assert detector.change_points == at_once.change_points
        assert detector.log_evidence == at_once.log_evidence
        assert detector.state == at_once.state


def test_a_state_that_returns_after_2000_observations_has_its_old_id():
    rng = np.random.default_rng(5)
    levels = [(-6.0, 100), (6.0, 100), *((0.0, 100), (3.0, 100)) * 10, (-6.0, 100)]
    detector = hs.OnlineDetector(MODEL, chains=50)
    ids = []
    for level, length in levels:
        detector.update_many(rng.normal(level, 1.0, length))
        ids.append(detector.state.id)
    assert ids[-1] == ids[0]
    assert len(set(ids)) == 4
    assert detector.n_states == 4
    assert detector.state.visits == 2
    assert detector.state.parameters["mean"] == pytest.approx(-6.0, abs=0.5)


def test_the_papers_stream_is_labelled_at_once():
    """After 200 observations the id published at once names the true state in 95% of them, one id a state."""
    rng = np.random.default_rng(2)
    rates, means = [10, 20, 3, 7], [-6.0, -2.0, 2.0, 6.0]
    truth: list[int] = []
    state = 0
    while len(truth) < 1_500:
        truth += [state] * (rng.poisson(rates[state]) + 1)
        state = int(rng.choice([k for k in range(4) if k != state]))
    values = rng.normal(np.array(means)[truth], 1.0)
    detector = hs.OnlineDetector(MODEL, chains=100, seed=1)
    published = []
    for value in values:
        detector.update(value)
        published.append(_id_now(detector))
    truth, published = np.array(truth)[200:], np.array(published)[200:]
    names = [np.bincount(published[truth == k]).argmax() for k in range(4)]
    assert len(set(names)) == 4
    assert np.mean(published == np.array(names)[truth]) >= 0.95


def _id_now(detector):
    from ishsmm_stream.online.particles import beliefs

    return beliefs.current_state(detector._engine.chains).uid


def test_the_effective_sample_size_says_how_many_chains_speak():
    detector = hs.OnlineDetector(MODEL8, chains=50)
    assert detector.effective_sample_size is None
    sizes = []
    for value in Y8:
        detector.update(value)
        weights = np.exp(detector._engine.chains.log_weight)
        assert np.isclose(weights.sum(), 1.0)
        assert np.isclose(detector.effective_sample_size, 1.0 / np.sum(weights**2))
        sizes.append(detector.effective_sample_size)
    assert all(1.0 <= size <= 50.0 + 1e-9 for size in sizes)
    assert min(sizes) < 49.5  # not all weights are equal
    exact = hs.OnlineDetector()
    exact.update_many(Y8)
    assert exact.effective_sample_size is None


def test_hazard_and_outliers_are_refused_where_states_return():
    with pytest.raises(ValueError, match="no state returns"):
        hs.OnlineDetector(MODEL, outliers=0.01)


def test_a_snapshot_from_when_chains_were_moved_goes_on_without_moves():
    kept = json.loads((Path(__file__).parents[2] / "data" / "detector-with-moves.json").read_text())
    values = np.array(kept["readings"], dtype=float)
    restored = hs.OnlineDetector.restore(base64.b64decode(kept["snapshot"]))
    chains, seen = restored._engine.chains, kept["seen"]
    assert restored.time == seen
    assert (restored.state.id, restored.state.visits) == (kept["state"], kept["visits"])
    heaviest = int(np.argmax(chains.log_weight))
    recent = chains.recent_uid[heaviest, np.arange(seen - 17, seen) % 17]
    assert recent.tolist() == kept["recent"]
    restored.update_many(values[seen:230])
    assert restored.state.id == 0
    assert restored.state.visits == 3
    assert hs.OnlineDetector.restore(restored.snapshot()).snapshot() == restored.snapshot()


def test_moves_are_deprecated_and_change_nothing():
    values = hs.datasets.four_states(100)
    with pytest.warns(DeprecationWarning, match="move_every does nothing"):
        old = hs.OnlineDetector(MODEL, chains=20, move_every=8)
    new = hs.OnlineDetector(MODEL, chains=20)
    assert old.update_many(values) == new.update_many(values)
    assert old.snapshot() == new.snapshot()
