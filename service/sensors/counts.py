"""What a cycle did, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

_NONE: Counter[str] = Counter()  # never changed


class CycleCounts(NamedTuple):
    """What a cycle did, for metrics."""

    records: int = 0
    readings: int = 0
    dead_letters: int = 0
    events: int = 0
    states: int = 0
    forwarded: int = 0  # readings
    inference_seconds: float = 0.0
    promised: Counter[str] = _NONE  # by rule: alarms that the sensors' budgets allow for these readings,
    raised: Counter[str] = _NONE  # those that were raised,
    observed: Counter[str] = _NONE  # and the seconds that the readings span, of each sensor


def add_up(counts: Iterable[CycleCounts]) -> CycleCounts:
    """What several did together."""
    return CycleCounts(*(sum(column[1:], start=column[0]) for column in zip(CycleCounts(), *counts, strict=True)))
