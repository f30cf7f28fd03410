"""Records that a partition takes, and outputs that it publishes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from service.wire import messages
from service.wire.decoding import Decoder
from service.wire.readings import BadRecord, Reading, encode_reading


class InputRecord(Protocol):
    """A record of the input."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...


RecordDecoder = Callable[[Any], list[Reading]]  # decodes one record


def decode_with(decode: Decoder) -> RecordDecoder:
    """Return a decoder of records that all have the same mapping."""
    return lambda record: decode(record.key, record.value, record.timestamp)


class Outbound(NamedTuple):
    """A message to publish. ``kind`` is a key of ``Topics.names``."""

    kind: str
    key: bytes
    message: messages.Message | Reading

    def encoded(self) -> bytes:
        """Return the message as bytes."""
        return encode_reading(self.message) if isinstance(self.message, Reading) else messages.encode(self.message)


def about(sensor: str, *events: messages.Event) -> list[Outbound]:
    """Return a sensor's events as outputs."""
    return [Outbound("events", sensor.encode(), event) for event in events]


def dead_letter(record: InputRecord, bad: BadRecord, reading: int | None = None) -> Outbound:
    """Return the record as a dead letter."""
    letter = messages.dead_letter(
        bad.reason, bad.detail,
        topic=record.topic, partition=record.partition, offset=record.offset, timestamp=record.timestamp,
        key=record.key, value=record.value, reading=reading,
    )  # fmt: skip
    return Outbound("dead_letters", record.key or b"", letter)
