"""Chains find the same answer whatever they begin with; if they do not, they say so."""

import dataclasses
import itertools

import numpy as np
import pytest
from eight_observations import CHANGE8, MODEL8, STATES8, Y8

import ishsmm_stream as hs
from ishsmm_stream.batch import starts
from ishsmm_stream.batch.burn_in import burnt_in
from ishsmm_stream.batch.chain import Chain
from ishsmm_stream.experiments import comparison, hsmm

IED = comparison.models("poisson")["ied"]


def data(gap, dwell, seed=0):
    return comparison.data("poisson", gap, dwell, seed)


# Starts


def test_segments_of_a_clear_series_are_found_and_joined_to_states():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 0, 2, 1], 300)  # across the borders of blocks, too
    y = rng.normal(size=(1500, 1)) + np.array([0.0, 8.0, -8.0])[truth][:, np.newaxis]
    guess = starts.by_segment(rng, IED, y, 100.0, 20)
    labels = np.repeat(guess.labels, np.diff(guess.starts, append=len(y)))
    assert {300, 600, 900, 1200} <= set(guess.starts.tolist())
    assert all(len(np.unique(truth[labels == k])) == 1 for k in np.unique(labels))  # no state is a mixture
    assert len(guess.starts) < 10
    assert (guess.labels[1:] != guess.labels[:-1]).all()


def test_no_more_states_than_allowed():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(12.0) * 50.0, 5)[:, np.newaxis] + rng.normal(size=(60, 1))
    assert starts.by_segment(rng, IED, y, 5.0, 4).labels.max() == 3
    assert starts.by_segment(rng, hs.hdp_hmm(IED.emission), y, 5.0, 4).starts.tolist() == list(range(60))


# Competition


def test_the_heavier_explanation_wins_though_its_log_joint_is_lower():
    """Two states that alternate every five readings: 80 segments of two states have more mass than one segment, but
    each of their many explanations has a lower log joint."""
    series = data(2.0, 5.0)
    y = series.y[:, np.newaxis]
    one = Chain(IED, y, np.random.default_rng(0), first=starts.Trajectory(np.zeros(1, int), np.zeros(1, int)))
    many = Chain(IED, y, np.random.default_rng(0), first=starts.from_labels(series.states, IED))
    for _ in range(100):
        one.sweep(weigh=True)
        many.sweep(weigh=True)
    assert len(one.starts) < 5
    assert len(many.starts) > 40
    assert one.log_joint() > many.log_joint() + 30.0
    assert one.log_mass < many.log_mass


@pytest.mark.parametrize("sweeps", [0, 5, 30, 100, 500])
def test_burn_in_takes_as_many_sweeps_as_it_was_given(sweeps, monkeypatch):
    taken, reported = [], []
    sweep = Chain.sweep
    monkeypatch.setattr(Chain, "sweep", lambda self, weigh=False: (taken.append(1), sweep(self, weigh))[1])
    y = data(3.0, 30.0).y[:60, np.newaxis]
    burnt_in(IED, y, np.random.default_rng(0), sweeps, {}, reported.append)
    assert len(taken) == sum(reported) == sweeps


@pytest.mark.parametrize(("gap", "dwell"), [(3.0, 65.0), (3.0, 130.0), (4.0, 90.0)])
def test_chains_agree_where_single_starts_got_stuck(gap, dwell):
    """Of chains that begin with clustered observations, a fourth get there (benchmarks/convergence.py)."""
    series = data(gap, dwell)
    posterior = hs.sample(series.y, IED, draws=50, burn_in=500, chains=4, seed=3)
    masses = posterior.log_mass.reshape(4, -1).mean(axis=1)
    assert np.ptp(masses) < 3.0
    truth = Chain(
        IED, series.y[:, np.newaxis], np.random.default_rng(0), first=starts.from_labels(series.states, IED)
    )  # fmt: skip
    for _ in range(200):
        truth.sweep(weigh=True)
    assert masses.min() > truth.log_mass - 6.0


def test_eight_states_of_a_long_series_are_found_by_every_chain():
    rng = np.random.default_rng(4)
    means = (-9.0, -6.5, -4.0, -1.0, 1.5, 4.0, 7.0, 10.0)
    series = hsmm.recurring(2_000, means, 1.0, hsmm.poisson_dwell((20, 30, 40, 50, 70, 100, 140, 200)), rng)
    model = hs.ied(hs.emissions.Normal(0.0, 0.05, 1.0, 1.0), hs.durations.Poisson(1.0, 1000.0))
    posterior = hs.sample(series.y, model, draws=40, burn_in=200, chains=2, seed=1)
    seen = len(np.unique(series.states))
    assert (posterior.n_states.reshape(2, -1)[:, -1] == seen).all()
    assert np.ptp(posterior.log_mass.reshape(2, -1).mean(axis=1)) < 5.0


# Tempering


def test_rungs_leave_the_posterior_as_it_is():
    """Against enumeration; a ladder of three, four chains of 3,000 draws: errors stay below .03."""
    posterior = hs.sample(Y8, MODEL8, draws=3_000, burn_in=50, chains=4, seed=2, rungs=3)
    np.testing.assert_allclose(posterior.change_probability[1:], CHANGE8, atol=0.03)
    found = np.bincount(posterior.n_states, minlength=6)[1:6] / len(posterior)
    np.testing.assert_allclose(found, STATES8, atol=0.03)


def test_neighbours_on_a_ladder_exchange_and_the_first_sees_everything():
    from ishsmm_stream.batch.tempering import TemperedChain, thinned

    y = data(4.0, 65.0).y[:, np.newaxis]
    rng = np.random.default_rng(0)
    seen = thinned(y, 4, rng)
    shares = [np.mean(~np.isnan(one)) for one in seen]
    assert shares[0] == 1.0
    assert shares[-1] == pytest.approx(0.7, abs=0.08)
    for more, less in itertools.pairwise(seen):
        assert not (np.isnan(more) & ~np.isnan(less)).any()
    ladder = TemperedChain([burnt_in(IED, one, rng, 200, {}, lambda _: None) for one in seen], rng)
    for _ in range(200):
        ladder.sweep()
        assert not np.isnan(ladder._chains[0].y).any()
    assert ladder.exchanged.sum() > 20


def test_rungs_are_refused_for_models_with_outliers():
    with pytest.raises(ValueError, match="rungs > 1 is for models without outliers"):
        hs.fit("recurring", np.arange(30.0), rungs=2)


# Diagnostics


def stuck(draws=30):
    """Two chains: one from the truth, one that has taken everything for one state and had no time to leave."""
    series = data(4.0, 65.0)
    chains = []
    for first in (starts.from_labels(series.states, IED), starts.Trajectory(np.zeros(1, int), np.zeros(1, int))):
        chain = Chain(IED, series.y[:, np.newaxis], np.random.default_rng(0), moves=0, first=first)
        kept = []
        for _ in range(draws):
            chain.sweep(weigh=True)
            kept.append(chain.draw())
        chains.append(kept)
    return hs.Posterior(IED, series.y[:, np.newaxis], chains)


def test_chains_that_disagree_are_named_with_a_remedy():
    (sentence,) = stuck().disagreements()
    assert sentence.startswith("the chains disagree: R-hat of ")
    assert "chain 2 lies up to" in sentence
    assert "nats behind the best in log_mass" in sentence
    assert "raise burn_in and draws, or set rungs to 4" in sentence
    assert "--burn-in" in stuck().disagreements(lambda name: "--" + name.replace("_", "-"))[0]
    assert stuck(draws=5).disagreements() == []


def test_what_a_model_does_not_take_is_no_remedy():
    found = stuck()
    found.model = dataclasses.replace(IED, outliers=hs.priors.Outliers(0.01, 0.0, 10.0))
    (sentence,) = found.disagreements()
    assert "rungs" not in sentence


def test_chains_that_agree_are_not_warned_of(recwarn):
    posterior = hs.sample(data(3.0, 65.0).y, IED, draws=200, burn_in=300, chains=2, seed=1)
    assert posterior.disagreements() == []
    assert not [one for one in recwarn if one.category is hs.ConvergenceWarning]


def test_sample_warns():
    with pytest.warns(hs.ConvergenceWarning, match="the chains disagree"):
        hs.sample(data(3.0, 130.0).y, IED, draws=25, burn_in=0, chains=4, seed=1)
