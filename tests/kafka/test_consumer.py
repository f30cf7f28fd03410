"""Partitions that come and go, and where reading starts."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaProducer
from kafka.structs import TopicPartition
from kafka_helpers import join, poll_until, produce, receive

from service.kafka.consumer import Subscription


def test_new_partitions_are_paused_until_resumed(connection, topic, group):
    name = topic(2)
    produce(connection, name, [b"a"], 0)
    produce(connection, name, [b"b"], 1)
    subscription = Subscription(connection, group, [name], start_from="earliest")
    assert poll_until(subscription, lambda: len(subscription.assignment()) == 2) == []
    assert subscription.poll(0.5) == {}
    changes = subscription.take_changes()
    assert changes.assigned == {(name, 0), (name, 1)} == subscription.paused()
    assert changes.revoked == set()
    assert subscription.take_changes().assigned == set()
    assert subscription.locate(changes.assigned) == {(name, 0): (0, ""), (name, 1): (0, "")}
    subscription.resume([(name, 1), ("not-ours", 7)])
    assert [record.value for record in receive(subscription, 1)] == [b"b"]
    assert subscription.position((name, 1)) == 1
    subscription.seek((name, 1), 0)
    assert [record.value for record in receive(subscription, 1)] == [b"b"]
    subscription.close()


def test_second_member_takes_over_some_partitions_only(connection, topic, group):
    name = topic(4)
    first = Subscription(connection, group, [name], start_from="earliest", heartbeat_interval_ms=300)
    assert join(first, 4) == {(name, number) for number in range(4)}
    second = Subscription(connection, group, [name], start_from="earliest", heartbeat_interval_ms=300)
    deadline = time.monotonic() + 30
    while len(first.assignment()) != 2 or len(second.assignment()) != 2:
        assert time.monotonic() < deadline
        first.poll(0.1)
        second.poll(0.1)
    lost = first.take_changes()
    assert len(lost.revoked) == 2
    assert lost.assigned == set()
    assert second.take_changes().assigned == lost.revoked
    assert first.paused() == set()  # those that stayed go on
    second.close()
    poll_until(first, lambda: len(first.assignment()) == 4)
    assert first.take_changes().assigned == lost.revoked == first.paused()
    first.close()


def test_reading_goes_on_at_the_committed_offset_with_its_metadata(connection, topic, group):
    name = topic()
    produce(connection, name, [b"0", b"1", b"2"])
    first = Subscription(connection, group, [name], start_from="earliest")
    join(first, 1)
    receive(first, 3)
    first.commit({(name, 0): (2, "oldest=1")})
    first.close()
    second = Subscription(connection, group, [name], start_from="earliest")
    poll_until(second, lambda: len(second.assignment()) == 1)
    assert second.locate([(name, 0)]) == {(name, 0): (2, "oldest=1")}
    second.resume([(name, 0)])
    assert [record.value for record in receive(second, 1)] == [b"2"]
    second.close()


@pytest.mark.parametrize(("start_from", "offset"), [("earliest", 0), ("latest", 3), (1_500, 1), (9_999_999, 3)])
def test_start_where_nothing_is_committed(connection, topic, group, start_from, offset):
    name = topic()
    for number, timestamp in enumerate((1_000, 2_000, 3_000)):
        produce(connection, name, [str(number).encode()], timestamp_ms=timestamp)
    subscription = Subscription(connection, group, [name], start_from=start_from)
    poll_until(subscription, lambda: len(subscription.assignment()) == 1)
    assert subscription.locate([(name, 0)]) == {(name, 0): (offset, "")}
    subscription.close()


def test_committed_offset_that_is_gone_is_reported(connection, topic, group, caplog):
    name = topic()
    produce(connection, name, [b"0", b"1", b"2"])
    with connection.admin() as admin:
        admin.delete_records({TopicPartition(name, 0): 2})
    subscription = Subscription(connection, group, [name], start_from="earliest")
    join(subscription, 1)
    subscription.seek((name, 0), 1)
    assert [record.value for record in receive(subscription, 1)] == [b"2"]
    assert "offset 1 is gone, the topic holds 2 to 3" in caplog.text
    assert "deleted unread" in caplog.text
    caplog.clear()
    subscription.seek((name, 0), 10)
    poll_until(subscription, lambda: "going on at 3" in caplog.text)
    subscription.close()


def test_pattern_finds_topics(connection, topic, group):
    first, second = topic(), topic()
    pattern = f"^({first}|{second})$"
    subscription = Subscription(connection, group, pattern=pattern, start_from="earliest")
    assert join(subscription, 2) == {(first, 0), (second, 0)}
    subscription.close()


def test_static_member_comes_back_to_its_partitions(connection, topic, group):
    name = topic(2)
    other = Subscription(connection, group, [name], group_instance_id="w2", heartbeat_interval_ms=300)
    join(other, 2)
    first = Subscription(connection, group, [name], group_instance_id="w1", heartbeat_interval_ms=300)
    while len(first.assignment()) != 1:
        first.poll(0.1)
        other.poll(0.1)
    own = first.assignment()
    other.take_changes()
    first.close()
    again = Subscription(connection, group, [name], group_instance_id="w1", heartbeat_interval_ms=300)
    poll_until(again, lambda: len(again.assignment()) == 1)
    assert again.assignment() == own
    other.poll(1.0)
    changes = other.take_changes()
    assert (changes.assigned, changes.revoked) == (set(), set())
    again.close()
    other.close()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"topics": ["a"], "start_from": "beginning"}, "earliest"),
        ({}, "topics or a pattern"),
        ({"topics": ["a"], "pattern": "b"}, "one of the two"),
    ],
)
def test_settings_that_cannot_work(connection, options, word):
    with pytest.raises(ValueError, match=word):
        Subscription(connection, "g", **options)


def test_a_topic_of_our_own_is_begun_at_its_first_record_whatever_the_others_do(connection, topic, group):
    """Readings that were sent on before its partitions are first located would otherwise be passed over."""
    foreign, own = topic(), topic()
    produce(connection, foreign, [b"before"])
    produce(connection, own, [b"sent on"])
    subscription = Subscription(connection, group, [foreign, own], start_from="latest", from_earliest=[own])
    poll_until(subscription, lambda: len(subscription.assignment()) == 2)
    located = subscription.locate(subscription.take_changes().assigned)
    assert located == {(foreign, 0): (1, ""), (own, 0): (0, "")}
    subscription.close()


def test_a_leader_whose_topics_have_changed_while_it_polls_briefly_stays_in_its_group(connection, topic, group):
    """The client would join anew, never look at the outcome, and be dropped from the group."""
    name = topic(2)
    subscription = Subscription(connection, group, [name], start_from="earliest")
    join(subscription, 2)
    coordinator = subscription._consumer._coordinator
    generation = subscription.group_metadata().generation_id
    coordinator._assignment_snapshot = {name: {0}}  # as if the topic had had one partition
    deadline = time.monotonic() + 15
    while subscription.group_metadata().generation_id == generation or not subscription.is_stable:
        assert time.monotonic() < deadline, subscription.group_metadata()
        subscription.poll(0.0)
        time.sleep(0.01)
    produce(connection, name, [b"a"], 0)
    assert [record.value for record in receive(subscription, 1)] == [b"a"]
    subscription.close()


def test_what_the_group_decides_between_two_polls_is_heard(connection, topic, group):
    """The client would throw it away and join anew at each poll, and no member of the group would ever work."""
    name = topic(2)
    subscription = Subscription(connection, group, [name], start_from="earliest")
    deadline = time.monotonic() + 15
    while len(subscription.assignment()) < 2:
        assert time.monotonic() < deadline, subscription.group_metadata()
        subscription.poll(0.001)
        time.sleep(0.2)  # the answer comes meanwhile
    assert subscription.group_metadata().generation_id == 1
    join(subscription, 2)
    produce(connection, name, [b"a"], 0)
    assert [record.value for record in receive(subscription, 1)] == [b"a"]
    subscription.close()


def test_what_is_unread_is_known_and_ends_of_transactions_are_no_records(connection, topic, group, transactional_id):
    name = topic()
    producer = connection.build(KafkaProducer, transactional_id=transactional_id)
    producer.init_transactions()
    for outcome in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for i in range(5):
            producer.send(name, b"%d" % i, partition=0)
        producer.flush()
        outcome()
    producer.close()
    subscription = Subscription(connection, group, [name], start_from="earliest", max_poll_records=3)
    poll_until(subscription, lambda: len(subscription.assignment()) == 1)
    assert subscription.unread() == {}  # nothing was fetched yet
    join(subscription, 1)
    receive(subscription, 3)
    assert subscription.unread()[name, 0] >= 2
    receive(subscription, 2)
    poll_until(subscription, lambda: subscription.unread() == {(name, 0): 0})
    produce(connection, name, [b"6"] * 2)
    receive(subscription, 2)
    assert subscription.unread() == {(name, 0): 0}
    subscription.close()
