"""Many detectors at once: one compiled call for all that are of one kind, without the interpreter's lock."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream.online import week
from ishsmm_stream.online.detector import OnlineDetector, advance
from ishsmm_stream.online.in_use import all_alone
from ishsmm_stream.online.results import Event

# Longer stretches go alone: the buffers of a call hold every event that is possible.
_MOST_TOGETHER = 1024

_Job = tuple[int, OnlineDetector, np.ndarray]  # its number, and the readings of one channel (length, 1)


def update_fleet(
    detectors: Sequence[OnlineDetector], values: Sequence[Any], *, threads: int | None = None
) -> list[list[Event]]:
    """Feed ``values[i]``, as ``update_many`` takes them, to ``detectors[i]``; returns each detector's events.

    The same as a loop over ``update_many``, whatever the number of threads (default: one a processor). Raises
    RuntimeError if another thread is using one of the detectors; then none of them is changed.

    >>> first, second = update_fleet([OnlineDetector(), OnlineDetector()], [[1.0, 2.0], [3.0]])
    >>> first, second
    ([], [])
    """
    return [events for _, events in _update(detectors, values, None, False, threads)]


def update_fleet_to_event(
    detectors: Sequence[OnlineDetector],
    values: Sequence[Any],
    *,
    hours: Sequence[int] | None = None,
    threads: int | None = 1,
) -> list[tuple[int, list[Event]]]:
    """The same with ``update_to_event``: each detector takes its values up to the first that causes events.

    ``hours``: for each detector the hour of the week (``hours_of_week``) in which its values were read.

    >>> update_fleet_to_event([OnlineDetector()], [[1.0, 2.0]])
    [(2, [])]
    """
    return _update(detectors, values, hours, True, threads)


def _update(
    detectors: Sequence[OnlineDetector],
    values: Sequence[Any],
    hours: Sequence[int] | None,
    stops: bool,
    threads: int | None,
) -> list[tuple[int, list[Event]]]:
    if hours is None:
        hours = [week.NO_HOUR] * len(detectors)
    if len(detectors) != len(values):
        raise ValueError(f"detectors and values must have the same length, got {len(detectors)} and {len(values)}")
    if len(detectors) != len(hours):
        raise ValueError(f"detectors and hours must have the same length, got {len(detectors)} and {len(hours)}")
    if len(set(map(id, detectors))) < len(detectors):
        raise ValueError("detectors holds one of them twice; a stream has one detector")
    workers = _checks.whole("threads", threads if threads is not None else os.cpu_count() or 1, 1)
    with all_alone(detectors):
        return _take(detectors, values, hours, stops, workers)


def _take(
    detectors: Sequence[OnlineDetector], values: Sequence[Any], hours: Sequence[int], stops: bool, workers: int
) -> list[tuple[int, list[Event]]]:
    found: list[Any] = [None] * len(detectors)
    together: dict[Hashable, list[_Job]] = {}
    tasks: list[Callable[[], None]] = []

    def take_alone(i: int) -> None:
        found[i] = detectors[i]._take(values[i], stops, hours[i])

    def take_together(jobs: list[_Job]) -> None:
        numbers, group, rows = zip(*jobs, strict=True)
        for i, answer in zip(numbers, advance(group, rows, group[0]._policy, stops), strict=True):
            found[i] = answer

    for i, (detector, given) in enumerate(zip(detectors, values, strict=True)):
        key = detector._batch_key
        rows = None if key is None else _one_channel(given)
        if rows is None:
            tasks.append(functools.partial(take_alone, i))
        else:
            detector._set_hour(hours[i])
            together.setdefault(key, []).append((i, detector, rows))
    tasks += [functools.partial(take_together, jobs) for jobs in together.values()]
    if workers == 1:
        for task in tasks:
            task()
    else:
        with ThreadPoolExecutor(workers) as pool:
            for waiting in [pool.submit(task) for task in tasks]:
                waiting.result()
    return found


def _one_channel(values: Any) -> np.ndarray | None:
    """Return readings of one channel as ``advance`` takes them; None if they need the checks of ``update_many``."""
    if isinstance(values, np.ndarray) and (np.iscomplexobj(values) or isinstance(values, np.ma.MaskedArray)):
        return None
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if rows.ndim == 1:
        rows = rows[:, np.newaxis]
    if rows.ndim != 2 or rows.shape[1] != 1 or not 0 < len(rows) <= _MOST_TOGETHER:
        return None
    rows = np.ascontiguousarray(rows)
    return rows if _checks.first_infinite(rows) < 0 else None
