"""What the API asks of a worker, and what a worker may answer instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute

from service.api.answers import NumberedEvent, SensorEntry, SensorPosterior
from service.api.session import Session
from service.wire.messages import Event

if TYPE_CHECKING:
    from service.api.requests import Bodies


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


class HasRegistry(Protocol):
    """Metrics that can be asked for."""

    @property
    def registry(self) -> CollectorRegistry: ...


class Backend(Protocol):
    """A worker as the API sees it. All may be called from any thread."""

    @property
    def metrics(self) -> HasRegistry: ...

    # said where a sensor is not found
    hint: str

    def is_alive(self) -> bool: ...

    def is_ready(self) -> bool: ...

    def submit(self, readings: list[PostedReading], received: int) -> int: ...  # returns when they are durable

    def events(
        self, between: tuple[int, int], limit: int, sensor: str | None, status: str | None, newest_first: bool
    ) -> list[StoredEvent]:
        """Those after the first number and before the second, of a sensor or of a status."""
        ...

    def sensor(self, name: str) -> SensorPosterior | None: ...

    def sensors(self, after: str, limit: int) -> list[SensorEntry]: ...


class Front(Protocol):
    """What a service that knows the whole fleet adds to the API: more routes, which come first, and the page."""

    def routes(self, bodies: Bodies, session: Session | None, streams_per_address: int) -> list[BaseRoute]: ...

    def is_open(self, path: str) -> bool:
        """Whether a path holds no secrets and needs no token."""
        ...

    def numbered(self, seq: int, committed: int, event: Event) -> NumberedEvent: ...

    def close(self) -> None:
        """End what has no end of its own: streams."""
        ...
