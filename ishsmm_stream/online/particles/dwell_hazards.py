"""The chance that a segment ends now, remembered.

A segment that has lasted e observations ends before the next one with the hazard h(e) = P(r = e - 1) / P(r >= e - 1),
lambda integrated out. It depends on the statistics of the state's complete segments and on e only, which many chains
share, so it is looked up in a table of blocks: the survival at the end of a block is asked of the family, and the sum
goes backward from there. (The forward recursion h(e + 1) = h(e) rho / (1 - h(e)) is unstable.)

What is remembered is a function of the key alone: answers do not depend on what the table holds.
"""

from __future__ import annotations

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import log_add
from ishsmm_stream.model.durations import family as durations

BLOCK = 8
TABLE_SIZE = 512  # a power of 2
ENDS, STAYS = 0, 1


def make_table(duration: object) -> tuple[np.ndarray, np.ndarray]:
    """Keys (statistics and number of the block) and values, with nothing remembered. Plain Python."""
    keys = np.full((TABLE_SIZE, durations.stats_size(duration) + 1), np.nan)
    return keys, np.zeros((TABLE_SIZE, BLOCK, 2))


@kernel
def _fill(duration, stats, block, values):
    """(ln h, ln(1 - h)) for r = e - 1 in a block."""
    log_after = durations.log_predictive_survival(duration, stats, (block + 1) * BLOCK)
    for i in range(BLOCK - 1, -1, -1):
        log_now = durations.log_predictive_pmf(duration, stats, block * BLOCK + i)
        log_survival = log_add(log_after, log_now)
        if log_survival == -np.inf:  # it cannot have lasted so long: it ends
            values[i, ENDS] = 0.0
            values[i, STAYS] = -np.inf
        else:
            values[i, ENDS] = log_now - log_survival
            values[i, STAYS] = log_after - log_survival
        log_after = log_survival


@kernel
def find_block(duration, stats, block, keys, values):
    """The row of ``values`` that holds the block for these statistics; filled in where it is not yet."""
    size = stats.shape[0]
    row = (int(stats[0]) * 7919 + int(stats[1]) * 104729 + block * 1299709) & (TABLE_SIZE - 1)
    found = keys[row, size] == block
    for i in range(size):
        found = found and keys[row, i] == stats[i]
    if not found:
        _fill(duration, stats, block, values[row])
        for i in range(size):
            keys[row, i] = stats[i]
        keys[row, size] = block
    return row
