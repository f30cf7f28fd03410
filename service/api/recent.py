"""The last events that a worker has committed, for those who ask it directly: the topic has them all."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from service import messages
from service.api.backend import StoredEvent

MOST = 10_000


class _Kept(NamedTuple):
    event: StoredEvent
    sensor: str
    status: str


def status_of(event: messages.ChangeEvent | messages.Notice) -> str:
    """What events are told apart by: a change's status, a notice's kind."""
    return event.status if isinstance(event, messages.ChangeEvent) else event.kind


class RecentEvents:
    """A bounded list in memory, numbered from 1."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[_Kept] = deque(maxlen=MOST)
        self._last = 0

    def add(self, values: Iterable[bytes]) -> None:
        """Events that are committed, in their order."""
        now = int(time.time() * 1000)
        with self._lock:
            for value in values:
                event = messages.decode(value)
                assert isinstance(event, messages.ChangeEvent | messages.Notice)
                self._last += 1
                self._kept.append(_Kept(StoredEvent(self._last, now, value), event.sensor, status_of(event)))

    def after(self, seq: int, limit: int, sensor: str | None, status: str | None) -> list[StoredEvent]:
        """Events after ``seq``, of a sensor or of a status."""
        with self._lock:
            found = [
                kept.event
                for kept in self._kept
                if kept.event.seq > seq and sensor in (None, kept.sensor) and status in (None, kept.status)
            ]
        return found[:limit]
