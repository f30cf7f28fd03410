"""Readings that were posted over HTTP, and what a log may answer."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class PostedReading(NamedTuple):
    """A reading that was posted, checked: its sensor, and its bytes as they came."""

    sensor: str
    value: bytes


class Behind(Exception):
    """Too much waits already: the client is to come back later."""


class NotTaken(Exception):
    """This service takes no readings here, and why."""


class PostingTarget(Protocol):
    """Takes posted readings. Any thread may call it."""

    def post(self, readings: list[PostedReading], received: int) -> int:
        """Return the offset of the last one when all are durable. ``received``: milliseconds since the epoch."""
        ...
