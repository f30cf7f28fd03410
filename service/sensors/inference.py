"""Readings on their way through detectors: those of many tracks in few compiled calls, on threads beside this one.

Compiled code does not hold the interpreter's lock, so while detectors infer from some windows, the messages about
others are made and the next records are decoded. Tracks do not know of each other: whatever the groups and threads,
each one says what it would say alone.
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
from service.sensors.track import Accepted, Published, Track

# Tracks that go together: as many as lie side by side in memory.
_GROUP = 64
# Readings below which a group is not worth the way to another thread and back.
_WORTH_A_THREAD = 200


class Feed:
    """Readings of a track on their way into its detector, in pieces: up to the next event, the end of a publishing
    window or the end of an hour."""

    def __init__(self, track: Track, accepted: Accepted, stretch: Stretch | None = None) -> None:
        self.track = track
        self.stretch = stretch  # of the input, for the journal
        self.published = Published([], [])
        self._line = track.line_up(accepted)
        self._at = 0
        self._closed = 0
        self._stretch = 0

    @property
    def is_done(self) -> bool:
        """Whether the detector has taken everything."""
        return self._at == len(self._line.rows)

    @property
    def _end(self) -> int:
        """Where the piece ends."""
        closes, (end, _) = self._line.closes, self._line.hours[self._stretch]
        return min(closes[self._closed], end) if self._closed < len(closes) else end

    @property
    def hour(self) -> int:
        """Of the week, in which the piece was read."""
        return self._line.hours[self._stretch][1]

    def piece(self) -> np.ndarray:
        """What the detector takes next."""
        return self._line.rows[self._at : self._end]

    def took(self, taken: int, events: list[hs.Event], publishes: bool) -> None:
        """The detector has taken so many rows, and come to these events."""
        line, first = self._line, self._at
        self._at += taken
        self.track.remember(line.rows[first : self._at], line.times[first : self._at])
        closes = self._closed < len(line.closes) and self._at == line.closes[self._closed]
        self._closed += closes
        if self._at == line.hours[self._stretch][0] and not self.is_done:
            self._stretch += 1
        if closes:
            self.track.keep_budget()
        if not publishes:
            self.track.pass_over(events)
            return
        if events:
            self.published.events.extend(self.track.messages_about(events))
        if events or closes:
            self.published.states.append(self.track.state_record(is_learning=self._at <= line.learned))


class Inference:
    """Infers from the readings of tracks that are added to it, until ``finish`` has seen them through.

    ``threads``: beside this one; 0: everything happens here. ``journal``: where it writes whose readings are with the
    detectors. Without ``publishes`` no messages are made: they were published before, and are most of the work where
    windows are short.
    """

    def __init__(self, threads: int = 0, publishes: bool = True, journal: CrashJournal | None = None) -> None:
        self.seconds = 0.0  # that it took, those on other threads only where they were waited for
        self._journal = journal
        self._threads = threads
        self._publishes = publishes
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: deque[tuple[list[Feed], Future[Any]]] = deque()

    def __enter__(self) -> Inference:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def add(self, readings: Sequence[tuple[Track, Accepted, Stretch | None]]) -> list[Feed]:
        """Begin with the readings of further tracks; returns their feeds, which are done after ``finish``."""
        began = time.perf_counter()
        feeds = [Feed(*one) for one in readings]
        suspects = [feed for feed in feeds if self._is_suspect(feed)]
        others = feeds if not suspects else [feed for feed in feeds if feed not in suspects]
        for at in range(0, len(others), _GROUP):
            self._go_on(others[at : at + _GROUP])
            while self._under_way and self._under_way[0][1].done():
                self._take_oldest()
        for feed in suspects:
            self.finish()
            self._go_on([feed])
        self.seconds += time.perf_counter() - began
        return feeds

    def _is_suspect(self, feed: Feed) -> bool:
        return self._journal is not None and feed.stretch is not None and self._journal.is_suspect(feed.stretch)

    def finish(self) -> None:
        """Wait until detectors have taken everything."""
        began = time.perf_counter()
        while self._under_way:
            self._take_oldest()
        self.seconds += time.perf_counter() - began

    def _go_on(self, group: list[Feed]) -> None:
        """Hand the next pieces of a group to its detectors."""
        while group := [feed for feed in group if not feed.is_done]:
            detectors, pieces = [feed.track.detector for feed in group], [feed.piece() for feed in group]
            update = partial(hs.update_fleet_to_event, detectors, pieces, hours=[feed.hour for feed in group])
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

    def _note(self, group: list[Feed], begins: bool) -> None:
        """Write into the journal whose readings are with the detectors."""
        if self._journal is not None:
            stretches = [feed.stretch for feed in group if feed.stretch is not None]
            (self._journal.begin if begins else self._journal.end)(stretches)

    def _took(self, group: list[Feed], answers: list[tuple[int, list[hs.Event]]]) -> None:
        self._note(group, begins=False)
        for feed, (taken, events) in zip(group, answers, strict=True):
            feed.took(taken, events, self._publishes)


def take(track: Track, accepted: Accepted, publishes: bool = True) -> Published:
    """Infer from readings of one track, as judged, in their order."""
    inference = Inference(publishes=publishes)
    (feed,) = inference.add([(track, accepted, None)])
    return feed.published
