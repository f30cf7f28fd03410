"""What a duration family is: a NamedTuple of its prior's numbers, and the functions below, registered for its type.

Functions with a body are defaults: a family registers its own only if it differs. ``catalogue.py`` lists the families.

A segment lasts ``r + 1`` observations, where r >= 0 is the *remaining* count that the family describes (paper: F_r with
parameter lambda ~ H_r). A segment that has been watched for ``length`` observations and goes on is *censored*: all that
is known is r >= length - 1. A segment that began e observations before a window keeps its true start: it ends t steps
into the window with weight F(e + t - 1) and covers a window of w with weight P(r >= e + w - 1), and its r counts whole.

``stats`` holds the complete segments of a state: entry 0 their number, entry 1 the sum of their r, the rest is the
family's own. ``params`` is one state's lambda. Both are flat float64 arrays of the sizes that the family states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import by_family, by_family_or_default, kernel

# Tables stop where F falls below e^-300 = 1e-130: such durations count as impossible, and products with what is left
# of F are not denormal.
LOG_NEGLIGIBLE = -300.0
# Drawn counts and table lengths stop here, far from the end of int64.
LARGEST_COUNT = 2**60


@by_family
def stats_size(prior):
    """How many numbers the statistics of complete segments take."""


@by_family_or_default
def params_size(prior):
    """Return how many numbers a parameter (paper: lambda) takes."""
    return 1


@by_family_or_default
def clear(prior, stats):
    """Set ``stats`` to those of no segments."""
    stats[:] = 0.0


@by_family_or_default
def add(prior, stats, r):
    """Take a complete segment with remaining count ``r`` into ``stats``."""
    stats[0] += 1.0
    stats[1] += r


@by_family
def log_predictive_pmf(prior, stats, r):
    """ln P(next r = ``r`` | ``stats``), lambda integrated out."""


@by_family
def log_predictive_survival(prior, stats, r):
    """ln P(next r >= ``r`` | ``stats``), lambda integrated out."""


@by_family
def draw_parameters(prior, stats, censored, rng, params):
    """Draw lambda from its posterior given ``stats`` and one segment with r >= ``censored`` (none if negative)."""


@by_family
def log_pmf(prior, params, r):
    """ln F(r; lambda)."""


@by_family
def tabulate(prior, params, pmf, survival):
    """Fill ``pmf[r]`` = F(r) and ``survival[r]`` = P(r' >= r) for every r the arrays hold; return (low, high).

    F is below e^-300 outside low <= r < high. Only that range of ``pmf`` is written, and ``survival`` only below
    high; beyond, both are zero and must not be read.
    """


@by_family
def table_length(prior, params, log_threshold):
    """The smallest n with ln F(r) < ``log_threshold`` for every r >= n, but at most ``LARGEST_COUNT``."""


@by_family
def draw(prior, params, rng):
    """Draw r ~ F(lambda)."""


@by_family
def draw_beyond(prior, params, lowest, rng):
    """Draw r ~ F(lambda) given r >= ``lowest``; ``lowest`` itself where that is impossible."""


@by_family_or_default
def are_valid(prior, stats, time):
    """Return whether each row of ``stats`` (n, size) can be statistics of segments of a stream of ``time`` readings.
    Plain Python.

    A snapshot comes from outside. Other functions of the family need not stay finite, or end, on other rows.
    """
    return count_and_sum_are_valid(stats, time)


@by_family
def mean(prior, params):
    """The expected dwell r + 1 given lambda. Plain Python."""


@by_family
def parameter_names(prior):
    """Names of lambda's numbers as people read them. Plain Python."""


def count_and_sum_are_valid(stats: np.ndarray, time: int) -> bool:
    """Return whether entries 0 and 1 of each row are possible in a stream of ``time`` readings. Plain Python."""
    return bool(((stats[:, :2] >= 0.0) & (stats[:, :2] <= time)).all())


@kernel
def unimodal_table_length(prior, params, mode, log_threshold):
    """``table_length`` of a family whose F does not rise beyond ``mode``: doubling, then bisection."""
    if log_pmf(prior, params, mode) < log_threshold:
        return 0
    inside = mode
    outside = min(2 * mode + 2, LARGEST_COUNT)
    while outside < LARGEST_COUNT and log_pmf(prior, params, outside) >= log_threshold:
        inside = outside
        outside = min(2 * outside, LARGEST_COUNT)
    while outside - inside > 1:
        middle = (inside + outside) // 2
        if log_pmf(prior, params, middle) >= log_threshold:
            inside = middle
        else:
            outside = middle
    return outside


def hyperparameter(name: str, value: Any, highest: float = 1e9) -> float:
    """A prior's number: above 0, and inside the range where the formulas hold for doubles. Plain Python."""
    checked = _checks.positive(name, value)
    if not 1e-300 <= checked <= highest:
        raise ValueError(f"{name} must lie between 1e-300 and {highest:g}, got {value!r}")
    return checked
