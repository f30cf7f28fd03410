"""Mutes, acknowledgements, resets and forgettings with a real broker and workers that are killed."""

from __future__ import annotations

import contextlib
import uuid

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition
from running import committed, readings, running, send, settings_for, wait_for
from worker_helpers import Service, command, eventually, partition_of, produce_readings, reading, records

from service import cli
from service.kafka.control import ControlFollower, KafkaControl
from service.operations.control import ControlBook
from service.runtime.warm_up import compile_kernels
from service.settings import Rule
from service.tools.audit import audit
from service.tools.audit_report import described
from service.wire import messages

PARTITIONS = 2


@pytest.fixture(scope="module")
def compiled():
    compile_kernels(Rule())


@pytest.fixture
def service(broker, compiled, tmp_path):
    with contextlib.ExitStack() as made:
        one = made.enter_context(Service(broker.bootstrap, tmp_path, f"handled-{uuid.uuid4().hex[:12]}"))
        one.configure(rules=[{"match": "*", "window": {"readings": 20}}], worker={"snapshot_within_s": 1.0})
        one.create_topics(PARTITIONS)
        yield one


@pytest.fixture
def settings(connection, compiled, tmp_path, monkeypatch):
    rules = [{"match": "*", "window": {"readings": 10}}]
    made = settings_for(connection, tmp_path, partitions=1, rules=rules, worker={"snapshot_within_s": 0.5})
    monkeypatch.setattr("service.settings.load", lambda *_: made)
    return made


def batch(names, first, count=20):
    rng = np.random.default_rng(first)
    return [(name, reading(name, i, float(rng.normal()))) for i in range(first, first + count) for name in names]


def announced(values):
    told = [messages.decode(value) for value in values]
    return [(one.generation, one.why) for one in told if isinstance(one, messages.Notice)]


def values_of(connection, topic, sensor):
    return [record.value for record in records(connection, topic) if record.key == sensor.encode()]


@pytest.mark.parametrize("fault", ["kill-before", "kill-after"])
def test_a_reset_leads_to_one_new_generation_although_the_worker_is_killed(service, fault):
    service.configure(kafka={"member": "one"})  # the next one need not wait for the dead one's session to end
    names = ["s0", "s1", "s2"]
    produce_readings(service.connection, service.name, batch(names, 0), PARTITIONS)
    worker = service.start(faulty=True)
    worker.wait_until_said("restored in", 60)
    service.wait_until_done()
    config = str(service.write())
    eventually(lambda: command(["reset", "s1", "--config", config], **service.environment).returncode == 0, 30)
    worker.fault_file.write_text(f"{fault} 0", encoding="utf-8")  # the next commit, which announces the generation
    produce_readings(service.connection, service.name, batch(names, 20), PARTITIONS)
    eventually(lambda: not worker.running, 30, "the worker dies")
    second = service.start(faulty=True)
    second.wait_until_said("restored in", 60)
    produce_readings(service.connection, service.name, batch(names, 40), PARTITIONS)
    service.wait_until_done()
    assert second.stop() == 0, second.tail()
    events = service.outputs()["events"]
    assert announced(events["s1"]) == [(1, "reset")]
    assert announced([*events.get("s0", []), *events.get("s2", [])]) == []
    report = audit(service.settings)
    assert report.balanced, described(report)
    one = next(one for one in report.sensors if one.sensor == "s1")
    assert (one.generation, one.accepted) == (1, 60)
    again = command(["reset", "s0x", "--config", config], **service.environment)
    assert (again.returncode, again.stderr) == (
        2, "ishsmm-stream: error: no sensor 's0x' has a state; did you mean 's0'?\n"
    )  # fmt: skip


def test_a_forgotten_sensor_leaves_tombstones_and_the_audit_says_so(service):
    names, topics = ["s0", "s1"], service.settings.topics
    produce_readings(service.connection, service.name, batch(names, 0, 50), PARTITIONS)
    worker = service.start(faulty=True)
    worker.wait_until_said("restored in", 60)
    service.wait_until_done()
    config = str(service.write())
    refused = command(["forget", "s0", "--config", config], **service.environment)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    done = eventually(
        lambda: (
            (ran := command(["forget", "s0", "--yes", "--config", config], **service.environment)).returncode == 0
            and ran
        ),
        30,
    )
    assert "generation 1" in done.stdout
    worker.wait_until_said("forgetting s0")

    def is_gone():
        return all(
            values_of(service.connection, topic, "s0")[-1:] == [None] for topic in (topics.changelog, topics.states)
        )

    eventually(is_gone, 30, "tombstones")
    assert values_of(service.connection, topics.changelog, "s1")[-1] is not None
    worker.kill()
    eventually(lambda: "restored in" in str(service.start().wait_until_said("restored in", 60)), 60)
    report = audit(service.settings)
    assert report.balanced, described(report)
    assert "1 sensors were forgotten, their 50 readings are in no state" in report.notes
    # it comes back as a new one
    produce_readings(service.connection, service.name, batch(names, 50), PARTITIONS)
    service.wait_until_done()
    assert service.workers[-1].stop() == 0
    assert announced(service.outputs()["events"]["s0"]) == [(1, "it was forgotten")]
    states = [messages.decode(value) for value in values_of(service.connection, topics.states, "s0") if value]
    assert [(state.generation, state.index) for state in states] == [(0, 19), (0, 39), (1, 19)]
    report = audit(service.settings)
    assert report.balanced, described(report)
    place = partition_of("s0", PARTITIONS)
    assert {record.partition for record in records(service.connection, topics.changelog) if record.key == b"s0"} == {
        place
    }


def test_what_is_muted_and_acknowledged_can_be_seen(settings, capsys):
    rng = np.random.default_rng(0)
    send(settings, readings("boiler", np.r_[rng.normal(0.0, 1.0, 60), rng.normal(20.0, 1.0, 60)].tolist()))
    assert cli.main(["mute", "boil*", "--for", "2h", "--why", "oil change", "--by", "ann"]) == 0
    assert "no sensor matches so far" in capsys.readouterr().out
    with running(settings):
        wait_for(lambda: committed(settings) == 120, 90.0)
    assert cli.main(["mutes"]) == 0
    assert ": oil change, by ann" in capsys.readouterr().out
    assert cli.main(["tail", "--no-follow", "--ids"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    event = first.split("[")[1].split(",")[0]
    assert first.endswith(f"[{event}, muted]")
    assert cli.main(["ack", event[:8], "--by", "bob", "--note", "it was me"]) == 0
    assert f"acknowledged: {event} of boiler, by bob" in capsys.readouterr().out
    assert cli.main(["tail", "--no-follow"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("[muted, acknowledged by bob: it was me]")
    assert cli.main(["unmute", "boil*"]) == 0
    assert cli.main(["mutes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing is muted"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["mute", "a*", "--for", "2 hours"], "a time span takes numbers with s, m, h, d or w"),
        (["mute", "a*", "--until", "2020-01-01T00:00:00Z"], "the mute would be over at 2020-01-01T00:00:00.000Z"),
        (["mute", "a*", "--for", "9999d"], "a mute takes at most a year"),
        (["mute", "a*"], "one of the arguments --for --until is required"),
        (["unmute", "a*"], "no mute of 'a*'; there is none at all"),
        (["ack", "deadbeef"], "no change event 'deadbeef'"),
        (["ack", "de"], "an event takes its id, or at least its first 6 characters"),
        (["reset", "boiler"], "no sensor 'boiler' has a state; there is none at all"),
        (["forget", "boiler", "--yes"], "no sensor 'boiler' has a state"),
        (["deliver"], "the configuration has no [[sinks]]"),
    ],
)
def test_a_mistake_is_one_line(settings, capsys, line, said):
    assert cli.main(line) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_control_record_that_is_not_ours_stops_nobody(connection, settings):
    producer = connection.build(KafkaProducer)
    for key, value in ((b"reset:a", b"{"), (None, b"x"), (b"\xff", None), (b"mute:a", b"[]")):
        producer.send(settings.topics.control, value, key)
    producer.flush()
    producer.close()
    send(settings, readings("a", [1.0] * 20))
    with running(settings):
        wait_for(lambda: committed(settings) == 20, 90.0)
    book = KafkaControl(connection, settings.topics.control).read()
    assert (book.mutes(), book.finished) == ([], {})


def test_a_follower_hears_of_what_is_said_later(connection, settings):
    control = KafkaControl(connection, settings.topics.control)
    follower = ControlFollower(connection, settings.topics.control)
    follower.catch_up()
    assert follower.book.finished == {}
    control.write({"reset:a": b'{"type":"reset","sensor":"a","generation":3,"time":"2026-01-01T00:00:00Z"}'})
    wait_for(lambda: follower.poll(0.1) and follower.book.finished == {"a": 3})
    control.write({"reset:a": None})
    follower.catch_up()
    assert follower.book.finished == {}
    follower.close()


def test_the_control_topic_is_compacted_and_has_one_partition(connection, settings):
    consumer = connection.build(KafkaConsumer)
    assert consumer.partitions_for_topic(settings.topics.control) == {0}
    assert consumer.end_offsets([TopicPartition(settings.topics.control, 0)])
    consumer.close()
    assert isinstance(KafkaControl(connection, settings.topics.control).read(), ControlBook)
