"""Predictions from statistics that stay the same for many observations: what does not depend on y is computed once.

Of all the states that the chains know, an observation changes only the current ones. The bodies here are the defaults,
which use the statistics themselves; a family that has something to save registers its own.
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import by_family_or_default, kernel
from ishsmm_stream._special import LOG_PI
from ishsmm_stream.model import emissions
from ishsmm_stream.model.emissions import family
from ishsmm_stream.model.emissions.normal import posterior


@by_family_or_default
def prepared_size(prior):
    """Return how many numbers ``prepare`` writes: at least 1, so that arrays are never empty."""
    return 1


@by_family_or_default
def prepare(prior, stats, numbers):
    """Write into ``numbers`` what a prediction from ``stats`` needs."""


@by_family_or_default
def log_predictive(prior, stats, numbers, y, t):
    """Return ``family.log_predictive`` from statistics for which ``numbers`` were prepared."""
    return family.log_predictive(prior, stats, y, t)


@by_family_or_default
def are_valid(prior, numbers):
    """Return whether each row of ``numbers`` can be what ``prepare`` wrote, or was not written yet. Plain Python."""
    return True


# Normal: a Student-t, ln t(y) = constant - half ln(1 + inverse (y - location)^2)


@kernel
def _log_half_step(x):
    """ln(Gamma(x + 1/2) / Gamma(x)), x > 0: an asymptotic series above 10, the recurrence below."""
    factor = 1.0
    while x < 10.0:
        factor *= x / (x + 0.5)
        x += 1.0
    z = 1.0 / (x * x)
    series = -31.0 / 18432.0 + z * (691.0 / 180224.0)
    series = 17.0 / 14336.0 + z * series
    series = -1.0 / 640.0 + z * series
    series = 1.0 / 192.0 + z * series
    series = -1.0 / 8.0 + z * series
    return 0.5 * math.log(x * factor * factor) + series / x


@prepared_size.register(emissions.Normal)
def _normal_size(prior):
    return 4


@prepare.register(emissions.Normal)
def _prepare_normal(prior, stats, numbers):
    weight, location, shape, scale = posterior(prior, stats)
    inverse = 0.5 * weight / (scale * (weight + 1.0))
    numbers[0] = location
    numbers[1] = inverse
    numbers[2] = shape + 0.5
    numbers[3] = _log_half_step(shape) + 0.5 * (math.log(inverse) - LOG_PI)


@log_predictive.register(emissions.Normal)
def _log_predictive_normal(prior, stats, numbers, y, t):
    value = y[t, 0]
    if np.isnan(value):
        return 0.0
    deviation = value - numbers[0]
    return numbers[3] - numbers[2] * math.log1p(deviation * deviation * numbers[1])


@are_valid.register(emissions.Normal)
def _are_valid_normal(prior, numbers):
    low, high = (-1e45, 0.0, 0.0, -1e50), (1e45, 1e150, 1e45, 1e50)  # priors have numbers up to 1e40
    return bool(((numbers >= low) & (numbers <= high)).all())
