"""The numbers that describe a cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

_NONE: Counter[str] = Counter()  # never changed


class CycleCounts(NamedTuple):
    """The work of a cycle in numbers, for metrics."""

    records: int = 0
    readings: int = 0
    dead_letters: int = 0
    events: int = 0
    states: int = 0
    forwarded: int = 0  # readings
    inference_seconds: float = 0.0
    promised: Counter[str] = _NONE  # by rule: alarms that the sensors' budgets allow for these readings
    raised: Counter[str] = _NONE  # by rule: alarms that were raised
    observed: Counter[str] = _NONE  # by rule: seconds that the readings span, summed over sensors


def add_up(counts: Iterable[CycleCounts]) -> CycleCounts:
    """Return the sum of several counts."""
    return CycleCounts(*(sum(column[1:], start=column[0]) for column in zip(CycleCounts(), *counts, strict=True)))
