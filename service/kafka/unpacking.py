"""Records out of what brokers send, in a third of the client's time: it spends more on a record than we on inference.

The client makes two objects a record and asks each of them for a dozen properties. Here a record is one tuple of what
the service looks at. Which batches are delivered (checksums, aborted transactions, marks at their ends) is the client's
decision as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher, IsolationLevel
from kafka.errors import CorruptRecordError
from kafka.structs import TopicPartition


class Record(NamedTuple):
    """A record as it was read. Its headers are not."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # milliseconds
    key: bytes | None
    value: bytes | None


def unpack_quickly(consumer: KafkaConsumer) -> None:
    """Let the consumer's polls return ``Record``s."""
    consumer._fetcher.PartitionRecords = _PartitionRecords


class _PartitionRecords(Fetcher.PartitionRecords):
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
            if batch.magic < 2:
                raise CorruptRecordError(
                    f"{place.topic}[{place.partition}]: written in a format from before Kafka 0.11"
                )
            self.leader_epoch = batch.leader_epoch
            if self._is_aborted(batch) or batch.is_control_batch:  # in this order: marks tell where an abort ends
                self.next_fetch_offset = batch.next_offset
                continue
            for record in unpack(place, batch):
                self.records_read += 1
                self.next_fetch_offset = record.offset + 1
                yield record
            self.bytes_read += batch.size_in_bytes
        if batch is not None:
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


def unpack(place: TopicPartition, batch: Any) -> Iterator[Record]:
    """The records of a batch (magic 2), which is not looked at in another way.

    Record: length, attributes, timestamp delta, offset delta, key, value, headers; numbers are zigzag varints, nearly
    all of them of one or two bytes.
    """
    batch._maybe_uncompress()
    data, at = bytes(batch._buffer), batch._pos
    topic, partition = place
    base, began = batch.base_offset, batch.first_timestamp
    appended = batch.max_timestamp if batch.timestamp_type == batch.LOG_APPEND_TIME else None
    make_record = tuple.__new__  # a named tuple's own constructor takes twice the time
    try:
        for _ in range(batch.records_count):
            length, at = _varint(data, at)
            end = at + length
            later, at = _varint(data, at + 1)  # past the attributes, of which there are none
            offset, at = _varint(data, at)
            key_length, at = _varint(data, at)
            key = value = None
            if key_length >= 0:
                key = data[at : at + key_length]
                at += key_length
            value_length, at = _varint(data, at)
            if value_length >= 0:
                value = data[at : at + value_length]
                at += value_length
            if not at < end <= len(data):
                raise CorruptRecordError(
                    f"{topic}[{partition}]: record {offset} of the batch at {base} has a wrong length"
                )
            at = end  # past the headers
            yield make_record(
                Record, (topic, partition, base + offset, began + later if appended is None else appended, key, value)
            )
    except IndexError:
        raise CorruptRecordError(f"{topic}[{partition}]: the batch at {base} ends within a record") from None
    if at != len(data):
        raise CorruptRecordError(f"{topic}[{partition}]: {len(data) - at} bytes left at the end of the batch at {base}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and where the next thing begins."""
    byte = data[at]
    at += 1
    number, shift = byte & 0x7F, 7
    while byte & 0x80:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at
