"""The demo plant on a Kafka topic, for ``make run-kafka``."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka import KafkaProducer

from service.kafka.connection import Connection
from service.sources.plant import record, ticks


def produce(
    connection: Connection, topic: str, rate: float, seed: int,
    planted: Callable[[str, str], None], is_over: Callable[[], bool] = lambda: False,
) -> None:  # fmt: skip
    """Send readings, ``rate`` a second from each sensor, until it is over; tells of the changes in them."""
    producer = connection.build(KafkaProducer, metrics_enabled=False, linger_ms=5)
    due = time.monotonic()
    try:
        for step in ticks(seed):
            now = round(time.time(), 3)
            for sensor, value, change in step:
                producer.send(topic, record(sensor, now, value), sensor.encode())
                if change is not None:
                    planted(change.sensor, change.words)
            due += 1.0 / rate
            while (wait := due - time.monotonic()) > 0:
                if is_over():
                    return
                time.sleep(min(wait, 0.1))
            if is_over():
                return
    finally:
        producer.flush(timeout=5)
        producer.close(timeout=5)
