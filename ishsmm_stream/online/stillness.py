"""Sensors that stick.

A reading that repeats the one before it exactly says how small the noise is. A sensor that sticks would go on saying so
for ever and without limit, until a segment with even less noise begins to look likely. After ``REPEATS`` repetitions it
has said it: from then on time passes and nothing is learned, until it moves.
"""

from __future__ import annotations

import numpy as np

from ishsmm_stream._jit import kernel

REPEATS = 64


@kernel
def count_repeats(rows, latest, count, repeats):
    """repeats <- how often each row repeats those before it; ``latest`` and its ``count``: the row before the first."""
    for i in range(rows.shape[0]):
        is_same = True
        for channel in range(rows.shape[1]):
            is_same = is_same and rows[i, channel] == (latest[channel] if i == 0 else rows[i - 1, channel])
        count = count + 1 if is_same else 0
        repeats[i] = count


class Stillness:
    """Counts how often the last row of a stream has repeated itself."""

    def __init__(self, channels: int) -> None:
        self.latest = np.full(channels, np.nan)
        self.count = 0

    def repeats(self, rows: np.ndarray) -> np.ndarray:
        """How often each row repeats those before it."""
        found = np.empty(len(rows), dtype=np.int64)
        count_repeats(rows, self.latest, self.count, found)
        return found

    def go_on(self, row: np.ndarray, repeats: int) -> None:
        """Note the last row taken, and how often it repeats those before it."""
        self.latest[:] = row
        self.count = int(repeats)
