"""Geweke's joint-distribution test: two ways to draw (parameters, data) that must have the same law.

Marginal-conditional: everything from the prior, by ``generate``, which shares no code with the sampler's blocks.
Successive-conditional: a sweep of the sampler given the data, then data given everything, over and over.
A wrong conditional anywhere shifts the second. The quantities compared do not depend on how states are numbered; heavy
tails are tamed by logarithms and arctangents.
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import owning_kernel
from ishsmm_stream.batch import segments
from ishsmm_stream.batch.chain import Chain
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.generate import Generated, generate
from ishsmm_stream.model.presets import Model

NAMES = (
    "segments", "states", "first length", "last length", "returns to the first state", "self transitions",
    "alpha0", "alpha1", "c", "d", "rho", "first theta", "first theta 2", "last theta", "first lambda", "last lambda",
    "lambda x first length", "y first", "y last", "y mean", "y first x last", "y x theta", "y x next",
    "shared 1", "shared 2", "shared 3", "outliers",
)  # fmt: skip


@owning_kernel
def simulate_data(rng, emission, theta, starts, labels, y):
    """Draw y given the trajectory and the parameters, in place."""
    for i in range(starts.shape[0]):
        for t in range(starts[i], segments.segment_end(starts, i, y.shape[0])):
            emissions.simulate(emission, theta[labels[i]], rng, y, t, t - starts[i])


def _quantities(y, starts, labels, theta_of, lam_of, hyper, shared, outliers) -> list[float]:
    lengths = np.diff(starts, append=len(y))
    first, last = theta_of(labels[0]), theta_of(labels[-1])
    lam_first, lam_last = lam_of(labels[0]), lam_of(labels[-1])
    values = np.arctan(y[:, 0])
    log_hyper = [math.log(value) if value > 0.0 else 0.0 for value in hyper]
    return [
        len(starts),
        len(set(labels.tolist())),
        lengths[0],
        lengths[-1],
        np.sum(labels == labels[0]),
        np.sum(labels[1:] == labels[:-1]),
        *log_hyper,
        math.atan(first[0]),
        math.atan(first[-1]) if len(first) > 1 else 0.0,
        math.atan(last[0]),
        math.log1p(lam_first[0]),
        math.log1p(lam_last[0]),
        math.log1p(lam_first[0]) * lengths[0],
        values[0],
        values[-1],
        values.mean(),
        values[0] * values[-1],
        values[0] * math.atan(first[0]),
        np.sum(values[1:] * values[:-1]),
        *[*shared, 0.0, 0.0, 0.0][:3],
        len(outliers),
    ]


def _simulate_after(model: Model, rng, y, starts, labels, theta_of, given: int) -> None:
    """Data given everything else, in place; the first ``given`` values are zero whatever the parameters: a regression
    on them has no likelihood term for them."""
    y[:given] = 0.0
    segment = np.searchsorted(starts, np.arange(len(y)), side="right") - 1
    for t in range(given, len(y)):
        label = labels[segment[t]]
        emissions.simulate(model.emission, theta_of(label), rng, y, t, t - starts[segment[t]])


def _of_prior(drawn: Generated, model: Model) -> list[float]:
    hyper = [drawn.hyperparameters[name] for name in ("alpha0", "alpha1", "c", "d", "rho")]
    shared = [drawn.hyperparameters[name] for name, _ in model.shared]
    return _quantities(
        drawn.y, drawn.starts, drawn.labels, drawn.theta.get, drawn.lam.get, hyper, shared, drawn.outliers
    )


def _of_chain(chain: Chain) -> list[float]:
    shared = [getattr(chain.emission, name) for name, _ in chain.model.shared]
    return _quantities(
        chain.readings, chain.starts, chain.labels, chain.theta.__getitem__, chain.lam.__getitem__, chain.weights.hyper,
        shared, chain.draw().outliers,
    )  # fmt: skip


def _simulate_with_outliers(chain: Chain) -> None:
    """Data given everything else, readings that are outliers among them, in place."""
    is_outlier, law = np.isnan(chain.y[:, 0]), chain.model.outliers
    segment = np.searchsorted(chain.starts, np.arange(len(chain.y)), side="right") - 1
    for t in range(len(chain.y)):
        start, theta = chain.starts[segment[t]], chain.theta[chain.labels[segment[t]]]
        emissions.simulate(chain.emission, theta, chain.rng, chain.y, t, t - start)
        chain.readings[t] = chain.y[t]
        if is_outlier[t]:
            chain.y[t] = np.nan
            chain.readings[t] = law.location + law.width * chain.rng.standard_cauchy()


def _regenerate(chain: Chain, given: int) -> None:
    """Data given everything else, and the chain's tables for them."""
    model = chain.model
    if model.outliers:
        _simulate_with_outliers(chain)
    elif given > 0:
        theta_of = chain.theta.__getitem__
        _simulate_after(model, chain.rng, chain.y, chain.starts, chain.labels, theta_of, given)
    else:
        simulate_data(chain.rng, chain.emission, chain.theta, chain.starts, chain.labels, chain.y)
    segments.fill_tables(chain.emission, model.duration, chain.theta, chain.lam, chain.y, chain.beam, 0, chain.filled)


def z_scores(model: Model, *, length: int, sweeps: int, seed: int, given: int = 0, **settings) -> dict[str, float]:
    """How many standard errors the two laws' means are apart, for each quantity that varies."""
    rng = np.random.default_rng(seed)
    prior = []
    for _ in range(sweeps):
        drawn = generate(model, length, rng)
        if given > 0:
            _simulate_after(model, rng, drawn.y, drawn.starts, drawn.labels, drawn.theta.get, given)
        prior.append(_of_prior(drawn, model))
    prior = np.array(prior)
    chain = Chain(model, generate(model, length, rng).y, rng, **settings)
    chained = np.empty_like(prior)
    for i in range(-sweeps // 20, sweeps):
        chain.sweep()
        _regenerate(chain, given)
        if i >= 0:
            chained[i] = _of_chain(chain)
    batches = chained.reshape(50, -1, chained.shape[1]).mean(axis=1)
    error = np.sqrt(prior.var(axis=0) / sweeps + batches.var(axis=0, ddof=1) / len(batches))
    difference = chained.mean(axis=0) - prior.mean(axis=0)
    return {name: d / e for name, d, e in zip(NAMES, difference, error, strict=True) if e > 1e-12}
