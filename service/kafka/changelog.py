"""Reading a compacted topic from its start to where it stands now, as a restore does."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from service.kafka.connection import REQUEST_MS, Connection

STALLED_SECONDS = 60.0  # twice what an open transaction of a killed worker may last


class ReadStalled(Exception):
    """A partition could not be read to its end."""


def high_watermark(connection: Connection, topic: str, partition: int) -> int:
    """One past the last offset, open transactions included: under read_committed the end would stop before them."""
    place = TopicPartition(topic, partition)
    consumer = connection.build(KafkaConsumer, isolation_level="read_uncommitted", metrics_enabled=False)
    try:
        return int(consumer.end_offsets([place], timeout_ms=REQUEST_MS)[place])
    finally:
        consumer.close()


def read_partition(
    connection: Connection, topic: str, partition: int, until: int | None = None
) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    """Committed (key, value, offset) of a partition, from its start up to ``until`` (default: the high watermark).

    Waits for transactions that are open at the end: their records may yet be committed. The last offsets often are
    no records at all but markers of transactions, so the end is judged by the position, not by a record's offset.
    """
    if until is None:
        until = high_watermark(connection, topic, partition)
    place = TopicPartition(topic, partition)
    consumer = connection.build(
        KafkaConsumer,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        max_poll_records=5_000,
        fetch_max_bytes=64 * 1024 * 1024,
        max_partition_fetch_bytes=16 * 1024 * 1024,
        fetch_max_wait_ms=100,
        metrics_enabled=False,
    )
    try:
        consumer.assign([place])
        consumer.seek(place, consumer.beginning_offsets([place], timeout_ms=REQUEST_MS)[place])
        moved, at = time.monotonic(), -1
        while (position := consumer.position(place, timeout_ms=REQUEST_MS)) is None or position < until:
            for record in consumer.poll(timeout_ms=200).get(place, ()):
                if record.offset >= until:
                    return
                yield record.key, record.value, record.offset
            if position != at:
                moved, at = time.monotonic(), position
            elif time.monotonic() - moved > STALLED_SECONDS:
                raise ReadStalled(f"{topic}[{partition}] cannot be read beyond offset {position}, its end is {until}")
    except KafkaError as error:
        raise ReadStalled(f"{topic}[{partition}]: {type(error).__name__}: {error}") from error
    finally:
        consumer.close()
