"""The filter against enumeration on tiny streams, and the approximations against a filter without them."""

import math
from collections import defaultdict

import numpy as np
import pytest
from online.regimes.enumeration import enumerate_paths

from ishsmm_stream.online import lattice
from ishsmm_stream.online.regimes import beliefs, filter
from ishsmm_stream.online.regimes.chains import DISCARDED, LOG_EVIDENCE, STEP, TIME, make_chains

EXACT = filter.Approximations(
    negligible=0.0, draws=False, merges=False, splits=False, fuses=False, renews=False, max_states=10
)  # fmt: skip


def run(y, size, limits, seed=0, lag=64, room=None):
    chains = make_chains(size, lag, seed, room or limits.max_states)
    chains.amounts[STEP] = lattice.CONTINUOUS
    scratch = filter.make_scratch(size, chains.uid.shape[1])
    for value in y:
        filter.observe(chains, scratch, float(value), limits)
    return chains


def paths_of(chains, length):
    """P(path), a path by the first reading of each state."""
    found = defaultdict(float)
    for i in beliefs.live(chains):
        uids = chains.recent_uid[i, :length].tolist()
        found[tuple(sorted(set(uids)).index(uid) for uid in uids)] += chains.weight[i]
    return found


STREAMS = {
    "two levels": [0.1, -0.3, 4.0, 4.4, 0.0, 0.2],
    "one level": [0.5, 0.1, -0.7, 0.3, 0.2, 0.9],
    "an outlier": [0.0, 0.2, 300.0, 0.1, -0.2, 0.3],
    "begins far out": [900.0, 901.0, 899.5, 0.0, 0.3, 900.5],
    "missing": [0.1, 3.0, math.nan, math.nan, 3.2, 0.2, 0.1],
    "negative": [-2.0, 2.0, -2.1, 2.2, -1.9, 1.8],
}


@pytest.mark.parametrize("name", STREAMS)
def test_tiny_streams_are_enumerated(name):
    y = STREAMS[name]
    chains = run(y, 900, EXACT)
    log_evidence, expected = enumerate_paths(y)
    assert chains.amounts[LOG_EVIDENCE] == pytest.approx(log_evidence, abs=1e-9)
    found = paths_of(chains, len(y))
    assert found == pytest.approx({path: weight for path, weight in expected}, abs=1e-9)  # noqa: C416
    assert chains.amounts[DISCARDED] == 0.0


def test_a_filter_that_must_choose_is_right_on_average():
    """Twelve chains of 203 paths: the evidence is unbiased, and so are the probabilities weighted by it."""
    y = STREAMS["two levels"]
    log_evidence, expected = enumerate_paths(y)
    last_is_first = sum(weight for path, weight in expected if path[-1] == path[0])
    ratios, shares = [], []
    for seed in range(400):
        chains = run(y, 12, EXACT, seed)
        ratio = math.exp(chains.amounts[LOG_EVIDENCE] - log_evidence)
        found = paths_of(chains, len(y))
        ratios.append(ratio)
        shares.append(ratio * sum(weight for path, weight in found.items() if path[-1] == path[0]))
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert error < 0.02
    assert np.mean(ratios) == pytest.approx(1.0, abs=4.0 * error + 1e-12)
    assert np.mean(shares) == pytest.approx(last_is_first, abs=4.0 * np.std(shares) / 20.0 + 1e-12)


def modes(seed, length=600):
    rng = np.random.default_rng(seed)
    which = np.zeros(length, dtype=int)
    for t in range(1, length):
        which[t] = (which[t - 1] + 1 + rng.integers(2)) % 3 if rng.random() < 0.03 else which[t - 1]
    y, last = np.empty(length), 0.0
    for t in range(length):
        last = 0.5 * last + math.sqrt(0.75) * rng.normal() if t and which[t] == which[t - 1] else rng.normal()
        y[t] = last + np.array([0.0, 6.0, 13.0])[which[t]]
    return (y - 6.0) / 5.0, which


@pytest.mark.parametrize("part", [{}, {"merges": False}, {"splits": False}, {"fuses": False}])
def test_what_bounds_the_work_costs_little_evidence(part):
    """20 chains with every approximation, or all but one, against 400 that drop next to nothing.

    Medians, in nats per reading: one stream in forty begins so that 20 chains take it for one state that wanders, and
    are late to learn better.
    """
    gains, same = [], []
    for seed in range(5):
        y, _ = modes(seed)
        few = run(y, 20, filter.Approximations(**part))
        many = run(y, 400, filter.Approximations(negligible=1e-9, merges=False, splits=False, fuses=False))
        gains.append((few.amounts[LOG_EVIDENCE] - many.amounts[LOG_EVIDENCE]) / len(y))
        times = np.arange(len(y) - 60, len(y) - 20)
        ours, theirs = beliefs.path(few, times), beliefs.path(many, times)
        same.append(np.mean(np.abs(ours - theirs) <= 3))
    assert np.median(gains) > -0.02
    assert np.median(same) > 0.95


def test_a_gap_is_part_of_the_clock():
    chains = run([0.0, 1.0, math.nan, math.nan], 20, filter.Approximations())
    assert chains.clock[TIME] == 4
    before = chains.amounts[LOG_EVIDENCE]
    assert before == run([0.0, 1.0], 20, filter.Approximations()).amounts[LOG_EVIDENCE]
