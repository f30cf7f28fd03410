"""When the current segment began, as far as is known."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple


class StartPosterior(NamedTuple):
    """P(the current segment began at s | y). Lists: there are a few dozen, for which arrays are slow."""

    indices: list[int]  # ascending
    weights: list[float]  # their probabilities

    def between(self, first: int, end: float = math.inf) -> float:
        """P(it began with observation ``first`` or later, and before ``end``)."""
        return math.fsum(self.weights[bisect_left(self.indices, first) : bisect_left(self.indices, end)])

    def run_length(self, time: int, quantiles: Sequence[float]) -> tuple[int, ...]:
        """Quantiles of the number of observations in the segment, ``time`` after the first of all."""
        cumulative = list(itertools.accumulate(reversed(self.weights)))  # from the newest on
        places = [min(bisect_left(cumulative, quantile), len(cumulative) - 1) for quantile in quantiles]
        return tuple(time - self.indices[-1 - place] for place in places)
