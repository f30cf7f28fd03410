"""What the quick way reads out of brokers' bytes, beside what the client reads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import KafkaConsumer, KafkaProducer
from kafka.consumer.fetcher import IsolationLevel
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.structs import TopicPartition

from service.kafka import guards
from service.kafka.producer import Transactions
from service.kafka.unpacking import _UnpackedRecords, unpack, unpack_quickly

PLACE = TopicPartition("topic", 3)
GZIP = 1

payload = st.none() | st.binary(max_size=300)
header = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5))
records = st.lists(st.tuples(payload, payload, st.integers(0, 2**41), st.lists(header, max_size=2)), max_size=20)


def packed(written, compression: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(2, compression, 0, -1, -1, -1, 10**6)
    for offset, (key, value, timestamp, headers) in enumerate(written):
        builder.append(offset, timestamp, key, value, headers)
    return bytes(builder.build())


@given(records, st.sampled_from([0, GZIP]))
@settings(max_examples=200, deadline=None)
def test_every_record_is_read_as_the_client_reads_it(written, compression):
    data = packed(written, compression)
    theirs = [(one.offset, one.timestamp, one.key, one.value) for one in DefaultRecordBatch(data)]
    assert [("topic", 3, *one) for one in theirs] == [tuple(one) for one in unpack(PLACE, DefaultRecordBatch(data))]


@given(records.filter(bool), st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_bytes_are_an_error_or_records_and_never_anything_else(written, data):
    damaged = bytearray(packed(written))
    place = data.draw(st.integers(DefaultRecordBatch.HEADER_STRUCT.size, len(damaged) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    try:
        found = list(unpack(PLACE, DefaultRecordBatch(damaged)))
    except CorruptRecordError:
        return
    assert len(found) == len(written)


@pytest.mark.parametrize("short_of", [1, 5])
def test_a_batch_that_ends_within_a_record_is_an_error(short_of):
    data = packed([(b"key", b"value", 1, [])])
    with pytest.raises(CorruptRecordError, match="topic"):
        list(unpack(PLACE, DefaultRecordBatch(data[:-short_of])))


def test_aborted_transactions_gaps_and_ends_of_transactions_are_passed_over_as_by_the_client(
    connection, topic, transactional_id
):
    name = topic()
    producer = Transactions(connection, transactional_id)
    for number in range(6):
        producer.begin()
        for i in range(3):
            producer.send(name, None if i == 0 else b"key", b"%d-%d" % (number, i), 0)
        producer._outbox.producer.flush()
        if number % 2:
            producer._outbox.producer.abort_transaction()
        else:
            producer._outbox.producer.commit_transaction()
    producer.close()

    for isolation, expected in (("read_committed", 9), ("read_uncommitted", 18)):
        ours, theirs = (
            [
                (one.topic, one.partition, one.offset, one.timestamp, one.key, one.value)
                for one in read_all(connection, name, quickly, isolation_level=isolation, max_poll_records=2)
            ]
            for quickly in (True, False)
        )
        assert len(ours) == expected
        assert ours == theirs


def read_all(connection, name: str, quickly: bool = True, **settings) -> list[tuple]:
    """All records of a topic of one partition, unpacked quickly or as the client does it."""
    consumer = connection.build(KafkaConsumer, auto_offset_reset="earliest", **settings)
    if quickly:
        unpack_quickly(consumer)
    place = TopicPartition(name, 0)
    consumer.assign([place])
    found: list[tuple] = []
    end = consumer.end_offsets([place])[place]
    while consumer.position(place) < end:
        for batch in consumer.poll(timeout_ms=200).values():
            found += batch
    consumer.close()
    return found


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_topics_are_read(connection, topic, codec):
    name = topic()
    producer = connection.build(KafkaProducer, compression_type=codec, linger_ms=50)
    sent = [(b"sensor-%d" % (i % 7), b'{"value":%d}' % i) for i in range(3000)]
    for key, value in sent:
        producer.send(name, value, key, partition=0)
    producer.flush()
    producer.close()
    assert [(record.key, record.value) for record in read_all(connection, name)] == sent


@pytest.mark.parametrize("kind", [_UnpackedRecords, guards.PartitionRecords])
def test_marks_of_transactions_that_compaction_has_emptied_are_passed_over(kind):
    """Brokers keep such a batch, without its record, as the last trace of a producer."""
    mark = bytearray(DefaultRecordBatchBuilder(2, 0, 1, 77, 0, 5, 10**6).build())
    header = DefaultRecordBatch.HEADER_STRUCT
    fields = list(header.unpack_from(mark))
    assert fields[-1] == 0  # records
    fields[5] |= DefaultRecordBatch.CONTROL_MASK
    header.pack_into(mark, 0, *fields)
    records = MemoryRecords(bytes(mark) + packed([(None, b"one", 1, [])]))
    unpacked = kind(0, PLACE, records, isolation_level=IsolationLevel.READ_COMMITTED, check_crcs=False)
    assert [one.value for one in unpacked.take()] == [b"one"]


@pytest.mark.parametrize("kind", [_UnpackedRecords, guards.PartitionRecords])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [0, GZIP])
def test_formats_from_before_kafka_0_11_are_read(kind, magic, compression):
    builder = LegacyRecordBatchBuilder(magic, compression, 10**6)
    written = [(b"key", b"one"), (None, b"two"), (b"key", None)]
    for offset, (key, value) in enumerate(written):
        builder.append(offset, 1_700_000_000_000 + offset, key, value)
    records = MemoryRecords(bytes(builder.build()))
    unpacked = kind(0, PLACE, records, isolation_level=IsolationLevel.READ_COMMITTED)
    found = []
    while unpacked:
        found += unpacked.take(2)
    began = 1_700_000_000_000
    assert [(one.offset, one.timestamp, one.key, one.value) for one in found] == [
        (offset, began + offset if magic else found[0].timestamp, key, value)
        for offset, (key, value) in enumerate(written)
    ]
    assert unpacked.next_fetch_offset == 3
