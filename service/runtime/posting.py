"""Readings posted over HTTP, and the possible answers of a log."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class PostedReading(NamedTuple):
    """A posted reading that was checked: its sensor, and its bytes as received."""

    sensor: str
    value: bytes


class Behind(Exception):
    """Too many readings are waiting. The client has to come back later."""


class NotTaken(Exception):
    """This service takes no posted readings. The message has the reason."""


class PostingTarget(Protocol):
    """Takes posted readings. Any thread may call it."""

    def post(self, readings: list[PostedReading], received: int) -> int:
        """Return the offset of the last reading when all are durable. ``received``: milliseconds since the epoch."""
        ...
