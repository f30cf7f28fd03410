"""Forecasts and parameters of the renewal engine, by simulation from the posterior.

Every path begins in a hypothesis drawn by its weight, draws what it does not know, and may change on the way.
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import by_family_or_default, kernel, owning_kernel
from ishsmm_stream._special import draw_index
from ishsmm_stream.model.emissions import family
from ishsmm_stream.online.renewal import adaptive, predictors
from ishsmm_stream.online.renewal import hazard as hazards
from ishsmm_stream.online.renewal.adaptive import Adaptive
from ishsmm_stream.online.renewal.run_length import COUNT, TIME


@by_family_or_default
def simulate_paths(emission, duration, hazard, filter, memory, recent, rng, paths):
    """Fill ``paths`` (draws, steps, channels) with continuations of the stream; ``recent``: its last rows."""
    _simulate(emission, duration, hazard, filter, predictors.statistics(emission, memory), recent, rng, paths)


@by_family_or_default
def estimate(emission, memory, position, make_rng):
    """Return the parameters of a hypothesis's segment, by name, in the units of what the engine is fed.

    ``make_rng``: makes the generator, which takes 20 us, for families that draw.
    """
    return family.median_parameters(emission, predictors.statistics(emission, memory)[position], make_rng())


@kernel
def _ends(duration, hazard, g, age, rng):
    """Whether a segment of this age ends, at the learned hazard with index ``g`` or by its duration."""
    if hazard.learned:
        return age >= hazard.min_dwell and rng.random() < hazard.grid[g]
    return rng.random() < hazards.at_age(duration, hazard, age)


@owning_kernel
def _simulate(emission, duration, hazard, filter, stats, recent, rng, paths):
    count = filter.clock[COUNT]
    nothing = np.empty(stats.shape[1])
    family.clear(emission, nothing)
    params = np.empty(family.params_size(emission))
    earlier = recent.shape[0]
    y = np.empty((earlier + paths.shape[1], paths.shape[2]))
    for d in range(paths.shape[0]):
        y[:earlier] = recent
        i = draw_index(rng, filter.weight, count)
        g = draw_index(rng, filter.mass[i], filter.mass.shape[1])
        family.draw_parameters(emission, stats[i], rng, params)
        age = filter.clock[TIME] - filter.start[i]
        for step in range(paths.shape[1]):
            if _ends(duration, hazard, g, age, rng):
                family.draw_parameters(emission, nothing, rng, params)
                age = 0
            family.simulate(emission, params, rng, y, earlier + step, age)
            age += 1
        paths[d] = y[earlier:]


@simulate_paths.register(Adaptive)
def _simulate_adaptive(emission, duration, hazard, filter, memory, recent, rng, paths):
    """Outliers are left out: their Cauchy has no mean."""
    draws, steps = paths.shape[:2]
    count = int(filter.clock[COUNT])
    weight = filter.weight[:count] / filter.weight[:count].sum()
    chosen = rng.choice(count, draws, p=weight)
    mass = filter.mass[chosen] / filter.mass[chosen].sum(axis=1, keepdims=True)
    g = hazard.grid[(mass.cumsum(axis=1) < rng.random((draws, 1))).sum(axis=1).clip(max=mass.shape[1] - 1)]
    age = (filter.clock[TIME] - filter.start[chosen]).astype(float)
    share = memory.table[:, adaptive.SHARE, :][:, chosen]
    which = (share.cumsum(axis=0) < rng.random(draws) * share.sum(axis=0)).sum(axis=0).clip(max=len(share) - 1)
    columns = memory.table[which, :, chosen]
    variance = columns[:, adaptive.SCALE] / rng.standard_gamma(columns[:, adaptive.SHAPE])
    root = columns[:, adaptive.ROOT : adaptive.ROOT + 9].reshape(draws, 3, 3)
    noise = np.sqrt(variance)[:, np.newaxis] * rng.standard_normal((draws, 3))
    coefficients = columns[:, adaptive.MEAN : adaptive.MEAN + 3] + np.einsum("dij,dj->di", root, noise)
    jump = 1.0 / np.sqrt(columns[:, adaptive.PRECISION])
    last = np.full(draws, memory.stream[adaptive.LAST])
    for step in range(steps):
        ends = (age >= hazard.min_dwell) & (rng.random(draws) < g)
        # a new segment: a level around the one before, without autocorrelation or drift
        level = memory.table[0, adaptive.MEAN, chosen] + np.sqrt(variance) * jump * rng.standard_normal(draws)
        coefficients[ends] = np.column_stack([level, np.zeros(draws), np.zeros(draws)])[ends]
        age = np.where(ends, 0.0, age)
        regressors = np.column_stack([np.ones(draws), last, age])
        last = (coefficients * regressors).sum(axis=1) + np.sqrt(variance) * rng.standard_normal(draws)
        last = last.clip(-1e12, 1e12)
        paths[:, step, 0] = last
        age += 1.0


@estimate.register(Adaptive)
def _estimate_adaptive(emission, memory, position, make_rng):
    shares = memory.table[:, adaptive.SHARE, position].tolist()
    likeliest = shares.index(max(shares))
    column = memory.table[likeliest, :, position]
    found = {
        "mean": float(memory.table[0, adaptive.MEAN, position]),
        "sd": math.sqrt(column[adaptive.SCALE] / column[adaptive.SHAPE]),
    }
    if likeliest > 0:
        found |= {"lag": float(column[adaptive.MEAN + 1]), "drift": float(column[adaptive.MEAN + 2])}
    return found
