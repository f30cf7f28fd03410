"""The whole service on a real broker: readings a second, time to an event, restores, changelog traffic, memory.

    python benchmarks/service.py [--quick] [--only throughput,latency,restore,changelog,ied]

The broker is started for the run, on the same machine. The bare loop that throughput is compared with is the same
client with the same settings: it decodes the same JSON and publishes the same bytes in the same transactions, as they
were captured from a run of the service, and infers nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
# This folder last: the file has the name of the package.
sys.path = [path for path in sys.path if Path(path).resolve() != HERE]
sys.path += [str(HERE.parent), str(HERE.parent / "deploy" / "kafka"), str(HERE)]

import local_broker  # noqa: E402
import msgspec  # noqa: E402
import numpy as np  # noqa: E402
from kafka import KafkaProducer  # noqa: E402
from table import Table  # noqa: E402

from service import messages  # noqa: E402
from service.commands import topics as topics_command  # noqa: E402
from service.kafka import topics as kafka_topics  # noqa: E402
from service.kafka.connection import Connection  # noqa: E402
from service.kafka.consumer import Subscription  # noqa: E402
from service.kafka.producer import Transactions  # noqa: E402
from service.partition import Output, changelog_value, prepare_rule  # noqa: E402
from service.settings import Rule, Settings  # noqa: E402
from service.store import Saved  # noqa: E402
from service.tail import follow  # noqa: E402
from service.track import Track  # noqa: E402
from service.worker import Commit, Worker, connection_of  # noqa: E402

PARTITIONS = 4
START = 1_760_000_000
SENSORS = 500
RATE = 2_000
FOR_EVER = {"retention.ms": "-1"}  # the readings' times lie in the past


# --- sensors and topics ------------------------------------------------------------------------------------------


def values(sensor: int, count: int, every: int = 500, size: float = 5.0) -> np.ndarray:
    """Unit noise; the level jumps up and down ``every`` so many readings, at another time for each sensor."""
    rng = np.random.default_rng([7, sensor])
    steps = (np.arange(count) + int(rng.integers(0, every))) // every % 2
    return np.asarray(100.0 + size * steps + rng.normal(0.0, 1.0, count))


def reading(sensor: int, moment: float, value: float) -> bytes:
    return b'{"sensor":"sensor-%d","time":%.3f,"value":%.4f}' % (sensor, moment, value)


def send_backlog(connection: Connection, topic: str, sensors: int, count: int) -> None:
    """``count`` readings of each sensor, one a second, keyed; sensors by turns."""
    producer = connection.build(KafkaProducer, batch_size=256 * 1024, linger_ms=20, metrics_enabled=False)
    columns = [values(sensor, count) for sensor in range(sensors)]
    for i in range(count):
        for sensor in range(sensors):
            producer.send(
                topic, reading(sensor, START + i, columns[sensor][i]), b"sensor-%d" % sensor,
                partition=sensor % PARTITIONS, timestamp_ms=1000 * (START + i),
            )  # fmt: skip
        if i % 50 == 49:
            producer.flush()
    producer.flush()
    producer.close()


def make_settings(bootstrap: list[str], folder: Path, name: str, topic: str, **sections: Any) -> Settings:
    """Settings with output topics of their own, which are made."""
    plain: dict[str, Any] = {
        "kafka": {"bootstrap": bootstrap, "group": name, "topics": [topic], "start_from": "earliest"},
        "topics": {kind: f"{name}.{kind}" for kind in ("events", "states", "dead_letters", "changelog", "readings")},
        "mapping": {"partitioned_by_sensor": True},
        "worker": {"store": folder / "store"},
        "limits": {"memory_mb": 16_384},
        "http": {"port": 0},
    }
    for section, options in sections.items():
        plain[section] = plain.get(section, {}) | options if isinstance(options, dict) else options
    settings = msgspec.convert(plain, Settings)
    topics_command.create(settings)
    return settings


# --- throughput --------------------------------------------------------------------------------------------------


class Cycle(NamedTuple):
    """What a transaction of the service held."""

    consumed: int  # records, up to and with this cycle
    sent: list[tuple[str, bytes, bytes, int]]  # kind, key, value, partition


class Watched(Worker):
    """A worker that stops when the backlog is done, takes its time, and can remember what it sent."""

    def __init__(self, settings: Settings, total: int, capture: bool = False) -> None:
        super().__init__(settings)
        self._total, self._capture = total, capture
        self._consumed = 0
        self.began = self.ended = 0.0
        self.cycles: list[Cycle] = []

    def _work(self, records: Any, save_all: bool = False) -> bool:
        if records and not self.began:
            self.began = time.perf_counter()
        self._consumed += sum(map(len, records.values()))
        did = super()._work(records, save_all)
        if self._consumed >= self._total and not self.ended:
            self.ended = time.perf_counter()
            self.stop()
        return did

    def _commit(self, outputs: list[tuple[int, Output]], snapshots: Any, offsets: Any) -> None:
        if self._capture and not self.ended:
            sent = [(one.kind, one.key, one.value, number) for number, one in outputs]
            sent += [("changelog", key, value, number) for number, key, value in self._changelog_records(snapshots)]
            self.cycles.append(Cycle(self._consumed, sent))
        super()._commit(outputs, snapshots, offsets)


class _Plain(msgspec.Struct, gc=False):
    sensor: str
    time: float
    value: float


def bare_loop(settings: Settings, total: int, cycles: list[Cycle]) -> float:
    """Seconds that the client alone takes."""
    connection, kafka, names = connection_of(settings), settings.kafka, settings.topics.names
    subscription = Subscription(
        connection, kafka.group, kafka.topics, start_from="earliest", max_poll_records=settings.worker.poll_records
    )
    producer = Transactions(connection, f"{kafka.group}-bare")
    decode = msgspec.json.Decoder(_Plain).decode
    consumed, waiting, began = 0, list(reversed(cycles)), 0.0
    while consumed < total:
        records = subscription.poll(settings.worker.cycle_s)
        changes = subscription.take_changes()
        if changes.assigned:
            subscription.locate(changes.assigned)
            subscription.resume(changes.assigned)
        if not records:
            continue
        began = began or time.perf_counter()
        offsets = {}
        for place, taken in records.items():
            for record in taken:
                decode(record.value)
            consumed += len(taken)
            offsets[place] = (taken[-1].offset + 1, '{"unsaved_from":0,"clock":0,"began":0}')
        producer.begin()
        while waiting and (waiting[-1].consumed <= consumed or consumed >= total):
            for kind, key, value, number in waiting.pop().sent:
                producer.send(names[kind], key, value, number)
        producer.commit(offsets, subscription.group_metadata())
    took = time.perf_counter() - began
    subscription.close()
    producer.close()
    return took


def throughput(broker: local_broker.Broker, folder: Path, count: int, runs: int, profile: str | None = None) -> None:
    connection, total = Connection(broker.bootstrap), SENSORS * count
    topic = "backlog"
    kafka_topics.create(connection, [kafka_topics.TopicSpec(topic, PARTITIONS, FOR_EVER)])
    send_backlog(connection, topic, SENSORS, count)

    def settings(name: str) -> Settings:
        return make_settings(broker.bootstrap, folder, name, topic)

    first = Watched(settings("capture"), total, capture=True)
    first.run()
    if profile:
        import cProfile

        profiler, watched = cProfile.Profile(), Watched(settings("profiled"), total)
        profiler.runcall(watched.run)
        profiler.dump_stats(profile)
        return
    sent = [record for cycle in first.cycles for record in cycle.sent]
    ours, bare = [], []
    for number in range(runs):
        watched = Watched(settings(f"ours-{number}"), total)
        watched.run()
        ours.append(total / (watched.ended - watched.began))
        bare.append(total / bare_loop(settings(f"bare-{number}"), total, first.cycles))
    table = Table(
        f"A backlog of {total:,} readings of {SENSORS} sensors in {PARTITIONS} partitions, one worker, model auto, "
        f"default window: {len(first.cycles)} transactions with {len(sent):,} records of "
        f"{sum(len(value) for _, _, value, _ in sent) / 1e6:.1f} MB. Readings a second, median of {runs} alternating "
        "runs (lowest and highest).",
        loop=-10, readings_s=12, range=20,
    )  # fmt: skip
    for name, rates in (("service", ours), ("bare", bare)):
        table.row(name, f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f} - {max(rates):,.0f}")
    print(f"service / bare: {statistics.median(ours) / statistics.median(bare):.0%}\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the readings, fewer runs")
    parser.add_argument("--only", default="throughput", help="parts, separated by commas")
    parser.add_argument("--count", type=int, help="readings of each sensor of the backlog")
    parser.add_argument("--runs", type=int, help="runs of each loop")
    parser.add_argument("--profile", metavar="FILE", help="write a cProfile of the service on the backlog, and end")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with local_broker.single(folder / "broker") as broker:
            throughput(broker, folder, options.count or (80 if options.quick else 400), options.runs or (3 if options.quick else 5), options.profile)


if __name__ == "__main__":
    main()
