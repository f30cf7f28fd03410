"""Faults under load, by a seed: workers and brokers that die, hang, come and go; what is published stays the same.

    make chaos FAULTS=20 SEED=1

Sensors are read by two to four workers while faults come. At the end everything that was published of each sensor, in
the order of its offsets, is compared with what the sensor gives alone, without Kafka, cycles or faults. The only
difference that is allowed is what faults have to be reported with: a notice for each sensor whose topic was recreated,
and new generations of the one sensor whose saved state is damaged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import local_broker
from kafka import KafkaProducer
from worker_helpers import (
    START,
    Service,
    WorkerProcess,
    alone,
    by_key,
    eventually,
    first_difference,
    partition_of,
    produce_readings,
    records,
)

from service.kafka import topics as kafka_topics
from service.kafka.connection import Connection
from service.runtime.warm_up import compile_kernels
from service.settings import Rule
from service.wire import messages
from service.wire.readings import microseconds

PARTITIONS = 6
SENSORS = 24
READINGS_PER_SECOND = 400
WORKERS = 2  # as many as there are between faults, but for those that join
MOST_WORKERS = 4

IN_COMMIT = ("kill-before", "kill-after", "stop-before", "hang-before")
BAD_DAYS = ("topic-recreated", "partitions-added", "changelog-damaged", "new-channels")
KINDS = ("kill", "stop", "join", "leave", "broker-kill", "broker-restart", "broker-hang", *IN_COMMIT, *BAD_DAYS)
VICTIM = "victim"  # the sensor whose saved state is damaged

Say = Callable[[str], None]


@dataclass
class Report:
    """What happened."""

    seed: int
    faults: list[str] = field(default_factory=list)
    readings: int = 0
    records: int = 0  # published
    rolled_back: int = 0
    restores: int = 0
    replayed: int = 0  # records
    slowest_restore: float = 0.0
    generations: int = 0  # of the sensor whose state is damaged, that were reported
    sent_twice: int = 0  # records, by the client that makes the load
    difference: str | None = None

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(self.faults).items())
        told = (
            f"seed {self.seed}: {len(self.faults)} faults ({kinds}), {self.readings} readings, {self.records} records "
            f"published, {self.rolled_back} cycles rolled back, {self.restores} restores of partitions, "
            f"{self.replayed} readings replayed, slowest restore {self.slowest_restore:.1f} s, "
            f"{self.sent_twice} records sent twice by the load"
        )
        return told if self.difference is None else f"{told}\nDIFFERENT: seed {self.seed}, {self.difference}"


def plan(faults: int, seed: int) -> list[str]:
    """Faults in their order: every kind before one comes again, about a quarter of them inside commits."""
    draw = random.Random(seed)
    found: list[str] = []
    while len(found) < faults:
        found += draw.sample(KINDS, len(KINDS))
    return found[:faults]


_TRIES = 4  # workers that are asked to fail in a commit


class Load:
    """Readings of all sensors at a rate, until told to stop; a broker that is away delays them."""

    def __init__(self, service: Service, seed: int) -> None:
        self._service = service
        self._draw = random.Random(seed)
        self._levels = [0.0] * SENSORS
        self._step = 0
        self.records: list[SimpleNamespace] = []  # that were sent
        self._wide: list[int] = []  # numbers of values of further sensors
        self.go_on()

    def go_on(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60.0)
        assert not self._thread.is_alive(), "readings cannot be sent"

    @property
    def newest(self) -> int:
        """The time of the newest readings."""
        return START + self._step - 1

    def widen(self) -> int:
        """Add a sensor with a number of values that no sensor has had before; returns the number."""
        self._wide.append(2 + 3 * len(self._wide))
        return self._wide[-1]

    def _run(self) -> None:
        producer = self._service.connection.build(
            KafkaProducer, acks="all", enable_idempotence=True, linger_ms=5, delivery_timeout_ms=2**31 - 1
        )
        levels = self._levels
        while not self._stopping.wait(SENSORS / READINGS_PER_SECOND):
            for k in range(SENSORS):
                if self._draw.random() < 0.01:
                    levels[k] = self._draw.uniform(-30.0, 30.0)
                self._send(producer, f"sensor-{k}" if k else VICTIM, [self._draw.gauss(levels[k], 1.0)])
            for channels in self._wide:
                self._send(producer, f"wide-{channels}", [self._draw.gauss(0.0, 1.0) for _ in range(channels)])
            self._step += 1
        producer.flush(timeout=60.0)
        producer.close()

    def _send(self, producer: KafkaProducer, sensor: str, values: list[float]) -> None:
        value = json.dumps({"sensor": sensor, "time": START + self._step, "values": values}).encode()
        now = int(time.time() * 1000)
        producer.send(
            self._service.name, value, sensor.encode(), partition=partition_of(sensor, PARTITIONS), timestamp_ms=now
        )  # fmt: skip
        self.records.append(SimpleNamespace(key=sensor.encode(), value=value, timestamp=now))


class Chaos:
    """One run."""

    def __init__(self, broker: local_broker.Broker, folder: Path, seed: int, say: Say, changelog: bool = True) -> None:
        self.broker = broker
        self.report = Report(seed)
        self._held: list[Any] = []  # records of topics that were deleted
        self._say = say
        self._draw = random.Random(seed)
        self._environment = {} if changelog else {"CHANGELOG": "off"}
        name = f"chaos-{seed}-{folder.name}"
        self.service = Service(
            broker.bootstrap, folder, name,
            rules=[{"match": "*", "window": {"readings": 10}}],
            worker={
                "snapshot_within_s": 2.0, "cycle_s": 0.1, "transaction_timeout_s": 5.0, "watchdog_s": 20.0,
                "store": str(folder / "store"),
            },
        )  # fmt: skip

    def run(self, faults: Sequence[str]) -> Report:
        replication = 3 if len(self.broker.nodes) > 1 else 1
        self.service.configure(topics={"replication": replication})
        self.service.create_topics(PARTITIONS, replication)
        with self.service:
            load = self._load = Load(self.service, self.report.seed)
            self._fill_up()
            self._wait_for_progress()
            for fault in faults:
                self._say(f"{len(self.report.faults) + 1}: {fault}")
                self._do(fault)
                self.report.faults.append(fault)
                time.sleep(self._draw.uniform(0.2, 1.5))  # the load goes on, at some other point of a cycle
                self._fill_up()
            load.stop()
            self.report.readings = len(load.records)
            self._say("waiting until everything is read")
            self._fill_up()
            eventually(self._is_done, 90.0, f"seed {self.report.seed}: all input committed")
            for worker in self._running():
                worker.stop()
            self._compare()
        self._read_logs()
        return self.report

    # Faults

    def _do(self, fault: str) -> None:
        if fault in IN_COMMIT:
            self._in_commit(fault)
        else:
            getattr(self, "_" + fault.replace("-", "_"))()

    def _kill(self) -> None:
        self._any_worker().kill()

    def _stop(self) -> None:
        """Stopped for longer than its session lasts, or not as long."""
        worker = self._any_worker()
        worker.signal(signal.SIGSTOP)
        time.sleep(self._draw.choice((1.0, 4.5)))
        worker.signal(signal.SIGCONT)

    def _join(self) -> None:
        if len(self._running()) == MOST_WORKERS:
            self._leave()
        self._start()

    def _leave(self) -> None:
        self._any_worker().stop()

    def _broker_kill(self) -> None:
        self._until_the_dead_are_settled()
        self._some_node().kill()
        time.sleep(self._draw.uniform(0.0, 2.0))
        self.broker.start()

    def _node_kill(self) -> None:
        """A node of a cluster, for good."""
        self._some_node().kill()

    def _broker_restart(self) -> None:
        self._until_the_dead_are_settled()
        self._some_node().stop()
        self.broker.start()

    def _broker_hang(self) -> None:
        node = self._some_node()
        node.pause()
        time.sleep(self._draw.uniform(1.0, 5.0))
        node.resume()

    def _topic_recreated(self) -> None:
        """When everything is read and saved: readings of the old topic that are unread then would be lost with it."""
        self._load.stop()
        eventually(self._is_done, 90.0, "all input committed")
        time.sleep(3.0)  # longer than snapshot_within_s
        self._held += records(self.service.connection, self.service.name)
        with self.service.connection.admin() as admin:
            admin.delete_topics([self.service.name])
            eventually(lambda: self.service.name not in admin.list_topics(), 30.0, "the topic is gone")
        time.sleep(self._draw.choice((0.0, 2.0, 7.0)))  # before and after workers hear of it
        replication = 3 if len(self.broker.nodes) > 1 else 1
        topic = kafka_topics.TopicSpec(self.service.name, PARTITIONS, replication=replication)
        kafka_topics.create(self.service.connection, [topic])
        self._load.go_on()

    def _partitions_added(self) -> None:
        with self.service.connection.admin() as admin:
            found = admin.describe_topics([self.service.name])[0]["partitions"]
            admin.create_partitions({self.service.name: len(found) + 1})

    def _changelog_damaged(self) -> None:
        """All workers are killed, so that the one that comes next reads the damaged state."""
        changelog = self.service.settings.topics.changelog
        eventually(lambda: VICTIM in by_key(records(self.service.connection, changelog)), 60.0, "a saved state")
        value = self._draw.choice((b"", b"short", self._draw.randbytes(300)))
        for worker in self._running():
            worker.kill()
        produce_readings(self.service.connection, changelog, [(VICTIM, value)], PARTITIONS)

    def _new_channels(self) -> None:
        self._load.widen()

    def _in_commit(self, fault: str) -> None:
        """Between the offsets of a cycle and the return of its commit.

        A worker that has no partition at the moment has nothing to commit: then another one gets the order.
        """
        node = self._some_node()
        seen = []
        for _ in range(_TRIES):
            worker = self._any_worker()
            seen.append(worker)
            order = worker.fault_file.with_suffix(".order")
            order.write_text(f"{fault} {node.pid}", encoding="utf-8")
            order.rename(worker.fault_file)  # whole, or not there
            deadline = time.monotonic() + 40.0
            while worker.fault_file.exists() and worker.running and time.monotonic() < deadline:
                time.sleep(0.05)
            if not (worker.fault_file.exists() and worker.running):
                break
            worker.fault_file.unlink(missing_ok=True)
        else:
            logs = "\n\n".join(worker.tail() for worker in seen)
            raise AssertionError(f"{fault}: none of {_TRIES} workers committed; their last lines:\n{logs}")
        worker.fault_file.unlink(missing_ok=True)
        if fault == "stop-before":
            # longer than its session: others have its partitions, and wait for this transaction
            time.sleep(self._draw.choice((3.5, 7.0)))
            worker.signal(signal.SIGCONT)
        elif fault == "hang-before":
            time.sleep(self._draw.choice((1.0, 4.0)))
            node.resume()

    def _until_the_dead_are_settled(self) -> None:
        """Wait until brokers have ended the transactions that dead workers left open.

        Kafka 4.3.1 can lose the end of such a transaction when its only broker goes down meanwhile: it lists the
        transaction as complete, and its offsets stay pending for good. That is no fault of a worker, nor one that a
        worker could mend.
        """
        dead = [f"-{worker.process.pid}-" for worker in self.service.workers if not worker.running]

        def are_settled() -> bool:
            with Connection(self.broker.bootstrap).admin() as admin:
                listed = [one for found in admin.list_transactions().values() for one in found]
            return not any(
                one.state.value in ("Ongoing", "PrepareCommit", "PrepareAbort")
                and any(mark in one.transactional_id for mark in dead)
                for one in listed
            )

        eventually(are_settled, 60.0, "the transactions of dead workers end")

    # Workers

    def _running(self) -> list[WorkerProcess]:
        return [worker for worker in self.service.workers if worker.running]

    def _any_worker(self) -> WorkerProcess:
        """One that has had partitions; a new one takes seconds to get there, while faults go on."""

        def ready() -> list[WorkerProcess]:
            self._fill_up()
            return [worker for worker in self._running() if worker.said("restored in")]

        return self._draw.choice(eventually(ready, 120.0, "a worker with partitions"))

    def _start(self) -> None:
        self.service.start(faulty=True, **self._environment)

    def _fill_up(self) -> None:
        while len(self._running()) < WORKERS:
            self._start()

    def _some_node(self) -> local_broker.Node:
        """The broker, or one node of a cluster."""
        return self._draw.choice([node for node in self.broker.nodes if node.running])

    # Outcome

    def _wait_for_progress(self) -> None:
        eventually(lambda: sum(self.service.committed().values()) > 0, 60.0, "the first commit")

    def _is_done(self) -> bool:
        self._fill_up()
        return self.service.caught_up()

    def _compare(self) -> None:
        found = self.service.outputs()
        self.report.records = sum(len(values) for sensors in found.values() for values in sensors.values())
        expected = alone(self.service.settings, self._input(), self.service.settings.mapping)
        for sensors in (*expected.values(), *found.values()):
            self._check_victim(sensors.pop(VICTIM, []))
        found["events"] = {sensor: self._without_reports(values) for sensor, values in found["events"].items()}
        found["events"] = {sensor: values for sensor, values in found["events"].items() if values}
        self.report.difference = self.report.difference or first_difference(expected, found)

    def _input(self) -> list[Any]:
        """The records of the input, those of topics that are gone included. A client that loses its broker may send
        records twice after all: workers take what the topic holds."""
        held = [*self._held, *records(self.service.connection, self.service.name)]
        sent, there = (Counter(record.value for record in found) for found in (self._load.records, held))
        assert not sent - there, f"{(sent - there).total()} records of the load are on no topic"
        self.report.sent_twice = (there - sent).total()
        return held

    def _without_reports(self, events: list[bytes]) -> list[bytes]:
        """Without the notices about recreated topics, of which there is one at most for each."""
        others = [value for value in events if b'"kind":"topic_recreated"' not in value]
        if len(events) - len(others) > self.report.faults.count("topic-recreated"):
            self.report.difference = f"too many notices about recreated topics: {events}"
        return others

    def _check_victim(self, values: list[bytes]) -> None:
        """Every generation but the first is reported, and the sensor is followed to the end. A damaged number of the
        generation counts from 1 again."""
        found = [messages.decode(value) for value in values]
        states = [one for one in found if isinstance(one, messages.StateRecord)]
        notices = [one for one in found if isinstance(one, messages.Notice) and one.kind == "new_generation"]
        self.report.generations += len(notices)
        newest = max((one.generation for one in found), default=0)
        if notices and not 0 < newest <= len(notices):
            self.report.difference = f"generation {newest} of {VICTIM}, {len(notices)} notices"
        if states and microseconds(datetime.fromisoformat(states[-1].time)) < (self._load.newest - 10) * 1_000_000:
            self.report.difference = f"{VICTIM} is followed until {states[-1].time} only"

    def _read_logs(self) -> None:
        for worker in self.service.workers:
            self.report.rolled_back += len(worker.said("cycle rolled back")) + len(
                worker.said("going on from the last")
            )
            for line in worker.said("restored in"):
                replayed, seconds = re.findall(r"(\d+) records replayed, restored in ([0-9.]+) s", line)[0]
                self.report.restores += 1
                self.report.replayed += int(replayed)
                self.report.slowest_restore = max(self.report.slowest_restore, float(seconds))


@contextlib.contextmanager
def impatient(broker: local_broker.Broker):
    """The broker, started, with a coordinator that ends transactions soon after their time is up."""
    for node in broker.nodes:
        with node.properties.open("a", encoding="utf-8") as file:
            file.write("\ntransaction.abort.timed.out.transaction.cleanup.interval.ms=500\n")
    with broker:
        yield broker


def run(
    folder: Path,
    faults: Sequence[str],
    seed: int,
    *,
    nodes: int = 1,
    changelog: bool = True,
    say: Say = lambda line: None,
) -> Report:
    """A run on a broker of its own."""
    made = local_broker.single(folder / "broker") if nodes == 1 else local_broker.three_nodes(folder / "broker")
    with impatient(made) as broker:
        return Chaos(broker, folder / "workers", seed, say, changelog).run(faults)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Faults under load; says whether anything came out differently.")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--no-changelog", action="store_true", help="switch changelog writes off: must be found out")
    parser.add_argument("--folder", type=Path, help="where logs stay (default: a temporary folder)")
    arguments = parser.parse_args(argv)
    compile_kernels(Rule())  # no worker shall compile under load
    with tempfile.TemporaryDirectory() as temporary:
        report = run(
            (arguments.folder or Path(temporary)).absolute(),
            plan(arguments.faults, arguments.seed),
            arguments.seed,
            nodes=arguments.nodes,
            changelog=not arguments.no_changelog,
            say=lambda line: print(f"{time.strftime('%H:%M:%S')} {line}", flush=True),
        )
    print(report)
    return 0 if report.difference is None else 1


if __name__ == "__main__":
    sys.exit(main())
