"""Topics of what people say: one partition, compacted, small, read as a whole by everybody who follows them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from service.kafka import guards
from service.kafka.changelog import ReadStalled
from service.kafka.connection import REQUEST_MS, Connection, ConnectionProblem
from service.operations.control import Changes, ControlBook
from service.operations.names import NameBook

_CATCH_UP_SECONDS = 10.0
_WRITTEN_WITHIN = 15.0
_POLL_RECORDS = 10_000


class FoldedState(Protocol):
    """What records come to."""

    def apply(self, changes: Changes) -> None: ...


_Folded = TypeVar("_Folded", bound=FoldedState)


class TopicFollower(Generic[_Folded]):
    """Keeps a book up to date with a topic. Nothing happens but in its calls."""

    def __init__(self, connection: Connection, topic: str, book: _Folded) -> None:
        self.book = book
        self._connection = connection
        self._place = TopicPartition(topic, 0)
        self._consumer = connection.consumer(
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=_POLL_RECORDS,
            fetch_max_wait_ms=100,  # a question waits behind a fetch that waits for records
        )
        self._consumer.assign([self._place])
        self._consumer.seek(self._place, 0)

    def poll(self, timeout: float = 0.0) -> bool:
        """Take note of what has come; returns whether anything has."""
        try:
            found = self._consumer.poll(timeout_ms=int(timeout * 1000)).get(self._place, ())
        except KafkaError:
            return False  # brokers that are away are somebody else's to tell of
        self.book.apply({record.key.decode(errors="replace"): record.value for record in found if record.key})
        return bool(found)

    def catch_up(self) -> None:
        """Take note of everything that is on the topic by now; ReadStalled where brokers do not answer."""
        try:
            end = self._consumer.end_offsets([self._place], timeout_ms=REQUEST_MS)[self._place]
            deadline = time.monotonic() + _CATCH_UP_SECONDS
            while (self._consumer.position(self._place, timeout_ms=REQUEST_MS) or 0) < end:
                self.poll(0.1)
                if time.monotonic() > deadline:
                    raise ReadStalled(f"{self._place.topic} cannot be read to its end at {end}")
        except KafkaError as error:
            raise ReadStalled(f"{self._place.topic}: {type(error).__name__}: {error}") from error

    def write(self, changes: Changes) -> None:
        """Say something more; returns when the brokers have it. May be called from any thread."""
        write(self._connection, self._place.topic, changes)

    def close(self) -> None:
        self._consumer.close()


class ControlFollower(TopicFollower[ControlBook]):
    """The control topic."""

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection, topic, ControlBook())


class NameFollower(TopicFollower[NameBook]):
    """The topic of names of states."""

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection, topic, NameBook())


def write(connection: Connection, topic: str, changes: Changes) -> None:
    """Records by their keys; returns when the brokers have them."""
    producer = connection.build(KafkaProducer, acks="all", metrics_enabled=False)
    try:
        sent = [producer.send(topic, value, key.encode(), partition=0) for key, value in changes.items()]
        for future in sent:
            future.get(timeout=_WRITTEN_WITHIN)
    except KafkaError as error:
        raise ConnectionProblem(f"{topic!r} cannot be written: {type(error).__name__}: {error}") from error
    finally:
        guards.close(producer, 1.0)


class _TopicLog(Generic[_Folded]):
    """A topic of what people say as commands use it."""

    def __init__(self, connection: Connection, topic: str, follow: Callable[[], TopicFollower[_Folded]]) -> None:
        self._connection, self._topic, self._follow = connection, topic, follow
        connection.check(reads=[topic], writes=[topic])

    def read(self) -> _Folded:
        """Return the state folded from all records."""
        follower = self._follow()
        try:
            follower.catch_up()
        except ReadStalled as stalled:
            raise ConnectionProblem(str(stalled)) from stalled
        finally:
            follower.close()
        return follower.book

    def write(self, changes: Changes) -> None:
        """Write records. Returns when the brokers have them."""
        write(self._connection, self._topic, changes)


class KafkaControl(_TopicLog[ControlBook]):
    """The control topic as commands use it."""

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection, topic, lambda: ControlFollower(connection, topic))


class KafkaNames(_TopicLog[NameBook]):
    """The topic of names of states as commands use it."""

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection, topic, lambda: NameFollower(connection, topic))
