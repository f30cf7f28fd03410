"""Optimal resampling: how many are kept, what they weigh, and that nothing is favoured."""

import numpy as np
import pytest

from ishsmm_stream.online.particles import counter_random
from ishsmm_stream.online.particles.resampling import resample

STREAM = counter_random.make_stream()


def thinned(weights, keep, seed=0):
    """The new weight of every item, 0 for those that were dropped."""
    weights = np.asarray(weights, dtype=float)
    counter_random.key(STREAM, counter_random.seed_words(3), seed, 0, counter_random.RESAMPLING)
    order, chosen, kept = np.empty(len(weights), dtype=np.int64), np.empty(keep, dtype=np.int64), np.empty(keep)
    taken = resample(STREAM, weights, len(weights), keep, order, chosen, kept)
    result = np.zeros(len(weights))
    result[chosen[:taken]] = kept[:taken]
    assert len(np.unique(chosen[:taken])) == taken <= keep
    return result


def test_few_items_are_all_kept_as_they_are():
    weights = np.array([0.5, 0.0, 0.2, 1e-300, 0.3])
    assert np.array_equal(thinned(weights, 4), weights)
    assert np.array_equal(thinned(weights, 10), weights)


def test_heavy_items_keep_their_weight_and_light_ones_get_the_threshold():
    weights = np.array([10.0, 5.0, *[0.1] * 40])
    result = thinned(weights, 6)
    assert result[0] == 10.0
    assert result[1] == 5.0
    light = result[2:][result[2:] > 0.0]
    assert len(light) == 4
    assert light == pytest.approx(1.0)  # what is left, 4.0, among the 4 places that are left


def test_the_threshold_solves_its_equation():
    rng = np.random.default_rng(0)
    for trial in range(50):
        weights = rng.gamma(rng.choice([0.05, 0.3, 2.0]), size=200)
        result = thinned(weights, 30, trial)
        threshold = result[(result > 0.0) & (result != weights)].max()
        assert np.minimum(weights / threshold, 1.0).sum() == pytest.approx(30.0)
        assert np.sum(result > 0.0) == 30
        assert result.sum() == pytest.approx(weights.sum())


@pytest.mark.parametrize("order", ["as they come", "in pairs"])
def test_new_weights_are_the_old_ones_on_average(order):
    """60 items, 4,000 streams of numbers: |z| < 5 in each, false alarms 3e-5 in all. In pairs: children of like
    parents, the order that systematic sampling aliases with if it is not shuffled."""
    weights = np.random.default_rng(1).gamma(0.5, size=60)
    if order == "in pairs":
        weights = np.tile([0.9, 0.1], 30)
    results = np.array([thinned(weights, 15, seed) for seed in range(4_000)])
    threshold = results[(results > 0.0) & (results != weights)].max()
    error = np.sqrt(weights * np.maximum(threshold - weights, 0.0) / len(results)) + 1e-9
    assert np.max(np.abs(results.mean(axis=0) - weights) / error) < 5.0
    first = results[:, ::2].sum(axis=1)  # varies little more than by independent choices; not shuffled, 4 times as much
    share = weights[::2].sum() / weights.sum()
    assert first.std() < 1.5 * weights.sum() * np.sqrt(share * (1.0 - share) / 15)


def test_equal_and_extreme_weights_never_overflow():
    rng = np.random.default_rng(2)
    for trial in range(300):
        weights = np.exp(rng.uniform(-740.0, 0.0, 100)) if trial % 2 else np.full(100, 0.1)
        result = thinned(weights, 1 + trial % 40, trial)
        assert np.isfinite(result).all()
        assert (result > 0.0).any()
