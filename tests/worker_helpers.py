"""Workers as processes, what goes into their topics, and what must come out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError
from kafka.structs import TopicPartition

from service.kafka import topics as kafka_topics
from service.kafka.connection import Connection
from service.sensors.inference import infer
from service.sensors.rules import prepare_rule
from service.sensors.track import Track
from service.settings import RecordMapping, Settings, load
from service.settings.sections import Topics
from service.wire import decoding as mappings
from service.wire import messages
from service.wire.readings import BadRecord

TESTS = Path(__file__).parent
LAUNCHER = TESTS / "worker_launcher.py"
START = 1_704_067_200  # of reading times: 2024-01-01

Outputs = dict[str, dict[str, list[bytes]]]  # kind, sensor: values in the order of their offsets


def eventually(condition: Callable[[], Any], seconds: float = 30.0, what: str = "") -> Any:
    """Wait for a condition and return what it returned."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what or condition}"
        time.sleep(0.05)
    return found


# --- configuration and topics


class Service:
    """A configuration with topics of its own, and the workers that run by it."""

    def __init__(self, bootstrap: Sequence[str], folder: Path, name: str, **sections: Any) -> None:
        self.folder = folder
        self.name = name
        self.connection = Connection(bootstrap)
        own = {kind: f"{name}.{kind}" for kind in Topics().names}
        self.sections: dict[str, dict[str, Any]] = {
            "kafka": {"bootstrap": list(bootstrap), "group": name, "topics": [name], "start_from": "earliest"},
            "topics": {**own, "partitions": 4},
            "mapping": {"partitioned_by_sensor": True},
            "worker": {"snapshot_within_s": 2.0, "cycle_s": 0.1, "store": str(folder / "store")},
            "http": {"port": 0},
        }
        self.rules: list[dict[str, Any]] = []
        self.workers: list[WorkerProcess] = []
        self.configure(**sections)

    def configure(self, rules: Sequence[dict[str, Any]] | None = None, **sections: Mapping[str, Any]) -> None:
        """Change options; a mapping is replaced as a whole."""
        if rules is not None:
            self.rules = list(rules)
        for section, options in sections.items():
            self.sections[section] = (
                dict(options) if section == "mapping" else {**self.sections.get(section, {}), **options}
            )

    @property
    def environment(self) -> dict[str, str]:
        return {"ISHSMM_RULES": json.dumps(self.rules)} if self.rules else {}

    @property
    def settings(self) -> Settings:
        return load(self.write(), self.environment)

    def write(self) -> Path:
        """The configuration as a file; JSON's plain values are TOML's as well."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.name}.toml"
        parts = [
            "\n".join([f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in options.items())])
            for section, options in self.sections.items()
        ]
        path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        return path

    def create_topics(self, partitions: int = 4, replication: int = -1) -> None:
        """The input, by hand, and the service's own, by its command."""
        for topic in self.settings.kafka.topics:
            kafka_topics.create(self.connection, [kafka_topics.TopicSpec(topic, partitions, replication=replication)])
        done = command(["topics", "create", "--config", str(self.write())])
        assert done.returncode == 0, done.stderr

    def start(self, **options: Any) -> WorkerProcess:
        worker = WorkerProcess(self, **options)
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # where things stand

    def committed(self, topic: str | None = None) -> dict[int, int]:
        """Offsets that the group has committed, by partition; none while its coordinator is being made."""
        with self.connection.admin() as admin:
            try:
                told = admin.list_group_offsets([self.name])[self.name]
            except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError):
                return {}
        topic = topic or self.name
        return {place.partition: found.offset for place, found in told.items() if place.topic == topic}

    def caught_up(self, topic: str | None = None) -> bool:
        """Whether the group has committed everything that the topic holds."""
        topic = topic or self.name
        if topic == self.settings.topics.readings:
            # Written in transactions, so that its last offsets are no records.
            ends = {record.partition: record.offset + 1 for record in records(self.connection, topic)}
        else:
            ends = end_offsets(self.connection, topic)
        committed = self.committed(topic)
        return all(committed.get(number, 0) >= end for number, end in ends.items())

    def wait_until_begun(self, seconds: float = 60.0) -> None:
        """Until every partition of the input has a committed offset: records after it are read."""
        count = self.settings.topics.partitions
        eventually(lambda: len(self.committed()) == count, seconds, "all partitions are begun")

    def wait_until_done(self, seconds: float = 60.0) -> None:
        """Until all input, and what is sent on of it, has been committed."""
        for topic in (*self.settings.kafka.topics, *([] if self.is_direct else [self.settings.topics.readings])):
            eventually(lambda topic=topic: self.caught_up(topic), seconds, f"{topic} is read to its end")

    @property
    def is_direct(self) -> bool:
        return self.settings.mapping.is_keyed_by_sensor

    def outputs(self) -> Outputs:
        """What a reader of committed records finds in the topics of events and states."""
        return {
            kind: by_key(records(self.connection, self.settings.topics.names[kind])) for kind in ("events", "states")
        }

    def dead_letters(self) -> list[messages.DeadLetter]:
        found = [
            messages.decode(record.value) for record in records(self.connection, self.settings.topics.dead_letters)
        ]
        assert all(isinstance(letter, messages.DeadLetter) for letter in found)
        return found  # type: ignore[return-value]

    def expected(self) -> Outputs:
        """What each sensor of the topic that detectors read gives, alone and in one go."""
        direct = self.is_direct
        topic = self.name if direct else self.settings.topics.readings
        own = RecordMapping(partitioned_by_sensor=True)
        return alone(self.settings, records(self.connection, topic), self.settings.mapping if direct else own)


def command(arguments: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of ``ishsmm-stream``, run to its end."""
    line = [sys.executable, "-c", "import sys; from service.cli import main; sys.exit(main())", *arguments]
    return subprocess.run(
        line, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


class WorkerProcess:
    """``ishsmm-stream serve``; ``faulty``: by the launcher, which can be told to fail at a given point."""

    command = "serve"

    def __init__(self, service: Service, *, faulty: bool = False, **environment: str) -> None:
        number = len(service.workers)
        self.log = service.folder / f"{service.name}-{number}.log"
        self.fault_file = service.folder / f"{service.name}-{number}.fault"
        start = [str(LAUNCHER)] if faulty else ["-c", "import sys; from service.cli import main; sys.exit(main())"]
        variables = {**os.environ, **service.environment, **environment, "FAULT_FILE": str(self.fault_file)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *start, self.command, "--config", str(service.write())],
                env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def lines(self) -> list[dict[str, Any]]:
        """Its log; lines that are not JSON stand under "message"."""
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"message": line})
        return found

    def said(self, text: str) -> list[str]:
        return [line["message"] for line in self.lines() if text in line["message"]]

    def wait_until_said(self, text: str, seconds: float = 30.0) -> str:
        def said() -> list[str]:
            found = self.said(text)
            assert found or self.running, f"ended with {self.process.returncode}: {self.tail()}"
            return found

        return str(eventually(said, seconds, f"{text!r} in the log")[-1])

    def tail(self) -> str:
        return "\n".join(line["message"] for line in self.lines()[-15:])

    def signal(self, number: int) -> None:
        if self.running:
            self.process.send_signal(number)

    def pending_signals(self) -> int:
        """Signals that were sent and not taken yet, as a mask (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return sum(int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd")))

    def stop(self, seconds: float = 30.0) -> int:
        """SIGTERM, and its exit code."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        if self.running:
            self.process.kill()
        self.process.wait()

    def get(self, port: int, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""


# --- records


def partition_of(sensor: str, partitions: int) -> int:
    return zlib.crc32(sensor.encode()) % partitions


def produce_readings(
    connection: Connection, topic: str, readings: Iterable[tuple[str, bytes | None]], partitions: int, **options: Any
) -> None:
    """Records (sensor, value), each keyed by its sensor and in the sensor's partition."""
    producer = connection.build(KafkaProducer, linger_ms=20, batch_size=256 * 1024, **options)
    for sensor, value in readings:
        producer.send(topic, value, sensor.encode(), partition=partition_of(sensor, partitions))
    producer.flush()
    producer.close()


def reading(sensor: str, index: int, value: float, start: float = START) -> bytes:
    return json.dumps({"sensor": sensor, "time": start + index, "value": value}).encode()


def end_offsets(connection: Connection, topic: str) -> dict[int, int]:
    """Where the topic ends, open transactions included."""
    consumer = connection.consumer(isolation_level="read_uncommitted")
    try:
        places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        return {place.partition: end for place, end in consumer.end_offsets(places).items()}
    finally:
        consumer.close()


def records(connection: Connection, topic: str) -> list[Any]:
    """All committed records of a topic, by partition and offset, as somebody else's consumer reads them."""
    consumer = connection.consumer(
        isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False
    )
    try:
        found: list[Any] = []
        places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        ends = end_offsets(connection, topic)
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        deadline = time.monotonic() + 60
        while any(consumer.position(place) < ends[place.partition] for place in places):
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
            for batch in consumer.poll(timeout_ms=200).values():
                found += batch
        return sorted(found, key=lambda record: (record.partition, record.offset))
    finally:
        consumer.close()


def by_key(found: Iterable[Any]) -> dict[str, list[bytes]]:
    values: dict[str, list[bytes]] = defaultdict(list)
    for record in found:
        values[record.key.decode()].append(record.value)
    return dict(values)


# --- what must come out


def alone(settings: Settings, found: Iterable[Any], mapping: RecordMapping) -> Outputs:
    """Events and states of each sensor run by itself, all its readings in one go, without Kafka and cycles."""
    decode = mappings.decoder(mapping, settings.limits.record_bytes)
    tracks: dict[str, Track] = {}
    accepted: dict[str, list[tuple[int, tuple[float, ...], int]]] = defaultdict(list)
    prepared: dict[int, Any] = {}
    for record in found:
        try:
            readings = decode(record.key, record.value, record.timestamp)
        except BadRecord:
            continue
        for one in readings:
            if one.sensor not in tracks:
                rule = settings.rule_for(one.sensor)
                if id(rule) not in prepared:
                    prepared[id(rule)] = prepare_rule(rule)
                tracks[one.sensor] = Track(one.sensor, prepared[id(rule)])
            track = tracks[one.sensor]
            try:
                prepare = track.prepared.prepare
                values = one.values if prepare is None else prepare(one.values)
                missing = track.judge(one, record.timestamp)
            except BadRecord:
                continue
            accepted[one.sensor].append((one.time, values, missing))
    outputs: Outputs = {"events": {}, "states": {}}
    for sensor, taken in accepted.items():
        events, states = infer(tracks[sensor], taken)
        for kind, found_messages in (("events", events), ("states", states)):
            if found_messages:
                outputs[kind][sensor] = [messages.encode(message) for message in found_messages]
    return outputs


def first_difference(expected: Outputs, found: Outputs) -> str | None:
    """The first record that differs, by kind and sensor; None where all are the same."""
    for kind, sensors in expected.items():
        for sensor in sorted({*sensors, *found[kind]}):
            wanted, got = sensors.get(sensor, []), found[kind].get(sensor, [])
            for i in range(max(len(wanted), len(got))):
                one = wanted[i] if i < len(wanted) else None
                other = got[i] if i < len(got) else None
                if one != other:
                    return (
                        f"{kind} of {sensor!r}, record {i} (of {len(wanted)} expected, {len(got)} found):\n"
                        f"  expected {_shown(one)}\n  found    {_shown(other)}"
                    )
    return None


def _shown(value: bytes | None) -> str:
    return "nothing" if value is None else value.decode()[:400]
