"""What a cycle has committed, and who is told: the log of dead letters, the API, the page, the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from service.sensors.counts import CycleCounts
from service.sensors.records import Outbound
from service.wire.messages import Event


class CommittedCycle(NamedTuple):
    """A cycle that is committed."""

    counts: CycleCounts
    outputs: Sequence[Outbound]
    forgotten: Sequence[str]  # sensors
    oldest: Sequence[int]  # timestamp of each partition's first record, milliseconds


class StoredEvent(NamedTuple):
    """An event that is committed, with its place in the order of events."""

    seq: int
    committed: int  # milliseconds since the epoch
    event: Event


class Observer(Protocol):
    """Called by the worker's thread."""

    def committed(self, cycle: CommittedCycle) -> None: ...

    def idle(self) -> None:
        """A cycle had nothing to commit."""
        ...
