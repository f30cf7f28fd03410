"""Cycles that go well, and those that must not be committed. No broker is harmed here."""

from __future__ import annotations

import contextlib
import time

import pytest
from kafka.errors import KafkaTimeoutError
from kafka_helpers import committed_values, join, produce, receive

from service.kafka import guards
from service.kafka.connection import Connection
from service.kafka.consumer import MemberReplaced, Subscription
from service.kafka.producer import AtLeastOnce, CycleAborted, ProducerLost, RecordTooLarge, Transactions


@pytest.fixture
def source(topic, connection) -> str:
    name = topic()
    produce(connection, name, [b"0", b"1", b"2"])
    return name


@pytest.fixture
def subscription(connection: Connection, group: str, source: str):
    subscription = Subscription(connection, group, [source], start_from="earliest")
    join(subscription, 1)
    assert len(receive(subscription, 3)) == 3
    yield subscription
    subscription.close()


@pytest.fixture
def producer(connection, transactional_id):
    producer = Transactions(connection, transactional_id)
    yield producer
    producer.close()


def test_records_and_offsets_are_committed_together(connection, producer, subscription, source, topic):
    output = topic()
    producer.begin()
    producer.send(output, b"k", b"v", partition=0, timestamp_ms=1234, headers=[("h", b"1")])
    assert subscription.committed([(source, 0)]) == {}
    producer.commit({(source, 0): (3, "oldest=1")}, subscription.group_metadata())
    assert subscription.committed([(source, 0)]) == {(source, 0): (3, "oldest=1")}
    assert committed_values(connection, output) == [b"v"]


def test_aborted_cycle_leaves_nothing_and_the_next_one_works(connection, producer, subscription, source, topic):
    output = topic()
    producer.begin()
    producer.send(output, None, b"dropped")
    producer.abort()
    producer.begin()
    producer.send(output, None, b"kept")
    producer.commit({(source, 0): (1, "")}, subscription.group_metadata())
    assert committed_values(connection, output) == [b"kept"]


def test_failed_record_keeps_the_cycle_from_being_committed(
    connection, producer, subscription, source, topic, transactional_id
):
    output = topic()
    producer.begin()
    producer.send(output, None, b"arrives")
    producer.send(output, None, b"fails")
    future, _ = producer._outbox._pending[-1]
    future.get(timeout=5)
    future.is_done, future.exception = True, KafkaTimeoutError("expired")  # as the client does to a batch that expired
    with pytest.raises(ProducerLost, match="expired"):
        producer.commit({(source, 0): (3, "")}, subscription.group_metadata())
    Transactions(connection, transactional_id).close()
    assert subscription.committed([(source, 0)]) == {}
    assert committed_values(connection, output) == []


def test_second_producer_with_the_same_id_shuts_the_first_one_out(
    connection, producer, subscription, source, topic, transactional_id
):
    output = topic()
    producer.begin()
    producer.send(output, None, b"zombie")
    successor = Transactions(connection, transactional_id)
    with pytest.raises(ProducerLost):
        producer.commit({(source, 0): (3, "")}, subscription.group_metadata())
    with pytest.raises(ProducerLost):
        producer.abort()
    with pytest.raises(ProducerLost):
        producer.begin()
    successor.begin()
    successor.send(output, None, b"successor")
    successor.commit({(source, 0): (2, "")}, subscription.group_metadata())
    successor.close()
    assert committed_values(connection, output) == [b"successor"]
    assert subscription.committed([(source, 0)]) == {(source, 0): (2, "")}


def test_offsets_of_a_refused_cycle_do_not_come_with_the_next_one(
    connection, producer, subscription, source, topic, group
):
    """The client would send them again: a worker that came back set offsets of partitions that were another's now."""
    other = topic()
    member = subscription.group_metadata()
    stale = member._replace(generation_id=member.generation_id + 7)
    producer.begin()
    with pytest.raises(CycleAborted):
        producer.commit({(source, 0): (1, "stale")}, stale)
    producer.begin()
    producer.commit({(other, 0): (5, "")}, member)
    assert subscription.committed([(source, 0), (other, 0)]) == {(other, 0): (5, "")}


def test_member_that_knows_it_was_shut_out_commits_nothing(connection, producer, subscription, source, topic, group):
    """Its client then signs without a generation, and brokers take that for a commit outside of groups."""
    output = topic()
    producer.begin()
    producer.send(output, None, b"somebody else's to say")
    subscription._consumer._coordinator.reset_generation()  # as the client does when its heartbeat is refused
    with pytest.raises(CycleAborted, match="no longer a member"):
        producer.commit({(source, 0): (3, "")}, subscription.group_metadata())
    assert committed_values(connection, output) == []
    assert subscription.committed([(source, 0)]) == {}


def test_member_gone_from_the_group_aborts_the_cycle_only(connection, producer, subscription, source, topic, group):
    output = topic()
    gone = subscription.group_metadata()
    producer.begin()
    producer.send(output, None, b"too late")
    subscription.close()
    with pytest.raises(CycleAborted, match="no longer a member"):
        producer.commit({(source, 0): (3, "")}, gone)
    successor = Subscription(connection, group, [source], start_from="earliest")
    join(successor, 1)
    producer.begin()
    producer.send(output, None, b"in time")
    producer.commit({(source, 0): (3, "")}, successor.group_metadata())
    assert committed_values(connection, output) == [b"in time"]
    assert successor.committed([(source, 0)]) == {(source, 0): (3, "")}
    successor.close()


def test_record_that_is_too_large_does_not_spoil_its_cycle(connection, producer, topic):
    output = topic()
    producer.begin()
    with pytest.raises(RecordTooLarge, match=r"2,000,\d+ bytes"):
        producer.send(output, None, b"x" * 2_000_000)
    producer.send(output, None, b"small")
    producer.commit({}, None)
    assert committed_values(connection, output) == [b"small"]


def test_unknown_topic_ends_in_an_error_not_in_silence(connection, transactional_id):
    producer = Transactions(connection, transactional_id, max_block_ms=1000)
    producer.begin()
    with pytest.raises(ProducerLost, match="no-such-topic"):
        producer.send("no-such-topic", None, b"v")
    producer.close()


def test_bytes_in_flight_are_bounded(connection, transactional_id, topic):
    output = topic()
    producer = Transactions(connection, transactional_id, max_bytes_in_flight=200_000)
    producer.begin()
    most = 0
    for _ in range(300):
        producer.send(output, None, b"x" * 10_000)
        most = max(most, producer.bytes_in_flight)
    producer.commit({}, None)
    producer.close()
    assert 100_000 < most <= 200_000
    assert len(committed_values(connection, output)) == 300


def test_at_least_once_commits_offsets_after_the_records(connection, subscription, source, topic):
    output = topic()
    producer = AtLeastOnce(connection, subscription)
    producer.begin()
    producer.send(output, b"k", b"v")
    producer.commit({(source, 0): (2, "note")}, subscription.group_metadata())
    producer.close()
    assert subscription.committed([(source, 0)]) == {(source, 0): (2, "note")}
    assert committed_values(connection, output) == [b"v"]


@pytest.mark.parametrize("exactly_once", [True, False])
def test_replaced_static_member_cannot_commit(connection, group, source, topic, transactional_id, exactly_once):
    first = Subscription(connection, group, [source], group_instance_id="same", start_from="earliest")
    join(first, 1)
    producer = Transactions(connection, transactional_id) if exactly_once else AtLeastOnce(connection, first)
    second = Subscription(connection, group, [source], group_instance_id="same", start_from="earliest")
    join(second, 1)
    output = topic()

    def work_as_before():
        """It hears of it from this commit or, where the group told it first that something changes, from a poll."""
        for _ in range(20):
            producer.begin()
            producer.send(output, None, b"v")
            with contextlib.suppress(CycleAborted):
                producer.commit({(source, 0): (2, "")}, first.group_metadata())
                return
            first.poll(0.5)

    with pytest.raises(MemberReplaced, match="instance id"):
        work_as_before()
    assert second.committed([(source, 0)]) == {}
    producer.close()
    first.close(0.5)
    second.close()


def test_guards_fit_the_installed_client(producer):
    guards.require_client_version()
    guards.require_private_names(producer._outbox.producer)
    assert producer._outbox.producer._sender._client.await_ready.__name__ == "patient"


def test_another_client_version_is_refused(monkeypatch):
    monkeypatch.setattr("kafka.__version__", "3.1.0")
    with pytest.raises(ImportError, match=r"kafka-python==3\.0\.12"):
        Connection(["localhost:9092"])


def test_a_small_cycle_takes_milliseconds(producer, subscription, source, topic):
    """Guards the retry settings: by default every fifth cycle waits 100 ms for the one before."""
    output = topic()
    took = []
    for _ in range(30):
        started = time.monotonic()
        producer.begin()
        producer.send(output, None, b"v", partition=0)
        producer.commit({(source, 0): (3, "")}, subscription.group_metadata())
        took.append(time.monotonic() - started)
    assert sorted(took)[len(took) // 2] < 0.2
