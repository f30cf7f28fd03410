"""Many detectors at once, on threads: the compiled loops run without the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ishsmm_stream import _checks
from ishsmm_stream.online.detector import OnlineDetector
from ishsmm_stream.online.results import Event


def update_fleet(
    detectors: Sequence[OnlineDetector], values: Sequence[Any], *, threads: int | None = None
) -> list[list[Event]]:
    """Feed ``values[i]``, as ``update_many`` takes them, to ``detectors[i]``; returns each detector's events.

    The same as a loop over ``update_many``, whatever the number of threads (default: one a processor).

    >>> first, second = update_fleet([OnlineDetector(), OnlineDetector()], [[1.0, 2.0], [3.0]])
    >>> first, second
    ([], [])
    """
    if len(detectors) != len(values):
        raise ValueError(f"detectors and values must have the same length, got {len(detectors)} and {len(values)}")
    if len(set(map(id, detectors))) < len(detectors):
        raise ValueError("detectors holds one of them twice; a stream has one detector")
    workers = _checks.whole("threads", threads if threads is not None else os.cpu_count() or 1, 1)
    if workers == 1 or len(detectors) < 2:
        return [detector.update_many(rows) for detector, rows in zip(detectors, values, strict=True)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(OnlineDetector.update_many, detectors, values))
