"""Reading a partition to its end, wherever its end is."""

from __future__ import annotations

import time

import local_broker
import pytest
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition
from kafka_helpers import after, committed_values, produce, read_partition
from worker_helpers import eventually

from service.kafka import topics
from service.kafka.changelog import ChangelogReader
from service.kafka.connection import Connection
from service.kafka.producer import Transactions


def test_empty_partition(connection, topic):
    assert list(read_partition(connection, topic(), 0)) == []


def test_records_come_with_key_value_and_offset(connection, topic):
    name = topic(**{"cleanup.policy": "compact"})
    produce(connection, name, [b"1", b"2"], key=b"k")
    produce(connection, name, [None], key=b"gone")
    assert list(read_partition(connection, name, 0)) == [(b"k", b"1", 0), (b"k", b"2", 1), (b"gone", None, 2)]
    assert [offset for _, _, offset in read_partition(connection, name, 0, until=2)] == [0, 1]


def test_one_reader_reads_several_partitions(connection, topic):
    name = topic(3)
    for partition in range(3):
        produce(connection, name, [b"%d" % partition] * 10, partition)
    with ChangelogReader(connection) as reader:
        for partition in (2, 0, 1, 2):
            assert [value for _, value, _ in reader.read(name, partition)] == [b"%d" % partition] * 10


def test_ends_after_markers_and_aborted_records(connection, topic, transactional_id):
    name = topic()
    producer = Transactions(connection, transactional_id)
    for value, end in ((b"kept", "commit"), (b"dropped", "abort")):
        producer.begin()
        producer.send(name, None, value)
        producer._outbox.settle()
        producer.commit({}, None) if end == "commit" else producer.abort()
    producer.close()
    with ChangelogReader(connection) as reader:
        assert reader.high_watermark(name, 0) == 4  # two records, two markers
    assert committed_values(connection, name) == [b"kept"]


def test_waits_for_a_transaction_that_is_open_at_the_end(connection, topic, transactional_id):
    """Under read_committed the partition seems to end before it: a restore would miss what is committed right after."""
    name = topic()
    produce(connection, name, [b"before"])
    producer = Transactions(connection, transactional_id)
    producer.begin()
    producer.send(name, None, b"open")
    producer._outbox.settle()
    started = time.monotonic()
    after(1.0, lambda: producer.commit({}, None))
    assert committed_values(connection, name) == [b"before", b"open"]
    assert time.monotonic() - started > 0.9
    producer.close()


def test_offsets_are_asked_of_a_new_leader(broker_software, tmp_path):
    """Where leaders move and connections stay, the client asked the old one until its time was up, again and again."""
    place = TopicPartition("moving", 0)
    with local_broker.three_nodes(tmp_path) as cluster:
        connection = Connection(cluster.bootstrap)
        topics.create(connection, [topics.TopicSpec("moving", 1, replication=3)])
        produce(connection, "moving", [b"0", b"1"])

        def leader():
            with connection.admin() as admin:
                (told,) = admin.describe_topics(["moving"])
            return told["partitions"][0]["leader_id"]

        with ChangelogReader(connection) as reader:
            assert reader.high_watermark("moving", 0) == 2
            assert reader.is_settled("moving", 0)
            before = leader()
            with connection.admin() as admin:
                admin.alter_partition_reassignments({place: [*({1, 2, 3} - {before}), before]})
                admin.elect_leaders(0, {"moving": [0]})
            eventually(lambda: leader() != before)
            assert reader.high_watermark("moving", 0) == 2
            assert reader.is_settled("moving", 0)
            assert reader.beginning("moving", 0) == 0
            assert [value for _, value, _ in reader.read("moving", 0)] == [b"0", b"1"]

        topics.create(connection, [topics.TopicSpec("alone", 3, replication=1)])
        consumer = connection.consumer()
        places = [TopicPartition("alone", number) for number in range(3)]
        assert consumer.end_offsets(places) == dict.fromkeys(places, 0)
        cluster.nodes[-1].stop()
        with pytest.raises(KafkaTimeoutError):  # in place of an answer that leaves its partition out
            consumer.end_offsets(places, timeout_ms=3_000)
        consumer.close()
