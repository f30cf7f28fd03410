"""State sequences: how well two of them agree, how long their states last."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special, stats


def adjusted_mutual_information(a: Any, b: Any) -> float:
    """Vinh, Epps and Bailey (2010), with the arithmetic mean of the entropies: 1 for equal partitions, 0 by chance."""
    _, a = np.unique(a, return_inverse=True)
    _, b = np.unique(b, return_inverse=True)
    n = len(a)
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1.0)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if len(rows) == len(columns) == 1:
        return 1.0  # one part each: they are equal
    inside = table > 0.0
    information = np.sum(table[inside] / n * np.log(n * table[inside] / np.outer(rows, columns)[inside]))
    expected = sum(_expected_information(r, c, n) for r in rows for c in columns)
    mean_entropy = 0.5 * (stats.entropy(rows) + stats.entropy(columns))
    return float((information - expected) / (mean_entropy - expected))


def _expected_information(r: float, c: float, n: int) -> float:
    """A cell's part of the mutual information, its count hypergeometric."""
    k = np.arange(max(1.0, r + c - n), min(r, c) + 1.0)
    log_mass = (
        special.gammaln(r + 1) + special.gammaln(c + 1) + special.gammaln(n - r + 1) + special.gammaln(n - c + 1)
        - special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(r - k + 1) - special.gammaln(c - k + 1)
        - special.gammaln(n - r - c + k + 1)
    )  # fmt: skip
    return float(np.sum(k / n * np.log(n * k / (r * c)) * np.exp(log_mass)))


def runs(states: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first index, length, state) of each stretch of equal states."""
    states = np.asarray(states)
    starts = np.flatnonzero(np.diff(states, prepend=states[0] - 1))
    return starts, np.diff(starts, append=len(states)), states[starts]


def mean_run(states: Any) -> float:
    """The mean length of the stretches of equal states."""
    return float(runs(states)[1].mean())
