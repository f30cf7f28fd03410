"""What the quick way reads out of brokers' bytes, beside what the client reads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import KafkaConsumer
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.structs import TopicPartition

from service.kafka.producer import Transactions
from service.kafka.unpacking import unpack, unpack_quickly

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

    def read(isolation: str, quickly: bool) -> list[tuple]:
        consumer = connection.build(
            KafkaConsumer, isolation_level=isolation, auto_offset_reset="earliest", max_poll_records=2
        )
        if quickly:
            unpack_quickly(consumer)
        place = TopicPartition(name, 0)
        consumer.assign([place])
        found: list[tuple] = []
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            for batch in consumer.poll(timeout_ms=200).values():
                found += [(one.topic, one.partition, one.offset, one.timestamp, one.key, one.value) for one in batch]
        consumer.close()
        return found

    for isolation, expected in (("read_committed", 9), ("read_uncommitted", 18)):
        ours = read(isolation, quickly=True)
        assert len(ours) == expected
        assert ours == read(isolation, quickly=False)
