"""The renewal model's exact posterior against the sum over every segmentation, and against published figures."""

import itertools

import numpy as np
import pytest
from scipy import stats

import ishsmm_stream as hs

COAL = hs.datasets.coal_disasters().counts
COAL_MODEL = hs.ilr(hs.emissions.Poisson(shape=1.0, rate=1.0), hs.durations.Poisson(shape=1.0, scale=100.0))


def negative_binomial(duration):
    """The dwell's marginal law, r = dwell - 1, from scipy: Poisson counts with a gamma rate."""
    return stats.nbinom(duration.shape, 1.0 / (1.0 + duration.scale))


def brute_force(y, model, dwell):
    """Evidence, P(start at t), P(k changes) and ln p(y, segmentation) by enumerating all segmentations."""
    y = np.asarray(y, dtype=float)
    length = len(y)
    at, by_count = np.zeros(length), np.zeros(length)
    terms = {}
    for k in range(length):
        for changes in itertools.combinations(range(1, length), k):
            bounds = [0, *changes, length]
            log_p = 0.0
            for start, end in itertools.pairwise(bounds):
                log_p += hs.emissions.block_log_marginal(model.emission, y[start:end])
                last = end == length
                log_p += dwell.logsf(end - start - 2) if last else dwell.logpmf(end - start - 1)
            terms[changes] = log_p
    log_evidence = np.logaddexp.reduce(list(terms.values()))
    for changes, log_p in terms.items():
        probability = np.exp(log_p - log_evidence)
        at[list(changes)] += probability
        by_count[len(changes)] += probability
    at[0] = 1.0
    return log_evidence, at, by_count, terms


SERIES = {
    "normal": (hs.emissions.Normal(0.0, 0.3, 1.5, 0.7), [0.1, -0.4, 0.2, 3.1, 2.7, np.nan, 3.3, -1.0, 0.0]),
    "poisson": (hs.emissions.Poisson(1.0, 0.5), [4, 5, 3, 0, 1, 0, np.nan, 7, 9]),
    "categorical": (hs.emissions.Categorical((1.0, 0.5, 2.0)), [0, 0, 1, 2, 2, 2, 1, 0]),
    "mean reverting": (
        hs.emissions.MeanReverting(0.7, 0.0, 4.0, 0.3, 1.5),
        [0.1, -0.4, 0.2, 3.1, 2.7, np.nan, 3.3, -1.0, 0.0],
    ),
    "multivariate": (
        hs.emissions.MultivariateNormal((0.0, 0.0), 0.5, 4.0, ((1.0, 0.2), (0.2, 1.0))),
        [[0.1, 0.0], [-0.3, 0.4], [2.0, -2.0], [2.2, -1.7], [1.9, np.nan], [0.0, 0.1], [0.3, 0.2]],
    ),
}


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("duration", [hs.durations.Poisson(1.0, 3.0), hs.durations.Poisson(2.5, 0.8)])
def test_every_sum_equals_enumeration(name, duration):
    emission, y = SERIES[name]
    model = hs.ilr(emission, duration)
    log_evidence, at, by_count, terms = brute_force(y, model, negative_binomial(duration))
    exact = hs.exact_posterior(y, model)
    assert exact.log_evidence == pytest.approx(log_evidence, abs=1e-11)
    np.testing.assert_allclose(exact.change_probability, at, atol=1e-12)
    np.testing.assert_allclose(exact.n_changes, by_count, atol=1e-12)
    assert exact.map_log_joint == pytest.approx(max(terms.values()), abs=1e-11)
    assert terms[exact.map_change_points] == pytest.approx(max(terms.values()), abs=1e-11)


def test_autoregressive_blocks_look_back_over_the_segment_start():
    """Lags cross boundaries: the block marginal of a segment needs the values before it."""
    y = np.array([0.3, 0.1, 0.5, 2.0, 2.4, 2.1, 2.6])
    emission = hs.emissions.Autoregressive(order=1, trend=True)
    duration = hs.durations.Poisson(1.0, 4.0)
    exact = hs.exact_posterior(y, hs.ilr(emission, duration))
    dwell = negative_binomial(duration)

    def block(start, end):
        """Regression marginal as a multivariate t, from its definition."""
        rows = [t for t in range(start, end) if t >= 1]
        if not rows:
            return 0.0
        x = np.array([[1.0, y[t - 1], t - start] for t in rows])
        scale = np.eye(len(rows)) + x @ np.diag([10.0, 1.0, 0.01]) @ x.T
        return stats.multivariate_t(np.zeros(len(rows)), scale, df=2.0).logpdf(y[rows])

    terms = []
    for k in range(len(y)):
        for changes in itertools.combinations(range(1, len(y)), k):
            bounds = [0, *changes, len(y)]
            log_p = dwell.logsf(bounds[-1] - bounds[-2] - 2)
            for start, end in itertools.pairwise(bounds):
                log_p += block(start, end) + (dwell.logpmf(end - start - 1) if end < len(y) else 0.0)
            terms.append(log_p)
    assert exact.log_evidence == pytest.approx(np.logaddexp.reduce(terms), abs=1e-10)


def test_golden_coal_numbers():
    exact = hs.exact_posterior(COAL, COAL_MODEL)
    assert exact.log_evidence == pytest.approx(-176.927782, abs=5e-7)
    np.testing.assert_allclose(
        exact.n_changes[:7], [0, 0.205989, 0.498585, 0.215587, 0.063995, 0.013412, 0.002129], atol=1e-6
    )
    np.testing.assert_allclose(exact.change_probability[[97, 41, 40]], [0.299304, 0.211406, 0.171511], atol=1e-6)


@pytest.mark.parametrize(("scale", "expected"), [(20, 0.064), (50, 0.346), (200, 0.481), (1000, 0.193)])
def test_coal_depends_on_the_duration_prior(scale, expected):
    model = hs.ilr(hs.emissions.Poisson(1.0, 1.0), hs.durations.Poisson(1.0, float(scale)))
    assert hs.exact_posterior(COAL, model).n_changes[2] == pytest.approx(expected, abs=6e-4)


def test_probabilities_are_consistent_on_a_longer_series():
    """sum_t P(change at t) = E[number of changes], and the counts' probabilities add up."""
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.normal(level, 1.0, 60) for level in (0.0, 4.0, 1.0, 5.0, 0.0)])
    exact = hs.exact_posterior(y, hs.ilr(hs.emissions.Normal(0.0, 0.1, 1.0, 1.0), hs.durations.Poisson(1.0, 50.0)))
    assert exact.n_changes.sum() == pytest.approx(1.0, abs=1e-12)
    expected = np.arange(len(y)) @ exact.n_changes
    assert exact.change_probability[1:].sum() == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(exact.map_change_points, (60, 120, 180, 240), atol=2)


def test_draws_have_the_exact_probabilities():
    """False alarm rate below 1e-4: |z| < 6 over 111 indices and the counts, seed fixed."""
    exact = hs.exact_posterior(COAL, COAL_MODEL)
    draws = exact.draw(20_000, seed=4)
    p = exact.change_probability[1:]
    z = (draws.change_probability[1:] - p) / np.sqrt(p * (1 - p) / len(draws) + 1e-12)
    assert np.abs(z).max() < 6.0
    counts = np.bincount(draws.n_changes, minlength=8)[:8] / len(draws)
    np.testing.assert_allclose(counts, exact.n_changes[:8], atol=6 * 0.5 / np.sqrt(len(draws)))
    again = exact.draw(20_000, seed=4)
    assert np.array_equal(again.log_joint, draws.log_joint)


def test_a_draws_log_joint_is_bounded_by_the_best_segmentations():
    exact = hs.exact_posterior(COAL, COAL_MODEL)
    draws = exact.draw(2_000, seed=0)
    assert draws.log_joint.max() <= exact.map_log_joint + 1e-9
    best = draws.draws[int(np.argmax(draws.log_joint))]
    if tuple(best.starts[1:]) == exact.map_change_points:
        assert best.log_joint == pytest.approx(exact.map_log_joint, abs=1e-9)


def test_missing_values_have_no_likelihood_term():
    model = hs.ilr(hs.emissions.Normal(), hs.durations.Poisson(1.0, 5.0))
    assert hs.exact_posterior([np.nan] * 6, model).log_evidence == pytest.approx(0.0, abs=1e-12)


def test_impossible_durations_leave_the_possible_segmentations():
    """A fixed dwell of three: changes at 3 and 6, whatever the data say."""
    model = hs.ilr(hs.emissions.Normal(), hs.durations.Fixed(2))
    exact = hs.exact_posterior(np.linspace(-3, 3, 8), model)
    np.testing.assert_allclose(exact.change_probability, [1, 0, 0, 1, 0, 0, 1, 0], atol=1e-12)
    assert exact.map_change_points == (3, 6)


def test_a_model_whose_states_return_is_refused():
    model = hs.ied(hs.emissions.Normal(), hs.durations.Poisson())
    with pytest.raises(ValueError, match=r"no state returns, such as ilr, got 'ied'; use ishsmm_stream\.sample"):
        hs.exact_posterior([1.0, 2.0], model)
