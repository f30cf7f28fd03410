"""Forward filter and backward draws against the sum over every path of tiny models, slices given."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

import ishsmm_stream as hs
from ishsmm_stream.batch import beam as beams
from ishsmm_stream.batch import segments
from ishsmm_stream.batch.chain import Chain
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions

Y = np.array([[-0.7], [0.3], [1.9], [np.nan], [1.1], [-0.4]])
MODELS = {
    "hsmm": hs.bayesian_hsmm(3, hs.emissions.Normal(0.0, 0.5, 2.0, 1.0), hs.durations.Poisson(2.0, 0.8), alpha=3.0),
    "mean-reverting hsmm": hs.bayesian_hsmm(
        3, hs.emissions.MeanReverting(0.7, 0.0, 2.0, 0.4, 2.0), hs.durations.Poisson(2.0, 0.8), alpha=3.0
    ),
    "hmm": hs.bayesian_hmm(3, hs.emissions.Normal(0.0, 0.5, 2.0, 1.0), alpha=3.0),
}


def paths(length, states, may_stay):
    """Every trajectory: starts and labels."""
    for k in range(length):
        for changes in itertools.combinations(range(1, length), k):
            starts = (0, *changes)
            for labels in itertools.product(range(states), repeat=len(starts)):
                if may_stay or all(a != b for a, b in itertools.pairwise(labels)):
                    yield starts, labels


def slice_density(u, p, temperature):
    """Density of u = p Beta(1/K, K)."""
    if not u < p:
        return 0.0
    a, b = 1.0 / temperature, temperature
    return (u / p) ** (a - 1.0) * (1.0 - u / p) ** (b - 1.0) / (special.beta(a, b) * p)


def path_weights(chain, paper_slice):
    """Weight of every path given the slices, from the model's definition: data, steps and the slices' densities."""
    model, slices, temperature = chain.model, chain.beam.slices, chain.temperature
    length = len(chain.y)
    pmf = [lambda r, k=k: np.exp(durations.log_pmf(model.duration, chain.lam[k], r)) for k in range(3)]
    result = {}
    for starts, labels in paths(length, 3, may_stay=model.name == "bayesian_hmm"):
        ends = (*starts[1:], length)
        weight = 1.0
        row = 0
        for i, (start, end, k) in enumerate(zip(starts, ends, labels, strict=True)):
            for t in range(start, end):
                log_density = emissions.log_first_density if t == start else emissions.log_density
                weight *= np.exp(log_density(model.emission, chain.theta[k], chain.y, t))
                if t > start:
                    weight *= slice_density(slices[t], 1.0, temperature)
            step = chain.rows.pi[row, k]
            options = [end - start - 1] if i + 1 < len(starts) else range(length - start - 1, 60)
            total = 0.0
            for r in options:
                cut = step * pmf[k](r) if paper_slice else step
                if cut > 0.0:
                    total += step * pmf[k](r) * slice_density(slices[start], cut, temperature)
            weight *= total
            row = k + 1
        result[starts, labels] = weight
    return result


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 2.5, 3.0])
@pytest.mark.parametrize("paper_slice", [False, True])
def test_trajectories_are_drawn_with_the_weight_of_their_path(name, temperature, paper_slice):
    """Chi-square over all paths, 20,000 draws, seed fixed; false alarm rate 1e-4 a case."""
    rng = np.random.default_rng(11)
    chain = Chain(MODELS[name], Y.copy(), rng, temperature=temperature, paper_slice=paper_slice)
    for _ in range(5):
        chain.sweep()
    for row in range(4):  # the enumeration reads every row
        if not chain.rows.ready[row]:
            beams.draw_row(rng, chain.rules, chain.weights, chain.rows, np.zeros((0, 0), dtype=np.int64), row, 3)
    if paper_slice:
        assert chain._draw_paper_slices()
    else:
        beams.draw_slices(
            rng, temperature, False, chain.rows.pi, chain.beam.pmf, chain.starts, chain.labels, -1,
            chain.beam.slices, chain.beam.log_stay,
        )  # fmt: skip
    expected = path_weights(chain, paper_slice)
    answer, _, count = beams.forward(
        rng, chain.rules, chain.weights, chain.rows, chain.beam, temperature, paper_slice, 0, 3, 3
    )
    assert answer == beams.DONE
    starts, labels = np.empty(len(Y), dtype=np.int64), np.empty(len(Y), dtype=np.int64)
    draws = 20_000
    seen: dict = {}
    for _ in range(draws):
        found, log_probability = beams.backward(
            rng, chain.rows, chain.beam, temperature, paper_slice, count, starts, labels
        )
        key = tuple(starts[-found:].tolist()), tuple(labels[-found:].tolist())
        if key not in seen and not paper_slice:  # the paper's slice draws the last remaining count, too
            assert log_probability == pytest.approx(np.log(expected[key] / sum(expected.values())), abs=1e-8)
        seen[key] = seen.get(key, 0) + 1
    total = sum(expected.values())
    assert sum(n for key, n in seen.items() if expected[key] == 0.0) == 0
    frequent = [key for key, w in expected.items() if w / total * draws >= 5]
    observed = np.array([seen.get(key, 0) for key in frequent] + [0.0])
    wanted = np.array([expected[key] / total * draws for key in frequent] + [0.0])
    observed[-1], wanted[-1] = draws - observed.sum(), draws - wanted.sum()
    if wanted[-1] < 5:
        observed, wanted = observed[:-1], wanted[:-1]
        wanted *= observed.sum() / wanted.sum()
    if len(wanted) > 1:
        assert stats.chisquare(observed, wanted).pvalue > 1e-4
    assert len(frequent) > 1 or paper_slice


def test_likelihoods_far_beyond_doubles_do_not_break_the_filter():
    """Steps of 1e6 standard deviations: every factor under- or overflows unless scales are kept apart."""
    y = np.repeat([0.0, 1e6, -1e6, 0.0], 25)[:, np.newaxis] + np.sin(np.arange(100.0))[:, np.newaxis]
    model = hs.ied(hs.emissions.Normal(0.0, 1e-6, 2.0, 2.0), hs.durations.Poisson(2.0, 20.0))
    posterior = hs.sample(y, model, draws=50, burn_in=50, chains=1, seed=1)
    assert posterior.map.change_points == (25, 50, 75)
    assert np.isfinite(posterior.log_joint).all()


def test_slices_have_their_density():
    """u_t / p_t ~ Beta(1/K, K) also where it is drawn as a product; KS, false alarm rate 1e-4 each."""
    length = 4_000
    pi = np.ones((2, 1))
    for temperature in (1.0, 2.0, 3.0, 2.5):
        slices, log_stay = np.empty(length), np.empty(length)
        beams.draw_slices(
            np.random.default_rng(5), temperature, False, pi, np.ones((1, 1)), np.array([0]), np.array([0]), -1,
            slices, log_stay,
        )  # fmt: skip
        assert stats.kstest(slices, stats.beta(1.0 / temperature, temperature).cdf).pvalue > 1e-4
        np.testing.assert_allclose(log_stay, (temperature - 1.0) * np.log1p(-slices), atol=1e-12)


def test_tables_are_filled_for_every_slot():
    chain = Chain(MODELS["hsmm"], Y.copy(), np.random.default_rng(0))
    for k in range(chain.filled):
        expected = np.cumsum([emissions.log_density(chain.model.emission, chain.theta[k], Y, t) for t in range(len(Y))])
        np.testing.assert_allclose(chain.beam.cumulative[k, 1:], expected, atol=1e-12)
    assert segments.longest_table(chain.model.duration, chain.lam, -20.0, 0, 3) >= 1
