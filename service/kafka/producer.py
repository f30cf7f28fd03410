"""Producing with a guarantee: a cycle's records and its input offsets, together or not at all.

``Transactions`` gives exactly once, ``AtLeastOnce`` repeats a cycle's records after a fault. Both are used alike:

    begin -> send, send, ... -> commit(offsets, group_metadata)

and fail in two ways: ``CycleAborted``, after which the same producer goes on with the next cycle, and
``ProducerLost``, after which a new one is built with the same transactional id, which settles the outcome. A third
one, ``MemberReplaced``, ends the worker: another one runs under its name.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from kafka import KafkaProducer
from kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    MessageSizeTooLargeError,
    RebalanceInProgressError,
    TransactionalIdAuthorizationFailedError,
)
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata
from kafka.structs import TopicPartition as ClientPartition

from service.kafka import guards
from service.kafka.connection import Connection, ConnectionProblem
from service.kafka.consumer import MemberReplaced, Subscription
from service.runtime.log import CycleAborted, OutcomeUnknown, TopicPartition

TRANSACTION_TIMEOUT_MS = 15_000
MAX_BYTES_IN_FLIGHT = 32 * 1024 * 1024
SETTLE_SECONDS = 30.0
RECORD_OVERHEAD = 70  # bytes of framing that a record costs on top of its key and value

Offsets = Mapping[TopicPartition, tuple[int, str]]  # next offset to read, and our metadata


class ProducerLost(OutcomeUnknown):
    """Whether the cycle was committed is unknown, or another worker has taken over.

    Build a new producer with the same transactional id: that ends what is open. Then read the committed offsets
    again, restore the state that belongs to them and go on from there.
    """


class RecordTooLarge(ValueError):
    """The record was not sent; the cycle can go on without it."""


class Producer(Protocol):
    """What both guarantees offer."""

    @property
    def bytes_in_flight(self) -> int: ...

    def begin(self) -> None: ...

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None: ...

    def commit(self, offsets: Offsets, group_metadata: ConsumerGroupMetadata) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class _Outbox:
    """Records on their way: every one is accounted for, and their bytes are bounded.

    The client has no bound of its own, and would commit a transaction although one of its records had failed.
    """

    def __init__(self, connection: Connection, max_bytes: int, **settings: Any) -> None:
        self.producer = connection.build(
            KafkaProducer,
            **{
                "acks": "all",
                "enable_idempotence": True,
                # A batch that expires leaves a hole in a transaction, or stalls an idempotent producer: none expires.
                "delivery_timeout_ms": 2**31 - 1,
                "retry_backoff_ms": 10,  # a transaction often waits for the previous one, for this long
                "max_block_ms": 10_000,
                "linger_ms": 5,
                # One batch per partition is under way at a time: with the usual 64 KB, snapshots of 16 KB take twice as
                # long. Well below the 1 MB that brokers accept by default.
                "batch_size": 512 * 1024,
                "allow_auto_create_topics": False,
                "metrics_enabled": False,
                **settings,
            },
        )
        guards.require_private_names(self.producer)
        guards.survive_refused_connections(self.producer)
        self._max_bytes = max_bytes
        self._pending: deque[tuple[Any, int]] = deque()
        self._bytes = 0

    @property
    def bytes_in_flight(self) -> int:
        return self._bytes

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: list[tuple[str, bytes]] | None,
    ) -> None:
        size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        if self._bytes + size > self._max_bytes:
            self._wait_until_below(self._max_bytes // 2)
        try:
            future = self.producer.send(topic, value, key, headers, partition, timestamp_ms)
        except MessageSizeTooLargeError as error:
            raise RecordTooLarge(f"a record of {size:,} bytes for {topic!r} is larger than a request may be") from error
        except KafkaError as error:
            raise ProducerLost(f"cannot send to {topic!r}: {_named(error)}") from error
        self._pending.append((future, size))
        self._bytes += size

    def settle(self) -> None:
        """Wait for all records; return only when every one of them has arrived."""
        try:
            self.producer.flush(timeout=SETTLE_SECONDS)
        except KafkaError as error:
            raise ProducerLost(f"records not delivered within {SETTLE_SECONDS:.0f} s: {_named(error)}") from error
        self._wait_until_below(0)

    def forget(self) -> None:
        self._pending.clear()
        self._bytes = 0

    def close(self) -> None:
        guards.close(self.producer, 1.0)  # with brokers away what is queued is dropped: it belongs to no commit

    def _wait_until_below(self, limit: int) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._pending and (self._bytes > limit or limit == 0):
            future, size = self._pending[0]
            try:
                future.get(timeout=max(0.0, deadline - time.monotonic()))
            except KafkaError as error:
                raise ProducerLost(f"a record did not arrive: {_named(error)}") from error
            self._pending.popleft()
            self._bytes -= size


class Transactions:
    """Exactly once: records and offsets of a cycle become visible together.

    A second producer with the same transactional id shuts this one out.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT,
        **settings: Any,
    ) -> None:
        self.transactional_id = transactional_id
        self._outbox = _Outbox(
            connection,
            max_bytes_in_flight,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            **settings,
        )
        try:
            self._outbox.producer.init_transactions()
        except TransactionalIdAuthorizationFailedError as error:
            self.close()
            raise ConnectionProblem(
                f"not allowed to use the transactional id {transactional_id!r}: allow WRITE and DESCRIBE on it"
            ) from error
        except KafkaError as error:
            self.close()
            raise ProducerLost(f"transactions do not start: {_named(error)}") from error

    @property
    def bytes_in_flight(self) -> int:
        return self._outbox.bytes_in_flight

    def begin(self) -> None:
        self._outbox.forget()
        guards.forget_refused_offsets(self._outbox.producer)
        self._lost_on_error("begin", self._outbox.producer.begin_transaction)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        self._outbox.send(topic, key, value, partition, timestamp_ms, headers)

    def commit(self, offsets: Offsets, group_metadata: ConsumerGroupMetadata) -> None:
        """Commit the cycle: its records first, all of them, then the offsets, then the transaction."""
        self._outbox.settle()
        if offsets:
            if group_metadata.generation_id < 0:
                # Shut out, and the client has heard of it: it now signs as nobody, whom brokers do not check.
                self.abort()
                raise CycleAborted("no longer a member of the group")
            try:
                self._outbox.producer.send_offsets_to_transaction(_client_offsets(offsets), group_metadata)
            except CommitFailedError as error:
                # Another worker has our partitions: this cycle is its to do. We are still who we are.
                self.abort()
                raise CycleAborted(f"no longer a member of the group: {_named(error)}") from error
            except FencedInstanceIdError as error:
                self.abort()
                raise MemberReplaced(group_metadata.group_id) from error
            except KafkaError as error:
                raise ProducerLost(f"offsets not accepted: {_named(error)}") from error
        self._lost_on_error("commit", self._outbox.producer.commit_transaction)

    def abort(self) -> None:
        """Drop the cycle."""
        self._outbox.forget()
        self._lost_on_error("abort", self._outbox.producer.abort_transaction)

    def close(self) -> None:
        """Leave; an open transaction ends with its timeout or with the next producer of the same id."""
        self._outbox.close()

    def _lost_on_error(self, what: str, act: Any) -> None:
        # A producer that was shut out raises the base class here, with the reason in its text only.
        try:
            act()
        except KafkaError as error:
            raise ProducerLost(f"{what} failed: {_named(error)}") from error


class AtLeastOnce:
    """Records first, then the consumer's offsets: after a fault a cycle is done again and its records come twice."""

    def __init__(
        self,
        connection: Connection,
        subscription: Subscription,
        *,
        max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT,
        **settings: Any,
    ) -> None:
        self._subscription = subscription
        self._outbox = _Outbox(connection, max_bytes_in_flight, **settings)

    @property
    def bytes_in_flight(self) -> int:
        return self._outbox.bytes_in_flight

    def begin(self) -> None:
        self._outbox.forget()

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        self._outbox.send(topic, key, value, partition, timestamp_ms, headers)

    def commit(self, offsets: Offsets, group_metadata: ConsumerGroupMetadata) -> None:
        """Wait for the records, then commit the offsets; the subscription knows its own group."""
        self._outbox.settle()
        if not offsets:
            return
        try:
            self._subscription.commit(offsets)
        except (CommitFailedError, RebalanceInProgressError) as error:
            raise CycleAborted(f"no longer a member of the group: {_named(error)}") from error
        except FencedInstanceIdError as error:
            raise MemberReplaced(group_metadata.group_id) from error
        except KafkaError as error:
            raise ProducerLost(f"offsets not committed: {_named(error)}") from error

    def abort(self) -> None:
        """Nothing to take back: what was sent stays sent."""
        self._outbox.forget()

    def close(self) -> None:
        self._outbox.close()


def _client_offsets(offsets: Offsets) -> dict[ClientPartition, OffsetAndMetadata]:
    return {ClientPartition(*partition): OffsetAndMetadata(*place) for partition, place in offsets.items()}


def _named(error: BaseException) -> str:
    """The client's errors often carry no text; their class always says something."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
