"""One state: a level that its readings revert to, their noise, and what is known of both.

Inside a visit a reading follows the one before it, and the first reading of a visit follows the stationary law:

    stay    y_t ~ N(m + phi (y_{t-1} - m), s2)
    enter   y_t ~ N(m, s2 / (1 - phi^2))

The noise has s2 ~ InvGamma(A0, A0 v) and the level m | s2 ~ N(origin, V s2 / v). The autocorrelation phi, the noise
level v and the spread V of the levels are shared by the states of a chain and drawn from grids. A state therefore keeps
raw sums: with them every phi, v and V can be judged again, exactly. Each reading counts by its probability of being no
outlier.

Sums are taken about the state's ``origin``, which is 0, or the first reading if that one is far from all levels that
the prior expects.
"""

from __future__ import annotations

import math

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import log_gamma_ratio
from ishsmm_stream.model.presets import NOISES, PHIS, SPREADS

# Sums of readings y and the readings p before them. STAY_N to STAY_PP: inside visits; ENTRY_N to ENTRY_YY: the first.
STAY_N, STAY_Y, STAY_P, STAY_YY, STAY_YP, STAY_PP, ENTRY_N, ENTRY_Y, ENTRY_YY = range(9)
SUMS = 9
# What predictions need: see ``prepare``.
LEVEL, SHAPE, STAY_V, ENTRY_V, FACTOR, FAR = range(6)
PREPARED = 6

FIRST_PHI, FIRST_NOISE, FIRST_SPREAD = 5, 4, 0  # where chains begin: phi = .6, v = .25, V = 10
A0 = 1.5
OUTLIERS = 0.01  # share of readings that belong to no state
_WIDTH = 10.0  # of the outliers' Cauchy law, in standard deviations
_MOST = 200.0  # readings that a state's sums are worth: older ones fade
_RECENTRE = 300.0  # a level that drifted this far from its origin takes the origin along


@kernel
def phi_of(at):
    """Return the autocorrelation at an index of the grid."""
    return PHIS[at]


@kernel
def noise_of(at):
    """Return the noise level, a variance, at an index of the grid."""
    return NOISES[at]


@kernel
def spread_of(at):
    """Return the spread of the levels, a variance, at an index of the grid."""
    return SPREADS[at]


@kernel
def posterior(sums, phi, noise, spread):
    """Return (kappa, m - origin, a, b): m | s2 ~ N(m, s2 / kappa), s2 ~ InvGamma(a, b)."""
    stay, entry = 1.0 - phi, 1.0 - phi * phi
    weight = sums[STAY_N] * stay * stay + sums[ENTRY_N] * entry
    first = stay * (sums[STAY_Y] - phi * sums[STAY_P]) + entry * sums[ENTRY_Y]
    second = sums[STAY_YY] - 2.0 * phi * sums[STAY_YP] + phi * phi * sums[STAY_PP] + entry * sums[ENTRY_YY]
    kappa = noise / spread + weight
    level = first / kappa
    a = A0 + 0.5 * (sums[STAY_N] + sums[ENTRY_N])
    b = A0 * noise + 0.5 * max(second - kappa * level * level, 0.0)
    return kappa, level, a, b


@kernel
def log_likelihood(sums, phi, noise, spread):
    """ln p(readings of the state | phi, v), without what depends on neither (``log_marginal`` has it)."""
    kappa, _, a, b = posterior(sums, phi, noise, spread)
    return (
        A0 * math.log(A0 * noise)
        - a * math.log(b)
        + 0.5 * math.log(noise / (spread * kappa))
        + 0.5 * sums[ENTRY_N] * math.log(1.0 - phi * phi)
    )


@kernel
def log_marginal(sums, phi, noise, spread):
    """ln p(readings of the state | phi, v), up to a term that only depends on their number."""
    count = 0.5 * (sums[STAY_N] + sums[ENTRY_N])
    return log_likelihood(sums, phi, noise, spread) + log_gamma_ratio(A0, count) if count > 0.0 else 0.0


@kernel
def prepare(sums, origin, phi, noise, spread, numbers):
    """Fill ``numbers``: location, shape, squared scales and constant factor of the predictive densities."""
    kappa, level, a, b = posterior(sums, phi, noise, spread)
    s2 = b / a
    stay, entry = 1.0 - phi, 1.0 - phi * phi
    numbers[LEVEL] = origin + level
    numbers[SHAPE] = a
    numbers[STAY_V] = s2 * (1.0 + stay * stay / kappa)
    numbers[ENTRY_V] = s2 * (1.0 / entry + 1.0 / kappa)
    numbers[FACTOR] = math.exp(log_gamma_ratio(a, 0.5)) / math.sqrt(2.0 * math.pi * a)
    numbers[FAR] = _WIDTH * math.sqrt(s2 / entry)


@kernel
def _student_t(square, variance, shape, factor):
    """The density of a Student-t with 2 ``shape`` degrees of freedom at a squared distance from its centre."""
    return factor / math.sqrt(variance) * math.exp(-(shape + 0.5) * math.log1p(square / (2.0 * shape * variance)))


@kernel
def _cauchy(distance, width):
    ratio = distance / width
    return 1.0 / (math.pi * width * (1.0 + ratio * ratio))


@kernel
def stay_density(numbers, phi, y, before):
    """(p(y | the visit goes on), P(no outlier)); ``before``: the last reading."""
    moved = y - numbers[LEVEL] - phi * (before - numbers[LEVEL])
    inlier = (1.0 - OUTLIERS) * _student_t(moved * moved, numbers[STAY_V], numbers[SHAPE], numbers[FACTOR])
    outlier = OUTLIERS * _cauchy(y - numbers[LEVEL], numbers[FAR])
    return inlier + outlier, inlier / (inlier + outlier)


@kernel
def entry_density(numbers, y):
    """(p(y | a visit begins), P(no outlier)); the same after a missing reading."""
    moved = y - numbers[LEVEL]
    inlier = (1.0 - OUTLIERS) * _student_t(moved * moved, numbers[ENTRY_V], numbers[SHAPE], numbers[FACTOR])
    outlier = OUTLIERS * _cauchy(moved, numbers[FAR])
    return inlier + outlier, inlier / (inlier + outlier)


@kernel
def birth_density(phi, noise, spread, y):
    """(p(y | a new state begins), P(it lies where the prior expects levels))."""
    variance = spread + noise / (1.0 - phi * phi)
    factor = math.exp(log_gamma_ratio(A0, 0.5)) / math.sqrt(2.0 * math.pi * A0)
    inlier = (1.0 - OUTLIERS) * _student_t(y * y, variance, A0, factor)
    outlier = OUTLIERS * _cauchy(y, _WIDTH * math.sqrt(spread))
    return inlier + outlier, inlier / (inlier + outlier)


@kernel
def add_stay(sums, origin, y, before, weight):
    """Take a reading inside a visit in."""
    y, before = y - origin, before - origin
    sums[STAY_N] += weight
    sums[STAY_Y] += weight * y
    sums[STAY_P] += weight * before
    sums[STAY_YY] += weight * y * y
    sums[STAY_YP] += weight * y * before
    sums[STAY_PP] += weight * before * before


@kernel
def add_entry(sums, origin, y, weight):
    """Take in the first reading of a visit, or the first one after a missing reading."""
    y = y - origin
    sums[ENTRY_N] += weight
    sums[ENTRY_Y] += weight * y
    sums[ENTRY_YY] += weight * y * y


@kernel
def fade(sums):
    """Keep the sums to what the newest readings are worth. Returns the factor that was applied."""
    count = sums[STAY_N] + sums[ENTRY_N]
    if count <= _MOST:
        return 1.0
    factor = _MOST / count
    for i in range(SUMS):
        sums[i] *= factor
    return factor


@kernel
def shift(sums, move):
    """Take the sums about an origin that lies ``move`` higher."""
    n, y, p = sums[STAY_N], sums[STAY_Y], sums[STAY_P]
    sums[STAY_YY] = max(sums[STAY_YY] - move * (2.0 * y - n * move), 0.0)
    sums[STAY_YP] -= move * (y + p - n * move)
    sums[STAY_PP] = max(sums[STAY_PP] - move * (2.0 * p - n * move), 0.0)
    sums[STAY_Y] -= n * move
    sums[STAY_P] -= n * move
    sums[ENTRY_YY] = max(sums[ENTRY_YY] - move * (2.0 * sums[ENTRY_Y] - sums[ENTRY_N] * move), 0.0)
    sums[ENTRY_Y] -= sums[ENTRY_N] * move


@kernel
def has_left(level, origin):
    """Whether a level has drifted so far that its prior would hold it back."""
    return abs(level - origin) > _RECENTRE
