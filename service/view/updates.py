"""What has happened lately, in order, for those who follow it: one bounded list for all of them.

A follower holds nothing but its place in the list. One that is too slow finds its place gone, and has to look at
everything anew; memory does not grow with it.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from typing import Any, Literal, NamedTuple

MOST = 20_000


class Update(NamedTuple):
    """``about`` is a sensor's name, an event, an incident, or nothing where people have said something."""

    kind: Literal["sensor", "event", "incident", "said"]
    about: Any


class Updates:
    """Numbered from 1. May be used from any thread."""

    def __init__(self, most: int = MOST) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Update] = deque(maxlen=most)
        self._last = 0
        # numbers begin again with the process: a place is of one life only
        self.life = secrets.token_hex(4)
        self.is_over = False

    def add(self, *updates: Update) -> None:
        """Something has happened."""
        with self._lock:
            self._kept.extend(updates)
            self._last += len(updates)

    def close(self) -> None:
        """Followers are to leave."""
        self.is_over = True

    @property
    def place(self) -> int:
        """Behind everything that has happened."""
        with self._lock:
            return self._last

    def after(self, place: int) -> tuple[list[Update], int] | None:
        """What has happened since, and the place behind it; None where some of it is gone."""
        with self._lock:
            missing = self._last - place
            if missing > len(self._kept):
                return None
            return list(self._kept)[len(self._kept) - missing :] if missing else [], self._last

    # As text, for clients that come back

    def mark(self, place: int) -> str:
        """A place as a client remembers it."""
        return f"{self.life}-{place}"

    def place_of(self, mark: str) -> int | None:
        """The place that a client remembers; None where it is of another life, or no place at all."""
        life, _, number = mark.partition("-")
        if life != self.life or not (number.isascii() and number.isdecimal() and len(number) < 20):
            return None
        place = int(number)
        return place if place <= self.place else None
