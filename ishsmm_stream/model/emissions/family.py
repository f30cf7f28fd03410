"""What an emission family is: a NamedTuple of its prior's numbers, and the functions below, registered for its type.

Functions with a body are defaults: a family registers its own only if it differs. ``catalogue.py`` lists the families.

In all of them ``y`` is the whole series, float64 of shape (length, channels), and ``t`` an index into it: a family may
look back at earlier values (autoregression). A row with a NaN is missing and has no likelihood term.
``stats`` and ``params`` are flat float64 arrays of the sizes that the family states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import by_family, by_family_or_default, kernel, owning_kernel

# Limits of valid statistics. Values are cut at 1e30 before they get here; sums of squares stay below the second limit.
LARGEST_COUNT, LARGEST_VALUE, LARGEST_SQUARES = 2.0**53, 1e31, 1e80


@by_family
def stats_size(prior):
    """How many numbers the sufficient statistics take."""


@by_family
def params_size(prior):
    """How many numbers a parameter (paper: theta) takes."""


@by_family_or_default
def clear(prior, stats):
    """Set ``stats`` to those of no data."""
    stats[:] = 0.0


@by_family_or_default
def begin_segment(prior, stats):
    """Note that the observation added next is the first one of a segment. ``clear`` notes that, too."""


@by_family
def add(prior, stats, y, t):
    """Take observation ``t`` into ``stats``. Observations of a segment are added in order."""


@by_family
def log_predictive(prior, stats, y, t):
    """ln p(y_t | what ``stats`` has seen), the parameter integrated out; 0 where there is no term."""


@by_family
def log_marginal(prior, stats):
    """ln p(everything in ``stats``), the parameter integrated out."""


@by_family
def draw_parameters(prior, stats, rng, params):
    """Draw the parameter from its posterior given ``stats`` into ``params``."""


@by_family
def log_density(prior, params, y, t):
    """ln p(y_t | parameter); 0 where there is no term."""


@by_family_or_default
def has_first_law(prior):
    """Whether the first observation of a segment has a density of its own, ``log_first_density``."""
    return False


@by_family_or_default
def log_first_density(prior, params, y, t):
    """ln p(y_t | parameter) of the first observation of a segment; ``log_density`` is that of the others."""
    return log_density(prior, params, y, t)


@by_family
def simulate(prior, params, rng, y, t, position):
    """Draw y_t given the parameter (and y before t) into row ``t`` of ``y``; ``position`` counts from the segment's
    start."""


@by_family_or_default
def channels(prior):
    """Return how many columns the series has. Plain Python, not for kernels."""
    return 1


@by_family_or_default
def look_back(prior):
    """Return how many earlier rows of ``y`` the density of a row depends on. Plain Python, not for kernels."""
    return 0


@by_family
def are_valid(prior, stats):
    """Return whether each row of ``stats`` (n, size) can be statistics of data. Plain Python, not for kernels.

    A snapshot comes from outside. Other functions of the family need not stay finite, or end, on other rows.
    """


@by_family_or_default
def check_data(prior, y):
    """Raise ValueError if ``y`` cannot come from this family. Plain Python, not for kernels."""
    require_channels(y, channels(prior), type(prior).__name__)


@by_family
def parameter_names(prior):
    """Names of the parameter's numbers as people read them. Plain Python, not for kernels."""


@by_family
def describe(prior, params):
    """The numbers named by ``parameter_names`` from ``params``. Plain Python, not for kernels."""


@by_family_or_default
def location(prior, params, y, t, position):
    """Return the expected y_t given the parameter, one number for each channel: what a plot draws.

    ``position`` counts from the segment's start. By default the first described numbers. Plain Python.
    """
    return tuple(describe(prior, params)[: channels(prior)])


@by_family_or_default
def is_segment_local(prior):
    """Return whether the density depends on the position inside a segment: then only the exact ILR inference serves.

    Plain Python.
    """
    return False


def within(numbers: np.ndarray, low: float, high: float) -> bool:
    """Return whether all numbers are between two limits. NaN is not."""
    return bool(((numbers >= low) & (numbers <= high)).all())


def with_numbers(prior: Any, **numbers: float) -> Any:
    """Return a prior with some of its numbers changed. Raises ValueError if the family does not take them."""
    return type(prior)(*prior._replace(**numbers))


@kernel
def is_missing(y, t):
    """Whether any channel of row ``t`` is NaN."""
    for channel in range(y.shape[1]):
        if np.isnan(y[t, channel]):
            return True
    return False


@owning_kernel
def _block_log_marginal(prior, y):
    stats = np.empty(stats_size(prior))
    clear(prior, stats)
    for t in range(y.shape[0]):
        add(prior, stats, y, t)
    return log_marginal(prior, stats)


@owning_kernel
def _draw_many(prior, stats, rng, draws):
    for i in range(draws.shape[0]):
        draw_parameters(prior, stats, rng, draws[i])


def median_parameters(prior: Any, stats: np.ndarray, rng: np.random.Generator, draws: int = 200) -> dict[str, float]:
    """Medians of the described parameters, by name, over draws from their posterior given ``stats``."""
    drawn = np.empty((draws, params_size(prior)))
    _draw_many(prior, stats, rng, drawn)
    described = np.array([describe(prior, params) for params in drawn])
    median = np.nanmedian if np.isnan(described).any() else np.median  # the latter takes a tenth of the time
    return dict(zip(parameter_names(prior), median(described, axis=0).tolist(), strict=True))


def block_log_marginal(prior: Any, y: Any) -> float:
    """ln p(y) of one segment, its parameter integrated out.

    >>> from ishsmm_stream import emissions
    >>> round(block_log_marginal(emissions.Poisson(shape=1.0, rate=1.0), [2, 0, 3]), 6)
    -6.015181
    """
    return float(_block_log_marginal(prior, checked_series("y", y, prior)))


def checked_series(name: str, y: Any, prior: Any) -> np.ndarray:
    """``y`` as a (length, channels) array that this family can have produced."""
    array = _checks.series(name, y)
    check_data(prior, array)
    return array


def require_channels(y: np.ndarray, channels: int, family: str) -> None:
    """Raise ValueError unless ``y`` has as many columns as the family models."""
    if y.shape[1] != channels:
        raise ValueError(f"y has {y.shape[1]} channels, but {family} takes {channels}")


# Weak priors in the units of the data


class ValueScale(NamedTuple):
    """What weak priors are scaled to, with one number for each channel."""

    centres: list[float]
    noises: list[float]  # variances
    mean_weight: float


def value_scale(values: np.ndarray) -> ValueScale:
    """Return the scale of a series (length, channels).

    The variance inside segments is judged by the differences between neighbours, which changes hardly touch. The
    spread of the segments' means is judged by the variance of all of the data.
    """
    centres = [rounded(float(np.nanmedian(column))) for column in values.T]
    noises = [rounded(_noise_variance(column)) for column in values.T]
    # sd of a segment's mean about the centre: that of the data, or some three times the noise if this is more
    weights = [noise / max(float(np.nanvar(column)), 1e-300) for noise, column in zip(noises, values.T, strict=True)]
    return ValueScale(centres, noises, rounded(min(0.1, *weights)))


def _noise_variance(values: np.ndarray) -> float:
    """Return the variance of independent noise, by the median size of differences between neighbours.

    If more than half of the differences are zero, it is found by their mean square; for a constant it is 1.
    """
    present = values[~np.isnan(values)]
    differences = np.diff(present)
    if len(differences) == 0:
        return 1.0
    # a difference of two has twice the variance; 1.4826 makes the median absolute value a standard deviation
    robust = 0.5 * (1.4826 * float(np.median(np.abs(differences)))) ** 2
    return robust or 0.5 * float(np.mean(differences**2)) or 1.0


def rounded(value: float) -> float:
    """Return ``value`` to three digits: a default is a rough guess and should look like one."""
    return float(f"{value:.3g}")
