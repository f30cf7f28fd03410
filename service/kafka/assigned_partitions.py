"""The partitions that the consumer group has assigned to a worker. They come and go. Each new one is restored to its
last commit before its records are taken.

A restore reads the sensors' snapshots from the changelog and replays the input that they have not seen, up to the
committed offset, without publishing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import msgspec

from service.kafka.changelog import ChangelogReader, ReadStalled
from service.kafka.connection import ConnectionProblem
from service.kafka.consumer import BrokersAway, Subscription
from service.kafka.control import ControlFollower
from service.kafka.input import Commit, read_commit, sensor_topic
from service.metrics import Metrics
from service.runtime.log import Position, Restored, TopicPartition
from service.runtime.snapshot_store import SnapshotStore
from service.sensors import envelope
from service.sensors.saved import Saved
from service.settings import Settings

log = logging.getLogger(__name__)

# If the last owner of a partition left a transaction open: seconds to wait for its end, and until the next attempt.
_RESTORE_PATIENCE, _RESTORE_AGAIN = 1.0, 1.0
# Seconds after which an operator has to look: brokers have ended every abandoned transaction by now.
_RESTORE_OVERDUE = 120.0


class Read(NamedTuple):
    """A sensor's state in the changelog."""

    saved: Saved
    origin: envelope.Origin | None  # None: the state is damaged


class AssignedPartitions:
    """Follows the assignment of partitions to this worker."""

    def __init__(
        self,
        settings: Settings,
        subscription: Subscription,
        reader: ChangelogReader,
        control: ControlFollower,
        store: SnapshotStore,
        metrics: Metrics,
        n_partitions: int,
    ) -> None:
        self.settings = settings
        # Begun and not committed. The next commit records where they begin, so that it does not depend on the next
        # owner.
        self.starts: dict[TopicPartition, int] = {}
        self._subscription = subscription
        self._reader = reader
        self._control = control
        self._store = store
        self._metrics = metrics
        self._n_partitions = n_partitions  # of the service's own topics
        self._refused: set[TopicPartition] = set()  # partitions that those topics do not have
        self._topic = sensor_topic(settings)
        self._restored: set[int] = set()  # partitions of that topic
        self._began: dict[TopicPartition, int] = {}
        self._to_restore: dict[TopicPartition, float] = {}  # with the time of the next attempt (monotonic)
        self._overdue_at: dict[TopicPartition, float] = {}  # when to log an error for one that cannot be restored
        self._topic_ids: dict[TopicPartition, bytes] = {}  # at the time when we began a partition; empty: not known

    @property
    def are_restored(self) -> bool:
        """Whether all assigned partitions are restored."""
        return not self._to_restore

    @property
    def has_to_restore(self) -> bool:
        """Whether a partition is due to be restored now."""
        return self._due_to_restore() is not None

    def restore_until(self, open_partition: Callable[[Restored], None], deadline: float) -> None:
        """Restore one partition after the other until none is due or it is later than ``deadline`` (monotonic).

        Restore nothing during a rebalance: the polls have to come soon, and the partition may go to another member.
        """
        while self._subscription.is_stable and (place := self._due_to_restore()) is not None:
            self._try_to_restore(place, open_partition)
            if time.monotonic() > deadline:
                break

    def commit_of(self, place: TopicPartition, position: Position) -> tuple[int, str]:
        """Return a partition's offset and the metadata that is committed with it."""
        offset, unsaved_from, clock = position
        commit = Commit(offset if unsaved_from is None else unsaved_from, clock, self._began[place])
        return offset, msgspec.json.encode(commit).decode()

    def follow_assignment(self) -> set[int]:
        """Drop revoked partitions and note assigned ones. Returns the revoked partitions of the topic that detectors
        read."""
        changes = self._subscription.take_changes()
        revoked = {number for topic, number in changes.revoked if topic == self._topic}
        for number in revoked:
            self._drop(number)
        gone = changes.revoked - changes.assigned
        for place in gone:
            self._refused.discard(place)
            self._to_restore.pop(place, None)
            self._overdue_at.pop(place, None)
            if self._subscription.topic_id(place[0]):  # or the topic was deleted, and the group assigns a new one
                self._topic_ids.pop(place, None)
        foreign = [place for place in changes.assigned if place[0] != self._topic]
        for place in changes.revoked:
            self.starts.pop(place, None)
        self._begin_foreign(foreign)
        ours = changes.assigned.difference(foreign)
        self._to_restore |= {place: 0.0 for place in ours if self._has_topics(place)}
        self._metrics.refused_partitions.set(len(self._refused))
        if changes.assigned or changes.revoked:
            self._metrics.rebalances.inc()
            log.info("partitions: %d came, %d went", len(changes.assigned), len(changes.revoked))
        return revoked

    def _has_topics(self, place: TopicPartition) -> bool:
        """Return whether the service's topics have this partition, too.

        A partition that was added to the input later is not read: the topics go together, and sensors would have
        moved between partitions.
        """
        if place[1] < self._n_partitions:
            return True
        self._refused.add(place)
        log.error(
            "%s[%d] is not read: the topic was given more than the %d partitions that it had. Sensors that moved to a "
            "new partition are not followed. Make topics with as many partitions under other names ([topics], then "
            "`ishsmm-stream topics create`), or read the topic through the internal one (partitioned_by_sensor = false "
            "if the sensor is a field, topics_pattern if it is the key)",
            *place, self._n_partitions,
        )  # fmt: skip
        return False

    def replaced(self) -> set[TopicPartition]:
        """Return assigned partitions whose topic was deleted and created again since they were begun, or became
        shorter."""
        of_others = {place for place in self._subscription.assignment() if self._is_another(place)}
        return of_others | self._subscription.take_shortened()

    def _is_another(self, place: TopicPartition) -> bool:
        """Return whether the topic was deleted and created again since we began to read the partition."""
        now, known = self._subscription.topic_id(place[0]), self._topic_ids.get(place)
        return bool(now and known and now != known)

    @property
    def has_vanished(self) -> bool:
        """Whether the topic that detectors read was deleted."""
        is_known = any(self._topic_ids.get((self._topic, number)) for number in self._restored)
        return is_known and not self._subscription.topic_id(self._topic)

    def begin_anew(self, places: set[TopicPartition]) -> None:
        """Begin partitions again in the topic that has the name now. See ``replaced``."""
        self._subscription.pause(places)
        self._begin_foreign([place for place in places if place[0] != self._topic], are_replaced=True)
        for place in places:
            if place[0] == self._topic and place not in self._refused:
                self._drop(place[1])
                self._to_restore[place] = 0.0  # the restore detects that the states are of another topic

    def _begin_recreated(self, place: TopicPartition) -> int:
        first = self._reader.beginning(*place)
        self._metrics.topics_recreated.inc()
        log.warning("%s[%d] was deleted and created again: reading it from its first record, %d", *place, first)
        self._subscription.seek(place, first)
        self.starts[place] = self._began[place] = first
        return first

    def _drop(self, number: int) -> None:
        self._restored.discard(number)
        self._store.drop(number)

    def roll_back(self) -> None:
        """Continue from the last commit."""
        for number in list(self._restored):
            self._drop(number)
        ours = self._subscription.assignment()
        self._subscription.pause(ours)
        foreign = [place for place in ours if place[0] != self._topic]
        self.starts.clear()
        self._begin_foreign(foreign)
        self._to_restore = {place: 0.0 for place in ours if place[0] == self._topic and place not in self._refused}

    def _begin_foreign(self, places: list[TopicPartition], are_replaced: bool = False) -> None:
        """Begin partitions whose readings are forwarded. They have no state and continue at the committed offset,
        unless that offset belongs to an earlier topic of the same name."""
        for place, (offset, metadata) in self._subscription.locate(places).items():
            self._note_beginning(place, offset, metadata)
            topic_id = self._subscription.topic_id(place[0])
            end = self._reader.high_watermark(*place) if are_replaced else offset
            # Brokers delete the offsets of a deleted topic. So this commit is another worker's, for the new topic.
            if (self._is_another(place) and (are_replaced or not metadata)) or (offset > end and not topic_id):
                self._begin_recreated(place)
            elif offset > end:  # brokers have lost the last records
                self._subscription.seek(place, end)
                self.starts[place] = end
            self._topic_ids[place] = topic_id
        self._subscription.resume(places)

    def _note_beginning(self, place: TopicPartition, offset: int, metadata: str) -> Commit:
        if metadata:
            commit = read_commit(metadata, f"{place[0]}[{place[1]}]", self.settings.kafka.group)
        else:
            commit = Commit(offset, 0, offset)
            self.starts[place] = offset
        self._began[place] = commit.began
        return commit

    def _due_to_restore(self) -> TopicPartition | None:
        place = min(self._to_restore, key=self._to_restore.__getitem__, default=None)
        return place if place is not None and self._to_restore[place] <= time.monotonic() else None

    def _try_to_restore(self, place: TopicPartition, open_partition: Callable[[Restored], None]) -> None:
        """Restore a partition, or try again later.

        If its last owner died with a transaction open, the transaction has to end first. Other partitions continue
        meanwhile.
        """
        del self._to_restore[place]
        try:
            self._restore(place, open_partition)
            self._overdue_at.pop(place, None)
        except (BrokersAway, ReadStalled) as problem:
            log.info("partition %d cannot be restored yet: %s", place[1], problem)
            self._drop(place[1])
            now = time.monotonic()
            self._to_restore[place] = now + _RESTORE_AGAIN
            if now > self._overdue_at.setdefault(place, now + _RESTORE_OVERDUE):
                self._overdue_at[place] = now + _RESTORE_OVERDUE
                log.error(
                    "partition %d cannot be restored for minutes: %s. If brokers are up, they may have lost the end "
                    "of a dead worker's transaction: `kafka-transactions.sh find-hanging` shows it, `abort` ends it",
                    place[1], problem,
                )  # fmt: skip

    def _restore(self, place: TopicPartition, open_partition: Callable[[Restored], None]) -> None:
        """Restore a partition to its last commit, then let its records come."""
        began = time.monotonic()
        topic, number = place
        offset, metadata = self._subscription.locate([place], _RESTORE_PATIENCE)[place]
        if not self._reader.is_settled(self.settings.topics.changelog, number):
            raise ReadStalled("a transaction is open in its changelog")
        self._control.catch_up()  # forgotten sensors must not come back with the replay
        self._drop(number)
        end = self._reader.high_watermark(topic, number)
        read = self._read_changelog(number)
        self._store.put(number, ((sensor, one.saved) for sensor, one in read.items()))
        self._refuse_another_group(read.values())
        topic_id = self._subscription.topic_id(topic)
        is_recreated = _is_recreated(topic_id, read.values(), offset, end) or (self._is_another(place) and not metadata)
        self._topic_ids[place] = topic_id
        if is_recreated:
            offset = self._begin_recreated(place)
            newest = (one.saved.newest for one in read.values() if one.origin is not None)
            commit = Commit(offset, max(newest, default=0), offset)
        else:
            commit = self._note_beginning(place, offset, metadata)
            if offset > end:  # brokers have lost the last records
                offset = end
                self._subscription.seek(place, end)
        replayed = (
            self._reader.records(topic, number, commit.unsaved_from, offset) if commit.unsaved_from < offset else ()
        )
        moved = [sensor for sensor, one in read.items() if _is_of_another(topic_id, one, is_recreated)]
        open_partition(
            Restored(
                number, offset, commit.clock, commit.unsaved_from, replayed, began,
                envelope.Origin.of(topic_id, self.settings.kafka.group), moved, end,
            )
        )  # fmt: skip
        self._restored.add(number)
        self._subscription.resume([place])

    def _refuse_another_group(self, read: Iterable[Read]) -> None:
        ours = envelope.Origin.of(b"", self.settings.kafka.group).group
        if any(one.origin is not None and one.origin.group not in (b"", ours) for one in read):
            raise ConnectionProblem(
                f"the states in {self.settings.topics.changelog!r} belong to another group than kafka.group = "
                f"{self.settings.kafka.group!r}, which would count readings twice: give it topics of its own "
                "([topics], then `ishsmm-stream topics create`), or the group's former name"
            )

    def _read_changelog(self, number: int) -> dict[str, Read]:
        """Return the changelog's state of every sensor."""
        newest: dict[str, bytes] = {}
        for key, value, offset in self._reader.read(self.settings.topics.changelog, number):
            try:
                sensor = None if key is None else key.decode()
            except UnicodeDecodeError:
                sensor = None
            if sensor is None:
                log.warning("changelog[%d] at offset %d: the key names no sensor, passed over", number, offset)
            elif value is None:
                newest.pop(sensor, None)
            else:
                newest[sensor] = value
        return {sensor: _read_state(number, sensor, value) for sensor, value in newest.items()}


def _read_state(number: int, sensor: str, value: bytes) -> Read:
    """Decode a changelog record. A damaged state counts as having seen no readings."""
    saved = envelope.read_changelog_value(value)
    try:
        return Read(saved, envelope.origin_of(number, sensor, saved))
    except envelope.Damaged as damaged:
        log.warning("partition %d: the state of %r cannot be used, it starts afresh: %s", number, sensor, damaged)
        return Read(saved._replace(next_offset=0), None)


def _is_recreated(topic_id: bytes, read: Collection[Read], offset: int, end: int) -> bool:
    """Return whether the topic was deleted and created again since the states were read from it.

    If topic ids are not known, compare offsets: a topic does not become shorter, unless it is another one.
    """
    known = {one.origin.topic_id for one in read if one.origin is not None and one.origin.topic_id}
    return topic_id not in known if topic_id and known else offset > end


def _is_of_another(topic_id: bytes, one: Read, is_recreated: bool) -> bool:
    """Return whether a state was read from an earlier topic of the same name."""
    if one.origin is None:
        return False
    return one.origin.topic_id != topic_id if one.origin.topic_id and topic_id else is_recreated
