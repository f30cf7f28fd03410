"""Run readings through detectors: those of many tracks in few compiled calls, on threads beside this one.

Compiled code does not hold the interpreter's lock. While detectors infer from some windows, this thread makes the
messages about others and decodes the next records. Tracks are independent of each other: whatever the groups and
threads, each one publishes the same as it would alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import ishsmm_stream as hs
from service.sensors.crashes import CrashJournal, Stretch
from service.sensors.track import AcceptedReading, Published, Track
from service.wire.readings import EARLIEST

# Tracks per group: as many as lie side by side in memory.
_GROUP = 64
# A group with fewer readings is not worth the way to another thread and back.
_WORTH_A_THREAD = 200


class SensorBatch:
    """A sensor's readings since the cycle began, for its detector."""

    __slots__ = ("first", "newest", "offset", "partition", "readings", "track")

    def __init__(self, track: Track, partition: int = -1, readings: Sequence[AcceptedReading] = ()) -> None:
        self.track = track
        self.partition = partition  # -1: none
        self.readings = list(readings)
        self.newest = EARLIEST  # newest time of the readings
        self.first = -1  # offset of the first reading's record; -1 before there is one
        self.offset = 0  # offset of the last reading's record

    @property
    def stretch(self) -> Stretch | None:
        """The batch's part of the input, for the crash journal."""
        if self.partition < 0:
            return None
        return Stretch(self.partition, self.track.sensor, self.first, self.offset)


class PendingInference:
    """Readings of a track that its detector takes in pieces. A piece ends at the next event, at the end of a publishing
    window or at the end of an hour."""

    def __init__(self, batch: SensorBatch) -> None:
        self.track = batch.track
        self.stretch = batch.stretch
        self.published = Published([], [])
        self._rows = batch.track.to_rows(batch.readings)
        self._at = 0
        self._closed = 0
        self._stretch = 0

    @property
    def is_done(self) -> bool:
        """Whether the detector has taken everything."""
        return self._at == len(self._rows.rows)

    @property
    def _end(self) -> int:
        """The row at which the piece ends."""
        closes, (end, _) = self._rows.closes, self._rows.hours[self._stretch]
        return min(closes[self._closed], end) if self._closed < len(closes) else end

    @property
    def hour(self) -> int:
        """The hour of the week in which the piece was read."""
        return self._rows.hours[self._stretch][1]

    def piece(self) -> np.ndarray:
        """Return the next rows for the detector."""
        return self._rows.rows[self._at : self._end]

    def took(self, taken: int, events: list[hs.Event], publishes: bool) -> None:
        """Record that the detector has taken this many rows and found these events."""
        rows, first = self._rows, self._at
        self._at += taken
        self.track.remember(rows.rows[first : self._at], rows.times[first : self._at])
        closes = self._closed < len(rows.closes) and self._at == rows.closes[self._closed]
        self._closed += closes
        if self._at == rows.hours[self._stretch][0] and not self.is_done:
            self._stretch += 1
        if closes:
            self.track.keep_budget()
        if not publishes:
            self.track.skip_published(events)
            return
        if events:
            self.published.events.extend(self.track.messages_about(events))
        if events or closes:
            self.published.states.append(self.track.state_record(is_learning=self._at <= rows.learned))
        if closes and (dictionary := self.track.new_dictionary()) is not None:
            self.published.states.append(dictionary)


class Inference:
    """Infers from the readings of added tracks. ``finish`` waits until all are processed.

    ``threads``: number of further threads; 0: infer on this thread. ``journal``: records whose readings are with the
    detectors. If ``publishes`` is false, no messages are made, since they were published before. Messages are most
    of the work if windows are short.
    """

    def __init__(self, threads: int = 0, publishes: bool = True, journal: CrashJournal | None = None) -> None:
        self.seconds = 0.0  # time taken; on other threads, only while this one waited for them
        self._journal = journal
        self._threads = threads
        self._publishes = publishes
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: deque[tuple[list[PendingInference], Future[Any]]] = deque()

    def __enter__(self) -> Inference:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def add(self, batches: Sequence[SensorBatch]) -> list[PendingInference]:
        """Begin with the readings of further tracks. The returned inferences are done after ``finish``."""
        began = time.perf_counter()
        added = [PendingInference(one) for one in batches]
        suspects = [one for one in added if self._is_suspect(one)]
        others = added if not suspects else [one for one in added if one not in suspects]
        for at in range(0, len(others), _GROUP):
            self._go_on(others[at : at + _GROUP])
            while self._under_way and self._under_way[0][1].done():
                self._take_oldest()
        for one in suspects:
            self.finish()
            self._go_on([one])
        self.seconds += time.perf_counter() - began
        return added

    def _is_suspect(self, one: PendingInference) -> bool:
        return self._journal is not None and one.stretch is not None and self._journal.is_suspect(one.stretch)

    def finish(self) -> None:
        """Wait until detectors have taken all readings."""
        began = time.perf_counter()
        while self._under_way:
            self._take_oldest()
        self.seconds += time.perf_counter() - began

    def _go_on(self, group: list[PendingInference]) -> None:
        """Pass the next pieces of a group to its detectors."""
        while group := [one for one in group if not one.is_done]:
            detectors, pieces = [one.track.detector for one in group], [one.piece() for one in group]
            update = partial(hs.update_fleet_to_event, detectors, pieces, hours=[one.hour for one in group])
            self._note(group, begins=True)
            if self._threads and sum(map(len, pieces)) >= _WORTH_A_THREAD:
                self._under_way.append((group, self._submit(update)))
                return
            self._took(group, update())

    def _submit(self, act: Callable[[], Any]) -> Future[Any]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "inference")
        return self._pool.submit(act)

    def _take_oldest(self) -> None:
        group, answers = self._under_way.popleft()
        self._took(group, answers.result())
        self._go_on(group)

    def _note(self, group: list[PendingInference], begins: bool) -> None:
        """Write to the journal whose readings are with the detectors."""
        if self._journal is not None:
            stretches = [one.stretch for one in group if one.stretch is not None]
            (self._journal.begin if begins else self._journal.end)(stretches)

    def _took(self, group: list[PendingInference], answers: list[tuple[int, list[hs.Event]]]) -> None:
        self._note(group, begins=False)
        for one, (taken, events) in zip(group, answers, strict=True):
            one.took(taken, events, self._publishes)


def infer(track: Track, readings: Sequence[AcceptedReading], publishes: bool = True) -> Published:
    """Infer from accepted readings of one track, in their order."""
    inference = Inference(publishes=publishes)
    (pending,) = inference.add([SensorBatch(track, readings=readings)])
    return pending.published
