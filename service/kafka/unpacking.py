"""Records out of what brokers send, in a tenth of the client's time: it spends more on a record than we on inference.

The client makes two objects a record and asks each of them for a dozen properties. Here compiled code finds where the
records of a batch lie, and a record is one tuple of what the service looks at. Which batches are delivered (checksums,
aborted transactions, marks at their ends) and how they are uncompressed is the client's business as before, and so are
batches in the formats from before Kafka 0.11.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from kafka import KafkaConsumer
from kafka.consumer.fetcher import IsolationLevel
from kafka.errors import CorruptRecordError
from kafka.structs import TopicPartition

from service.kafka import guards


class ConsumedRecord(NamedTuple):
    """A record as it was read. Its headers are not."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # milliseconds; -1: it has none
    key: bytes | None
    value: bytes | None


def unpack_quickly(consumer: KafkaConsumer) -> None:
    """Let the consumer's polls return ``ConsumedRecord``s."""
    compile_kernels()  # before anybody waits for it
    consumer._fetcher.PartitionRecords = _UnpackedRecords


class _UnpackedRecords(guards.PartitionRecords):
    next_fetch_offset: int

    def take(self, n: int | None = None) -> list[ConsumedRecord]:
        records: list[ConsumedRecord] = super().take(n)
        if records:  # behind the last one, unless it was the last of all and marks follow
            self.next_fetch_offset = max(self.next_fetch_offset, records[-1].offset + 1)
        return records

    def _unpack_records(
        self, place: TopicPartition, records: Any, key_deserializer: None, value_deserializer: None
    ) -> Iterator[Any]:
        batch = None
        while (following := records.next_batch()) is not None:
            batch = following
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(
                    f"{place.topic}[{place.partition}]: checksum of the batch at {batch.base_offset}"
                )
            if batch.magic == 2:
                self.leader_epoch = batch.leader_epoch
                if self._is_aborted(batch) or batch.is_control_batch:  # in this order: marks tell where an abort ends
                    self.next_fetch_offset = batch.next_offset
                    continue
            found = unpack(place, batch) if batch.magic == 2 else _unpack_legacy(place, batch)
            yield from found
            self.records_read += len(found)
            self.bytes_read += batch.size_in_bytes
        if batch is not None and batch.magic == 2:
            self.next_fetch_offset = batch.next_offset  # the last records of a batch may have been compacted away
        self.drain()

    def _is_aborted(self, batch: Any) -> bool:
        if self.isolation_level != IsolationLevel.READ_COMMITTED or not batch.has_producer_id():
            return False
        self._consume_aborted_transactions_up_to(batch.last_offset)
        if self._contains_abort_marker(batch):
            self.aborted_producer_ids.discard(batch.producer_id)
            return False
        return bool(self._is_batch_aborted(batch))


def _unpack_legacy(place: TopicPartition, batch: Any) -> list[ConsumedRecord]:
    """The records of a batch of an old topic, as the client finds them."""
    topic, partition = place
    return [
        ConsumedRecord(topic, partition, one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value)
        for one in batch
    ]


def unpack(place: TopicPartition, batch: Any) -> list[ConsumedRecord]:
    """The records of a batch (magic 2), which is not looked at in another way."""
    batch._maybe_uncompress()
    data, count = bytes(batch._buffer), batch.records_count
    topic, partition = place
    base, began = batch.base_offset, batch.first_timestamp
    appended = batch.max_timestamp if batch.timestamp_type == batch.LOG_APPEND_TIME else None
    if not 0 <= count <= len(data):
        raise CorruptRecordError(f"{topic}[{partition}]: the batch at {base} cannot hold {count} records")
    places, end = _find_records(data, batch._pos, count)
    if end < 0:
        raise CorruptRecordError(f"{topic}[{partition}]: record {-1 - end} of the batch at {base} has a wrong length")
    if end != len(data):
        raise CorruptRecordError(
            f"{topic}[{partition}]: {len(data) - end} bytes left at the end of the batch at {base}"
        )
    make_record = tuple.__new__  # a named tuple's own constructor takes twice the time
    return [
        make_record(
            ConsumedRecord,
            (
                topic,
                partition,
                base + offset,
                began + later if appended is None else appended,
                data[key_at:key_end] if key_at <= key_end else None,
                data[value_at:value_end] if value_at <= value_end else None,
            ),
        )
        for later, offset, key_at, key_end, value_at, value_end in places.tolist()
    ]


def _find_records(data: bytes, at: int, count: int) -> tuple[np.ndarray, int]:
    from service.kafka.kernels import find_records

    places = np.empty((count, 6), dtype=np.int64)
    return places, find_records(np.frombuffer(data, dtype=np.uint8), at, places)


def compile_kernels() -> None:
    """Compile what unpacking needs, or load it."""
    _find_records(b" ", 0, 0)
