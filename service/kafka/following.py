"""Read committed records of topics as they come, outside of any consumer group."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from service.kafka import topics as kafka_topics
from service.kafka.connection import REQUEST_MS, Connection, ConnectionProblem


class Since(NamedTuple):
    """Begin at the first record that is not older than a time, in milliseconds since the epoch."""

    timestamp: int


# Where to begin with a topic: at this many of the last records in each partition, at a time, or (None) at the first
# record.
Beginning = int | Since | None


class TopicReader:
    """Reads all partitions of topics. Raises ConnectionProblem if the brokers do not answer."""

    def __init__(self, connection: Connection, beginnings: Mapping[str, Beginning], **options: Any) -> None:
        counts = kafka_topics.partition_counts(connection, beginnings)
        self._topics = ", ".join(beginnings)
        self._consumer = connection.consumer(
            isolation_level="read_committed", enable_auto_commit=False, auto_offset_reset="earliest", **options
        )
        places = [TopicPartition(topic, number) for topic in beginnings for number in range(counts[topic])]
        try:
            self._ends = self._begin(places, beginnings)
        except KafkaError as error:
            self.close()
            raise self._problem(error) from error

    def _begin(self, places: list[TopicPartition], beginnings: Mapping[str, Beginning]) -> dict[TopicPartition, int]:
        """Seek to the first wanted records. Returns the end offsets at this time."""
        consumer = self._consumer
        consumer.assign(places)
        ends: dict[TopicPartition, int] = consumer.end_offsets(places, timeout_ms=REQUEST_MS)
        firsts = consumer.beginning_offsets(places, timeout_ms=REQUEST_MS)
        times = {place: since.timestamp for place in places if isinstance(since := beginnings[place.topic], Since)}
        dated = consumer.offsets_for_times(times, timeout_ms=REQUEST_MS) if times else {}
        for place in places:
            wanted = beginnings[place.topic]
            if wanted is None:
                begin = firsts[place]
            elif isinstance(wanted, int):
                begin = max(firsts[place], ends[place] - wanted)
            else:
                found = dated.get(place)
                begin = ends[place] if found is None else found.offset
            consumer.seek(place, begin)
        return ends

    def poll(self, timeout_ms: int) -> list[Any]:
        """Return new records, in the order of each partition."""
        try:
            return [record for records in self._consumer.poll(timeout_ms=timeout_ms).values() for record in records]
        except KafkaError as error:
            raise self._problem(error) from error

    @property
    def has_caught_up(self) -> bool:
        """Whether everything was read that existed at the start."""
        try:
            return all(self._consumer.position(place) >= end for place, end in self._ends.items())
        except KafkaError as error:
            raise self._problem(error) from error

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _problem(self, error: KafkaError) -> ConnectionProblem:
        return ConnectionProblem(f"{self._topics} cannot be read: {type(error).__name__}: {error}")


def follow(
    connection: Connection, topic: str, *, from_beginning: bool = False, until_end: bool = False,
    is_over: Callable[[], bool] = lambda: False, ready: Callable[[], None] = lambda: None,
) -> Iterator[bytes]:  # fmt: skip
    """Yield committed records of all partitions of a topic: new ones only, or all.

    ``until_end``: stop after the records that exist now. ``ready`` is called once no new record can be missed.
    """
    for value, _ in follow_dated(
        connection, topic, from_beginning=from_beginning, until_end=until_end, is_over=is_over, ready=ready
    ):
        yield value


def follow_dated(
    connection: Connection, topic: str, *, from_beginning: bool = False, until_end: bool = False,
    is_over: Callable[[], bool] = lambda: False, ready: Callable[[], None] = lambda: None,
) -> Generator[tuple[bytes, int], None, None]:  # fmt: skip
    """Yield records as ``follow`` does, with their times of publication in milliseconds since the epoch."""
    beginning = {topic: None if from_beginning else 0}
    for record in follow_several(connection, beginning, until_end=until_end, is_over=is_over, ready=ready):
        if record is not None:
            yield record


def follow_several(
    connection: Connection, beginnings: Mapping[str, Beginning], *, until_end: bool = False,
    is_over: Callable[[], bool] = lambda: False, ready: Callable[[], None] = lambda: None,
) -> Iterator[tuple[bytes, int] | None]:  # fmt: skip
    """Yield records of several topics as ``follow_dated`` does. Yields None whenever there is nothing more for now."""
    reader = TopicReader(connection, beginnings)
    try:
        ready()
        while not is_over():
            yield from ((record.value, record.timestamp) for record in reader.poll(200) if record.value is not None)
            if until_end and reader.has_caught_up:
                return
            yield None
    finally:
        reader.close()
