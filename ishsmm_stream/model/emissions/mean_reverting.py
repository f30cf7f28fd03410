"""Autoregression about a state's level: what ``OnlineDetector("recurring")`` takes a state to be."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel
from ishsmm_stream._special import HALF_LOG_TWO_PI, log_gamma, log_student_t
from ishsmm_stream.model.emissions import family


class _MeanRevertingFields(NamedTuple):
    phi: float
    mean: float
    spread: float
    noise: float
    shape: float


class MeanReverting(_MeanRevertingFields):
    """Inside a segment y_t ~ N(m + phi (y_{t-1} - m), s2); its first reading y_t ~ N(m, s2 / (1 - phi^2)).

    The noise has s2 ~ InvGamma(shape, shape noise) and the level m | s2 ~ N(mean, spread s2 / noise). ``noise`` and
    ``spread`` are variances: ``spread`` is that of the levels of states whose s2 is ``noise``. The autocorrelation
    ``phi``, -1 < phi < 1, is the same in all states. A reading after a missing one follows the law of first readings.

    A segment is one visit to a state. Where every observation is a segment (``hdp_hmm`` and its kin), all readings are
    first ones, and ``phi`` only scales their variance.

    Given phi, a reading is a weighted observation of the level: u = (y_t - phi y_{t-1}) / (1 - phi) with the weight
    (1 - phi)^2, or u = y_t with the weight 1 - phi^2 if it is the first one.

    Statistics: whether the segment has begun, number of readings, number of first readings, sum of weights, weighted
    mean of u and weighted sum of its squared deviations.
    Parameter: m, s2, and ln of the largest density inside a segment and of a first reading.
    """

    __slots__ = ()

    def __new__(
        cls, phi: float = 0.6, mean: float = 0.0, spread: float = 10.0, noise: float = 0.25, shape: float = 1.5
    ) -> MeanReverting:
        if not -1.0 < _checks.number("phi", phi) < 1.0:
            raise ValueError(f"phi must be between -1 and 1, got {phi!r}")
        return super().__new__(
            cls,
            float(phi),
            _checks.number("mean", mean),
            _checks.positive("spread", spread),
            _checks.positive("noise", noise),
            _checks.positive("shape", shape),
        )

    @classmethod
    def weak_numbers(cls, values: np.ndarray) -> dict[str, Any]:
        """Return the numbers of a weak prior for series like ``values`` (length, channels)."""
        centres, noises, mean_weight = family.value_scale(values)
        spread = family.rounded(noises[0] / mean_weight)
        return {"mean": centres[0], "spread": spread, "noise": noises[0], "shape": 2.0}


# where the statistics keep what
_HAS_BEGUN, _COUNT, _FIRSTS, _WEIGHT, _MEAN, _SQUARES = range(6)


@kernel
def _is_known(y, t):
    return t >= 0 and not np.isnan(y[t, 0])


@kernel
def posterior(prior, stats):
    """Return the posterior's (mean_weight, mean, shape, scale), as those of ``Normal``."""
    before, offset = prior.noise / prior.spread, stats[_MEAN] - prior.mean
    weight = before + stats[_WEIGHT]
    scale = prior.shape * prior.noise + 0.5 * stats[_SQUARES]
    scale += 0.5 * before * stats[_WEIGHT] * offset * offset / weight
    return weight, prior.mean + offset * (stats[_WEIGHT] / weight), prior.shape + 0.5 * stats[_COUNT], scale


@family.stats_size.register(MeanReverting)
def _stats_size(prior):
    return 6


@family.params_size.register(MeanReverting)
def _params_size(prior):
    return 4


@family.begin_segment.register(MeanReverting)
def _begin_segment(prior, stats):
    stats[_HAS_BEGUN] = 0.0


@family.add.register(MeanReverting)
def _add(prior, stats, y, t):
    value = y[t, 0]
    if not np.isnan(value):
        if stats[_HAS_BEGUN] > 0.0 and _is_known(y, t - 1):
            rest = 1.0 - prior.phi
            value = (value - prior.phi * y[t - 1, 0]) / rest
            weight = rest * rest
        else:
            weight = 1.0 - prior.phi * prior.phi
            stats[_FIRSTS] += 1.0
        stats[_COUNT] += 1.0
        stats[_WEIGHT] += weight
        deviation = value - stats[_MEAN]
        stats[_MEAN] += deviation * (weight / stats[_WEIGHT])
        stats[_SQUARES] += weight * deviation * (value - stats[_MEAN])
    stats[_HAS_BEGUN] = 1.0


@family.log_predictive.register(MeanReverting)
def _log_predictive(prior, stats, y, t):
    if np.isnan(y[t, 0]):
        return 0.0
    weight, level, shape, scale = posterior(prior, stats)
    factor = 1.0 / (1.0 - prior.phi * prior.phi) + 1.0 / weight
    if stats[_HAS_BEGUN] > 0.0 and _is_known(y, t - 1):
        rest = 1.0 - prior.phi
        factor = 1.0 + rest * rest / weight
        level += prior.phi * (y[t - 1, 0] - level)
    return log_student_t(y[t, 0], 2.0 * shape, level, scale / shape * factor)


@family.log_marginal.register(MeanReverting)
def _log_marginal(prior, stats):
    weight, _, shape, scale = posterior(prior, stats)
    return (
        log_gamma(shape)
        - log_gamma(prior.shape)
        + prior.shape * math.log(prior.shape * prior.noise)
        - shape * math.log(scale)
        + 0.5 * math.log(prior.noise / (prior.spread * weight))
        + 0.5 * stats[_FIRSTS] * math.log1p(-prior.phi * prior.phi)
        - stats[_COUNT] * HALF_LOG_TWO_PI
    )


@family.draw_parameters.register(MeanReverting)
def _draw_parameters(prior, stats, rng, params):
    weight, level, shape, scale = posterior(prior, stats)
    variance = scale / rng.standard_gamma(shape)
    params[0] = level + math.sqrt(variance / weight) * rng.standard_normal()
    params[1] = variance
    params[2] = -HALF_LOG_TWO_PI - 0.5 * math.log(variance)
    params[3] = params[2] + 0.5 * math.log1p(-prior.phi * prior.phi)


@family.log_density.register(MeanReverting)
def _log_density(prior, params, y, t):
    if not _is_known(y, t - 1):
        return _log_first_density(prior, params, y, t)
    if np.isnan(y[t, 0]):
        return 0.0
    deviation = y[t, 0] - params[0] - prior.phi * (y[t - 1, 0] - params[0])
    return params[2] - 0.5 * deviation * deviation / params[1]


@kernel
def _log_first_density(prior, params, y, t):
    if np.isnan(y[t, 0]):
        return 0.0
    deviation = y[t, 0] - params[0]
    return params[3] - 0.5 * deviation * deviation * (1.0 - prior.phi * prior.phi) / params[1]


@family.log_first_density.register(MeanReverting)
def _log_first_density_of_family(prior, params, y, t):
    return _log_first_density(prior, params, y, t)


@family.has_first_law.register(MeanReverting)
def _has_first_law(prior):
    return True


@family.simulate.register(MeanReverting)
def _simulate(prior, params, rng, y, t, position):
    if position > 0 and _is_known(y, t - 1):
        y[t, 0] = params[0] + prior.phi * (y[t - 1, 0] - params[0]) + math.sqrt(params[1]) * rng.standard_normal()
    else:
        deviation = math.sqrt(params[1] / (1.0 - prior.phi * prior.phi))
        y[t, 0] = params[0] + deviation * rng.standard_normal()


@family.are_valid.register(MeanReverting)
def _are_valid(prior, stats):
    largest = family.LARGEST_VALUE * 2.0 / (1.0 - abs(prior.phi))
    return (
        family.within(stats[:, _HAS_BEGUN], 0.0, 1.0)
        and family.within(stats[:, _COUNT:_MEAN], 0.0, 4.0 * family.LARGEST_COUNT)
        and family.within(stats[:, _MEAN], -largest, largest)
        and family.within(stats[:, _SQUARES], 0.0, family.LARGEST_SQUARES)
    )


@family.parameter_names.register(MeanReverting)
def _parameter_names(prior):
    return ("mean", "sd")


@family.describe.register(MeanReverting)
def _describe(prior, params):
    return (params[0], math.sqrt(params[1] / (1.0 - prior.phi * prior.phi)))


@family.location.register(MeanReverting)
def _location(prior, params, y, t, position):
    if position > 0 and _is_known(y, t - 1):
        return (params[0] + prior.phi * (y[t - 1, 0] - params[0]),)
    return (params[0],)


@family.look_back.register(MeanReverting)
def _look_back(prior):
    return 1
