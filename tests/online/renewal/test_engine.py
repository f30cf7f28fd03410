"""The streaming filter is the exact posterior where nothing is dropped."""

import math

import numpy as np
import pytest
from online import engines, oracles
from scipy import special

import ishsmm_stream as hs
from ishsmm_stream.online.renewal import adaptive, run_length, smoothing
from ishsmm_stream.online.renewal.hazard import duration_hazard, learned_hazard

# What the filter remembers of its lag is kept to 16 bits: measured 2e-6 at T = 500, 4e-6 with a learned hazard.
SMOOTHED = 1e-5
NORMAL = hs.emissions.Normal(0.0, 0.2, 1.5, 1.0)
AUTOREGRESSIVE = hs.emissions.Autoregressive(order=2, trend=True, lag_mean=0.3)
MIXTURE = hs.emissions.Mixed((NORMAL, AUTOREGRESSIVE), (0.7, 0.3))


def _normal(rng, length):
    y = engines.levels(rng, length, 40) + rng.normal(size=length)
    y[[0, 17, 18, 19, length // 2]] = np.nan
    return y


def _vectors(rng, length):
    y = np.stack([engines.levels(rng, length, 40), engines.levels(rng, length, 60)], axis=1)
    y += rng.normal(size=y.shape)
    y[23, 1] = np.nan
    return y


def _autoregressive(rng, length):
    y = engines.levels(rng, length, 60)
    for t in range(1, length):
        y[t] += 0.6 * y[t - 1] + rng.normal()
    y[31] = np.nan
    return y


def _counts(rng, length):
    return rng.poisson(np.exp(engines.levels(rng, length, 40, spread=1.0))).astype(float)


def _letters(rng, length):
    return (engines.levels(rng, length, 30) + rng.normal(size=length) > 0.0) + (rng.random(length) < 0.2).astype(float)


CASES = {
    "normal, geometric dwells": (NORMAL, hs.durations.Poisson(1.0, 40.0), _normal),
    "normal, dwells around a mean": (NORMAL, hs.durations.Poisson(3.0, 12.0), _normal),
    "normal, delayed dwells": (NORMAL, hs.durations.DelayedGeometric(1.0, 20.0, 9), _normal),
    "counts, heavy-tailed dwells": (
        hs.emissions.Poisson(1.0, 0.5),
        hs.durations.NegativeBinomial((1.0, 4.0), 3.0, 1.0),
        _counts,
    ),
    "letters": (hs.emissions.Categorical((1.0, 0.5, 2.0)), hs.durations.Poisson(1.0, 40.0), _letters),
    "vectors": (
        hs.emissions.MultivariateNormal((0.0, 0.5), 0.3, 4.0, ((1.0, 0.2), (0.2, 1.5))),
        hs.durations.Poisson(2.0, 20.0),
        _vectors,
    ),
    "autoregression": (AUTOREGRESSIVE, hs.durations.Poisson(1.0, 60.0), _autoregressive),
    "mean reverting": (
        hs.emissions.MeanReverting(0.6, 0.0, 9.0, 1.0), hs.durations.Poisson(1.0, 60.0), _autoregressive,
    ),
    "mixture": (MIXTURE, hs.durations.Poisson(1.0, 60.0), _autoregressive),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_filter_equals_the_exact_posterior_where_nothing_is_dropped(name):
    emission, duration, stream = CASES[name]
    y = stream(np.random.default_rng(3), 500)
    engine = engines.build(emission, duration, duration_hazard(duration), 500)
    seen = 0
    for length in (50, 150, 500):
        engines.feed(engine, y[:length], seen)
        seen = length
        exact = hs.exact_posterior(y[:length], hs.ilr(emission, duration))
        assert engine.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)
        np.testing.assert_allclose(engine.change_probability(), exact.change_probability, rtol=0.0, atol=SMOOTHED)
        assert engines.path(engine) == (0, *exact.map_change_points)
        assert engine.discarded == 0.0
    assert len(exact.map_change_points) >= 3


def test_a_dwell_that_is_certain_ends_on_the_dot():
    duration = hs.durations.Fixed(6)
    y = np.random.default_rng(0).normal(size=24)
    engine = engines.build(NORMAL, duration, duration_hazard(duration), 24)
    engines.feed(engine, y)
    exact = hs.exact_posterior(y, hs.ilr(NORMAL, duration))
    assert engine.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)
    assert engines.path(engine) == (0, 7, 14, 21)
    np.testing.assert_allclose(engine.change_probability(), exact.change_probability, rtol=0.0, atol=SMOOTHED)


def test_the_hazard_of_an_old_segment_is_that_of_its_law():
    """Beyond the table of the first ages the hazard is computed when it is asked for. Poisson(1, scale) is geometric;
    the hazard of Poisson(a, scale) rises towards 1 / (1 + scale)."""
    engine_hazard = duration_hazard(hs.durations.Poisson(1.0, 99.0))
    np.testing.assert_allclose(engine_hazard.by_age[1:], 0.01, rtol=1e-9)
    y = np.full(700, np.nan)
    for duration in (hs.durations.Poisson(1.0, 99.0), hs.durations.Poisson(3.0, 30.0)):
        engine = engines.build(NORMAL, duration, duration_hazard(duration), 700)
        engines.feed(engine, y)
        exact = hs.exact_posterior(y, hs.ilr(NORMAL, duration))
        np.testing.assert_allclose(engine.change_probability(), exact.change_probability, rtol=0.0, atol=SMOOTHED)


@pytest.fixture(scope="module")
def streams():
    """(y, log_marginal) of streams for a learned hazard: rare changes, frequent ones, none."""
    rng = np.random.default_rng(5)
    made = {}
    for name, dwell in {"long": 40, "short": 9, "none": 10**9}.items():
        y = engines.levels(rng, 150, dwell) + rng.normal(size=150)
        y[[4, 77]] = np.nan
        made[name] = y, oracles.block_marginals(y, NORMAL)
    return made


@pytest.mark.parametrize(("dwell", "prior", "tolerance"), [
    ("none", hs.priors.Beta(1.0, 500.0), 0.003),
    ("long", hs.priors.Beta(1.0, 500.0), 0.003),
    ("long", hs.priors.Beta(2.0, 30.0), 0.006),
    ("short", hs.priors.Beta(1.0, 500.0), 0.006),
    ("short", hs.priors.Beta(2.0, 30.0), 0.012),
])  # fmt: skip
@pytest.mark.parametrize("length", [50, 150])
def test_a_learned_hazard_is_right_to_a_few_thousandths(streams, dwell, prior, tolerance, length):
    """The grid's own sums are exact. Against a Beta prior without a grid 16 values are right to .003 where changes are
    few; measured .0052 with ten changes, .0093 with fifteen. The grid is as coarse as the posterior is narrow."""
    y, log_marginal = streams[dwell]
    log_marginal = log_marginal[:length, : length + 1]
    hazard = learned_hazard(prior)
    engine = engines.build(NORMAL, engines.NO_DURATION, hazard, length)
    engines.feed(engine, y[:length])
    on_grid = oracles.constant_hazard(log_marginal, hazard.grid, hazard.prior)
    assert engine.log_evidence == pytest.approx(on_grid.log_evidence, abs=1e-9)
    np.testing.assert_allclose(engines.last_start(engine), on_grid.last_start, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(engine.change_probability(), on_grid.change_probability, rtol=0.0, atol=SMOOTHED)
    exact = oracles.beta_hazard(log_marginal, prior.a, prior.b)
    np.testing.assert_allclose(engines.last_start(engine), exact.last_start, rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(engine.change_probability(), exact.change_probability, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("min_dwell", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 3, 7, 11])
def test_the_shortest_dwell_holds_in_filter_and_smoothing(min_dwell, length):
    """Against every segmentation: those with a shorter complete segment have probability 0."""
    y = np.repeat([0.0, 4.0, -3.0], (4, 3, 4)) + np.random.default_rng(8).normal(size=11)
    y = y[:length]
    log_marginal = oracles.block_marginals(y, NORMAL)
    hazard = learned_hazard(hs.priors.Beta(2.0, 8.0), min_dwell)
    engine = engines.build(NORMAL, engines.NO_DURATION, hazard, max(length, 2))
    engines.feed(engine, y)

    def on_grid(starts):
        survived = oracles.risks(starts, length, min_dwell)
        if survived is None:
            return -math.inf
        changes = len(starts) - 1
        return special.logsumexp(
            np.log(hazard.prior) + changes * np.log(hazard.grid) + survived * np.log1p(-hazard.grid)
        )

    exact = oracles.enumerate_segmentations(log_marginal, on_grid)
    assert engine.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)
    np.testing.assert_allclose(engines.last_start(engine), exact.last_start, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(engine.change_probability(), exact.change_probability, rtol=0.0, atol=SMOOTHED)


OUTLIERS = 0.02


@pytest.mark.parametrize("mean", [0.0, 30.0])
def test_the_outlier_branch_equals_its_density_summed_over_segmentations(mean):
    """Steps, spikes, spikes at a segment's first reading, missing readings; the kernel's gamma ratio is right
    to 1e-9."""
    rng = np.random.default_rng(11)
    y = mean + np.repeat([0.0, 5.0, -60.0, 0.5], (40, 35, 45, 40)) + rng.normal(size=160)
    y[[10, 75, 100, 101]] += 500.0
    y[[40, 41, 90]] = np.nan
    prior = hs.emissions.Normal(mean, 0.1, 1.0, 1.0)
    log_marginal = oracles.block_marginals(y, prior, OUTLIERS)
    hazard = learned_hazard(hs.priors.Beta(1.0, 100.0))
    engine = engines.build(adaptive.with_outliers(prior, OUTLIERS), engines.NO_DURATION, hazard, len(y))
    engines.feed(engine, y)
    exact = oracles.constant_hazard(log_marginal, hazard.grid, hazard.prior)
    assert engine.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)
    np.testing.assert_allclose(engines.last_start(engine), exact.last_start, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(engine.change_probability(), exact.change_probability, rtol=0.0, atol=SMOOTHED)
    without = oracles.constant_hazard(oracles.block_marginals(y, prior), hazard.grid, hazard.prior)
    assert np.abs(without.change_probability - exact.change_probability).max() > 0.5, "the outliers must matter"


def test_where_a_stream_stands_is_found_by_one_kernel_as_by_hand():
    """Posterior of the start, open change points and the most probable segment, beside what plain Python makes of the
    filter's arrays."""
    rng = np.random.default_rng(4)
    detector = hs.OnlineDetector()
    seen_open = 0
    for _ in range(60):
        detector.update_many(rng.normal(rng.choice([0.0, 0.0, 6.0]), 1.0, int(rng.integers(5, 40))))
        engine = detector._engine
        filter, belief = engine.filter, engine.belief
        order = filter.order[: filter.clock[run_length.COUNT]]
        starts, weights = belief.starts
        assert starts == filter.start[order].tolist() == sorted(starts)
        np.testing.assert_allclose(weights, filter.weight[order] / filter.weight[order].sum(), rtol=1e-14)
        path = smoothing.most_probable_path(filter)
        assert belief.since == path[-1]
        assert filter.start[belief.position] == path[-1]
        first, probability = max(0, engine.time - len(filter.record_slot)), engine.change_probability()
        described = [
            hs.ChangePoint(int(index), *smoothing.describe_change(probability, first, path, i))
            for i, index in enumerate(path)
            if index > max(filter.clock[run_length.CONSIDERED], first - 1, 0)
        ]
        assert belief.changes == [change for change in described if change.probability >= 0.5]
        seen_open += len(belief.changes)
        lengths = engine.time - np.array(starts)
        for last in (1, 7, 1000):
            expected = sum(w for w, s in zip(weights, starts, strict=True) if engine.time - s <= last and s)
            assert detector.change_probability(last) == pytest.approx(expected, abs=1e-15)
        low, high = detector.run_length(0.05, 0.95)
        assert sum(w for w, n in zip(weights, lengths, strict=True) if n <= high) >= 0.95 - 1e-12
        assert sum(w for w, n in zip(weights, lengths, strict=True) if n < low) < 0.05
    assert seen_open > 5
