"""Multivariate normal observations with a normal-inverse-Wishart prior."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._linear import cholesky, log_determinant, solve_lower, solve_lower_transposed
from ishsmm_stream._special import HALF_LOG_TWO_PI, LOG_PI, log_gamma
from ishsmm_stream.model.emissions import family


class _MultivariateNormalFields(NamedTuple):
    """What kernels take. Arrays, since the length of a tuple would be part of a kernel's type: every number of channels
    would be compiled anew."""

    centre: np.ndarray  # (D,)
    mean_weight: float
    freedom: float
    psi: np.ndarray  # (D, D)


class MultivariateNormal(_MultivariateNormalFields):
    """y ~ N(mu, Sigma) with Sigma ~ InvWishart(freedom, scale) and mu | Sigma ~ N(mean, Sigma / mean_weight).

    ``mean`` has one number for each of the D channels and ``scale`` is a D x D matrix Psi. Where freedom > D + 1,
    E[Sigma] = Psi / (freedom - D - 1). A row with a NaN in any channel is missing as a whole.

    Statistics: count, mean (D) and lower triangle of the scatter matrix, the sum of (y - mean)(y - mean)' (D x D), in
    Welford's form. The posterior of n observations is of the same kind with mean_weight + n, freedom + n and
    Psi_n = Psi + scatter + mean_weight n / (mean_weight + n) (sample mean - mean)(sample mean - mean)'.
    Parameter: mu (D), then W (D x D), lower triangular with W Sigma W' = I: the inverse of Sigma's Cholesky factor, so
    that W (y - mu) is standard normal.
    """

    __slots__ = ()

    def __new__(
        cls, mean: Sequence[float], mean_weight: float, freedom: float, scale: Sequence[Sequence[float]]
    ) -> MultivariateNormal:
        checked_mean = _checked_mean(mean)
        channels = len(checked_mean)
        checked_freedom = _checks.number("freedom", freedom)
        if checked_freedom <= channels - 1:
            raise ValueError(f"freedom must be greater than channels - 1 = {channels - 1}, got {freedom!r}")
        checked_weight = _checks.positive("mean_weight", mean_weight)
        return super().__new__(cls, checked_mean, checked_weight, checked_freedom, _checked_scale(scale, channels))

    @classmethod
    def weak_numbers(cls, values: np.ndarray) -> dict[str, Any]:
        """Return the numbers of a weak prior for series like ``values`` (length, channels)."""
        centres, noises, mean_weight = family.value_scale(values)
        channels = len(centres)
        scale = tuple(tuple(2.0 * noises[i] if i == j else 0.0 for j in range(channels)) for i in range(channels))
        return {"mean": tuple(centres), "mean_weight": mean_weight, "freedom": channels + 3.0, "scale": scale}

    @property
    def mean(self) -> tuple[float, ...]:
        """E[mu], one number for each channel."""
        return tuple(self.centre.tolist())

    @property
    def scale(self) -> tuple[tuple[float, ...], ...]:
        """The matrix Psi, row by row."""
        return tuple(map(tuple, self.psi.tolist()))

    def _asdict(self) -> dict[str, Any]:
        return {
            "mean": self.mean, "mean_weight": self.mean_weight, "freedom": self.freedom, "scale": self.scale,
        }  # fmt: skip

    def _replace(self, **fields: Any) -> MultivariateNormal:
        return MultivariateNormal(**{**self._asdict(), **fields})

    def __repr__(self) -> str:
        return f"MultivariateNormal({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._asdict() == other._asdict()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self._asdict().values()))


def _checked_mean(mean: Any) -> np.ndarray:
    try:
        values = list(mean)
    except TypeError:
        raise ValueError(f"mean must be a sequence of numbers, one a channel, got {mean!r}") from None
    if not values:
        raise ValueError(f"mean must hold at least one number, got {mean!r}")
    return _constant([_checks.number(f"mean[{i}]", value) for i, value in enumerate(values)])


def _checked_scale(scale: Any, channels: int) -> np.ndarray:
    try:
        matrix = np.array(scale, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"scale must be a square matrix of numbers, got {scale!r}") from None
    if matrix.shape != (channels, channels):
        raise ValueError(
            f"scale must be a {channels} x {channels} matrix, as mean has {channels} channels, got shape {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"scale must be finite, got {scale!r}")
    if np.abs(matrix - matrix.T).max() > 1e-9 * np.abs(matrix).max():
        raise ValueError(f"scale must be symmetric, got {scale!r}")
    matrix = 0.5 * (matrix + matrix.T)
    deviations = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    # judged on the correlations: channels may have very different units
    if not deviations.all() or np.linalg.eigvalsh(matrix / np.outer(deviations, deviations))[0] < 1e-12:
        raise ValueError(f"scale must be positive definite, got {scale!r}")
    return _constant(matrix)


def _constant(numbers: Any) -> np.ndarray:
    """A copy that cannot be changed: priors are compared and hashed."""
    array = np.array(numbers, dtype=np.float64)
    array.setflags(write=False)
    return array


@owning_kernel
def _prior_factor(prior):
    """The Cholesky factor of Psi."""
    channels = len(prior.centre)
    factor = np.empty((channels, channels))
    for i in range(channels):
        for j in range(i + 1):
            factor[i, j] = prior.psi[i, j]
    cholesky(factor)
    return factor


@owning_kernel
def _posterior_factor(prior, stats):
    """The Cholesky factor of Psi_n."""
    channels = len(prior.centre)
    count = stats[0]
    shrinkage = prior.mean_weight * count / (prior.mean_weight + count)
    factor = np.empty((channels, channels))
    for i in range(channels):
        offset = shrinkage * (stats[1 + i] - prior.centre[i])
        row = 1 + channels + i * channels
        for j in range(i + 1):
            factor[i, j] = prior.psi[i, j] + stats[row + j] + offset * (stats[1 + j] - prior.centre[j])
    cholesky(factor)
    return factor


@kernel
def _posterior_mean(prior, stats, channel):
    """E[mu] of one channel."""
    weight = stats[0] / (prior.mean_weight + stats[0])
    return prior.centre[channel] + (stats[1 + channel] - prior.centre[channel]) * weight


@family.stats_size.register(MultivariateNormal)
def _stats_size(prior):
    channels = len(prior.centre)
    return 1 + channels + channels * channels


@family.params_size.register(MultivariateNormal)
def _params_size(prior):
    channels = len(prior.centre)
    return channels + channels * channels


@family.add.register(MultivariateNormal)
def _add(prior, stats, y, t):
    if family.is_missing(y, t):
        return
    channels = len(prior.centre)
    stats[0] += 1.0
    count = stats[0]
    # With d the deviation from the mean so far, the scatter gains d d' (count - 1) / count.
    for i in range(channels):
        gain = (y[t, i] - stats[1 + i]) * ((count - 1.0) / count)
        row = 1 + channels + i * channels
        for j in range(i + 1):
            stats[row + j] += gain * (y[t, j] - stats[1 + j])
    for i in range(channels):
        stats[1 + i] += (y[t, i] - stats[1 + i]) / count


@family.log_predictive.register(MultivariateNormal, owning=True)
def _log_predictive(prior, stats, y, t):
    # A multivariate t: freedom_n - D + 1 degrees of freedom, scale matrix Psi_n (k + 1) / (k (freedom_n - D + 1)).
    if family.is_missing(y, t):
        return 0.0
    channels = len(prior.centre)
    weight = prior.mean_weight + stats[0]
    freedom = prior.freedom + stats[0]
    factor = _posterior_factor(prior, stats)
    deviation = np.empty(channels)
    for i in range(channels):
        deviation[i] = y[t, i] - _posterior_mean(prior, stats, i)
    solve_lower(factor, deviation)
    square = 0.0
    for i in range(channels):
        square += deviation[i] * deviation[i]
    return (
        log_gamma(0.5 * (freedom + 1.0))
        - log_gamma(0.5 * (freedom + 1.0 - channels))
        - 0.5 * channels * (LOG_PI + math.log1p(1.0 / weight))
        - 0.5 * log_determinant(factor)
        - 0.5 * (freedom + 1.0) * math.log1p(square * weight / (weight + 1.0))
    )


@family.log_marginal.register(MultivariateNormal, owning=True)
def _log_marginal(prior, stats):
    channels = len(prior.centre)
    count = stats[0]
    result = -0.5 * count * channels * LOG_PI - 0.5 * channels * math.log1p(count / prior.mean_weight)
    for i in range(channels):  # the ratio of multivariate gamma functions
        result += log_gamma(0.5 * (prior.freedom + count - i)) - log_gamma(0.5 * (prior.freedom - i))
    before = log_determinant(_prior_factor(prior))
    after = log_determinant(_posterior_factor(prior, stats))
    return result + 0.5 * prior.freedom * before - 0.5 * (prior.freedom + count) * after


@family.draw_parameters.register(MultivariateNormal, owning=True)
def _draw_parameters(prior, stats, rng, params):
    # Bartlett: B B' ~ Wishart(freedom, I) for B upper triangular with independent standard normals above the diagonal
    # and B_ii^2 ~ chi-square(freedom - (D - 1 - i)). With Psi_n = L L' the precision L'^-1 B B' L^-1 is a draw, and
    # W = B' L^-1.
    channels = len(prior.centre)
    freedom = prior.freedom + stats[0]
    factor = _posterior_factor(prior, stats)
    for i in range(channels):
        row = params[channels + i * channels : channels + (i + 1) * channels]
        for j in range(i):
            row[j] = rng.standard_normal()
        row[i] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (freedom - (channels - 1 - i))))
        row[i + 1 :] = 0.0
        solve_lower_transposed(factor, row)
    whitening = params[channels : channels + channels * channels].reshape(channels, channels)
    mean = params[:channels]
    for i in range(channels):
        mean[i] = rng.standard_normal()
    solve_lower(whitening, mean)
    spread = math.sqrt(1.0 / (prior.mean_weight + stats[0]))
    for i in range(channels):
        mean[i] = _posterior_mean(prior, stats, i) + spread * mean[i]


@family.log_density.register(MultivariateNormal)
def _log_density(prior, params, y, t):
    if family.is_missing(y, t):
        return 0.0
    channels = len(prior.centre)
    result = -channels * HALF_LOG_TWO_PI
    for i in range(channels):
        row = channels + i * channels
        whitened = 0.0
        for j in range(i + 1):
            whitened += params[row + j] * (y[t, j] - params[j])
        result += math.log(params[row + i]) - 0.5 * whitened * whitened
    return result


@family.simulate.register(MultivariateNormal)
def _simulate(prior, params, rng, y, t, position):
    channels = len(prior.centre)
    for i in range(channels):
        y[t, i] = rng.standard_normal()
    solve_lower(params[channels : channels + channels * channels].reshape(channels, channels), y[t])
    for i in range(channels):
        y[t, i] += params[i]


@family.channels.register(MultivariateNormal)
def _channels(prior):
    return len(prior.centre)


@family.are_valid.register(MultivariateNormal)
def _are_valid(prior, stats):
    channels = len(prior.centre)
    largest = family.LARGEST_VALUE
    if not (
        family.within(stats[:, 0], 0.0, family.LARGEST_COUNT)
        and family.within(stats[:, 1 : 1 + channels], -largest, largest)
        and family.within(stats[:, 1 + channels :], -family.LARGEST_SQUARES, family.LARGEST_SQUARES)
    ):
        return False
    scatter = np.tril(stats[:, 1 + channels :].reshape(-1, channels, channels))
    diagonal = np.arange(channels)
    if (scatter[:, diagonal, diagonal] < 0.0).any():
        return False
    scatter[:, diagonal, diagonal] *= 1.0 + 1e-6  # a singular matrix is valid, whatever the rounding
    try:
        np.linalg.cholesky(prior.psi + scatter)
    except np.linalg.LinAlgError:
        return False
    return True


@family.check_data.register(MultivariateNormal)
def _check_data(prior, y):
    family.require_channels(y, len(prior.centre), "this MultivariateNormal")


@family.parameter_names.register(MultivariateNormal)
def _parameter_names(prior):
    channels = range(len(prior.centre))
    return (
        *(f"mean[{i}]" for i in channels),
        *(f"sd[{i}]" for i in channels),
        *(f"correlation[{i},{j}]" for i in channels for j in range(i)),
    )


@family.describe.register(MultivariateNormal)
def _describe(prior, params):
    channels = len(prior.centre)
    factor = np.linalg.inv(np.reshape(params[channels:], (channels, channels)))
    covariance = factor @ factor.T
    deviations = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviations, deviations)
    return (
        *(float(value) for value in params[:channels]),
        *(float(value) for value in deviations),
        *(float(correlation[i, j]) for i in range(channels) for j in range(i)),
    )


@family.location.register(MultivariateNormal)
def _location(prior, params, y, t, position):
    return tuple(params[: len(prior.centre)])
