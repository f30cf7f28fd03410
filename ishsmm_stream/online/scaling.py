"""Units: location and scale of a stream from its first values only, so that priors fit whatever is measured.

Causal (later values change nothing), robust (median and median absolute deviation) and equivariant: a y + b with a > 0
has the same standardised values as y.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.model.units import location_and_scale
from ishsmm_stream.online.validation import FLOAT, Field, check, require

# Standardised values are cut here: far beyond anything that could still say more.
_LIMIT = 1e12
# The first values are waited for at most this many times their number, should most readings be missing.
_PATIENCE = 10
_LARGEST = np.finfo(float).max


@kernel
def standardise(rows, location, scale, result):
    """Write the standardised rows; a scale of 0 is unknown and set by the first value that differs."""
    for channel in range(rows.shape[1]):
        for i in range(rows.shape[0]):
            # halved before they are subtracted: the difference of two doubles can be too large for a double
            half = 0.5 * rows[i, channel] - 0.5 * location[channel]
            if scale[channel] == 0.0 and abs(half) > 0.0:
                scale[channel] = min(2.0 * abs(half), _LARGEST)
            if math.isnan(half):
                result[i, channel] = np.nan
            elif scale[channel] == 0.0:
                result[i, channel] = 0.0
            elif abs(half) / _LIMIT >= 0.5 * scale[channel]:  # their quotient could be too large for a double
                result[i, channel] = math.copysign(_LIMIT, half)
            else:
                result[i, channel] = min(max(2.0 * (half / scale[channel]), -_LIMIT), _LIMIT)


class Scaling:
    """Standardises a stream; holds its first rows back until ``warm_up`` of them have a value.

    Where all first values are equal the scale is unknown. Standardised values are then 0 whatever it is, and it is set
    by the first value that differs.
    """

    def __init__(self, channels: int, warm_up: int) -> None:
        self.warm_up = warm_up
        self.location = np.zeros(channels)
        self.scale = np.zeros(channels)  # 0: not known yet
        self.is_warm = False
        self.held = np.empty((0, channels))

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, int, bool]:
        """Take rows while the units are not known, up to the one that makes them known.

        Returns rows for the engine, how many of ``rows`` were taken, and whether the units are known now. If they are,
        the first values are standardised, with those that were held back. If not, only missing rows at the beginning of
        the stream are handed on: nothing can be learned from them.
        """
        lead = 0
        if not len(self.held):
            begun = ~np.isnan(rows).any(axis=1)
            lead = int(np.argmax(begun)) if begun.any() else len(rows)
        values = rows[lead:]
        have = int(np.sum(~np.isnan(self.held).any(axis=1))) + np.cumsum(~np.isnan(values).any(axis=1))
        held = len(self.held) + np.arange(1, len(values) + 1)
        full = (have >= self.warm_up) | (held >= _PATIENCE * self.warm_up)
        last = int(np.argmax(full)) + 1 if full.any() else len(values)
        self.held = np.concatenate([self.held, values[:last]])
        if not full.any():
            return rows[:lead], len(rows), False
        return np.concatenate([rows[:lead], self.learn()]), lead + last, True

    def learn(self) -> np.ndarray:
        """Set location and scale from the rows that are held back. Returns these, standardised."""
        rows, self.held = self.held, self.held[:0]
        values = rows[~np.isnan(rows).any(axis=1)]
        for channel in range(rows.shape[1]):
            self.location[channel], self.scale[channel] = location_and_scale(values[:, channel])
        self.is_warm = True
        result = np.empty_like(rows)
        standardise(rows, self.location, self.scale, result)
        return result

    def load(self, arrays: dict[str, np.ndarray], is_warm: Any) -> None:
        """Become what a snapshot describes. Raises SnapshotError if that cannot be."""
        channels, held = len(self.location), arrays["held"]
        fields = {
            "location": Field(FLOAT, (channels,), -_LARGEST, _LARGEST),
            "units": Field(FLOAT, (channels,), 0.0, _LARGEST),
            "held": Field(FLOAT, (len(held) if held.ndim else 0, channels), -_LARGEST, _LARGEST, nan=True),
        }
        check(arrays, fields)
        require(type(is_warm) is bool, "units are known or not")
        require(len(held) < (1 if is_warm else _PATIENCE * self.warm_up), "rows are held until the units are known")
        self.is_warm = is_warm
        self.location[:], self.scale[:], self.held = arrays["location"], arrays["units"], held

    @property
    def log_scale(self) -> float:
        """What standardising a row takes from ln p; channels whose scale is unknown do not count."""
        return float(np.sum(np.log(self.scale[self.scale > 0.0])))
