"""Topics that are not what they were: deleted and created again, with more partitions, damaged, of another group."""

from __future__ import annotations

import random
import time

import local_broker
import pytest
from kafka.errors import UnknownTopicOrPartitionError
from kafka_helpers import produce
from worker_helpers import eventually, partition_of, produce_readings, reading, records

from service.kafka import topics as kafka_topics
from service.sensors.envelope import changelog_value, read_changelog_value
from service.wire import messages

PARTITIONS = 4  # of the topics that the fixture makes
SMALL_WINDOWS = [{"match": "*", "window": {"readings": 20}}]


def recreate(found, partitions=PARTITIONS):
    with found.connection.admin() as admin:
        admin.delete_topics([found.name])

        def is_gone():
            try:
                return found.name not in admin.list_topics()
            except UnknownTopicOrPartitionError:
                return True

        eventually(is_gone, 30, "the topic is gone")
    kafka_topics.create(found.connection, [kafka_topics.TopicSpec(found.name, partitions)])


def level(sensor, first, count, mean, seed):
    draw = random.Random(seed)
    return [(sensor, reading(sensor, i, draw.gauss(mean, 1.0))) for i in range(first, first + count)]


def events_of(found, sensor):
    return [messages.decode(value) for value in found.outputs()["events"].get(sensor, [])]


def kinds(found, sensor):
    return [getattr(event, "kind", None) or event.status for event in events_of(found, sensor)]


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
def test_readings_that_are_sent_on_go_on_after_their_topic_was_recreated(service, is_running):
    """Its partitions have no states, and brokers forget a deleted topic's offsets: a running worker reads the new topic
    from its first record, one that was stopped where ``start_from`` says."""
    start_from = "latest" if is_running else "earliest"
    found = service(rules=SMALL_WINDOWS, mapping={"partitioned_by_sensor": False}, kafka={"start_from": start_from})
    worker = found.start()
    worker.wait_until_said("restored in", 60)
    found.wait_until_begun()
    produce_readings(found.connection, found.name, level("a", 0, 60, 0.0, 1), PARTITIONS)
    eventually(lambda: count_sent_on(found) == 60, 60, "all are sent on")
    if not is_running:
        assert worker.stop() == 0
    recreate(found)
    produce_readings(found.connection, found.name, level("a", 60, 100, 50.0, 2), PARTITIONS)
    if not is_running:
        worker = found.start()
    eventually(lambda: count_sent_on(found) >= 160, 60, "all are sent on")
    found.wait_until_done()
    assert worker.stop() == 0, worker.tail()
    assert count_sent_on(found) == 160
    assert bool(worker.said("was deleted and created again")) == is_running


def count_sent_on(found):
    return len(records(found.connection, found.settings.topics.readings))


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
def test_partitions_that_were_added_are_refused_and_the_others_go_on(service, is_running):
    port = local_broker.free_ports(1)[0]
    found = service(rules=SMALL_WINDOWS, metrics={"port": port})
    produce_readings(found.connection, found.name, level("a", 0, 60, 0.0, 1), PARTITIONS)
    worker = found.start()
    found.wait_until_done()
    if not is_running:
        assert worker.stop() == 0
    with found.connection.admin() as admin:
        admin.create_partitions({found.name: PARTITIONS + 2})
    if not is_running:
        worker = found.start()
    worker.wait_until_said("is not read: the topic was given more", 60)
    began = time.monotonic()
    produce_readings(found.connection, found.name, level("a", 60, 60, 50.0, 2), PARTITIONS)
    eventually(lambda: "confirmed" in kinds(found, "a"), 20, "the change is found")
    assert time.monotonic() - began < 8.0
    assert "ishsmm_refused_partitions 2.0" in worker.get(port, "/metrics")[1]
    assert not worker.said("cannot be restored")
    assert worker.stop() == 0, worker.tail()


def test_a_second_group_on_the_same_topics_is_refused(service):
    found = service(rules=SMALL_WINDOWS)
    produce_readings(found.connection, found.name, level("a", 0, 60, 0.0, 1), PARTITIONS)
    worker = found.start()
    found.wait_until_done()
    assert worker.stop() == 0
    group = found.name
    found.configure(kafka={"group": f"{group}-second"})
    second = found.start()
    assert second.process.wait(60) == 2
    assert second.said("belong to another group than kafka.group")
    assert second.said("topics create")
    found.configure(kafka={"group": group})
    again = found.start()
    again.wait_until_said("restored in", 60)
    assert again.stop() == 0


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
def test_a_sensor_is_heard_after_its_topic_was_recreated(service, is_running):
    found = service(rules=SMALL_WINDOWS)
    produce_readings(found.connection, found.name, level("a", 0, 300, 0.0, 1), PARTITIONS)
    worker = found.start()
    found.wait_until_done()
    if not is_running:
        assert worker.stop() == 0
    recreate(found)
    # fewer than there were: by their offsets the sensor had seen them all
    produce_readings(found.connection, found.name, level("a", 300, 250, 50.0, 2), PARTITIONS)
    if not is_running:
        worker = found.start()
    worker.wait_until_said("was deleted and created again", 60)
    eventually(lambda: "confirmed" in kinds(found, "a"), 60, "the change is found")
    found.wait_until_done()
    assert worker.stop() == 0, worker.tail()
    told = kinds(found, "a")
    assert told.count("topic_recreated") == 1
    assert {event.generation for event in events_of(found, "a")} == {0}
    changes = [event for event in events_of(found, "a") if isinstance(event, messages.ChangeEvent)]
    assert any(abs(event.index - 300) <= 1 for event in changes)
    # a further start finds nothing to report, and goes on where it was
    again = found.start()
    again.wait_until_said("restored in", 60)
    produce_readings(found.connection, found.name, level("a", 550, 20, 50.0, 3), PARTITIONS)
    found.wait_until_done()
    assert again.stop() == 0
    assert kinds(found, "a").count("topic_recreated") == 1
    assert not again.said("created again")


def damaged_values(value, other):
    saved = read_changelog_value(value)
    yield "empty", b""
    yield "short", value[:7]
    yield "random", random.Random(0).randbytes(300)
    yield "far", changelog_value(saved._replace(next_offset=2**62))
    yield "swapped", other
    yield "bit", value[:200] + bytes([value[200] ^ 4]) + value[201:]


def test_damaged_changelog_records_are_new_generations_of_their_sensors(service):
    found = service(rules=SMALL_WINDOWS)
    names = ["empty", "short", "random", "far", "swapped", "bit", "whole", "other"]
    for seed, name in enumerate(names):
        produce_readings(found.connection, found.name, level(name, 0, 60, 0.0, seed), PARTITIONS)
    worker = found.start()
    found.wait_until_done()
    assert worker.stop() == 0
    changelog = found.settings.topics.changelog
    states = {record.key.decode(): record.value for record in records(found.connection, changelog)}
    for what, value in damaged_values(states["whole"], states["other"]):
        produce(found.connection, changelog, [value], partition_of(what, PARTITIONS), key=what.encode())
    produce(found.connection, changelog, [b"whatever"], 0, key=b"\xff\xfe")
    worker = found.start()
    worker.wait_until_said("restored in", 60)
    for seed, name in enumerate(names):
        produce_readings(found.connection, found.name, level(name, 60, 60, 0.0, seed), PARTITIONS)
    found.wait_until_done()
    assert worker.stop() == 0, worker.tail()
    for name in names:
        is_damaged = name not in ("whole", "other")
        assert ("new_generation" in kinds(found, name)) == is_damaged, name
    assert worker.said("names no sensor")
