"""What the API asks of a worker, and what a worker may answer instead."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from service.api.answers import SensorEntry, SensorPosterior
from service.metrics import Metrics


class PostedReading(NamedTuple):
    """A reading that was posted, checked: its sensor, and its bytes as they came."""

    sensor: str
    value: bytes


class StoredEvent(NamedTuple):
    """An event with its place in the order of events."""

    seq: int
    committed: int  # milliseconds since the epoch
    value: bytes


class Behind(Exception):
    """Too much waits already: the client is to come back later."""


class NotTaken(Exception):
    """This service takes no readings here, and why."""


class Busy(Exception):
    """No answer within a time that a client waits."""


class Backend(Protocol):
    """A worker as the API sees it. All may be called from any thread."""

    metrics: Metrics
    # said where a sensor is not found
    hint: str

    def is_alive(self) -> bool: ...

    def is_ready(self) -> bool: ...

    def submit(self, readings: list[PostedReading], received: int) -> int: ...  # returns when they are durable

    def events(self, after: int, limit: int, sensor: str | None, status: str | None) -> list[StoredEvent]: ...

    def sensor(self, name: str) -> SensorPosterior | None: ...

    def sensors(self, after: str, limit: int) -> list[SensorEntry]: ...
