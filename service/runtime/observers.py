"""Committed cycles, and the interface of their observers: the log of dead letters, the API, the page, the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from service.sensors.counts import CycleCounts
from service.sensors.records import Outbound
from service.wire.messages import Event


class CommittedCycle(NamedTuple):
    """A committed cycle."""

    counts: CycleCounts
    outputs: Sequence[Outbound]
    forgotten: Sequence[str]  # sensors
    oldest: Sequence[int]  # timestamp of each partition's first record, milliseconds


class StoredEvent(NamedTuple):
    """A committed event, with its number in the order of events."""

    seq: int
    committed: int  # milliseconds since the epoch
    event: Event


class Observer(Protocol):
    """Gets committed cycles. The worker's thread calls it."""

    def committed(self, cycle: CommittedCycle) -> None: ...

    def idle(self) -> None:
        """Called after a cycle that had nothing to commit."""
        ...
