"""A sensor's posterior as the API returns it, taken between two cycles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from service.api.answers import AlarmNow, ChangeNow, ChangePointNow, ForecastNow, SensorEntry, SensorPosterior
from service.api.backend import Busy
from service.sensors.partition import Partition
from service.sensors.track import Track
from service.wire import messages
from service.wire.readings import rfc3339

_STEPS = 10  # steps of the forecast
# Seconds that a request waits for the cycle to end.
_PATIENCE = 10.0
_Seen = TypeVar("_Seen")


class SensorLookup:
    """Looks up the sensors of a worker's partitions. The worker holds ``lock`` while they change."""

    def __init__(self, partitions: Mapping[int, Partition], lock: threading.Lock) -> None:
        self._partitions = partitions
        self._lock = lock

    def one(self, name: str) -> SensorPosterior | None:
        """Return a sensor's posterior, or None if the sensor is not found."""

        def look() -> tuple[Track, bool] | None:
            for partition in self._partitions.values():
                track = partition.look(name)
                if track is not None:
                    return track, partition.is_silent(name)
            return None

        found = self._between_cycles(look)
        # The track is a copy, so the worker can continue meanwhile.
        return None if found is None else posterior(*found)

    def page(self, after: str, limit: int) -> list[SensorEntry]:
        """Return at most ``limit`` sensors after the name ``after``, sorted by name."""

        def look() -> list[SensorEntry]:
            found = [
                (name, seen, partition.is_silent(name))
                for partition in self._partitions.values()
                for name, seen in partition.seen()
                if name > after
            ]
            return [SensorEntry(name, rfc3339(seen), silent) for name, seen, silent in sorted(found)[:limit]]

        return self._between_cycles(look)

    def _between_cycles(self, look: Callable[[], _Seen]) -> _Seen:
        if not self._lock.acquire(timeout=_PATIENCE):
            raise Busy(f"the worker has been in a cycle for {_PATIENCE:g} s")
        try:
            return look()
        finally:
            self._lock.release()


def posterior(track: Track, is_silent: bool) -> SensorPosterior:
    """Return the posterior of a track."""
    detector = track.detector
    record = track.state_record() if track.index >= 0 else None
    forecast = detector.forecast(_STEPS) if record is not None else None
    changes = [
        ChangeNow(
            messages.event_id(track.sensor, track.generation, change.number), change.index,
            track.place(change.index).time, track.place(change.raised_at), change.status,
        )
        for change in detector.announced_changes
    ]  # fmt: skip
    return SensorPosterior(
        sensor=track.sensor,
        rule=track.rule.match,
        labels=track.rule.labels,
        generation=track.generation,
        is_silent=is_silent,
        accepted=track.accepted,
        inserted=track.inserted,
        index=track.index if track.index >= 0 else None,
        time=None if track.newest is None else rfc3339(track.newest.time),
        state=None if record is None else record.state,
        run_length=None if record is None else record.run_length,
        change_probability=None if record is None else record.change_probability,
        n_states=detector.n_states,
        change_points=[
            ChangePointNow(
                change.index, track.place(change.index).time, messages.rounded(change.probability),
                track.place(change.low), track.place(change.high),
            )
            for change in detector.change_points
        ],
        changes=changes,
        alarms=changes,
        unusual=[
            AlarmNow(
                id=messages.alarm_id(track.sensor, track.generation, alarm.number),
                raised_at=track.place(alarm.raised_at),
                is_open=alarm.cleared_at is None,
                cleared=None if alarm.cleared_at is None else track.place(alarm.cleared_at).time,
                return_period=messages.rounded(alarm.return_period),
                reasons=list(alarm.reasons),
                change=None
                if alarm.change < 0
                else messages.event_id(track.sensor, track.generation, alarm.change),
            )
            for alarm in detector.unusual
        ],
        return_period=None if record is None else record.return_period,
        learning=detector.rarity.learning,
        budget_s=track.budget_s,
        forecast=None if forecast is None else ForecastNow(*map(_rows, forecast)),
        recent=[] if record is None else record.recent,
    )  # fmt: skip


def _rows(values: Any) -> list[list[float | None]]:
    table = np.asarray(values)
    table = table.reshape(len(table), -1)
    return [[messages.rounded(float(value)) for value in row] for row in table]
