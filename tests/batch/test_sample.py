"""The sampler against exact answers: enumeration, the renewal model's posterior, the paper's synthetic data."""

import itertools

import numpy as np
import pytest
from eight_observations import CHANGE8, MODEL8, STATES8, Y8

import ishsmm_stream as hs
from ishsmm_stream.model.generate import _StateSpace


def label_prior(model, segments, draws, seed):
    """P(which segments share a state) for 1..segments segments, by simulating the state space alone."""
    rng = np.random.default_rng(seed)
    hyper = {name: getattr(model, name) for name in ("alpha0", "alpha1", "c", "d", "rho")}
    prior: list[dict[tuple, float]] = [{} for _ in range(segments + 1)]
    for _ in range(draws):
        space = _StateSpace(model, hyper, rng)
        state, names, pattern = -1, {}, []
        for n in range(1, segments + 1):
            state = space.next_state(state)
            pattern.append(names.setdefault(state, len(names)))
            key = tuple(pattern)
            prior[n][key] = prior[n].get(key, 0.0) + 1.0 / draws
    return prior


def enumerate_ied(y, model, draws=30_000):
    """P(change at t) and P(number of states) from the sum over segmentations and partitions."""
    from ishsmm_stream.batch import segments

    y = np.asarray(y)[:, np.newaxis]
    length = len(y)
    prior = label_prior(model, length, draws, seed=0)
    change, states, total = np.zeros(length), np.zeros(length + 1), 0.0
    for k in range(length):
        for changes in itertools.combinations(range(1, length), k):
            starts = np.array([0, *changes])
            for pattern, probability in prior[k + 1].items():
                labels = np.array(pattern)
                count = labels.max() + 1
                weight = probability * np.exp(
                    segments.log_data(model.emission, y, starts, labels, count)
                    + segments.log_dwells(model.duration, length, starts, labels, count)
                )
                total += weight
                change[list(changes)] += weight
                states[count] += weight
    return np.log(total), change / total, states / total


def test_recurring_states_match_their_enumeration():
    """The enumeration's own error is about .002 (its label prior is simulated), so .012 is five standard errors."""
    log_evidence, change, states = enumerate_ied(Y8, MODEL8)
    assert log_evidence == pytest.approx(-13.366, abs=0.01)
    np.testing.assert_allclose(change[1:], CHANGE8, atol=0.01)
    np.testing.assert_allclose(states[1:6], STATES8, atol=0.01)


@pytest.mark.parametrize(
    ("slice", "temperature"),
    [
        ("transition", 3.0),
        ("paper", 1.0),
        pytest.param("transition", 1.0, marks=pytest.mark.long),
        pytest.param("paper", 3.0, marks=pytest.mark.long),
    ],
)
def test_the_beam_sampler_matches_the_enumeration_of_recurring_states(slice, temperature):
    """32 chains of 400 draws: the chains' own spread gives the error, |z| < 6.3 as t with 31 degrees of freedom."""
    posterior = hs.sample(Y8, MODEL8, draws=400, burn_in=100, chains=32, seed=3, temperature=temperature, slice=slice)
    change = [np.mean([np.isin(t, draw.starts) for draw in chain]) for chain in posterior.chains for t in range(1, 8)]
    by_chain = np.reshape(change, (32, 7))
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(32)
    assert np.all(np.abs(by_chain.mean(axis=0) - CHANGE8) < 6.3 * error + 0.0015)
    states = np.bincount(posterior.n_states, minlength=6)[1:6] / len(posterior)
    np.testing.assert_allclose(states, STATES8, atol=0.025)


def random_series(i):
    """A series, its emission and duration: families and priors take turns."""
    rng = np.random.default_rng(100 + i)
    length = int(rng.integers(8, 17))
    duration = hs.durations.Poisson(shape=[1.0, 2.0][i % 2], scale=float(rng.uniform(3.0, 12.0)))
    levels = rng.normal(0.0, 2.0, 5)
    mean = levels[np.minimum(np.arange(length) // 5, 4)]
    if i % 4 == 0:
        return mean + rng.normal(size=length), hs.emissions.Normal(0.0, 0.3, 2.0, 2.0), duration
    if i % 4 == 1:
        return rng.poisson(np.exp(mean / 2)), hs.emissions.Poisson(1.0, 0.5), duration
    if i % 4 == 2:
        return (mean > 0) + rng.integers(0, 2, length), hs.emissions.Categorical((1.0, 1.0, 1.0)), duration
    # A prior that new states are likely to fit under: in more channels the paper's sampler mixes more slowly.
    y = 0.5 * np.column_stack([mean, -mean]) + rng.normal(size=(length, 2))
    return y, hs.emissions.MultivariateNormal((0.0, 0.0), 1.0, 6.0, ((4.0, 0.0), (0.0, 4.0))), duration


def disagreements(y, model, *, draws, chains=32, seed=0):
    """Indices and counts where the beam sampler is off by more than 6.3 standard errors over independent chains."""
    exact = hs.exact_posterior(y, model)
    posterior = hs.sample(y, model, method="beam", draws=draws, burn_in=max(100, draws // 2), chains=chains, seed=seed)
    length = len(exact.change_probability)
    change = np.zeros((chains, length))
    counts = np.zeros((chains, length))
    for i, chain in enumerate(posterior.chains):
        for draw in chain:
            change[i, draw.starts[1:]] += 1.0 / draws
            counts[i, len(draw.starts) - 1] += 1.0 / draws
    found = []
    for name, values, truth in (
        ("change at", change[:, 1:], exact.change_probability[1:]),
        ("number of changes", counts, exact.n_changes),
    ):
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(chains)
        inside = (truth >= 0.005) & (truth <= 0.995) & (error > 0.0)
        wrong = np.where(inside, np.abs(mean - truth) > 6.3 * error, np.abs(mean - truth) > 0.01)
        found += [(name, int(t), truth[t], mean[t], error[t]) for t in np.flatnonzero(wrong)]
    return found


@pytest.mark.parametrize("i", [pytest.param(i, marks=[pytest.mark.long] if i >= 4 else []) for i in range(20)])
def test_the_left_to_right_beam_sampler_matches_the_exact_posterior(i):
    """20 series; overall false alarm rate about .001 over all comparisons, by t with 31 degrees of freedom."""
    y, emission, duration = random_series(i)
    assert disagreements(y, hs.ilr(emission, duration), draws=100, seed=i) == []


@pytest.mark.long
@pytest.mark.parametrize("i", range(2))
def test_the_left_to_right_beam_sampler_matches_the_exact_posterior_at_60_observations(i):
    rng = np.random.default_rng(i)
    y = np.repeat(rng.normal(0.0, 3.0, 4), 15) + rng.normal(size=60)
    model = hs.ilr(hs.emissions.Normal(0.0, 0.3, 2.0, 2.0), hs.durations.Poisson(1.0, 15.0))
    assert disagreements(y, model, draws=4_000, seed=i) == []


def test_left_to_right_data_do_not_touch_the_concentrations():
    """Posterior = prior for alpha0 and alpha1: Gamma(1, 1) means and variances, within 5 standard errors."""
    y = np.repeat([0.0, 4.0, -3.0], 5) + np.random.default_rng(1).normal(size=15)
    model = hs.ilr(hs.emissions.Normal(0.0, 0.3, 2.0, 2.0), hs.durations.Poisson(1.0, 6.0))
    posterior = hs.sample(y, model, method="beam", draws=400, burn_in=50, chains=32, seed=5)
    for name in ("alpha0", "alpha1"):
        by_chain = posterior.hyperparameter(name).reshape(32, -1)
        for values, truth in ((by_chain, 1.0), (np.exp(-by_chain), 0.5)):  # E[a] = 1, E[e^-a] = 1/2
            error = values.mean(axis=1).std(ddof=1) / np.sqrt(32)
            assert abs(values.mean() - truth) < 5.0 * error, name


def test_the_papers_synthetic_data_have_four_states():
    y = hs.datasets.four_states()
    model = hs.ied(hs.emissions.Normal(0.0, 0.25, 1.0, 1.0), hs.durations.Poisson(1.0, 1e3))
    posterior = hs.sample(y, model, draws=1000, burn_in=100, chains=2, seed=0)
    assert np.mean(posterior.n_states == 4) >= 0.82
    parameters = sorted(posterior.state_parameters(), key=lambda state: np.mean(state["mean"]))
    parameters = [state for state in parameters if len(state["mean"]) > len(posterior) / 2]
    for state, mean, rate in zip(parameters, [-6.0, -2.0, 2.0, 6.0], [10, 20, 3, 7], strict=True):
        low, high = np.quantile(state["mean"], [0.0005, 0.9995])
        assert low < mean < high
        low, high = np.quantile(state["dwell"], [0.0005, 0.9995])
        assert low < rate + 1 < high


def test_results_depend_on_the_seed_only():
    first = hs.sample(Y8, MODEL8, draws=20, chains=3, seed=7)
    again = hs.sample(Y8, MODEL8, draws=20, chains=3, seed=7)
    other = hs.sample(Y8, MODEL8, draws=20, chains=3, seed=8)
    assert np.array_equal(first.log_joint, again.log_joint)
    assert not np.array_equal(first.log_joint, other.log_joint)
    alone = hs.sample(Y8, MODEL8, draws=20, chains=1, seed=7)
    assert np.array_equal(first.log_joint[:20], alone.log_joint)


def test_progress_is_reported():
    seen = []
    hs.sample(Y8, MODEL8, draws=5, burn_in=5, chains=2, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (20, 20)
    assert len(seen) == 20


@pytest.mark.parametrize(
    "model",
    [
        hs.hdp_hmm(hs.emissions.Normal()),
        hs.sticky_hdp_hmm(hs.emissions.Normal()),
        hs.hdp_hsmm(hs.emissions.Normal(), hs.durations.Poisson(2.0, 5.0)),
        hs.bayesian_hmm(4, hs.emissions.Normal()),
        hs.bayesian_hsmm(4, hs.emissions.Normal(), hs.durations.Poisson(2.0, 5.0)),
        hs.structured(hs.emissions.Normal(), hs.durations.Poisson(2.0, 5.0), hs.topology.unrestricted()),
    ],
    ids=lambda model: model.name,
)
def test_every_model_finds_well_separated_states(model):
    y = np.repeat([0.0, 9.0, -9.0, 9.0, 0.0], 20) + np.random.default_rng(2).normal(size=100)
    posterior = hs.sample(y, model, draws=100, burn_in=100, chains=1, seed=0)
    assert posterior.map.change_points == (20, 40, 60, 80)
    assert len(set(posterior.map.states.tolist())) == 3


def test_missing_observations_are_bridged():
    y = np.repeat([0.0, 9.0], 20) + np.random.default_rng(2).normal(size=40)
    y[[5, 6, 7, 30]] = np.nan
    model = hs.ied(hs.emissions.Normal(), hs.durations.Poisson(2.0, 10.0))
    posterior = hs.sample(y, model, draws=100, burn_in=50, chains=1, seed=0)
    assert posterior.map.change_points == (20,)


def test_too_many_states_raise_and_never_cut():
    model = hs.ied(hs.emissions.Normal(), hs.durations.Poisson(2.0, 5.0), alpha0=50.0, alpha1=50.0, c=50.0)
    with pytest.raises(hs.StateLimitError, match="more than max_states = 3"):
        hs.sample(np.zeros(50), model, draws=50, burn_in=0, chains=1, max_states=3)
