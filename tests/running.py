"""A worker in a thread on topics of its own, for tests of the tools around it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from kafka import KafkaProducer

from service.composition import KafkaService
from service.kafka import groups, own_topics
from service.kafka import topics as kafka_topics
from service.kafka.connection import Connection
from service.settings import Settings
from service.settings.sections import Topics

START = 1_760_000_000.0


def settings_for(connection: Connection, folder: Path, partitions: int = 2, **sections: Any) -> Settings:
    """Settings with input and output topics of their own, which are made; ``sections`` come on top."""
    name = folder.name + f"-{time.time_ns():x}"
    plain: dict[str, Any] = {
        "kafka": {"bootstrap": connection.bootstrap, "group": name, "topics": [f"{name}.in"], "start_from": "earliest"},
        "topics": {kind: f"{name}.{kind}" for kind in Topics().names},
        "mapping": {"partitioned_by_sensor": True},
        "worker": {"store": folder / "store", "cycle_s": 0.05},
        "http": {"port": 0},
    }
    plain["topics"]["partitions"] = partitions
    for section, options in sections.items():
        plain[section] = plain.get(section, {}) | options if isinstance(options, dict) else options
    settings = msgspec.convert(plain, Settings)
    # for ever: the records' times lie in the past
    kafka_topics.create(connection, [kafka_topics.TopicSpec(f"{name}.in", partitions, {"retention.ms": "-1"})])
    own_topics.create(settings)
    return settings


@contextmanager
def running(settings: Settings) -> Iterator[KafkaService]:
    """The worker, stopped in order at the end."""
    worker = KafkaService(settings)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(30)
        assert not thread.is_alive(), "the worker does not stop"
        if failed:
            raise failed[0]


def readings(sensor: str, values: list[float], since: float = START) -> list[bytes]:
    """In our own format, one a second."""
    return [
        msgspec.json.encode({"sensor": sensor, "time": since + i, "value": value}) for i, value in enumerate(values)
    ]


def send(settings: Settings, records: list[bytes], partition: int = 0) -> None:
    producer = Connection(settings.kafka.bootstrap).build(KafkaProducer)
    for record in records:
        producer.send(settings.kafka.topics[0], record, partition=partition, timestamp_ms=int(START * 1000) + 60_000)
    producer.flush()
    producer.close()


def committed(settings: Settings, topic: str | None = None) -> int:
    """How many offsets of a topic the group has committed, over its partitions."""
    found = groups.committed(Connection(settings.kafka.bootstrap), settings.kafka.group)
    return sum(offset for (name, _), (offset, _) in found.items() if name == (topic or settings.kafka.topics[0]))


def accepted(worker: KafkaService) -> float | None:
    """Readings that the worker has counted."""
    return worker.metrics.registry.get_sample_value("ishsmm_readings_total", {"result": "accepted"})


def wait_for(done: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)
