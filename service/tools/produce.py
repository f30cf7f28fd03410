"""A file's readings onto a topic, in our own format and keyed by sensor."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from service.kafka.connection import Connection, ConnectionProblem
from service.kafka.sending import Sender, SendFailed
from service.sensors.records import InputRecord
from service.wire.decoding import Decoder
from service.wire.readings import BadRecord, Reading, encode_reading


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
    records: Iterable[InputRecord], decode: Decoder, refuse: Callable[[InputRecord, BadRecord], None]
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
    records: Iterable[InputRecord],
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
    sender = Sender(connection, topic)

    def refuse(record: InputRecord, bad: BadRecord) -> None:
        refused[bad.reason] += 1
        if len(lines) < 5:
            lines.append((record.offset, str(bad)))

    failure = ""
    try:
        for _ in itertools.count() if loop else range(1):
            before = sender.sent
            readings = decoded(records, decode, refuse)
            for reading in paced(readings, pace, now=now, wait=wait, clock=time.time):
                sender.send(reading.sensor, encode_reading(reading))
                progress(sender.sent)
            if wait(0.0) or sender.sent == before:
                break
        sender.settle()
    except SendFailed as failed:
        failure = str(failed)
    finally:
        sender.close()
    return Sent(sender.sent, sender.acknowledged, refused, lines, failure)


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
