"""One state against dense Gaussian algebra: a visit is a piece of a stationary autoregression around a drawn level."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from ishsmm_stream.online.regimes import states

PHI, NOISE, SPREAD = 0.6, 0.25, 40.0
VISITS = [3, 1, 5]  # readings of each visit: the first of a visit follows the stationary law


def readings(rng, visits=VISITS):
    return [rng.normal(2.0, 1.0, length) for length in visits]


def covariance(visits, phi=PHI, noise=NOISE, spread=SPREAD):
    """Of all readings, in units of the innovations' variance: the level's share and one block a visit."""
    size = sum(visits)
    result = np.full((size, size), spread / noise)
    first = 0
    for length in visits:
        lags = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
        result[first : first + length, first : first + length] += phi**lags / (1.0 - phi * phi)
        first += length
    return result


def log_density(pieces, phi=PHI, noise=NOISE, spread=SPREAD):
    """ln p(readings): s2 integrated out, they follow a multivariate t."""
    shape = noise * covariance([len(piece) for piece in pieces], phi, noise, spread)
    return stats.multivariate_t(np.zeros(len(shape)), shape, df=2.0 * states.A0).logpdf(np.concatenate(pieces))


def sums_of(pieces, origin=0.0, weight=1.0):
    sums = np.zeros(states.SUMS)
    for piece in pieces:
        states.add_entry(sums, origin, piece[0], weight)
        for before, y in itertools.pairwise(piece):
            states.add_stay(sums, origin, y, before, weight)
    return sums


def prepared(sums, origin=0.0):
    numbers = np.zeros(states.PREPARED)
    states.prepare(sums, origin, PHI, NOISE, SPREAD, numbers)
    return numbers


@pytest.mark.parametrize(("phi", "noise", "spread"), [(0.0, 1.0, 10.0), (0.95, 0.01, 640.0), (-0.4, 4.0, 160.0)])
def test_the_marginal_is_that_of_the_dense_model(phi, noise, spread):
    rng = np.random.default_rng(0)
    for _ in range(5):
        pieces = readings(rng)
        count = sum(VISITS)
        expected = log_density(pieces, phi, noise, spread) + 0.5 * count * np.log(2.0 * np.pi)
        assert states.log_marginal(sums_of(pieces), phi, noise, spread) == pytest.approx(expected, abs=1e-9)


def test_the_likelihood_leaves_out_what_depends_on_nothing_that_is_drawn():
    rng = np.random.default_rng(1)
    sums = sums_of(readings(rng))
    first, second = (0.2, 0.25, 40.0), (0.9, 1.0, 10.0)
    difference = states.log_likelihood(sums, *first) - states.log_likelihood(sums, *second)
    assert difference == pytest.approx(states.log_marginal(sums, *first) - states.log_marginal(sums, *second))


def test_predictions_are_ratios_of_dense_densities():
    rng = np.random.default_rng(2)
    pieces = readings(rng)
    numbers = prepared(sums_of(pieces))
    before = pieces[-1][-1]
    for y in (-3.0, 1.0, 2.5, 9.0):
        stays = [*pieces[:-1], np.append(pieces[-1], y)]
        density, share = states.stay_density(numbers, PHI, y, before)
        expected = np.exp(log_density(stays) - log_density(pieces))
        assert density * share / (1.0 - states.OUTLIERS) == pytest.approx(expected, rel=1e-9)
        enters = [*pieces, np.array([y])]
        density, share = states.entry_density(numbers, y)
        expected = np.exp(log_density(enters) - log_density(pieces))
        assert density * share / (1.0 - states.OUTLIERS) == pytest.approx(expected, rel=1e-9)
        density, share = states.birth_density(PHI, NOISE, SPREAD, y)
        # a birth's variance adds the spread to the noise at its expected ratio, as one t law
        assert 0.0 < share < 1.0
        assert density == pytest.approx(
            (1.0 - states.OUTLIERS) * stats.t.pdf(y, 2.0 * states.A0, scale=np.sqrt(SPREAD + NOISE / (1.0 - PHI**2)))
            + states.OUTLIERS * stats.cauchy.pdf(y, scale=10.0 * np.sqrt(SPREAD)),
            rel=1e-9,
        )


@pytest.mark.parametrize("law", ["stay", "entry", "birth"])
def test_predictive_densities_integrate_to_one(law):
    numbers = prepared(sums_of(readings(np.random.default_rng(3))))

    def density(y):
        if law == "stay":
            return states.stay_density(numbers, PHI, y, 1.0)[0]
        return states.entry_density(numbers, y)[0] if law == "entry" else states.birth_density(PHI, NOISE, SPREAD, y)[0]

    # y = centre + tan(angle) turns the line into an interval
    angles = np.linspace(-np.pi / 2, np.pi / 2, 400_001)[1:-1]
    values = [density(2.0 + np.tan(angle)) * (1.0 + np.tan(angle) ** 2) for angle in angles[::4]]
    assert np.sum(values) * (angles[4] - angles[0]) == pytest.approx(1.0, abs=2e-4)


def test_sums_about_another_origin_are_the_sums_of_moved_readings():
    rng = np.random.default_rng(4)
    pieces = readings(rng)
    moved = sums_of(pieces)
    states.shift(moved, 1.7)
    assert moved == pytest.approx(sums_of(pieces, origin=1.7))
    far = sums_of([piece + 1e6 for piece in pieces], origin=1e6)
    assert far == pytest.approx(sums_of(pieces), rel=1e-6, abs=1e-6)


def test_a_reading_of_half_weight_counts_half():
    pieces = readings(np.random.default_rng(5))
    assert sums_of(pieces, weight=0.5) == pytest.approx(0.5 * sums_of(pieces))


def test_old_readings_fade():
    rng = np.random.default_rng(6)
    sums = sums_of([rng.normal(0.0, 1.0, 1000)])
    factor = states.fade(sums)
    assert factor == pytest.approx(0.2)
    assert sums[states.STAY_N] + sums[states.ENTRY_N] == pytest.approx(200.0)
    assert states.fade(sums) == pytest.approx(1.0)


def test_the_posterior_of_level_and_noise_is_the_right_one():
    """By importance weights over draws of the prior."""
    rng = np.random.default_rng(7)
    pieces = readings(rng, [4, 3])
    draws = 400_000
    s2 = states.A0 * NOISE / rng.gamma(states.A0, 1.0, draws)
    level = np.sqrt(SPREAD / NOISE * s2) * rng.standard_normal(draws)
    log_weight = np.zeros(draws)
    for piece in pieces:
        log_weight += stats.norm.logpdf(piece[0], level, np.sqrt(s2 / (1.0 - PHI * PHI)))
        for before, y in itertools.pairwise(piece):
            log_weight += stats.norm.logpdf(y, level + PHI * (before - level), np.sqrt(s2))
    weight = np.exp(log_weight - special.logsumexp(log_weight))
    _, mean, a, b = states.posterior(sums_of(pieces), PHI, NOISE, SPREAD)
    effective = 1.0 / (weight**2).sum()
    spread = np.sqrt((weight * (level - mean) ** 2).sum())
    assert effective > 500
    assert (weight * level).sum() == pytest.approx(mean, abs=4.0 * spread / np.sqrt(effective))
    precision = (weight / s2).sum()
    assert precision == pytest.approx(a / b, rel=4.0 / np.sqrt(a * effective))
