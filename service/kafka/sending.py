"""Send records to a topic, outside of any transaction. Brokers acknowledge each record."""

from __future__ import annotations

from collections import deque
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from service.kafka.connection import Connection

# Maximum number of unacknowledged records: the client has no limit of its own.
_MOST_IN_FLIGHT = 20_000
_DELIVERED_WITHIN = 30.0


class SendFailed(Exception):
    """The brokers did not acknowledge a record in time."""


class Sender:
    """Sends records to a topic and counts the acknowledged ones."""

    def __init__(self, connection: Connection, topic: str) -> None:
        connection.check(writes=[topic])
        self._producer: Any = connection.build(
            KafkaProducer, acks="all", linger_ms=5, metrics_enabled=False, allow_auto_create_topics=False,
            delivery_timeout_ms=int(_DELIVERED_WITHIN * 1000),
        )  # fmt: skip
        self._topic = topic
        self._pending: deque[Any] = deque()
        self.sent = self.acknowledged = 0

    def send(self, key: str, value: bytes) -> None:
        """Send a record. Waits for earlier records if many are unacknowledged."""
        if len(self._pending) >= _MOST_IN_FLIGHT:
            self._settle(len(self._pending) // 2)
        try:
            self._pending.append(self._producer.send(self._topic, value, key.encode()))
        except KafkaError as error:
            raise SendFailed(f"{type(error).__name__}: {error}") from error
        self.sent += 1

    def settle(self) -> None:
        """Wait until all records are acknowledged."""
        self._settle(len(self._pending))

    def _settle(self, count: int) -> None:
        for _ in range(count):
            try:
                self._pending[0].get(timeout=_DELIVERED_WITHIN)
            except KafkaError as error:
                raise SendFailed(f"{type(error).__name__}: {error}") from error
            self._pending.popleft()
            self.acknowledged += 1

    def close(self) -> None:
        """Send the records that the client still buffers, for at most 5 seconds."""
        self._producer.close(timeout=5)
