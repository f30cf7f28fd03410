"""What a worker relies on in a log, for both of them: Kafka and the SQLite file."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka_helpers import read_partition
from running import settings_for
from view_helpers import dictionary, notice, state_record

from service.embedded.database import Database
from service.embedded.log import SqliteLog
from service.kafka.connection import Connection
from service.kafka.log import KafkaLog
from service.metrics import Metrics
from service.runtime.log import Cycle, OutcomeUnknown, Position, RecordLog, Restored
from service.sensors.envelope import read_changelog_value
from service.sensors.records import Outbound
from service.sensors.saved import Saved
from service.settings import Settings
from service.wire.messages import dictionary_key

START = 1_760_000_000
pytestmark = pytest.mark.usefixtures("broker_software")


class Kafka:
    """A service's topics, with one partition."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self.settings = settings_for(connection, folder, partitions=1)
        self._connection = connection

    def log(self) -> RecordLog:
        return KafkaLog(self.settings, Metrics(self.settings))

    def append(self, log: RecordLog, values: list[bytes]) -> None:
        producer = self._connection.build(KafkaProducer, acks="all")
        for value in values:
            producer.send(self.settings.kafka.topics[0], value, partition=0)
        producer.flush()
        producer.close()

    def kept(self) -> dict[str, list[Any]]:
        """States by sensor, events in order, and saved states: what a reader of committed records sees."""
        names = self.settings.topics
        states, saved, events = ({}, {}, [])  # type: ignore[var-annotated]
        for topic, found in ((names.states, states), (names.changelog, saved)):
            for key, value, _ in read_partition(self._connection, topic, 0):
                found.pop(key, None) if value is None else found.update({key: value})
        for _, value, _ in read_partition(self._connection, names.events, 0):
            events.append(value)
        generations = {key.decode(): read_changelog_value(value).generation for key, value in saved.items()}
        return {"states": sorted(states), "events": events, "saved": sorted(generations.items())}

    @contextmanager
    def failing_commit(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        def fail(self: Any) -> None:
            raise KafkaError("as wanted")

        with monkeypatch.context() as patch:
            patch.setattr(KafkaProducer, "commit_transaction", fail)
            yield


class Sqlite:
    """A service's file."""

    def __init__(self, folder: Path) -> None:
        source = {"kinds": ["http"], "state": folder / "state.sqlite"}
        self.settings = msgspec.convert({"source": source, "http": {"port": 0}}, Settings)

    def log(self) -> RecordLog:
        return SqliteLog(self.settings, Metrics(self.settings, "embedded"))

    def append(self, log: Any, values: list[bytes]) -> None:
        log._intake.append("test", log._own_format, values).result(10)

    def kept(self) -> dict[str, list[Any]]:
        """See ``Kafka.kept``."""
        reading = sqlite3.connect(self.settings.source.state)
        found = {
            "states": [sensor.encode() for (sensor,) in reading.execute("SELECT sensor FROM states ORDER BY 1")],
            "events": [value for (value,) in reading.execute("SELECT value FROM events ORDER BY seq")],
            "saved": list(reading.execute("SELECT sensor, generation FROM sensors ORDER BY 1")),
        }
        reading.close()
        return found

    @contextmanager
    def failing_commit(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        writing = Database.writing

        @contextmanager
        def fail(database: Database) -> Iterator[sqlite3.Connection]:
            with writing(database) as connection:
                yield connection
                raise sqlite3.OperationalError("as wanted")

        with monkeypatch.context() as patch:
            patch.setattr(Database, "writing", fail)
            yield


@pytest.fixture(params=["kafka", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Kafka | Sqlite:
    if request.param == "sqlite":
        return Sqlite(tmp_path)
    folder = tmp_path / f"contract-{uuid.uuid4().hex[:8]}"
    return Kafka(request.getfixturevalue("connection"), folder)


@contextmanager
def opened(place: Kafka | Sqlite) -> Iterator[tuple[RecordLog, Restored]]:
    """A log with its partition restored, and what it said of it."""
    log = place.log()
    log.check()
    try:
        log.open(lambda seconds: False, lambda: None)
        yield log, restore(log)
    finally:
        log.close()


def restore(log: RecordLog) -> Restored:
    """Poll until the partition is restored; nothing may come before that."""
    found: list[Restored] = []

    def keep(restored: Restored) -> None:
        found.append(restored._replace(replayed=list(restored.replayed)))

    deadline = time.monotonic() + 30.0
    while not found:
        assert time.monotonic() < deadline, "the partition is not restored"
        assert not log.poll(0.05).records
        log.follow_assignment()
        log.restore(keep, time.monotonic() + 1.0)
    assert log.is_restored
    return found[0]


def poll(log: RecordLog, count: int) -> tuple[list[Any], Any]:
    """So many records, and the membership token of the last poll."""
    records: list[Any] = []
    member = None
    deadline = time.monotonic() + 20.0
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        polled = log.poll(0.1)
        member = polled.member
        for taken in polled.records.values():
            records += taken
    return records, member


def reading(i: int, sensor: str = "a") -> bytes:
    return msgspec.json.encode({"sensor": sensor, "time": START + i, "value": float(i)})


def event(sensor: str = "a", kind: str = "silent") -> tuple[int, Outbound]:
    return 0, Outbound("events", sensor.encode(), notice(sensor, kind))


def state(sensor: str = "a") -> tuple[int, Outbound]:
    return 0, Outbound("states", sensor.encode(), state_record(sensor))


def states_of(sensor: str) -> tuple[int, Outbound]:
    return 0, Outbound("states", dictionary_key(sensor), dictionary(sensor))


def cycle(log: RecordLog, member: Any, next_offset: int, unsaved_from: int, **parts: Any) -> Cycle:
    position = Position(next_offset, unsaved_from, 7_000_000)
    return Cycle(
        parts.get("outputs", []), {0: parts["snapshots"]} if "snapshots" in parts else {}, parts.get("forgotten", []),
        {(log.topic, 0): position}, member,
    )  # fmt: skip


def saved(next_offset: int, generation: int = 0) -> Saved:
    return Saved(next_offset, START * 1_000_000, generation, b"state")


def test_records_come_once_and_in_order(place):
    with opened(place) as (log, _):
        log.start()
        place.append(log, [reading(i) for i in range(50)])
        records, member = poll(log, 50)
        assert [log.decode(record)[0].values for record in records] == [(float(i),) for i in range(50)]
        offsets = [record.offset for record in records]
        assert offsets == list(range(offsets[0], offsets[0] + 50))
        log.commit(cycle(log, member, offsets[-1] + 1, offsets[-1] + 1))
        assert not log.poll(0.3).records


def test_a_restart_goes_on_from_the_commit_and_replays_what_is_in_no_snapshot(place):
    with opened(place) as (log, restored):
        assert not restored.replayed
        place.append(log, [reading(i) for i in range(10)])
        records, member = poll(log, 10)
        first = records[0].offset
        log.commit(
            cycle(log, member, first + 6, first + 2, outputs=[event(), state()], snapshots=[("a", saved(first + 2))])
        )
    kept = place.kept()
    assert [msgspec.json.decode(value)["kind"] for value in kept["events"]] == ["silent"]
    assert (kept["states"], kept["saved"]) == ([b"a"], [("a", 0)])
    with opened(place) as (log, restored):
        assert (restored.next_offset, restored.unsaved_from, restored.clock) == (first + 6, first + 2, 7_000_000)
        assert [record.offset for record in restored.replayed] == [first + 2, first + 3, first + 4, first + 5]
        assert log.states.get(0, "a").state == b"state"
        assert log.states.next_offsets(0) == {"a": first + 2}
        records, _ = poll(log, 4)
        assert [record.offset for record in records] == [first + 6, first + 7, first + 8, first + 9]


def test_nothing_is_kept_of_a_commit_that_fails_and_its_records_come_again(place, monkeypatch):
    with opened(place) as (log, _):
        place.append(log, [reading(i) for i in range(5)])
        records, member = poll(log, 5)
        first = records[0].offset
        whole = cycle(
            log, member, first + 5, first + 5, outputs=[event(), state()], snapshots=[("a", saved(first + 5))]
        )
        failures = (OutcomeUnknown, *log.away)
        with place.failing_commit(monkeypatch), pytest.raises(failures):
            log.commit(whole)
        log.settle()
        assert place.kept() == {"states": [], "events": [], "saved": []}
        log.roll_back()
        assert not log.is_restored
        restored = restore(log)
        assert restored.next_offset == first
        again, member = poll(log, 5)
        assert [record.offset for record in again] == [record.offset for record in records]
        log.commit(whole._replace(member=member))
    kept = place.kept()
    assert len(kept["events"]) == 1
    assert (kept["states"], kept["saved"]) == ([b"a"], [("a", 0)])


def test_a_sensor_that_is_forgotten_and_back_within_a_cycle_is_kept(place):
    with opened(place) as (log, _):
        place.append(log, [reading(i) for i in range(3)])
        records, member = poll(log, 3)
        first = records[0].offset
        parts = {"outputs": [state(), state("b")], "snapshots": [("a", saved(first + 1)), ("b", saved(first + 1))]}
        log.commit(cycle(log, member, first + 1, first + 1, **parts))
        back = {"outputs": [event("a", "new_generation"), state("a")], "snapshots": [("a", saved(first + 2, 1))]}
        log.commit(cycle(log, member, first + 2, first + 2, forgotten=[(0, "a"), (0, "b")], **back))
    kept = place.kept()
    assert (kept["states"], kept["saved"]) == ([b"a"], [("a", 1)])
    assert [msgspec.json.decode(value)["kind"] for value in kept["events"]] == ["new_generation"]


def test_the_dictionary_of_a_forgotten_sensor_goes_with_it(place):
    with opened(place) as (log, _):
        place.append(log, [reading(i) for i in range(3)])
        records, member = poll(log, 3)
        first = records[0].offset
        outputs = [state(), states_of("a"), state("b"), states_of("b")]
        log.commit(cycle(log, member, first + 1, first + 1, outputs=outputs))
        assert place.kept()["states"] == [b"a", dictionary_key("a"), b"b", dictionary_key("b")]
        log.commit(cycle(log, member, first + 2, first + 2, forgotten=[(0, "a")]))
    assert place.kept()["states"] == [b"b", dictionary_key("b")]


def test_lags_are_the_records_that_are_not_committed(place):
    def lag(log: RecordLog) -> int:
        return sum(log.lags().values())

    with opened(place) as (log, _):
        place.append(log, [reading(i) for i in range(8)])
        records, member = poll(log, 8)
        assert lag(log) == 8
        end = records[-1].offset + 1
        log.commit(cycle(log, member, end, end))
        assert lag(log) == 0


def test_it_waits_no_longer_than_it_is_told(place):
    with opened(place) as (log, _):
        began = time.monotonic()
        assert not log.poll(0.2).records
        assert time.monotonic() - began < 5.0
        assert log.is_in_touch
        assert not log.has_to_restore
        assert not log.is_at_end
        assert not log.is_vanishing


def test_a_worker_publishes_once_on_either(place, compiled, monkeypatch):
    """Its last commit fails once: what it published is there once, and every state is saved."""
    from service.composition import EmbeddedService, KafkaService

    if isinstance(place, Sqlite):
        service: Any = EmbeddedService(place.settings)
    else:
        service = KafkaService(place.settings)
    seen, appended = [], []  # type: ignore[var-annotated]

    class Watch:
        def committed(self, cycle: Any) -> None:
            seen.append(cycle.counts.readings)
            if sum(seen) >= 400:
                service.stop()

        def idle(self) -> None:
            if not appended:
                appended.append(True)
                place.append(service.records, [reading(i, "ab"[i % 2]) for i in range(400)])

    service.observers.append(Watch())
    failing: Callable[..., Any] = service.records.commit
    failed: list[bool] = []

    def commit(cycle: Cycle) -> None:
        if cycle.outputs and not failed:
            failed.append(True)
            with place.failing_commit(monkeypatch):
                failing(cycle)
        failing(cycle)

    service.records.commit = commit
    service.run()
    assert failed == [True]
    kept = place.kept()
    assert sum(seen) == 400
    assert kept["states"] == [b"a", b"b"]
    assert kept["saved"] == [("a", 0), ("b", 0)]
