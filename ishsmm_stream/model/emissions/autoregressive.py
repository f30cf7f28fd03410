"""Autoregression inside a segment: a conjugate linear regression on the last values, with or without a trend."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel
from ishsmm_stream._special import HALF_LOG_TWO_PI, log_gamma, log_student_t
from ishsmm_stream.model.emissions import family


class _AutoregressiveFields(NamedTuple):
    order: int
    trend: bool
    intercept_variance: float
    lag_mean: float
    lag_variance: float
    trend_variance: float
    shape: float
    scale: float


class Autoregressive(_AutoregressiveFields):
    """y_t = x_t . b + e with e ~ N(0, s2) and x_t = (1, y_{t-1}, ..., y_{t-order}[, position in the segment]).

    s2 ~ InvGamma(shape, scale) and b | s2 ~ N(b0, s2 V), V diagonal: ``intercept_variance``, ``lag_variance`` for every
    lag and, with ``trend``, ``trend_variance``. b0 is zero but for the first lag, which has ``lag_mean``. Order 0 is a
    mean, or a line with ``trend``.

    Lags look back across the start of the segment: given the values before it, a segment's data are a regression. Where
    y_t or one of its lags is missing or before the start of the series there is no likelihood term. The position counts
    the observations of the segment from 0, missing ones too.

    A trend's density depends on the position, which only ``stats`` know: ``log_density`` takes it as 0, and
    ``is_segment_local`` keeps inference that would need it from using a trend.

    Statistics: position, number of terms, posterior scale of s2, ln(|V| / |V_n|), posterior mean of b (d) and a square
    root S of its covariance in units of s2, V_n = S S' (d x d). A term is one step of recursive least squares in
    Potter's form, in which V_n stays symmetric and positive definite whatever the rounding.
    Parameter: b (d), then s2.
    """

    __slots__ = ()

    def __new__(
        cls,
        order: int = 1,
        trend: bool = False,
        intercept_variance: float = 10.0,
        lag_mean: float = 0.0,
        lag_variance: float = 1.0,
        trend_variance: float = 0.01,
        shape: float = 1.0,
        scale: float = 1.0,
    ) -> Autoregressive:
        if not isinstance(trend, (bool, np.bool_)):
            raise ValueError(f"trend must be True or False, got {trend!r}")
        return super().__new__(
            cls,
            _checks.whole("order", order, 0),
            bool(trend),
            _checks.positive("intercept_variance", intercept_variance),
            _checks.number("lag_mean", lag_mean),
            _checks.positive("lag_variance", lag_variance),
            _checks.positive("trend_variance", trend_variance),
            _checks.positive("shape", shape),
            _checks.positive("scale", scale),
        )

    @classmethod
    def weak_numbers(cls, values: np.ndarray) -> dict[str, Any]:
        """Return the numbers of a weak prior for series like ``values`` (length, channels)."""
        noise = family.value_scale(values).noises[0]
        level = float(np.nanmean(values**2)) / noise
        return {
            "order": 1, "intercept_variance": family.rounded(max(10.0, level)),
            "lag_variance": family.rounded(1.0 / noise), "shape": 2.0, "scale": noise,
        }  # fmt: skip


# where the statistics keep what
_POSITION, _COUNT, _SCALE, _LOG_SHRINKAGE, _MEAN = range(5)
_LARGEST_COEFFICIENT, _LARGEST_SCALE = 1e60, 1e190  # of valid statistics: lags of 1e30 are possible


@kernel
def dimension(prior):
    """d, the length of b."""
    if prior.trend:
        return prior.order + 2
    return prior.order + 1


@kernel
def _has_term(prior, y, t):
    """Whether y_t and all of its lags are known."""
    known = t >= prior.order
    for lag in range(min(prior.order, t) + 1):
        known = known and not np.isnan(y[t - lag, 0])
    return known


@kernel
def _regressor(prior, y, t, i, position):
    """Entry i of x_t."""
    if i == 0:
        return 1.0
    if i <= prior.order:
        return y[t - i, 0]
    return position


@family.stats_size.register(Autoregressive)
def _stats_size(prior):
    d = dimension(prior)
    return _MEAN + d + d * d


@family.params_size.register(Autoregressive)
def _params_size(prior):
    return dimension(prior) + 1


@family.clear.register(Autoregressive)
def _clear(prior, stats):
    d = dimension(prior)
    root = _MEAN + d
    stats[:] = 0.0
    stats[_SCALE] = prior.scale
    stats[root] = math.sqrt(prior.intercept_variance)
    for i in range(1, d):
        stats[root + i * d + i] = math.sqrt(prior.lag_variance if i <= prior.order else prior.trend_variance)
    if prior.order > 0:
        stats[_MEAN + 1] = prior.lag_mean


@family.add.register(Autoregressive, owning=True)
def _add(prior, stats, y, t):
    add_with_scratch(prior, stats, y, t, np.empty(dimension(prior)))


@kernel
def add_with_scratch(prior, stats, y, t, whitened):
    """``family.add`` for many in turn: the work space, d numbers, is the caller's."""
    position = stats[_POSITION]
    stats[_POSITION] += 1.0
    if not _has_term(prior, y, t):
        return
    d = dimension(prior)
    root = _MEAN + d
    residual = y[t, 0]
    factor = 1.0  # variance of the prediction in units of s2: 1 + x' S S' x
    for j in range(d):
        total = 0.0
        for i in range(d):
            total += stats[root + i * d + j] * _regressor(prior, y, t, i, position)
        whitened[j] = total  # v = S' x
        factor += total * total
        residual -= stats[_MEAN + j] * _regressor(prior, y, t, j, position)
    # S (I - v v' / (factor + sqrt(factor))) is a square root of S S' - S v v' S' / factor.
    shrinkage = 1.0 / (factor + math.sqrt(factor))
    for i in range(d):
        row = root + i * d
        gain = 0.0
        for j in range(d):
            gain += stats[row + j] * whitened[j]
        stats[_MEAN + i] += gain * residual / factor
        for j in range(d):
            stats[row + j] -= shrinkage * gain * whitened[j]
    stats[_COUNT] += 1.0
    stats[_SCALE] += 0.5 * residual * residual / factor
    stats[_LOG_SHRINKAGE] += math.log(factor)


@family.log_predictive.register(Autoregressive)
def _log_predictive(prior, stats, y, t):
    if not _has_term(prior, y, t):
        return 0.0
    d = dimension(prior)
    root = _MEAN + d
    position = stats[_POSITION]
    centre = 0.0
    factor = 1.0
    for j in range(d):
        total = 0.0
        for i in range(d):
            total += stats[root + i * d + j] * _regressor(prior, y, t, i, position)
        factor += total * total
        centre += stats[_MEAN + j] * _regressor(prior, y, t, j, position)
    shape = prior.shape + 0.5 * stats[_COUNT]
    return log_student_t(y[t, 0], 2.0 * shape, centre, factor * stats[_SCALE] / shape)


@family.log_marginal.register(Autoregressive)
def _log_marginal(prior, stats):
    count, scale = stats[_COUNT], stats[_SCALE]
    shape = prior.shape + 0.5 * count
    return (
        log_gamma(shape)
        - log_gamma(prior.shape)
        + prior.shape * math.log(prior.scale)
        - shape * math.log(scale)
        - 0.5 * stats[_LOG_SHRINKAGE]
        - count * HALF_LOG_TWO_PI
    )


@family.draw_parameters.register(Autoregressive)
def _draw_parameters(prior, stats, rng, params):
    d = dimension(prior)
    root = _MEAN + d
    variance = stats[_SCALE] / rng.standard_gamma(prior.shape + 0.5 * stats[_COUNT])
    deviation = math.sqrt(variance)
    for i in range(d):
        params[i] = stats[_MEAN + i]
    for j in range(d):
        noise = deviation * rng.standard_normal()
        for i in range(d):
            params[i] += stats[root + i * d + j] * noise
    params[d] = variance


@family.log_density.register(Autoregressive)
def _log_density(prior, params, y, t):
    if not _has_term(prior, y, t):
        return 0.0
    d = dimension(prior)
    residual = y[t, 0]
    for i in range(d):
        residual -= params[i] * _regressor(prior, y, t, i, 0.0)
    return -HALF_LOG_TWO_PI - 0.5 * math.log(params[d]) - 0.5 * residual * residual / params[d]


@family.simulate.register(Autoregressive)
def _simulate(prior, params, rng, y, t, position):
    # a lag that is missing or before the start counts as 0
    value = params[0]
    for lag in range(1, min(prior.order, t) + 1):
        if not np.isnan(y[t - lag, 0]):
            value += params[lag] * y[t - lag, 0]
    if prior.trend:
        value += params[prior.order + 1] * position
    y[t, 0] = value + math.sqrt(params[dimension(prior)]) * rng.standard_normal()


@family.are_valid.register(Autoregressive)
def _are_valid(prior, stats):
    return (
        family.within(stats[:, :_SCALE], 0.0, family.LARGEST_COUNT)
        and family.within(stats[:, _SCALE], 1e-110, _LARGEST_SCALE)
        and family.within(stats[:, _LOG_SHRINKAGE:], -_LARGEST_COEFFICIENT, _LARGEST_COEFFICIENT)
    )


@family.parameter_names.register(Autoregressive)
def _parameter_names(prior):
    lags = tuple(f"lag[{lag}]" for lag in range(1, prior.order + 1))
    return ("intercept", *lags, "trend", "sd") if prior.trend else ("intercept", *lags, "sd")


@family.describe.register(Autoregressive)
def _describe(prior, params):
    return (*params[:-1], math.sqrt(params[-1]))


@family.location.register(Autoregressive)
def _location(prior, params, y, t, position):
    if t < prior.order:
        return (math.nan,)
    value = params[0] + sum(params[lag] * y[t - lag, 0] for lag in range(1, prior.order + 1))
    return (value + params[prior.order + 1] * position if prior.trend else value,)


@family.is_segment_local.register(Autoregressive)
def _is_segment_local(prior):
    return prior.trend


@family.look_back.register(Autoregressive)
def _look_back(prior):
    return prior.order
