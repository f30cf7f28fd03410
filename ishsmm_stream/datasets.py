"""Data that examples need, typed in as facts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class CoalDisasters(NamedTuple):
    """British coal-mining disasters a year."""

    years: np.ndarray
    counts: np.ndarray


# Explosions that killed ten or more, from the dated list of 191 of them (R. G. Jarrett, "A note on the intervals
# between coal-mining disasters", Biometrika 66, 1979), counted by year. Circulating variants differ: one is a year
# short, one has other counts in 1941 and 1942.
_COAL = (
    "4 5 4 1 0 4 3 4 0 6 3 3 4 0 2 6 3 3 5 4 5 3 1 4 4 1 5 5 3 4 2 5 2 2 3 4 2 1 3 2 2 1 1 1 1 3 0 0 1 0 1 1 0 0 3 1 "
    "0 3 2 2 0 1 1 1 0 1 0 1 0 0 0 2 1 0 0 0 1 1 0 2 3 3 1 1 2 1 1 1 1 2 3 3 0 0 0 1 4 0 0 0 1 0 0 0 0 0 1 0 0 1 0 1"
)


def coal_disasters() -> CoalDisasters:
    """Counts for 1851 to 1962: 112 years, 191 disasters.

    >>> int(coal_disasters().counts.sum())
    191
    """
    counts = np.array(_COAL.split(), dtype=np.int64)
    return CoalDisasters(np.arange(1851, 1851 + len(counts)), counts)
