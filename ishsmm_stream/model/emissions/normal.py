"""Normal observations with a normal-inverse-gamma prior."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel
from ishsmm_stream._special import HALF_LOG_TWO_PI, log_gamma, log_student_t
from ishsmm_stream.model.emissions import family


class _NormalFields(NamedTuple):
    mean: float
    mean_weight: float
    shape: float
    scale: float


class Normal(_NormalFields):
    """y ~ N(mu, s2) with s2 ~ InvGamma(shape, scale) and mu | s2 ~ N(mean, s2 / mean_weight).

    Statistics: count, mean and sum of squared deviations (Welford's form: no cancellation in long segments).
    Parameter: (mu, s2, -ln(2 pi s2) / 2), the last so that a density takes no logarithm.
    """

    __slots__ = ()

    def __new__(cls, mean: float = 0.0, mean_weight: float = 0.1, shape: float = 1.0, scale: float = 1.0):
        return super().__new__(
            cls,
            _checks.number("mean", mean),
            _checks.positive("mean_weight", mean_weight),
            _checks.positive("shape", shape),
            _checks.positive("scale", scale),
        )

    @classmethod
    def weak_numbers(cls, values: np.ndarray) -> dict[str, Any]:
        """Return the numbers of a weak prior for series like ``values`` (length, channels)."""
        centres, noises, mean_weight = family.value_scale(values)
        return {"mean": centres[0], "mean_weight": mean_weight, "shape": 2.0, "scale": noises[0]}


@family.stats_size.register(Normal)
def _stats_size(prior):
    return 3


@family.params_size.register(Normal)
def _params_size(prior):
    return 3


@family.add.register(Normal)
def _add(prior, stats, y, t):
    value = y[t, 0]
    if not np.isnan(value):
        stats[0] += 1.0
        deviation = value - stats[1]
        stats[1] += deviation / stats[0]
        stats[2] += deviation * (value - stats[1])


@kernel
def posterior(prior, stats):
    """Return the posterior's (mean_weight, mean, shape, scale)."""
    count, offset = stats[0], stats[1] - prior.mean
    weight = prior.mean_weight + count
    scale = prior.scale + 0.5 * stats[2] + 0.5 * prior.mean_weight * count * offset * offset / weight
    return weight, prior.mean + offset * (count / weight), prior.shape + 0.5 * count, scale


@family.log_predictive.register(Normal)
def _log_predictive(prior, stats, y, t):
    value = y[t, 0]
    if np.isnan(value):
        return 0.0
    weight, location, shape, scale = posterior(prior, stats)
    return log_student_t(value, 2.0 * shape, location, scale * (weight + 1.0) / (weight * shape))


@family.log_marginal.register(Normal)
def _log_marginal(prior, stats):
    weight, _, shape, scale = posterior(prior, stats)
    return (
        log_gamma(shape)
        - log_gamma(prior.shape)
        + prior.shape * math.log(prior.scale)
        - shape * math.log(scale)
        + 0.5 * math.log(prior.mean_weight / weight)
        - stats[0] * HALF_LOG_TWO_PI
    )


@family.draw_parameters.register(Normal)
def _draw_parameters(prior, stats, rng, params):
    weight, location, shape, scale = posterior(prior, stats)
    variance = scale / rng.standard_gamma(shape)
    params[0] = location + math.sqrt(variance / weight) * rng.standard_normal()
    params[1] = variance
    params[2] = -HALF_LOG_TWO_PI - 0.5 * math.log(variance)


@family.log_density.register(Normal)
def _log_density(prior, params, y, t):
    value = y[t, 0]
    if np.isnan(value):
        return 0.0
    deviation = value - params[0]
    return params[2] - 0.5 * deviation * deviation / params[1]


@family.simulate.register(Normal)
def _simulate(prior, params, rng, y, t, position):
    y[t, 0] = params[0] + math.sqrt(params[1]) * rng.standard_normal()


@family.are_valid.register(Normal)
def _are_valid(prior, stats):
    return (
        family.within(stats[:, 0], 0.0, family.LARGEST_COUNT)
        and family.within(stats[:, 1], -family.LARGEST_VALUE, family.LARGEST_VALUE)
        and family.within(stats[:, 2], 0.0, family.LARGEST_SQUARES)
    )


@family.parameter_names.register(Normal)
def _parameter_names(prior):
    return ("mean", "sd")


@family.describe.register(Normal)
def _describe(prior, params):
    return (params[0], math.sqrt(params[1]))
