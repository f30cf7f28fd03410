"""What sinks remember, on a compacted topic of one partition: any host that takes a sink over reads it there."""

from __future__ import annotations

import logging
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from service.kafka import guards
from service.kafka.connection import Connection
from service.kafka.control import TopicFollower
from service.operations.control import Changes

log = logging.getLogger(__name__)

_WRITTEN_WITHIN = 15.0


class _RecordBook:
    """The latest records whose keys begin with ``prefix``, without it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.records: dict[str, bytes] = {}

    def apply(self, changes: Changes) -> None:
        for key, value in changes.items():
            if not key.startswith(self._prefix):
                continue
            if value is None:
                self.records.pop(key.removeprefix(self._prefix), None)
            else:
                self.records[key.removeprefix(self._prefix)] = value


class SinkRecords:
    """One sink's records, under keys that begin with its consumer group and a slash."""

    def __init__(self, connection: Connection, topic: str, group: str) -> None:
        self._connection, self._topic, self._prefix = connection, topic, f"{group}/"
        self._follower = TopicFollower(connection, topic, _RecordBook(self._prefix))
        self._producer: Any = None  # built for the first record
        self._unsaved: dict[str, bytes | None] = {}

    def read(self) -> dict[str, bytes]:
        """Return all records, those of other hosts included; ReadStalled if the brokers do not answer."""
        self._follower.catch_up()
        merged = {**self._follower.book.records, **self._unsaved}
        return {key: value for key, value in merged.items() if value is not None}

    def write(self, changes: Changes) -> bool:
        """Write records; returns whether the brokers have them. If not, they go with the next ones."""
        self._unsaved |= changes
        if not self._unsaved:
            return True
        try:
            if self._producer is None:
                self._producer = self._connection.build(KafkaProducer, acks="all", metrics_enabled=False)
            sent = [
                self._producer.send(self._topic, value, (self._prefix + key).encode(), partition=0)
                for key, value in self._unsaved.items()
            ]
            for one in sent:
                one.get(timeout=_WRITTEN_WITHIN)
        except KafkaError as error:
            log.warning(
                "records of sink group %s are not saved: %s: %s", self._prefix[:-1], type(error).__name__, error
            )
            self._discard()
            return False
        self._unsaved = {}
        return True

    def close(self) -> None:
        self._discard()
        self._follower.close()

    def _discard(self) -> None:
        """A new producer sends nothing of the old one's that waits, so that records keep their order."""
        if self._producer is not None:
            guards.close(self._producer, 1.0)
            self._producer = None
