"""Reading input topics as a member of a consumer group.

Partitions come and go inside ``poll``; a new one is paused until the caller has restored what belongs to it:

    records = subscription.poll(0.1)
    changes = subscription.take_changes()
    starts = subscription.locate(changes.assigned)      # where each one stands, with its commit's metadata
    ... restore, perhaps seek further back ...
    subscription.resume(changes.assigned)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndMetadata
from kafka.structs import TopicPartition as ClientPartition

from service.kafka import guards
from service.kafka.connection import REQUEST_MS, Connection, ConnectionProblem
from service.kafka.sharing import OneMember, SharedApart
from service.kafka.unpacking import ConsumedRecord, unpack_quickly
from service.runtime.log import TopicPartition  # a tuple: the client's own is one, too

log = logging.getLogger(__name__)

EARLIEST, LATEST = "earliest", "latest"
UNREADABLE_AGAIN = 30.0  # seconds


class MemberReplaced(ConnectionProblem):
    """Another worker runs under this one's name: this one has to end, and must not be started again."""

    exit_code = 3

    def __init__(self, group: str) -> None:
        super().__init__(
            f"another worker has joined group {group!r} under this one's instance id: the newer worker continues, this "
            "one ends. Give each worker its own kafka.member"
        )


class BrokersAway(Exception):
    """The brokers did not answer a question; ask again."""


@contextmanager
def _asking(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise BrokersAway(f"{what}: {type(error).__name__}: {error}") from error


@dataclass
class AssignmentChanges:
    """Partitions that came and went since the last look, in that order of importance: a revoked one is not ours."""

    assigned: set[TopicPartition] = field(default_factory=set)
    revoked: set[TopicPartition] = field(default_factory=set)


class Subscription:
    """A member of a consumer group.

    ``start_from`` is where partitions begin that have no commit yet: earliest, latest, or a time in epoch milliseconds.
    Those of the topics in ``from_earliest`` always begin at their first record. Those of the topic ``shared_apart`` are
    shared out among the members apart from all others. ``one_member``: one of the members gets all partitions.
    ``quickly``: for thousands of records a second, see ``unpack_quickly``.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        topics: Collection[str] = (),
        *,
        pattern: str | None = None,
        start_from: str | int = LATEST,
        from_earliest: Collection[str] = (),
        shared_apart: str | None = None,
        one_member: bool = False,
        group_instance_id: str | None = None,
        max_poll_records: int = 5_000,
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 1_000,
        quickly: bool = False,
        **settings: Any,
    ) -> None:
        if isinstance(start_from, str) and start_from not in (EARLIEST, LATEST):
            raise ValueError(f"start_from {start_from!r}: it is earliest, latest, or a time in epoch milliseconds")
        if bool(topics) == bool(pattern):
            raise ValueError("a subscription takes topics or a pattern, one of the two")
        assignor: Any = CooperativeStickyAssignor if shared_apart is None else SharedApart(shared_apart)
        self.group = group
        self.start_from = start_from
        self._from_earliest = frozenset(from_earliest)
        self._unreadable: dict[TopicPartition, float] = {}  # and when to try again (monotonic)
        self._shortened: set[TopicPartition] = set()

        def knowing_its_topics(**settings: Any) -> KafkaConsumer:
            # One that joins before it has heard of its topics is given none of their partitions, for half a minute.
            consumer = KafkaConsumer(**settings)
            for topic in topics:
                consumer.partitions_for_topic(topic)
            return consumer

        self._consumer = connection.consumer(
            knowing_its_topics,
            **{
                "group_id": group,
                "group_instance_id": group_instance_id,
                "partition_assignment_strategy": (OneMember() if one_member else assignor,),
                "enable_auto_commit": False,
                "auto_offset_reset": "none",  # we decide, and say so
                "isolation_level": "read_committed",
                "max_poll_records": max_poll_records,
                "session_timeout_ms": session_timeout_ms,
                "heartbeat_interval_ms": heartbeat_interval_ms,
                # how soon topics are seen that match a pattern, or were deleted and created again
                "metadata_max_age_ms": 5_000,
                "allow_auto_create_topics": False,
                **settings,
            },
        )
        guards.finish_rejoining(self._consumer)
        guards.keep_late_answers(self._consumer)
        self._replaced = threading.Event()
        guards.note_replacement(self._consumer, self._replaced.set)
        if quickly:
            unpack_quickly(self._consumer)
        self._listener = _RebalanceListener(self._consumer)
        if pattern is not None:
            self._consumer.subscribe(pattern=pattern, listener=self._listener)
        else:
            self._consumer.subscribe(topics=sorted(topics), listener=self._listener)

    def poll(self, timeout: float) -> dict[TopicPartition, list[ConsumedRecord]]:
        """Records of the partitions that are not paused; returns within about ``timeout`` seconds."""
        try:
            self._try_unreadable_again()
            if self._replaced.is_set():
                raise FencedInstanceIdError(self.group)
            return dict(self._consumer.poll(timeout_ms=int(timeout * 1000)))
        except guards.Unreadable as unreadable:
            self._set_aside(unreadable)
            return {}
        except OffsetOutOfRangeError as error:
            self._go_back_into_range(error)
            return {}
        except FencedInstanceIdError as error:
            raise MemberReplaced(self.group) from error
        except GroupAuthorizationFailedError as error:
            raise ConnectionProblem(
                f"not allowed to use the consumer group {self.group!r}: allow READ on it"
            ) from error
        except TopicAuthorizationFailedError as error:
            raise ConnectionProblem(f"not allowed to read {error}: allow READ and DESCRIBE on it") from error

    def take_changes(self) -> AssignmentChanges:
        """What came and went since the last call. A partition that came, went and came again is in both sets."""
        with self._listener.lock:
            taken, self._listener.changes = self._listener.changes, AssignmentChanges()
        for place in taken.revoked:
            self._unreadable.pop(place, None)
        return taken

    @property
    def unreadable(self) -> set[TopicPartition]:
        """Partitions that are paused because what comes next in them cannot be read."""
        return set(self._unreadable)

    def take_shortened(self) -> set[TopicPartition]:
        """Partitions of which less is there than was read, since the last call: their topic was deleted and created
        again, or a replica that lacked the last records became leader."""
        taken, self._shortened = self._shortened, set()
        return taken & self.assignment()

    def assignment(self) -> set[TopicPartition]:
        return set(self._consumer.assignment())

    def locate(
        self, partitions: Iterable[TopicPartition], patience: float = REQUEST_MS / 1000
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Move partitions to their committed offset, or to ``start_from``; returns (offset, commit metadata).

        ``BrokersAway`` where a transaction that holds their offsets is still open after ``patience`` seconds.
        """
        places = [ClientPartition(*partition) for partition in partitions]
        if not places:
            return {}
        committed = self.committed(places, patience)
        with _asking("where topics begin and end"):
            starts = self._start_offsets([place for place in places if place not in committed])
        located = {place: committed.get(place) or (starts[place], "") for place in places}
        for place, (offset, _) in located.items():
            self._consumer.seek(place, offset)
        return dict(located)

    def committed(
        self, partitions: Iterable[TopicPartition], patience: float = REQUEST_MS / 1000
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Committed (offset, metadata); partitions without a commit are left out."""
        found: dict[TopicPartition, tuple[int, str]] = {}
        for partition in partitions:
            with _asking("committed offsets"):
                place = self._consumer.committed(
                    ClientPartition(*partition), metadata=True, timeout_ms=int(patience * 1000)
                )
            if place is not None:
                found[partition] = (place.offset, place.metadata)
        return found

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit outside a transaction."""
        places = {ClientPartition(*partition): OffsetAndMetadata(*place) for partition, place in offsets.items()}
        self._consumer.commit(places, timeout_ms=REQUEST_MS)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who we are in the group: a transaction carries it, so that a member that was shut out cannot commit."""
        return self._consumer.group_metadata()

    @property
    def is_stable(self) -> bool:
        """Whether we are a member and no rebalance is under way, as far as we know."""
        return bool(self._consumer.group_metadata().state == MemberState.STABLE)

    @property
    def is_in_touch(self) -> bool:
        """Whether the group's broker has answered a heartbeat within the session timeout."""
        return guards.is_in_touch(self._consumer)

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic, which is another one when it was deleted and created again; empty if it is not known."""
        return guards.topic_id(self._consumer, topic)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause(*self._still_ours(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume(*self._still_ours(partitions))

    def paused(self) -> set[TopicPartition]:
        return set(self._consumer.paused())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(ClientPartition(*partition), offset)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that poll returns."""
        position = self._consumer.position(ClientPartition(*partition), timeout_ms=REQUEST_MS)
        assert position is not None  # a new partition has one before the caller hears of it
        return int(position)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        places = [ClientPartition(*partition) for partition in partitions]
        return dict(self._consumer.end_offsets(places, timeout_ms=REQUEST_MS)) if places else {}

    def unread(self) -> dict[TopicPartition, int]:
        """Records that poll has not returned yet, as far as is known without asking a broker: none of a partition that
        was not fetched from."""
        found: dict[TopicPartition, int] = {}
        for place in self._consumer.assignment():
            end, position = self._consumer.highwater(place), guards.position(self._consumer, place)
            if end is not None and position is not None:
                found[place.topic, place.partition] = max(0, end - position)
        return found

    def close(self, timeout: float = 5.0) -> None:
        """Leave the group (a static member stays on its list until the session times out)."""
        self._consumer.close(autocommit=False, timeout_ms=int(timeout * 1000))

    def _still_ours(self, partitions: Iterable[TopicPartition]) -> list[ClientPartition]:
        ours = self._consumer.assignment()
        return [ClientPartition(*partition) for partition in partitions if partition in ours]

    def _set_aside(self, unreadable: guards.Unreadable) -> None:
        """Go on without a partition for a while: another replica of it may lead by then."""
        log.error(
            "cannot be read: %s. Its partition waits and is tried again every %.0f s, others go on. Is a disk damaged? "
            "Let another replica lead; where none is whole, `kafka-delete-records.sh` removes what is damaged",
            unreadable, UNREADABLE_AGAIN,
        )  # fmt: skip
        self.pause([unreadable.place])
        self._unreadable[unreadable.place] = time.monotonic() + UNREADABLE_AGAIN

    def _try_unreadable_again(self) -> None:
        due = [place for place, at in self._unreadable.items() if at <= time.monotonic()]
        for place in due:
            del self._unreadable[place]
        self.resume(due)

    def _start_offsets(self, places: list[ClientPartition]) -> dict[TopicPartition, int]:
        always = places if self.start_from == EARLIEST else [one for one in places if one.topic in self._from_earliest]
        starts = dict(self._consumer.beginning_offsets(always, timeout_ms=REQUEST_MS)) if always else {}
        others = [place for place in places if place not in starts]
        return starts | (self._late_offsets(others) if others else {})

    def _late_offsets(self, places: list[ClientPartition]) -> dict[TopicPartition, int]:
        ends = dict(self._consumer.end_offsets(places, timeout_ms=REQUEST_MS))
        if self.start_from == LATEST:
            return ends
        times = dict.fromkeys(places, int(self.start_from))
        found = self._consumer.offsets_for_times(times, timeout_ms=REQUEST_MS)
        # Nothing that late yet: whatever comes next is.
        return {place: found[place].offset if found.get(place) else ends[place] for place in places}

    def _go_back_into_range(self, error: OffsetOutOfRangeError) -> None:
        wanted: dict[ClientPartition, int] = error.args[0]
        with _asking("where topics begin and end"):
            first = self._consumer.beginning_offsets(list(wanted), timeout_ms=REQUEST_MS)
            end = self._consumer.end_offsets(list(wanted), timeout_ms=REQUEST_MS)
        for place, offset in wanted.items():
            nearest = first[place] if offset < first[place] else end[place]
            if offset > nearest:
                self._shortened.add(place)
            log.error(
                "%s[%d]: offset %d is gone, the topic holds %d to %d; going on at %d. %s",
                *(place.topic, place.partition, offset, first[place], end[place], nearest),
                "Records between were deleted unread: was this worker down for longer than the topic's retention?"
                if nearest > offset
                else "The topic is shorter than it was: was it deleted and created again?",
            )
            self._consumer.seek(place, nearest)


class _RebalanceListener(ConsumerRebalanceListener):
    """Notes what happens. Runs on the client's IO thread, where nothing that asks a broker may be called."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self.changes = AssignmentChanges()
        self.lock = threading.Lock()

    def on_partitions_assigned(self, assigned: Iterable[ClientPartition]) -> None:
        for place in assigned:
            self._consumer.pause(place)
            # Any position: without one poll would look for it by itself, and fail where nothing is committed.
            self._consumer.seek(place, 0)
        with self.lock:
            self.changes.assigned.update(assigned)

    def on_partitions_revoked(self, revoked: Iterable[ClientPartition]) -> None:
        with self.lock:
            self.changes.assigned.difference_update(revoked)
            self.changes.revoked.update(revoked)

    def on_partitions_lost(self, lost: Iterable[ClientPartition]) -> None:
        self.on_partitions_revoked(lost)
