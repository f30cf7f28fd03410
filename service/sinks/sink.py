"""What a sink is given and what it answers."""

from __future__ import annotations

import hashlib
from typing import NamedTuple, Protocol

import msgspec

from service.wire import messages


class Outgoing(NamedTuple):
    """An event as sinks are given it."""

    id: str
    revision: int
    sensor: str
    body: bytes  # one JSON object with id and revision in it, without line breaks

    @property
    def key(self) -> str:
        """The same whenever this revision of this event is sent."""
        return f"{self.id}.{self.revision}"


def outgoing(event: messages.Event | messages.Incident, value: bytes) -> Outgoing:
    """Return the event with its bytes on the topic. A notice has no id there: it gets one made of its content."""
    if isinstance(event, messages.Incident):
        return Outgoing(event.id, event.revision, event.group, value)
    if not isinstance(event, messages.Notice):
        return Outgoing(event.id, event.revision, event.sensor, value)
    said = msgspec.json.encode([event.sensor, event.generation, event.kind, event.time])
    name = hashlib.blake2b(said, digest_size=12).hexdigest()
    fields = {"type": None, "version": None, "id": name, "revision": 0}
    return Outgoing(name, 0, event.sensor, msgspec.json.encode(fields | msgspec.to_builtins(event)))


class TryAgain(Exception):
    """The event did not arrive, and may the next time. ``after``: seconds that the receiver asked to wait."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


class DeliveryRefused(Exception):
    """The receiver will never take this event."""


class Sink(Protocol):
    """Sends one event, once. Returns when the receiver has it."""

    def send(self, event: Outgoing) -> None: ...

    def close(self) -> None: ...
