"""What the tests against brokers do again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kafka import KafkaProducer

from service.kafka.changelog import ChangelogReader, KeyedValue
from service.kafka.connection import Connection
from service.kafka.consumer import Subscription
from service.runtime.log import TopicPartition


def produce(connection: Connection, topic: str, values: list[bytes], partition: int = 0, **options: Any) -> None:
    """Plain records, outside our own code."""
    producer = connection.build(KafkaProducer)
    for value in values:
        producer.send(topic, value, partition=partition, **options)
    producer.flush()
    producer.close()


def read_partition(
    connection: Connection, topic: str, partition: int, until: int | None = None
) -> Iterator[KeyedValue]:
    """Committed records of a partition."""
    with ChangelogReader(connection) as reader:
        yield from reader.read(topic, partition, until)


def committed_values(connection: Connection, topic: str, partition: int = 0) -> list[bytes | None]:
    return [value for _, value, _ in read_partition(connection, topic, partition)]


def poll_until(subscription: Subscription, done: Callable[[], bool], seconds: float = 15.0) -> list[Any]:
    """Poll until ``done()``, and return the records that came."""
    records: list[Any] = []
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "nothing came"
        for batch in subscription.poll(0.1).values():
            records += batch
    return records


def join(subscription: Subscription, count: int) -> set[TopicPartition]:
    """Poll until ``count`` partitions are ours, go to their start and resume them."""
    poll_until(subscription, lambda: len(subscription.assignment()) == count)
    assigned = subscription.take_changes().assigned
    subscription.locate(assigned)
    subscription.resume(assigned)
    return assigned


def receive(subscription: Subscription, count: int, seconds: float = 15.0) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        for batch in subscription.poll(0.1).values():
            records += batch
    return records


def in_background(act: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def after(seconds: float, act: Callable[[], Any]) -> threading.Thread:
    def work() -> None:
        time.sleep(seconds)
        act()

    return in_background(work)
