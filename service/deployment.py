"""Where a configured service keeps its records, for commands that read them or write operations beside it.

Everything that differs between a service on Kafka and one in a SQLite file is asked of a ``Deployment``.
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
    """A configured service, whether it runs or not."""

    mode: Literal["kafka", "embedded"]
    output: str  # where states and events are, in words

    def operations(self) -> Operations:
        """Open what mutes, resets and the like are written to."""
        ...

    def control(self) -> AbstractContextManager[FollowedControl]:
        """Open the control records for reading."""
        ...

    def events(self, *, from_beginning: bool, until_end: bool) -> Generator[tuple[bytes, int], None, None]:
        """Yield events with the times of their commits (ms): those to come, or from the first that is kept."""
        ...

    def messages(self, *, with_states: bool, earlier: int, is_over: Callable[[], bool]) -> Iterator[bytes | None]:
        """Yield states and events as they come, after the last ``earlier`` events; None if there is nothing new."""
        ...

    def dead_letters(self) -> Generator[tuple[bytes, int], None, None]:
        """Yield the dead letters that are kept, with the times of their commits (ms)."""
        ...

    def stored(self, sensor: str) -> AbstractContextManager[Iterator[StoredSensor[Any]]]:
        """Open what is stored of a sensor: one item for each partition that it can be in."""
        ...


def deployment_of(settings: Settings) -> Deployment:
    """Return the deployment that the settings describe."""
    if settings.source.is_kafka:
        from service.kafka.deployment import KafkaDeployment

        return KafkaDeployment(settings)
    from service.embedded.deployment import EmbeddedDeployment

    return EmbeddedDeployment(settings)
