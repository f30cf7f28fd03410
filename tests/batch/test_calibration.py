"""Simulation-based calibration: parameters drawn from the prior rank uniformly among their posterior draws.

Ranks are taken among thinned draws and compared with the uniform law by a chi-square test; false alarm rate 1e-4 for
each of the quantities, seeds fixed.
"""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import ishsmm_stream as hs

PRIOR = hs.priors.Gamma(5.0, 3.0)
NORMAL = hs.emissions.Normal(mean=0.0, mean_weight=0.5, shape=3.0, scale=2.0)
DWELL = hs.durations.Poisson(shape=2.0, scale=2.0)
MODELS = {
    "ied": hs.ied(NORMAL, DWELL, alpha0=PRIOR, alpha1=PRIOR, c=PRIOR),
    "ilr": hs.ilr(NORMAL, DWELL, alpha0=PRIOR, alpha1=PRIOR, c=PRIOR),
    "hdp_hsmm": hs.hdp_hsmm(NORMAL, DWELL, alpha1=PRIOR, c=PRIOR),
    "sticky_hdp_hmm": hs.sticky_hdp_hmm(NORMAL, alpha1_plus_kappa=PRIOR, rho=hs.priors.Beta(3.0, 2.0), c=PRIOR),
}
REVERTING = hs.emissions.MeanReverting(phi=0.6, mean=0.0, spread=4.0, noise=0.5, shape=3.0)
GRIDS = (("phi", (-0.4, 0.0, 0.6, 0.9)), ("noise", (0.2, 1.0, 4.0)), ("spread", (2.0, 8.0, 32.0)))
MODELS["hdp_hsmm, mean reverting"] = dataclasses.replace(
    hs.hdp_hsmm(REVERTING, hs.durations.NegativeBinomial((1.0, 3.0), 8.0, 2.0), alpha1=PRIOR, c=PRIOR), shared=GRIDS
)
LEVELS = 20  # ranks 0..19 among 19 draws


def ranks(model, simulations, length, thin, seed):
    """Rank of the truth among the draws: last state's mean and variance, its duration, alpha1, change points, and the
    numbers that states share. What has ties is jittered."""
    result = []
    for i in range(simulations):
        rng = np.random.default_rng([seed, i])
        truth = hs.generate(model, length, rng)
        posterior = hs.sample(
            truth.y, model, draws=(LEVELS - 1) * thin, burn_in=50, chains=1, seed=int(rng.integers(1 << 30))
        )
        kept = posterior.draws[thin - 1 :: thin]
        last = truth.labels[-1]
        true_values = [
            truth.theta[last][0],
            truth.theta[last][1],
            truth.lam[last][-1],
            truth.hyperparameters["alpha1"],
            len(truth.change_points) + rng.random(),
            *(truth.hyperparameters[name] + 1e-6 * rng.random() for name, _ in model.shared),
        ]
        drawn = np.array(
            [
                [
                    draw.theta[draw.labels[-1], 0],
                    draw.theta[draw.labels[-1], 1],
                    draw.lam[draw.labels[-1], -1],
                    draw.hyper[1],
                    np.sum(draw.labels[1:] != draw.labels[:-1]) + rng.random(),
                    *(getattr(draw.emission, name) + 1e-6 * rng.random() for name, _ in model.shared),
                ]
                for draw in kept
            ]
        )
        ties = (drawn == true_values) & (rng.random(drawn.shape) < 0.5)
        result.append(np.sum((drawn < true_values) | ties, axis=0))
    return np.array(result)


def misfits(found, bins):
    """p-values of uniform ranks, one a quantity; a quantity that never varies is left out."""
    counts = [np.bincount(column * bins // LEVELS, minlength=bins) for column in found.T]
    return [stats.chisquare(count).pvalue for count in counts]


@pytest.mark.parametrize("name", MODELS)
def test_ranks_are_uniform(name):
    found = ranks(MODELS[name], simulations=80, length=20, thin=8, seed=1)
    if name == "sticky_hdp_hmm":
        found = np.delete(found, 2, axis=1)  # it has no duration parameter
    assert min(misfits(found, bins=5)) > 1e-4


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_ranks_are_uniform_in_a_long_run(name):
    found = ranks(MODELS[name], simulations=1_000, length=40, thin=30, seed=2)
    if name == "sticky_hdp_hmm":
        found = np.delete(found, 2, axis=1)
    assert min(misfits(found, bins=20)) > 1e-4
