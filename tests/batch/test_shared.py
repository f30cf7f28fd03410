"""Mean-reverting states with shared numbers and outliers, against the sum over everything that can have happened."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import special, stats

import ishsmm_stream as hs
from ishsmm_stream.batch import segments
from ishsmm_stream.experiments.labels import adjusted_mutual_information
from ishsmm_stream.online.regimes import states as online

Y = np.array([0.4, 0.9, 6.0, 0.7, -1.2, np.nan, -0.8])
SHAPE, SPREAD = 2.0, 4.0
PHI, NOISE = (-0.4, 0.3, 0.9), (0.2, 1.0)
LAW = hs.priors.Outliers(share=0.1, location=0.0, width=5.0)
DWELL = hs.durations.Poisson(2.0, 1.0)
MODEL = dataclasses.replace(
    hs.bayesian_hsmm(2, hs.emissions.MeanReverting(0.3, 0.0, SPREAD, 0.2, SHAPE), DWELL, alpha=1.0),
    shared=(("phi", PHI), ("noise", NOISE)),
    outliers=LAW,
)


def log_data(y, segment, state, phi, noise):
    """ln p(readings of all states): for each a multivariate t; readings next to each other in a segment covary."""
    total = 0.0
    for k in (0, 1):
        at = np.flatnonzero((state == k) & ~np.isnan(y))
        if len(at):
            run = segment[at] * 100 + np.array([np.isnan(y[:t]).sum() for t in at])  # a missing reading ends a run
            apart = np.abs(at[:, np.newaxis] - at)
            covariance = np.where(run[:, np.newaxis] == run, phi**apart, 0.0) / (1.0 - phi * phi)
            law = stats.multivariate_t(np.zeros(len(at)), noise * covariance + SPREAD, df=2.0 * SHAPE)
            total += law.logpdf(y[at])
    return total


def enumerate_all():
    """(weight, starts, outliers, phi, noise) of everything. With two states a path is its starts and its first state,
    which are equally likely."""
    length = len(Y)
    found = []
    known = np.flatnonzero(~np.isnan(Y))
    masks = [at for n in range(3) for at in itertools.combinations(known, n)]  # three or more: negligible
    for n in range(length):
        for changes in itertools.combinations(range(1, length), n):
            starts = np.array([0, *changes])
            segment = np.searchsorted(starts, np.arange(length), side="right") - 1
            labels = np.arange(len(starts)) % 2
            log_dwells = segments.log_dwells(DWELL, length, starts, labels, 2)
            for outliers in masks:
                y = Y.copy()
                y[list(outliers)] = np.nan
                log_outliers = len(outliers) * np.log(LAW.share) + (len(known) - len(outliers)) * np.log1p(-LAW.share)
                log_outliers += stats.cauchy.logpdf(Y[list(outliers)], LAW.location, LAW.width).sum()
                for phi, noise in itertools.product(PHI, NOISE):
                    log_p = log_dwells + log_outliers + log_data(y, segment, segment % 2, phi, noise)
                    found.append((log_p, starts, outliers, phi, noise))
    weights = special.softmax([one[0] for one in found])
    return [(weight, *one[1:]) for weight, one in zip(weights, found, strict=True)]


def test_draws_have_the_probabilities_of_the_enumeration():
    """16 independent chains, |z| < 7 by the t distribution with 15 degrees of freedom; false alarms below 1e-4."""
    length = len(Y)
    expected = np.zeros(2 * length + len(PHI) + len(NOISE))
    for weight, starts, outliers, phi, noise in enumerate_all():
        expected[starts] += weight
        expected[length + np.array(outliers, dtype=int)] += weight
        expected[2 * length + PHI.index(phi)] += weight
        expected[2 * length + len(PHI) + NOISE.index(noise)] += weight
    found = hs.sample(Y, MODEL, draws=2_000, burn_in=100, chains=16, seed=6)
    shares = []
    for chain in found.chains:
        share = np.zeros_like(expected)
        for draw in chain:
            share[draw.starts] += 1.0
            share[length + draw.outliers] += 1.0
            share[2 * length + PHI.index(draw.emission.phi)] += 1.0
            share[2 * length + len(PHI) + NOISE.index(draw.emission.noise)] += 1.0
        shares.append(share / len(chain))
    error = np.std(shares, axis=0, ddof=1) / 4.0
    difference = np.mean(shares, axis=0) - expected
    assert (np.abs(difference) < 7.0 * error + 1e-3).all(), (difference, error)
    assert 0.05 < expected[length + 2] < 0.95  # or the test would say little
    np.testing.assert_allclose(found.outlier_probability, np.mean(shares, axis=0)[length : 2 * length], atol=1e-12)


def test_shared_numbers_are_reported():
    found = hs.sample(Y, MODEL, draws=30, burn_in=5, chains=2, seed=1)
    assert set(found.hyperparameter("phi")) <= set(PHI)
    assert {"phi", "noise"} <= set(found.summary())
    assert found.map.parameters[0].keys() == {"mean", "sd", "dwell"}


def test_the_marginal_is_that_of_the_online_states():
    """The same readings, taken into the online engine's raw sums."""
    phi, noise, spread = 0.6, 1.0, 40.0
    prior = hs.emissions.MeanReverting(phi, 0.0, spread, noise, online.A0)
    y = np.array([1.2, 0.8, np.nan, 2.0, 1.1, 1.4])
    sums = np.zeros(online.SUMS)
    for t, value in enumerate(y):
        if t in (0, 3):
            online.add_entry(sums, 0.0, value, 1.0)
        elif not np.isnan(value):
            online.add_stay(sums, 0.0, value, y[t - 1], 1.0)
    constant = 0.5 * np.log(2.0 * np.pi) * 5.0
    ours = hs.emissions.block_log_marginal(prior, y)
    assert ours == pytest.approx(online.log_marginal(sums, phi, noise, spread) - constant, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shared": (("scale", (1.0,)),)}, "shared takes pairs of a number of MeanReverting and at least one value"),
        ({"shared": (("phi", ()),)}, "at least one value"),
        ({"shared": (("phi", (0.5, 1.0)),)}, "phi must be between -1 and 1, got 1.0"),
        ({"outliers": 0.01}, "outliers must be priors.Outliers, got 0.01"),
        ({"emission": hs.emissions.Autoregressive(), "shared": ()}, "segments that do not depend on each other"),
        ({"topology": hs.topology.left_to_right()}, "for models whose states return"),
        ({"topology": hs.topology.left_to_right(), "shared": ()}, "outliers are for models whose states return"),
    ],
)
def test_models_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(MODEL, **changes)


def switching(rng, truth, phi):
    """Readings with a standard deviation of 1 about levels 8 apart."""
    y = np.empty(len(truth))
    for t in range(len(y)):
        begins = t == 0 or truth[t] != truth[t - 1]
        y[t] = rng.normal() if begins else phi * y[t - 1] + np.sqrt(1.0 - phi * phi) * rng.normal()
    return y + np.array([0.0, 8.0, -9.0])[truth]


def test_a_fit_finds_states_that_return_and_spikes_without_priors():
    """In any units, with a missing stretch. Autocorrelation alone makes no states."""
    rng = np.random.default_rng(8)
    truth = np.repeat([0, 1, 0, 2, 1, 0], 60)
    y = 1e4 + 30.0 * switching(rng, truth, 0.8)
    y[[100, 250]] += [3_000.0, -2_000.0]  # two of the same height would be a state that returns
    y[130:140] = np.nan
    found = hs.fit("recurring", y, draws=100, burn_in=150, seed=3)
    assert found.n_states.min() >= 3
    assert np.median(found.n_states) == 3
    assert len(set(found.map.states[[30, 150, 330]])) == 1
    assert (found.outlier_probability[[100, 250]] > 0.99).all()
    assert np.delete(found.outlier_probability, [100, 250]).max() < 0.5
    assert 0.6 <= np.median(found.hyperparameter("phi")) <= 0.9
    changes = np.flatnonzero(np.diff(truth)) + 1
    assert list(found.map.change_points) == pytest.approx(changes.tolist(), abs=2)


def test_live_and_batch_agree():
    """One stream, which both see in full: the labels that are published live after 20 readings, and those of the draw
    with the highest log joint."""
    lag = 20
    rng = np.random.default_rng(4)
    truth = np.repeat(rng.permutation(np.arange(15) % 3), 40)
    y = switching(rng, truth, 0.5)
    detector = hs.OnlineDetector("recurring")
    live = np.zeros(len(y), dtype=int)
    for t, value in enumerate(y):
        detector.update(value)
        recent = detector.recent_states
        live[max(t - lag, 0)] = recent[max(len(recent) - 1 - lag, 0)] if len(recent) else 0
    live[-lag:] = detector.recent_states[-lag:]
    found = hs.fit("recurring", y, draws=50, burn_in=150, chains=2, seed=1).map.states
    for one, other in ((live, truth), (found, truth), (live, found)):
        assert adjusted_mutual_information(one, other) > 0.95


def test_only_recurring_needs_no_priors():
    with pytest.raises(ValueError, match="model must be one of 'recurring', got 'ied'"):
        hs.fit("ied", Y)
    with pytest.raises(ValueError, match="y has 2 channels, but recurring takes 1"):
        hs.fit("recurring", np.zeros((5, 2)))
