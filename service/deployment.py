"""The storage of a configured service, for commands that read its records or write operations beside it.

``Deployment`` covers everything that differs between a service on Kafka and one in a SQLite file.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from service.operations.actions import Operations
from service.operations.control import ControlBook
from service.runtime.log import StoredSensor
from service.settings import Settings


class FollowedControl(Protocol):
    """Control records, read again at each ``poll``."""

    @property
    def book(self) -> ControlBook: ...

    def poll(self) -> object: ...


class Deployment(Protocol):
    """A configured service, whether it is running or not."""

    mode: Literal["kafka", "embedded"]
    output: str  # where states and events are, for messages to people

    def operations(self) -> Operations:
        """Open the place to which mutes, resets and the like are written."""
        ...

    def control(self) -> AbstractContextManager[FollowedControl]:
        """Open the control records for reading."""
        ...

    def events(self, *, from_beginning: bool, until_end: bool) -> Generator[tuple[bytes, int], None, None]:
        """Yield events with the times of their commits (ms): new ones only, or from the first one that is kept."""
        ...

    def messages(self, *, with_states: bool, earlier: int, is_over: Callable[[], bool]) -> Iterator[bytes | None]:
        """Yield states and events as they come, and the last ``earlier`` events first. Yields None if there is nothing
        new."""
        ...

    def dead_letters(self) -> Generator[tuple[bytes, int], None, None]:
        """Yield the dead letters that are kept, with the times of their commits (ms)."""
        ...

    def stored(self, sensor: str) -> AbstractContextManager[Iterator[StoredSensor[Any]]]:
        """Open a sensor's stored data: one item for each partition that may have the sensor."""
        ...


def deployment_of(settings: Settings) -> Deployment:
    """Return the deployment that the settings describe."""
    if settings.source.is_kafka:
        from service.kafka.deployment import KafkaDeployment

        return KafkaDeployment(settings)
    from service.embedded.deployment import EmbeddedDeployment

    return EmbeddedDeployment(settings)
