"""The worker as people run it: a process, a real broker, records in, messages out."""

from __future__ import annotations

import base64
import json
import random
import signal
import time
from typing import Any

import local_broker
import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka_helpers import committed_values
from worker_helpers import (
    START,
    Service,
    command,
    eventually,
    first_difference,
    partition_of,
    produce_readings,
    reading,
    records,
)

from service.wire import messages

PARTITIONS = 4
STARTED = "restored in"
SMALL_WINDOWS = [{"match": "*", "window": {"readings": 20}}]


def noisy(sensors: int, readings: int, seed: int, changes: bool = True) -> list[tuple[str, bytes]]:
    """Readings of sensors, interleaved; each changes its level half way."""
    draw = random.Random(seed)
    return [
        (f"s{k}", reading(f"s{k}", i, draw.gauss(6.0 if changes and i >= readings // 2 else 0.0, 1.0)))
        for i in range(readings)
        for k in range(sensors)
    ]


def run_to_the_end(service: Service, workers: int = 1) -> None:
    """Start workers, wait until everything is committed, and stop them."""
    started = [service.start() for _ in range(workers)]
    for worker in started:
        worker.wait_until_said("reading ", 60)
    service.wait_until_done()
    for worker in started:
        assert worker.stop() == 0, worker.tail()


def assert_as_alone(service: Service) -> None:
    expected = service.expected()
    assert expected["states"], "nothing to compare"
    difference = first_difference(expected, service.outputs())
    assert difference is None, difference


# --- detection


def test_planted_changes_are_found_in_time_and_little_else_is(service):
    """50 sensors, 50,000 readings, 150 changes of 3.5 to 8 standard deviations.

    Each is found within 30 observations, at most one confirmed event is false, and what is published of each sensor is
    what it gives alone, byte for byte.
    """
    sensors, length = 50, 1000
    draw = random.Random(20240101)
    planted: dict[str, list[int]] = {}
    values: dict[str, list[float]] = {}
    for k in range(sensors):
        name, noise, level = f"plant/{k:02d}", 10.0 ** draw.uniform(-2, 2), draw.uniform(-100, 100)
        planted[name] = [draw.randrange(begin, begin + 100) for begin in (200, 480, 760)]
        values[name] = []
        for i in range(length):
            if i in planted[name]:
                level += draw.choice((-1, 1)) * draw.uniform(3.5, 8.0) * noise
            values[name].append(draw.gauss(level, noise))
    worker = service()
    produce_readings(
        worker.connection,
        worker.name,
        ((name, reading(name, i, values[name][i])) for i in range(length) for name in values),
        PARTITIONS,
    )
    run_to_the_end(worker, workers=2)
    assert_as_alone(worker)

    found = {name: [messages.decode(value) for value in sent] for name, sent in worker.outputs()["events"].items()}
    false = []
    for name, changes in planted.items():
        events = [event for event in found.get(name, []) if isinstance(event, messages.ChangeEvent)]
        for change in changes:
            near = [event for event in events if abs(event.index - change) <= 10 and event.status != "retracted"]
            assert near, f"{name}: the change at {change} is not found"
            assert near[0].at.index - change <= 30, f"{name}: the change at {change} is found at {near[0].at.index}"
        confirmed = [event for event in events if event.status == "confirmed"]
        false += [(name, event.index) for event in confirmed if all(abs(event.index - c) > 10 for c in changes)]
    assert len(false) <= sensors * length / 50_000, false
    assert not worker.dead_letters()


# --- bad records

DEEP = b"[" * 50_000
HOSTILE: list[tuple[bytes | None, bytes | None, str]] = [
    (b"s0", None, "empty"),
    (b"s0", b"", "not_json"),
    (b"s0", b"{", "not_json"),
    (b"s0", b"\xff\xfe\x00", "not_utf8"),
    (b"s0", DEEP, "not_json"),
    (b"s0", b"[1, 2]", "wrong_type"),
    (b"s0", b'{"sensor": 7, "value": 1}', "wrong_type"),
    (b"s0", b'{"sensor": "s0", "value": 1, "values": [1]}', "wrong_type"),
    (None, b'{"value": 1}', "no_sensor"),
    (b"\xff", b'{"value": 1}', "not_utf8"),
    (b"s0", b'{"sensor": "", "value": 1}', "bad_sensor"),
    (b"s0", json.dumps({"sensor": "x" * 250, "value": 1}).encode(), "bad_sensor"),
    (b"s0", b'{"sensor": "a\\u0000b", "value": 1}', "bad_sensor"),
    (b"s0", b'{"sensor": "s0", "time": "yesterday", "value": 1}', "bad_time"),
    (b"s0", b'{"sensor": "s0", "time": 1e300, "value": 1}', "bad_time"),
    (b"s0", b'{"sensor": "s0"}', "no_value"),
    (b"s0", b'{"sensor": "s0", "value": NaN}', "not_json"),
    (b"s0", b'{"sensor": "s0", "value": null}', "not_a_number"),
    (b"s0", b'{"sensor": "s0", "value": "12"}', "not_a_number"),
    (b"s0", b'{"sensor": "s0", "value": 1e999}', "not_a_number"),
    (b"s0", json.dumps({"sensor": "s0", "values": [1.0] * 65}).encode(), "too_many_values"),
    (b"s0", b'{"sensor": "s0", "time": 1704067200, "values": [1, 2]}', "wrong_channels"),
    (b"s0", b'{"sensor": "s0", "time": 9e9, "value": 1}', "clock_ahead"),
    (b"s0", b"x" * 70_000, "oversized"),
    (b"s0", b'"' + b"\xf0\x9f\x98\x80" * 190_000 + b'"', "oversized"),
]


def test_hostile_records_are_dead_letters_and_the_rest_is_unaffected(service):
    worker = service(rules=SMALL_WINDOWS, limits={"record_bytes": 65_536})
    good = noisy(6, 150, seed=1)
    draw = random.Random(2)
    stream: list[tuple[bytes | None, bytes | None, str]] = [(name.encode(), value, "") for name, value in good]
    first = next(i for i, (key, _, _) in enumerate(stream) if key == b"s0")
    for hostile in HOSTILE:
        stream.insert(draw.randrange(first + 1, len(stream)), hostile)
    producer = worker.connection.build(KafkaProducer)
    sent = []
    for key, value, reason in stream:
        number = partition_of(key.decode(), PARTITIONS) if key and key.startswith(b"s") else 0
        future = producer.send(worker.name, value, key, partition=number)
        sent.append((future, key, value, reason))
    producer.flush()
    bad = {
        (future.get().partition, future.get().offset): (key, value, reason)
        for future, key, value, reason in sent
        if reason
    }
    producer.close()
    run_to_the_end(worker)

    letters = worker.dead_letters()
    told = {
        (letter.partition, letter.offset): (_bytes(letter.key), _bytes(letter.value), letter.reason)
        for letter in letters
    }
    assert len(letters) == len(HOSTILE) == len(told)
    assert {place: reason for place, (_, _, reason) in told.items()} == {
        place: reason for place, (_, _, reason) in bad.items()
    }
    assert told == bad
    assert all(letter.topic == worker.name for letter in letters)
    assert_as_alone(worker)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def test_a_record_as_large_as_brokers_take_is_a_dead_letter_and_not_the_end(service):
    """In a dead letter its bytes are base64, a third longer than the record itself was allowed to be."""
    worker = service(rules=SMALL_WINDOWS)
    large = random.Random(3).randbytes(1_000_000)
    stream: list[tuple[str, bytes | None]] = [*noisy(2, 60, seed=3)]
    stream.insert(50, ("s0", large))
    produce_readings(worker.connection, worker.name, stream, PARTITIONS, max_request_size=2_000_000)
    run_to_the_end(worker)
    (letter,) = worker.dead_letters()
    assert letter.reason in ("not_json", "not_utf8")
    assert _bytes(letter.value) == large
    assert_as_alone(worker)


def test_dead_letters_that_their_topic_does_not_take_are_shortened(service):
    """A topic made by hand, with the brokers' default: the record's beginning is better than no worker."""
    worker = service(rules=SMALL_WINDOWS)
    with worker.connection.admin() as admin:
        resource = ConfigResource(ConfigResourceType.TOPIC, worker.settings.topics.dead_letters)
        resource.configs = {"max.message.bytes": "600000"}
        admin.alter_configs([resource])
    large = random.Random(3).randbytes(900_000)
    produce_readings(worker.connection, worker.name, [("s0", large), *noisy(2, 60, seed=3)], PARTITIONS)
    run_to_the_end(worker)
    (letter,) = worker.dead_letters()
    kept = _bytes(letter.value)
    assert kept
    assert len(kept) > 440_000
    assert large.startswith(kept)
    assert "only the beginning" in letter.detail
    assert_as_alone(worker)


# --- foreign topics


def test_nested_payload_with_several_fields_is_shared_by_two_workers(service):
    """Keyed by nothing, a device's records in all partitions: its readings meet again in the internal topic."""
    worker = service(
        rules=SMALL_WINDOWS,
        mapping={
            "format": "json", "sensor": "site/device.id", "time": "ts", "time_unit": "ms",
            "values": ["data.temperature", "data.flow"], "names": ["t", "flow"], "optional": True,
        },
    )  # fmt: skip
    draw = random.Random(4)
    producer = worker.connection.build(KafkaProducer, linger_ms=20)
    count = {"t": 0, "flow": 0}
    for i in range(200):
        for device in range(8):
            data = {"temperature": draw.gauss(20.0 if i < 100 else 30.0, 1.0)}
            if i % 2:
                data["flow"] = draw.gauss(1.0, 0.1)
            count["t"] += 1
            count["flow"] += i % 2
            record = {"site": "north", "device": {"id": device}, "ts": (START + i) * 1000, "data": data}
            producer.send(worker.name, json.dumps(record).encode(), partition=draw.randrange(PARTITIONS))
    producer.send(worker.name, b'{"site": "north"}', partition=1)
    producer.flush()
    producer.close()
    started = [worker.start(), worker.start()]
    for one in started:
        one.wait_until_said(STARTED, 60)
    worker.wait_until_done()
    for one in started:
        assert one.stop() == 0, one.tail()

    passed_on = [json.loads(record.value) for record in records(worker.connection, worker.settings.topics.readings)]
    sensors = {f"north/{device}/{field}" for device in range(8) for field in count}
    assert {one["sensor"] for one in passed_on} == sensors
    for field, wanted in count.items():
        assert sum(one["sensor"].endswith(f"/{field}") for one in passed_on) == wanted
    (letter,) = worker.dead_letters()
    assert letter.topic == worker.name
    assert letter.partition == 1
    assert_as_alone(worker)
    assert set(worker.outputs()["states"]) == sensors


def test_bare_numbers_keyed_by_sensor(service):
    worker = service(rules=SMALL_WINDOWS, mapping={"format": "number"})
    draw = random.Random(5)
    stream = [(f"n{k}", repr(draw.gauss(0.0 if i < 60 else 5.0, 1.0)).encode()) for i in range(120) for k in range(5)]
    stream.insert(17, ("n0", b"twelve"))
    produce_readings(worker.connection, worker.name, stream, PARTITIONS)
    run_to_the_end(worker)
    (letter,) = worker.dead_letters()
    assert letter.reason == "not_a_number"
    assert_as_alone(worker)
    assert set(worker.outputs()["events"]) == {f"n{k}" for k in range(5)}


def test_csv_lines(service):
    """The sensor in a column: through the internal topic, although one sensor's lines lie in one partition."""
    worker = service(
        rules=SMALL_WINDOWS,
        mapping={
            "format": "csv", "columns": ["when", "line", "machine", "reading"], "sensor": "line/machine",
            "time": "when", "time_unit": "rfc3339", "values": ["reading"], "delimiter": ";",
        },
    )  # fmt: skip
    draw = random.Random(6)
    lines = []
    for i in range(120):
        when = f"2024-01-01T00:{i // 60:02d}:{i % 60:02d}Z"
        for k in range(4):
            lines.append((f"m{k}", f"{when};7;m{k};{draw.gauss(0.0 if i < 60 else 5.0, 1.0)}".encode()))
    lines.insert(9, ("m0", b'2024-01-01T00:00:00Z;"7;m0'))
    produce_readings(worker.connection, worker.name, lines, PARTITIONS)
    run_to_the_end(worker)
    (letter,) = worker.dead_letters()
    assert letter.reason == "not_csv"
    assert_as_alone(worker)
    assert set(worker.outputs()["events"]) == {f"7/m{k}" for k in range(4)}


# --- restarts, limits, other rules


def test_worker_restarted_in_order_goes_on_without_replay_and_publishes_nothing_twice(service):
    """Stopped while records come, twice."""
    worker = service(rules=SMALL_WINDOWS)
    stream = noisy(12, 300, seed=7)
    for third in range(3):
        started = worker.start()
        produce_readings(worker.connection, worker.name, stream[third * 1200 : (third + 1) * 1200], PARTITIONS)
        started.wait_until_said(STARTED, 60)
        eventually(lambda third=third: sum(worker.committed().values()) > 1200 * third + 100, what="some work")
        if third == 2:
            worker.wait_until_done()
        assert started.stop() == 0, started.tail()
        assert all(" 0 records replayed" in line for line in started.said(STARTED)), started.said(STARTED)
    assert_as_alone(worker)


def test_evicted_detectors_change_nothing(service):
    worker = service(
        rules=SMALL_WINDOWS, limits={"detectors": 2}, worker={"snapshot_within_s": 0.2, "poll_records": 50}
    )
    produce_readings(worker.connection, worker.name, noisy(12, 200, seed=8), PARTITIONS)
    worker.configure(http={"port": local_broker.free_ports(1)[0]})
    started = worker.start()
    started.wait_until_said(STARTED, 60)
    worker.wait_until_done()
    held = eventually(lambda: _metric(worker, started, "ishsmm_detectors") <= 2.0, what="detectors moved to disk")
    assert held
    assert _metric(worker, started, "ishsmm_sensors") == 12.0
    produce_readings(
        worker.connection, worker.name, [(s, v.replace(b"17040", b"17050")) for s, v in noisy(12, 60, 9)], PARTITIONS
    )
    worker.wait_until_done()
    assert started.stop() == 0
    assert_as_alone(worker)


def _metric(service: Service, worker: Any, name: str) -> float:
    status, body = worker.get(service.sections["http"]["port"], "/metrics")
    assert status == 200
    return float(next(line.split()[-1] for line in body.splitlines() if line.startswith(f"{name} ")))


def test_another_alarm_policy_keeps_the_state_and_another_model_starts_a_generation(service):
    worker = service(rules=SMALL_WINDOWS)
    stream = noisy(4, 300, seed=10, changes=False)

    def run_part(part: int) -> dict[str, list[Any]]:
        before = worker.outputs()
        produce_readings(worker.connection, worker.name, stream[part * 400 : (part + 1) * 400], PARTITIONS)
        run_to_the_end(worker)
        after = worker.outputs()
        return {
            sensor: [
                messages.decode(value)
                for kind in ("events", "states")
                for value in after[kind].get(sensor, [])[len(before[kind].get(sensor, [])) :]
            ]
            for sensor in ("s0", "s1", "s2", "s3")
        }

    run_part(0)
    worker.configure([{**SMALL_WINDOWS[0], "alarms": {"threshold": 0.999}}])
    for published in run_part(1).values():
        states = [one for one in published if isinstance(one, messages.StateRecord)]
        assert [one.index for one in states] == [119, 139, 159, 179, 199]
        assert {one.generation for one in states} == {0}
        assert states[-1].run_length.median > 150  # it remembers what came before the restart
    worker.configure([{**SMALL_WINDOWS[0], "detector": {"hazard": [1.0, 200.0]}}])
    for published in run_part(2).values():
        notices = [one for one in published if isinstance(one, messages.Notice)]
        assert [(one.kind, one.generation) for one in notices] == [("new_generation", 1)]
        states = [one for one in published if isinstance(one, messages.StateRecord)]
        assert [one.index for one in states] == [19, 39, 59, 79, 99]
        assert {one.generation for one in states} == {1}


def test_a_new_generation_is_announced_once_although_the_worker_is_killed(service):
    """Killed before its states were saved: the next one, with another model, has readings to replay that are the old
    model's, and the one after it must not announce again."""
    # a static member: the next one need not wait for the dead one's session to end
    worker = service(rules=SMALL_WINDOWS, worker={"snapshot_within_s": 30.0}, kafka={"member": "one"})
    stream = noisy(4, 200, seed=11, changes=False)
    for part, rules in enumerate(
        (SMALL_WINDOWS, SMALL_WINDOWS, *2 * ([{**SMALL_WINDOWS[0], "detector": {"hazard": [1.0, 200.0]}}],))
    ):
        worker.configure(rules)
        produce_readings(worker.connection, worker.name, stream[part * 200 : (part + 1) * 200], PARTITIONS)
        started = worker.start()
        started.wait_until_said(STARTED, 60)
        worker.wait_until_done()
        if part == 0:
            assert started.stop() == 0
        else:
            started.kill()
    for sent in worker.outputs()["events"].values():
        notices = [one for value in sent if isinstance(one := messages.decode(value), messages.Notice)]
        assert [(one.kind, one.generation) for one in notices] == [("new_generation", 1)]
    assert set(worker.outputs()["events"]) == {"s0", "s1", "s2", "s3"}
    for sent in worker.outputs()["states"].values():
        found = [messages.decode(value) for value in sent]
        indices = [one.index for one in found if one.generation == 1]
        assert indices == list(range(19, 19 + 20 * len(indices), 20))
        assert len(indices) == 5


def test_silent_sensors_are_reported_and_reported_back(service):
    """By the partition's stream time: sensor s0 pauses for 100 s of it; the worker is restarted meanwhile."""
    worker = service(rules=[{**SMALL_WINDOWS[0], "time": {"silent_after_s": 30.0}}])
    others = [f"t{k}" for k in range(40) if partition_of(f"t{k}", PARTITIONS) == partition_of("s0", PARTITIONS)][:3]
    draw = random.Random(12)

    def send(indices: range, *names: str) -> None:
        stream = [(name, reading(name, i, draw.gauss(0.0, 1.0))) for i in indices for name in names]
        produce_readings(worker.connection, worker.name, stream, PARTITIONS)
        run_to_the_end(worker)

    send(range(40), "s0", *others)
    send(range(40, 100), *others)
    send(range(100, 140), *others)
    send(range(140, 200), "s0", *others)
    notices = [messages.decode(value) for value in worker.outputs()["events"]["s0"]]
    assert [one.kind for one in notices if isinstance(one, messages.Notice)] == ["silent", "back"]
    silent, back = (one for one in notices if isinstance(one, messages.Notice))
    assert silent.time == "2024-01-01T00:01:09.000Z"  # 30 s after its last reading
    assert back.time == "2024-01-01T00:02:20.000Z"
    assert silent.index == 39
    for name in others:
        assert not worker.outputs()["events"].get(name)


# --- life


def test_partition_count_that_differs_is_refused_with_the_remedy(service):
    worker = service()
    with worker.connection.admin() as admin:
        admin.create_partitions({worker.name: PARTITIONS + 2})
    done = command(["serve", "--config", str(worker.write())])
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"{worker.name!r} has {PARTITIONS + 2} partitions" in done.stderr
    assert "partitioned_by_sensor = false" in done.stderr
    assert "topics create" in done.stderr


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_forces(service, second):
    """The first one waits for a commit that takes a minute."""
    worker = service(rules=SMALL_WINDOWS)
    started = worker.start(faulty=True)
    started.wait_until_said(STARTED, 60)
    started.fault_file.write_text("wait-before 0")
    produce_readings(worker.connection, worker.name, noisy(2, 40, seed=13), PARTITIONS)
    eventually(lambda: not started.fault_file.exists(), what="a commit")
    started.signal(signal.SIGTERM)
    eventually(lambda: not started.pending_signals(), what="the first signal is taken")
    time.sleep(0.6)
    assert started.running
    started.signal(second)
    assert started.process.wait(5) == 130


def test_health_readiness_and_metrics_answer(service):
    port = local_broker.free_ports(1)[0]
    worker = service(rules=SMALL_WINDOWS, http={"port": port})
    started = worker.start()
    produce_readings(worker.connection, worker.name, noisy(4, 60, seed=14), PARTITIONS)
    eventually(lambda: started.get(port, "/readyz") == (200, "ready\n"), 60, "readiness")
    worker.wait_until_done()
    assert started.get(port, "/healthz") == (200, "ok\n")
    assert started.get(port, "/nothing")[0] == 404
    taken = 'ishsmm_readings_total{result="accepted"}'
    eventually(lambda: _metric(worker, started, taken) == 240.0, what="readings counted")
    assert _metric(worker, started, "ishsmm_records_total") == 240.0
    assert _metric(worker, started, "ishsmm_partitions") == PARTITIONS
    eventually(lambda: _metric(worker, started, "ishsmm_sensors") == 4.0, what="sensors counted")
    assert _metric(worker, started, 'ishsmm_readings_total{result="rejected"}') == 0.0
    eventually(lambda: _metric(worker, started, "ishsmm_snapshots_total") >= 4.0, what="snapshots")
    assert _metric(worker, started, "ishsmm_rebalances_total") >= 1.0
    assert _metric(worker, started, "ishsmm_restore_seconds_count") == PARTITIONS
    assert _metric(worker, started, "ishsmm_commit_seconds_count") == _metric(worker, started, "ishsmm_commits_total")
    assert _metric(worker, started, "ishsmm_end_to_end_seconds_count") >= 1.0
    lags = [f'ishsmm_lag_records{{partition="{n}",topic="{worker.name}"}}' for n in range(PARTITIONS)]
    eventually(lambda: [_metric(worker, started, lag) for lag in lags] == [0.0] * PARTITIONS, what="no lag")
    assert 0.0 <= _metric(worker, started, 'ishsmm_queue_fill_ratio{queue="producer"}') < 1.0
    assert started.stop() == 0
    assert started.get(port, "/healthz") == (0, "")


@pytest.mark.long
def test_readers_wait_less_than_half_a_minute_for_a_worker_that_was_killed(service):
    """Killed between the offsets and the commit, with the default transaction timeout and the brokers' own settings.

    Its survivor goes on with its own partitions meanwhile, and with the dead one's soon after.
    """
    worker = service(rules=SMALL_WINDOWS)
    started = [worker.start(faulty=True), worker.start()]
    for one in started:
        one.wait_until_said(STARTED, 60)
    stream = noisy(12, 2000, seed=15)
    produce_readings(worker.connection, worker.name, stream[:1200], PARTITIONS)
    worker.wait_until_done()
    started[0].fault_file.write_text("kill-before 0")
    produce_readings(worker.connection, worker.name, stream[1200:2400], PARTITIONS)
    started[0].process.wait(30)
    killed = time.monotonic()
    records(worker.connection, worker.settings.topics.states)
    blocked = time.monotonic() - killed
    worker.wait_until_done()
    caught_up = time.monotonic() - killed
    print(f"readers waited {blocked:.1f} s, the survivor had everything after {caught_up:.1f} s")
    assert blocked < 30.0
    assert caught_up < 45.0
    assert started[1].stop() == 0
    assert_as_alone(worker)


def test_readings_of_a_sensor_in_several_partitions_are_put_in_order(service):
    """What one poll brings of them."""
    worker = service(rules=SMALL_WINDOWS, mapping={"format": "json", "sensor": "id", "time": "at", "values": ["x"]})
    producer = worker.connection.build(KafkaProducer, linger_ms=20)
    for i in range(200):
        producer.send(
            worker.name, json.dumps({"id": "a", "at": START + i, "x": i % 7}).encode(),
            partition=i * 7 % PARTITIONS, timestamp_ms=1000 * (START + i),
        )  # fmt: skip
    producer.flush()
    producer.close()
    started = worker.start()
    started.wait_until_said(STARTED, 60)
    topic = f"{worker.name}.readings"

    def sent_on():
        found = [committed_values(worker.connection, topic, number) for number in range(PARTITIONS)]
        return [json.loads(value)["time"] for values in found for value in values]

    eventually(lambda: len(sent_on()) == 200, what="readings sent on")
    assert sent_on() == [START + i for i in range(200)]
    assert started.stop() == 0


def test_a_backlog_of_a_sensor_in_several_partitions_is_put_in_order(service):
    """More than one poll brings: without waiting, the sensor's time jumps back and forth."""
    mapping = {"format": "json", "sensor": "id", "time": "at", "values": ["x"]}
    rule = {"match": "*", "window": {"readings": 20}, "time": {"reorder_within_s": 900.0, "late": "reject"}}
    worker = service(rules=[rule], mapping=mapping, worker={"poll_records": 100})
    draw = random.Random(3)

    def send(times, partitions):
        producer = worker.connection.build(KafkaProducer, linger_ms=20)
        for i in times:
            value = {"id": "a", "at": START + i, "x": draw.gauss(0.0 if i < 300 else 9.0, 1.0)}
            producer.send(worker.name, json.dumps(value).encode(), partition=i % partitions)
        producer.flush()
        producer.close()

    send(range(900), PARTITIONS)
    started = worker.start()
    worker.wait_until_done()
    send(range(900, 1800), 1)  # later ones, which the backlog waits for
    worker.wait_until_done()
    assert started.stop() == 0
    assert worker.dead_letters() == []
    events = [messages.decode(value) for value in worker.outputs()["events"]["a"]]
    changes = [event for event in events if isinstance(event, messages.ChangeEvent) and event.status == "confirmed"]
    assert [abs(change.index - 300) <= 1 for change in changes] == [True]
    audited = command(["audit", "--config", str(worker.write())], **worker.environment)
    assert audited.returncode == 0, audited.stdout
