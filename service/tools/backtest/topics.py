"""The records of topics as a backtest reads them: without a consumer group, nothing is committed."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from typing import Any

from service.kafka import topics as kafka_topics
from service.kafka.changelog import ChangelogReader, ReadStalled
from service.kafka.connection import Connection, ConnectionProblem


class TopicRecords:
    """Committed records of topics between two times of theirs (epoch milliseconds), as often as they are asked for.

    ``merged``: in the order of their timestamps over all partitions, else one partition after the other.
    """

    def __init__(
        self, connection: Connection, topics: Sequence[str], begin: int | None, end: int | None, *, merged: bool
    ) -> None:
        self._connection = connection
        self._begin, self._end = begin, end
        self._merged = merged
        connection.check(reads=topics)
        counts = kafka_topics.partition_counts(connection, topics)
        self._places = [(topic, number) for topic in topics for number in range(counts[topic])]

    def __iter__(self) -> Iterator[Any]:
        with ChangelogReader(self._connection, quickly=True) as reader:
            try:
                if not self._merged:
                    for place in self._places:
                        yield from self._read(reader, *place)
                    return
                partitions = [list(self._read(reader, *place)) for place in self._places]
            except ReadStalled as stalled:
                raise ConnectionProblem(f"cannot be read to its end: {stalled}") from stalled
        yield from heapq.merge(*partitions, key=lambda record: record.timestamp)

    def _read(self, reader: ChangelogReader, topic: str, number: int) -> Iterator[Any]:
        first = reader.beginning(topic, number)
        if self._begin is not None:
            first = max(first, reader.offset_at(topic, number, self._begin))
        end = reader.high_watermark(topic, number)
        if self._end is not None:
            end = min(end, reader.offset_at(topic, number, self._end))
        if first < end:
            yield from reader.records(topic, number, first, end)


def topics_that_match(connection: Connection, pattern: str) -> list[str]:
    """Names of topics that a regular expression matches as a whole."""
    with connection.admin() as admin:
        names = sorted(name for name in admin.list_topics() if re.fullmatch(pattern, name))
    if not names:
        raise ConnectionProblem(f"no topic matches {pattern!r}")
    return names
