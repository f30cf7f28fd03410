"""The interface between the API and the service around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute

from service.api.answers import NumberedEvent, SensorEntry, SensorPosterior
from service.api.session import Session
from service.runtime.observers import StoredEvent
from service.runtime.posting import PostedReading
from service.wire.messages import Event

if TYPE_CHECKING:
    from service.api.requests import Bodies


class Busy(Exception):
    """The worker did not answer in time."""


class EventPages(Protocol):
    """Return the events after the first number and before the second, of a sensor or with a status."""

    def __call__(
        self, between: tuple[int, int], limit: int, sensor: str | None, status: str | None, newest_first: bool
    ) -> list[StoredEvent]: ...


class Backend(NamedTuple):
    """The functions behind the API's routes. All may be called from any thread."""

    registry: CollectorRegistry  # for the metrics
    is_alive: Callable[[], bool]
    is_ready: Callable[[], bool]
    post: Callable[[list[PostedReading], int], int]  # see ``runtime.posting.PostingTarget``
    events: EventPages
    sensor: Callable[[str], SensorPosterior | None]
    sensors: Callable[[str, int], list[SensorEntry]]  # sorted by name, after a name, at most this many
    hint: str = ""  # added to the error if a sensor is not found


class Front(Protocol):
    """A service that holds the whole fleet adds this to the API: more routes, which come first, and the page."""

    def routes(self, bodies: Bodies, session: Session | None, streams_per_address: int) -> list[BaseRoute]: ...

    def is_open(self, path: str) -> bool:
        """Return whether a path holds no secrets and needs no token."""
        ...

    def numbered(self, seq: int, committed: int, event: Event) -> NumberedEvent: ...

    def close(self) -> None:
        """End the streams, which do not end by themselves."""
        ...
