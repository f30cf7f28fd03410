"""The audit adds up after an orderly stop, and says what is missing where something is."""

from __future__ import annotations

import msgspec
import pytest
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata, TopicPartition
from kafka_helpers import produce, read_partition
from running import START, accepted, committed, readings, running, send, settings_for, wait_for

from service import cli
from service.kafka import groups
from service.sensors.envelope import changelog_value, read_changelog_value
from service.settings import Rule
from service.tools.audit import audit
from service.tools.audit_report import described

HOSTILE = [b"not json", b'{"sensor": "a", "time": 1, "value": NaN}', b"\xff\xfe", b'{"value": 1.0}']


def worked_off(settings, count):
    """Run a worker until the input is committed, and stop it in order."""
    with running(settings):
        wait_for(lambda: committed(settings) == count)


@pytest.fixture
def settings(connection, tmp_path):
    rules = [{"match": "beat*", "time": {"interval_s": 1.0, "gap": "insert"}}]
    return settings_for(connection, tmp_path, rules=rules)


def commit_as_if_read(connection, settings, partition, offset):
    """As a worker would have that forgot what lies before ``offset``."""
    old = groups.committed(connection, settings.kafka.group)[settings.kafka.topics[0], partition]
    metadata = msgspec.json.decode(old[1]) | {"unsaved_from": offset}
    consumer = connection.build(KafkaConsumer, group_id=settings.kafka.group, enable_auto_commit=False)
    place = TopicPartition(settings.kafka.topics[0], partition)
    consumer.assign([place])
    consumer.commit({place: OffsetAndMetadata(offset, msgspec.json.encode(metadata).decode())})
    consumer.close()


def sensor_of(report, name):
    return next(one for one in report.sensors if one.sensor == name)


def test_balanced_after_an_orderly_stop(settings):
    send(settings, readings("a", [1.0, 2.0, 3.0] * 10) + HOSTILE, 0)
    twice = readings("a", [5.0], START + 29)  # the time of a's last one, with another value
    send(settings, [*twice, *twice], 0)
    beats = readings("beat", [1.0] * 5) + readings("beat", [1.0] * 5, START + 10)
    send(settings, beats, 1)
    worked_off(settings, 30 + 4 + 2 + 10)
    report = audit(settings)
    assert report.balanced, described(report)
    assert [(one.records, one.accepted, one.dead_letters) for one in report.partitions] == [(36, 31, 5), (10, 10, 0)]
    beat = sensor_of(report, "beat")
    assert (beat.accepted, beat.index, beat.inserted) == (10, 14, 5)
    assert sensor_of(report, "a").accepted == 31
    assert not any(one.in_no_snapshot for one in report.sensors)
    assert described(report)[-1] == "everything adds up"


def test_a_running_worker_has_sensors_that_are_in_no_snapshot_yet(settings):
    send(settings, readings("a", [1.0] * 20), 0)
    with running(settings):
        wait_for(lambda: committed(settings) == 20)
        report = audit(settings)
        assert report.balanced
        assert report.workers == 1
        assert sensor_of(report, "a").in_no_snapshot == 20
        assert any("20 readings of 1 sensors are in no snapshot yet" in line for line in described(report))
    after = audit(settings)
    assert after.workers == 0
    assert (sensor_of(after, "a").in_no_snapshot, sensor_of(after, "a").accepted) == (0, 20)


def test_a_missing_dead_letter_is_named(connection, settings):
    send(settings, readings("a", [1.0] * 5), 0)
    worked_off(settings, 5)
    send(settings, [b"not json"], 0)
    commit_as_if_read(connection, settings, 0, 6)
    report = audit(settings)
    assert not report.balanced
    assert report.partitions[0].problems == ["offset 5: neither accepted nor a dead letter (not_json)"]
    assert described(report)[-1] == "1 thing does not add up"


def test_a_dead_letter_that_came_twice_is_named(connection, settings):
    send(settings, [b"not json"], 0)
    worked_off(settings, 1)
    (letter,) = (value for _, value, _ in read_partition(connection, settings.topics.dead_letters, 0))
    produce(connection, settings.topics.dead_letters, [letter])
    assert audit(settings).partitions[0].problems == ["offset 0: 2 dead letters"]


def test_a_reading_that_no_state_has_is_named(connection, settings):
    send(settings, readings("a", [1.0] * 5) + readings("b", [1.0] * 5), 0)
    worked_off(settings, 10)
    send(settings, readings("b", [2.0], START + 5), 0)
    commit_as_if_read(connection, settings, 0, 11)
    report = audit(settings)
    assert not report.balanced
    assert sensor_of(report, "a").problem is None
    assert sensor_of(report, "b").problem == "1 readings from offset 10 on are in no snapshot and not replayed"


def test_a_state_that_has_counted_too_few_is_named(connection, settings):
    send(settings, readings("a", [1.0] * 5), 0)
    worked_off(settings, 5)
    values = [value for _, value, _ in read_partition(connection, settings.topics.changelog, 0)]
    send(settings, readings("a", [1.0] * 2, START + 5), 0)
    worked_off(settings, 7)
    (old,) = map(read_changelog_value, values)
    # the older state, as if it had seen all
    produce(connection, settings.topics.changelog, [changelog_value(old._replace(next_offset=7))], key=b"a")
    assert sensor_of(audit(settings), "a").problem == "7 readings accepted, its state has counted 5"


def test_readings_through_the_internal_topic(connection, tmp_path):
    settings = settings_for(connection, tmp_path, partitions=3, mapping={"partitioned_by_sensor": False})
    for number in range(3):
        send(settings, [*readings("a", [1.0 * number] * 5, START + 10 * number), b"{}"], number)
    with running(settings) as worker:
        wait_for(lambda: accepted(worker) == 15)
    report = audit(settings)
    assert report.balanced, described(report)
    inputs = [one for one in report.partitions if one.topic == settings.kafka.topics[0]]
    assert [(one.records, one.accepted, one.dead_letters) for one in inputs] == [(6, 5, 1)] * 3
    assert sensor_of(report, "a").accepted == 15

    send(settings, readings("a", [1.0], START + 100), 1)
    commit_as_if_read(connection, settings, 1, 7)
    assert sensor_of(audit(settings), "a").problem == f"16 readings in the input, 15 on {settings.topics.readings}"


def test_generations_are_counted_together(connection, settings):
    send(settings, readings("a", [1.0] * 5), 0)
    worked_off(settings, 5)
    changed = msgspec.structs.replace(settings, rules=(Rule(transform="log"),))
    send(settings, readings("a", [1.0] * 3, START + 5), 0)
    worked_off(changed, 8)
    report = audit(changed)
    assert report.balanced, described(report)
    one = sensor_of(report, "a")
    assert (one.generation, one.accepted, one.index, one.earlier) == (1, 8, 2, 5)


def test_on_the_command_line(connection, settings, monkeypatch, capsys):
    send(settings, readings("a", [1.0] * 5), 0)
    worked_off(settings, 5)
    monkeypatch.setattr("service.settings.load", lambda *_: settings)
    assert cli.main(["audit"]) == 0
    assert "everything adds up" in capsys.readouterr().out
    send(settings, [b"not json"], 0)
    commit_as_if_read(connection, settings, 0, 6)
    assert cli.main(["audit", "--json"]) == 1
    told = msgspec.json.decode(capsys.readouterr().out)
    assert told["balanced"] is False
    assert told["partitions"][0]["problems"]
    assert told["sensors"] == [
        {
            "sensor": "a", "partition": 0, "generation": 0, "accepted": 5, "index": 4, "inserted": 0,
            "reordered": 0, "earlier": 0, "in_no_snapshot": 0, "forgotten": 0, "problem": None,
        }
    ]  # fmt: skip
