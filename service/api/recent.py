"""The last events that a worker has committed, for those who ask it directly: the topic has them all."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from service.api.backend import StoredEvent
from service.wire import messages

MOST = 10_000


class _Kept(NamedTuple):
    event: StoredEvent
    sensor: str
    status: str


class RecentEvents:
    """A bounded list in memory, numbered from 1."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[_Kept] = deque(maxlen=MOST)
        self._last = 0

    def add(self, values: Iterable[bytes], committed: int | None = None) -> None:
        """Events that are committed, in their order, now or at a time in milliseconds."""
        now = int(time.time() * 1000) if committed is None else committed
        with self._lock:
            for value in values:
                event = messages.decode(value)
                assert isinstance(event, messages.Event)
                self._last += 1
                self._kept.append(_Kept(StoredEvent(self._last, now, value), event.sensor, messages.status_of(event)))

    def page(
        self, between: tuple[int, int], limit: int, sensor: str | None, status: str | None, newest_first: bool
    ) -> list[StoredEvent]:
        """Events after the first number and before the second, of a sensor or of a status."""
        after, before = between
        with self._lock:
            found = [
                kept.event
                for kept in self._kept
                if after < kept.event.seq < before and sensor in (None, kept.sensor) and status in (None, kept.status)
            ]
        return (found[::-1] if newest_first else found)[:limit]
