"""A file's readings onto a topic, in our own format and keyed by sensor."""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError

from service.kafka.connection import Connection, ConnectionProblem
from service.sensors.partition import Record
from service.wire.decoding import Decoder
from service.wire.readings import BadRecord, Reading, encode_reading

# Records that may be under way: the client has no bound of its own.
_MOST_IN_FLIGHT = 20_000
_DELIVERED_WITHIN = 30.0


class Pace(NamedTuple):
    """How fast readings go: so many a second, so many times their own clock, or, with neither, as fast as they can."""

    rate: float | None = None
    speed: float | None = None


class Sent(NamedTuple):
    """What became of a file."""

    readings: int
    acknowledged: int
    refused: Counter[str]  # records by reason
    lines: list[tuple[int, str]]  # the first that were refused: line and why
    failure: str = ""


def paced(
    readings: Iterable[Reading], pace: Pace, *, now: bool, wait: Callable[[float], bool], clock: Callable[[], float]
) -> Iterator[Reading]:
    """Readings at their time. ``now`` moves their times so that the first is the present one; with a rate they are then
    of the moment at which they are sent. ``wait`` waits so many seconds and says whether that is the end."""
    began = clock()
    first: int | None = None
    for count, reading in enumerate(readings):
        if first is None:
            first = reading.time
        elapsed = (reading.time - first) / 1e6
        due = began
        if pace.rate is not None:
            due += count / pace.rate
        elif pace.speed is not None:
            due += elapsed / pace.speed
        if (left := due - clock()) > 0 and wait(left):
            return
        if now:
            since = elapsed / (pace.speed or 1.0) if pace.rate is None else due - began
            reading = reading._replace(time=round((began + since) * 1e6))
        yield reading


def decoded(
    records: Iterable[Record], decode: Decoder, refuse: Callable[[Record, BadRecord], None]
) -> Iterator[Reading]:
    """The readings of records, those that cannot be read set aside."""
    for record in records:
        try:
            yield from decode(record.key, record.value, record.timestamp)
        except BadRecord as bad:
            refuse(record, bad)


def produce(
    connection: Connection,
    topic: str,
    records: Iterable[Record],
    decode: Decoder,
    *,
    pace: Pace = Pace(),
    now: bool = False,
    loop: bool = False,
    wait: Callable[[float], bool],
    progress: Callable[[int], None] = lambda sent: None,
) -> Sent:
    """Send a file, or send it again and again; ends early when ``wait`` says so."""
    refused: Counter[str] = Counter()
    lines: list[tuple[int, str]] = []
    outbox = _Outbox(connection, topic)

    def refuse(record: Record, bad: BadRecord) -> None:
        refused[bad.reason] += 1
        if len(lines) < 5:
            lines.append((record.offset, str(bad)))

    failure = ""
    try:
        for _ in itertools.count() if loop else range(1):
            before = outbox.sent
            readings = decoded(records, decode, refuse)
            for reading in paced(readings, pace, now=now, wait=wait, clock=time.time):
                outbox.send(reading)
                progress(outbox.sent)
            if wait(0.0) or outbox.sent == before:
                break
        outbox.settle()
    except KafkaError as error:
        failure = f"{type(error).__name__}: {error}"
    finally:
        outbox.close()
    return Sent(outbox.sent, outbox.acknowledged, refused, lines, failure)


class _Outbox:
    """Counts what brokers have acknowledged."""

    def __init__(self, connection: Connection, topic: str) -> None:
        connection.check(writes=[topic])
        self._producer: Any = connection.build(
            KafkaProducer, acks="all", linger_ms=5, metrics_enabled=False, allow_auto_create_topics=False,
            delivery_timeout_ms=int(_DELIVERED_WITHIN * 1000),
        )  # fmt: skip
        self._topic = topic
        self._pending: deque[Any] = deque()
        self.sent = self.acknowledged = 0

    def send(self, reading: Reading) -> None:
        if len(self._pending) >= _MOST_IN_FLIGHT:
            self._take_in(len(self._pending) // 2)
        self._pending.append(self._producer.send(self._topic, encode_reading(reading), reading.sensor.encode()))
        self.sent += 1

    def settle(self) -> None:
        """Wait for what is under way."""
        self._take_in(len(self._pending))

    def _take_in(self, count: int) -> None:
        for _ in range(count):
            self._pending[0].get(timeout=_DELIVERED_WITHIN)
            self._pending.popleft()
            self.acknowledged += 1

    def close(self) -> None:
        self._producer.close(timeout=5)


def check_pace(rate: float | None, speed: float | None) -> Pace:
    """The pace of a command line."""
    if rate is not None and speed is not None:
        raise ValueError("--rate and --speed are given: keep one of them")
    for option, number in (("--rate", rate), ("--speed", speed)):
        if number is not None and not 0.0 < number < float("inf"):
            raise ValueError(f"{option} takes a number above 0, got {number:g}")
    return Pace(rate, speed)


def create_topic(connection: Connection, topic: str, partitions: int, replication: int) -> str:
    """Make the topic where it is missing; returns a line about it."""
    from service.kafka import topics

    try:
        found = topics.partition_counts(connection, [topic])[topic]
    except ConnectionProblem:
        spec = topics.TopicSpec(topic, partitions, replication=replication)
        return topics.create(connection, [spec])[0]
    return f"{topic}: exists with {found} partitions"
