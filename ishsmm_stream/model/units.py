"""Location and scale of measured values, so that priors fit whatever is measured."""

from __future__ import annotations

import numpy as np

_MAD_TO_SD = 1.4826022185056018
_LARGEST = np.finfo(float).max


def location_and_scale(values: np.ndarray) -> tuple[float, float]:
    """Median and a robust standard deviation; the latter 0 where all values are equal.

    Where more than half of the values are equal the median deviation is 0; then the median of the moves that are none
    takes its place, and the standard deviation where even that fails.
    """
    location = 2.0 * float(np.median(0.5 * values))  # halved: the middle two may be too large to be added
    deviations = np.abs(0.5 * values - 0.5 * location)
    scale = _MAD_TO_SD * float(np.median(deviations))
    if scale == 0.0:
        moves = np.abs(np.diff(0.5 * values))
        if np.any(moves > 0.0):
            scale = _MAD_TO_SD * float(np.median(moves[moves > 0.0]))
    return location, min(2.0 * scale, _LARGEST)
