"""Reading a stretch of a partition, as a restore does: a changelog from its start, input that is not in it yet."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from service.kafka import unpacking
from service.kafka.connection import REQUEST_MS, Connection

STALLED_SECONDS = 60.0  # twice what an open transaction of a killed worker may last

KeyedValue = tuple[bytes | None, bytes | None, int]  # key, value, offset


class ReadStalled(Exception):
    """A partition could not be read to its end; try again later."""


class ChangelogReader:
    """Reads one partition after the other; kept open, as connecting takes longer than reading a small one.
    ``quickly``: for many records, see ``unpack_quickly``."""

    def __init__(self, connection: Connection, quickly: bool = False) -> None:
        self._probe = connection.consumer(isolation_level="read_uncommitted")
        self._consumer = connection.consumer(
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_poll_records=5_000,
            fetch_max_bytes=64 * 1024 * 1024,
            max_partition_fetch_bytes=16 * 1024 * 1024,
            fetch_max_wait_ms=100,
        )
        if quickly:
            unpacking.unpack_quickly(self._consumer)

    def beginning(self, topic: str, partition: int) -> int:
        """The first offset that the partition still has."""
        place = TopicPartition(topic, partition)
        try:
            return int(self._probe.beginning_offsets([place], timeout_ms=REQUEST_MS)[place])
        except KafkaError as error:
            raise ReadStalled(f"the start of {topic}[{partition}]: {type(error).__name__}: {error}") from error

    def high_watermark(self, topic: str, partition: int) -> int:
        """One past the last offset, open transactions included: under read_committed the end would be before them."""
        place = TopicPartition(topic, partition)
        try:
            return int(self._probe.end_offsets([place], timeout_ms=REQUEST_MS)[place])
        except KafkaError as error:
            raise ReadStalled(f"the end of {topic}[{partition}] is unknown: {type(error).__name__}: {error}") from error

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int:
        """The first offset whose record has this timestamp or a later one; the end where none has."""
        place = TopicPartition(topic, partition)
        try:
            found = self._probe.offsets_for_times({place: time_ms}, timeout_ms=REQUEST_MS)[place]
        except KafkaError as error:
            raise ReadStalled(f"times of {topic}[{partition}]: {type(error).__name__}: {error}") from error
        return self.high_watermark(topic, partition) if found is None else int(found.offset)

    def is_settled(self, topic: str, partition: int) -> bool:
        """Whether the partition ends without an open transaction, so that reading it does not wait for one."""
        end = self.high_watermark(topic, partition)
        place = TopicPartition(topic, partition)
        try:
            return int(self._consumer.end_offsets([place], timeout_ms=REQUEST_MS)[place]) >= end
        except KafkaError as error:
            raise ReadStalled(f"the end of {topic}[{partition}] is unknown: {type(error).__name__}: {error}") from error

    def read(self, topic: str, partition: int, until: int | None = None) -> Iterator[KeyedValue]:
        """Committed records of a partition from its start up to ``until`` (default: the high watermark).

        Waits for transactions that are open at the end: their records may yet be committed. The last offsets often
        are no records at all but markers of transactions, so the end is judged by the position, not by a record.
        """
        if until is None:
            until = self.high_watermark(topic, partition)
        for record in self.records(topic, partition, None, until):
            yield record.key, record.value, record.offset

    def records(self, topic: str, partition: int, first: int | None, until: int) -> Iterator[unpacking.ConsumedRecord]:
        """The records of a partition from ``first`` (None: its start) up to ``until``."""
        try:
            yield from self._read(TopicPartition(topic, partition), first, until)
        except KafkaError as error:
            raise ReadStalled(f"{topic}[{partition}]: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        self._probe.close()
        self._consumer.close()

    def __enter__(self) -> ChangelogReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _read(self, place: TopicPartition, first: int | None, until: int) -> Iterator[unpacking.ConsumedRecord]:
        consumer = self._consumer
        consumer.assign([place])
        beginning = consumer.beginning_offsets([place], timeout_ms=REQUEST_MS)[place]
        consumer.seek(place, beginning if first is None else max(first, beginning))
        moved, at = time.monotonic(), -1
        while (position := consumer.position(place, timeout_ms=REQUEST_MS)) is None or position < until:
            for record in consumer.poll(timeout_ms=200).get(place, ()):
                if record.offset >= until:
                    return
                yield record
            if position != at:
                moved, at = time.monotonic(), position
            elif time.monotonic() - moved > STALLED_SECONDS:
                raise ReadStalled(
                    f"{place.topic}[{place.partition}] ends at {until}, but nothing comes after {position}"
                )
