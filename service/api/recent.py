"""The last events that a worker has committed, for clients that ask it directly. The topic has all events."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from service.runtime.observers import CommittedCycle, StoredEvent
from service.wire import messages

MOST = 10_000


class RecentEvents:
    """A bounded list in memory, numbered from 1."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[StoredEvent] = deque(maxlen=MOST)
        self._last = 0

    def idle(self) -> None:
        """Do nothing: there is nothing to add."""

    def committed(self, cycle: CommittedCycle) -> None:
        """Add the events of a cycle."""
        self.add(one.message for one in cycle.outputs if isinstance(one.message, messages.Event))

    def add(self, events: Iterable[messages.Event], committed: int | None = None) -> None:
        """Add committed events in their order, with the present time or a time in milliseconds."""
        now = int(time.time() * 1000) if committed is None else committed
        with self._lock:
            for event in events:
                self._last += 1
                self._kept.append(StoredEvent(self._last, now, event))

    def page(
        self, between: tuple[int, int], limit: int, sensor: str | None, status: str | None, newest_first: bool
    ) -> list[StoredEvent]:
        """Return the events after the first number and before the second, of a sensor or with a status."""
        after, before = between
        with self._lock:
            found = [
                kept
                for kept in self._kept
                if after < kept.seq < before
                and sensor in (None, kept.event.sensor)
                and status in (None, messages.status_of(kept.event))
            ]
        return (found[::-1] if newest_first else found)[:limit]
