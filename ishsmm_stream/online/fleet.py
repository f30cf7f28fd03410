"""Many detectors at once: one compiled call for all that are of one kind, without the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream.online import alarms, week
from ishsmm_stream.online.detector import OnlineDetector
from ishsmm_stream.online.in_use import all_alone
from ishsmm_stream.online.renewal.engine import LeftToRight, Taken, Window, extend_many
from ishsmm_stream.online.results import Event

# Longer stretches go alone: the buffers of a call have room for every event that could be.
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
        return _advance(detectors, values, hours, stops, workers)


def _advance(
    detectors: Sequence[OnlineDetector], values: Sequence[Any], hours: Sequence[int], stops: bool, workers: int
) -> list[tuple[int, list[Event]]]:
    found: list[Any] = [None] * len(detectors)
    together: dict[Hashable, list[_Job]] = {}
    alone: list[int] = []
    for i, (detector, given) in enumerate(zip(detectors, values, strict=True)):
        kind = detector._kind
        rows = None if kind is None else _one_channel(given)
        if rows is None:
            alone.append(i)
        else:
            detector._set_hour(hours[i])
            together.setdefault(kind, []).append((i, detector, rows))

    def take_alone(i: int) -> None:
        found[i] = detectors[i]._take(values[i], stops, hours[i])

    def take_together(jobs: list[_Job]) -> None:
        for (i, _, _), answer in zip(jobs, _extend(jobs, stops), strict=True):
            found[i] = answer

    if workers == 1:
        for i in alone:
            take_alone(i)
        for jobs in together.values():
            take_together(jobs)
        return found
    with ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(take_alone, i) for i in alone]
        waiting += [pool.submit(take_together, jobs) for jobs in together.values()]
        for one in waiting:
            one.result()
    return found


def _one_channel(values: Any) -> np.ndarray | None:
    """The readings of one channel as they are handed on; None where there is something to say about them."""
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


def _extend(jobs: list[_Job], stops: bool) -> list[tuple[int, list[Event]]]:
    """One compiled call for detectors of one kind."""
    detectors = [detector for _, detector, _ in jobs]
    engine = detectors[0]._engine
    assert isinstance(engine, LeftToRight)
    window = _gather(detectors, [rows for _, _, rows in jobs])
    length, lag = len(window.values), len(engine.filter.record_slot)
    most_events = alarms.MOST_EVENTS * (len(jobs) if stops else length)
    readings, complete, event_ends, settled_ends = np.empty((4, len(jobs)), dtype=np.int64)
    events = np.empty((most_events, alarms.EVENT_NUMBERS))
    settled = np.empty((length + len(jobs) * lag, 4))
    taken = Taken(readings, complete, event_ends, settled_ends, events, settled)
    extend_many(
        engine.emission, engine.duration, engine.hazard, *engine.room.block.arrays, window, engine.least_share,
        detectors[0]._policy, stops, taken,
    )  # fmt: skip
    found = []
    first_event = first_settled = 0
    for i, detector in enumerate(detectors):
        last_event, last_settled = int(taken.event_ends[i]), int(taken.settled_ends[i])
        caused = detector._went_on(
            window, taken, i, events[first_event:last_event], settled[first_settled:last_settled]
        )
        found.append((int(readings[i]), caused))
        first_event, first_settled = last_event, last_settled
    return found


def _gather(detectors: Sequence[Any], rows: list[np.ndarray]) -> Window:
    begins = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(own) for own in rows], out=begins[1:])
    return Window(
        rooms=np.array([detector._engine.room.number for detector in detectors]),
        begins=begins,
        values=np.concatenate(rows),
        location=np.array([detector._scaling.location[0] for detector in detectors]),
        scale=np.array([detector._scaling.scale[0] for detector in detectors]),
        latest=np.array([detector._stillness.latest[0] for detector in detectors]),
        repeats=np.array([detector._stillness.count for detector in detectors]),
        places=np.array([detector._watch.places for detector in detectors]),
        amounts=np.array([detector._watch.amounts for detector in detectors]),
    )
