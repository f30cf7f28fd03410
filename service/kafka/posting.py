"""Readings that were posted over HTTP, on their way to the input topic: answered when all replicas have them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from service.kafka import guards
from service.kafka.input import connection_of
from service.runtime.posting import NotTaken, PostedReading
from service.settings import Settings

log = logging.getLogger(__name__)

_ACKNOWLEDGED_WITHIN = 10.0


class NotStored(Exception):
    """The brokers did not acknowledge; they may still have it."""


class Posting:
    """Writes to the first of the input topics, keyed by sensor. May be used from any thread."""

    def __init__(self, settings: Settings) -> None:
        self._connection = connection_of(settings)
        self._settings = settings
        self._lock = threading.Lock()
        self._producer: Any = None  # built when the first reading comes: most workers are never posted to

    def post(self, readings: Sequence[PostedReading], received: int) -> int:
        """Returns the offset of the last one when all are acknowledged; NotStored where that takes too long."""
        kafka, mapping = self._settings.kafka, self._settings.mapping
        if mapping.format != "ishsmm":
            raise NotTaken(
                f"readings are posted in our own format, but the input topic is read as format = {mapping.format!r} "
                "([mapping]): produce to the topic instead"
            )
        if kafka.topics_pattern is not None:
            raise NotTaken("the input topics are named by a pattern (kafka.topics_pattern): produce to one instead")
        producer = self._built()
        deadline = time.monotonic() + _ACKNOWLEDGED_WITHIN
        try:
            sent = [
                producer.send(kafka.topics[0], one.value, one.sensor.encode(), timestamp_ms=received)
                for one in readings
            ]
            offsets: list[int] = [one.get(timeout=max(0.0, deadline - time.monotonic())).offset for one in sent]
            return offsets[-1]
        except KafkaError as error:
            self._discard(producer)
            raise NotStored(f"the brokers did not acknowledge: {type(error).__name__}") from error

    def close(self) -> None:
        """Done with."""
        self._discard(self._producer)

    def _built(self) -> Any:
        with self._lock:
            if self._producer is None:
                self._producer = self._connection.build(
                    KafkaProducer, acks="all", enable_idempotence=True, linger_ms=5, max_block_ms=5000,
                    # a batch that expires would stall the producer: none expires
                    delivery_timeout_ms=2**31 - 1,
                    allow_auto_create_topics=False, metrics_enabled=False,
                )  # fmt: skip
            return self._producer

    def _discard(self, producer: Any) -> None:
        """One that has failed may stall: the next reading gets a new one."""
        with self._lock:
            if producer is None or producer is not self._producer:
                return
            self._producer = None
        guards.close(producer, 1.0)
