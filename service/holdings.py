"""The partitions that a worker holds: they come and go with the group, and each is brought to where its last commit
left it before its records are taken.

A restore reads the sensors' snapshots from the changelog and replays the input that they have not seen, up to the
committed offset, without publishing.
"""

from __future__ import annotations

import logging
import time

import msgspec

from service.kafka.changelog import ChangelogReader, ReadStalled
from service.kafka.consumer import BrokersAway, Subscription
from service.kafka.consumer import Partition as Place
from service.kafka.control import ControlFollower
from service.kafka.input import Commit, read_commit, sensor_topic
from service.metrics import Metrics
from service.partition import Partition, RecordDecoder, Rules, read_changelog_value
from service.settings import Settings
from service.store import Saved, Store
from service.upkeep import Upkeep

log = logging.getLogger(__name__)

# A partition whose last owner left a transaction open is asked for this long, and again after this long.
_RESTORE_PATIENCE, _RESTORE_AGAIN = 1.0, 1.0
# By now brokers have ended every transaction that nobody goes on with: somebody has to look.
_RESTORE_OVERDUE = 120.0


class Holdings:
    """Follows what the group gives and takes. ``partitions`` holds those that are restored, by their numbers."""

    def __init__(
        self,
        settings: Settings,
        partitions: dict[int, Partition],
        rules: Rules,
        decode: RecordDecoder,
        subscription: Subscription,
        reader: ChangelogReader,
        control: ControlFollower,
        store: Store,
        upkeep: Upkeep,
        metrics: Metrics,
    ) -> None:
        self.settings = settings
        self.partitions = partitions
        # Begun and not committed: where they begin must not depend on who comes next, so the next commit says it.
        self.begun: dict[Place, int] = {}
        self._rules = rules
        self._decode = decode
        self._subscription = subscription
        self._reader = reader
        self._control = control
        self._store = store
        self._upkeep = upkeep
        self._metrics = metrics
        self._topic = sensor_topic(settings)
        self._began: dict[Place, int] = {}
        self._to_restore: dict[Place, float] = {}  # and when to try (monotonic)
        self._overdue_at: dict[Place, float] = {}  # when to complain about one that cannot be restored (monotonic)
        self._new: set[int] = set()

    @property
    def are_restored(self) -> bool:
        """Whether all that the group gave are."""
        return not self._to_restore

    @property
    def has_to_restore(self) -> bool:
        """Whether there is one to restore now."""
        return self._due_to_restore() is not None

    def take_new(self) -> set[int]:
        """Partitions that were restored since the last call."""
        taken, self._new = self._new, set()
        return taken

    def restore_until(self, deadline: float) -> None:
        """Restore one partition after the other until none is due or it is later than ``deadline`` (monotonic).

        Not while the group decides who has what: the polls have to come soon, and what is restored may be another's.
        """
        while self._subscription.is_stable and (place := self._due_to_restore()) is not None:
            self._try_to_restore(place)
            if time.monotonic() > deadline:
                break

    def position(self, place: Place, offset: int, unsaved_from: int | None = None, clock: int = 0) -> tuple[int, str]:
        """A partition's place with what travels along."""
        commit = Commit(offset if unsaved_from is None else unsaved_from, clock, self._began[place])
        return offset, msgspec.json.encode(commit).decode()

    def follow_assignment(self) -> None:
        """Drop what the group took, and take note of what it gave."""
        changes = self._subscription.take_changes()
        for topic, number in changes.revoked:
            if topic == self._topic:
                self._drop(number)
        gone = changes.revoked - changes.assigned
        for place in gone:
            self._to_restore.pop(place, None)
            self._overdue_at.pop(place, None)
        foreign = [place for place in changes.assigned if place[0] != self._topic]
        for place in changes.revoked:
            self.begun.pop(place, None)
        self._begin_foreign(foreign)
        self._to_restore |= {place: 0.0 for place in changes.assigned if place not in foreign}
        if changes.assigned or changes.revoked:
            self._metrics.rebalances.inc()
            log.info("partitions: %d came, %d went", len(changes.assigned), len(changes.revoked))

    def _drop(self, number: int) -> None:
        self.partitions.pop(number, None)
        self._store.drop(number)

    def roll_back(self) -> None:
        """Forget everything that is in memory and go on from what was committed."""
        self._metrics.aborts.inc()
        for number in list(self.partitions):
            self._drop(number)
        ours = self._subscription.assignment()
        self._subscription.pause(ours)
        foreign = [place for place in ours if place[0] != self._topic]
        self.begun.clear()
        self._begin_foreign(foreign)
        self._to_restore = {place: 0.0 for place in ours if place[0] == self._topic}

    def _begin_foreign(self, places: list[Place]) -> None:
        """Partitions whose readings are sent on have no state: they go on where they were left."""
        for place, (offset, metadata) in self._subscription.locate(places).items():
            self._note_beginning(place, offset, metadata)
        self._subscription.resume(places)

    def _note_beginning(self, place: Place, offset: int, metadata: str) -> Commit:
        if metadata:
            commit = read_commit(metadata, f"{place[0]}[{place[1]}]", self.settings.kafka.group)
        else:
            commit = Commit(offset, 0, offset)
            self.begun[place] = offset
        self._began[place] = commit.began
        return commit

    def _due_to_restore(self) -> Place | None:
        place = min(self._to_restore, key=self._to_restore.__getitem__, default=None)
        return place if place is not None and self._to_restore[place] <= time.monotonic() else None

    def _try_to_restore(self, place: Place) -> None:
        """Restore a partition. Where the one that had it died with a transaction open, that has to end first: try again
        later, and let the other partitions go on meanwhile."""
        del self._to_restore[place]
        try:
            self._restore(place)
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

    def _restore(self, place: Place) -> None:
        """Bring a partition to where its last commit left it, then let its records come."""
        began = time.monotonic()
        topic, number = place
        offset, metadata = self._subscription.locate([place], _RESTORE_PATIENCE)[place]
        if not self._reader.is_settled(self.settings.topics.changelog, number):
            raise ReadStalled("a transaction is open in its changelog")
        self._control.catch_up()  # what was forgotten must not come back with what is replayed
        commit = self._note_beginning(place, offset, metadata)
        self._drop(number)
        self._read_changelog(number)
        within = self.settings.worker.snapshot_within_s
        partition = Partition(
            number,
            self._rules,
            self._decode,
            self._store,
            self._upkeep.has_room_for_sensor,
            within,
            self._control.book,
        )
        replayed = (
            self._reader.records(topic, number, commit.unsaved_from, offset) if commit.unsaved_from < offset else ()
        )
        partition.begin(offset, commit.clock, replayed)
        self.partitions[number] = partition
        self._new.add(number)
        self._subscription.resume([place])
        self._metrics.restores.inc()
        self._metrics.restore_seconds.observe(time.monotonic() - began)
        log.info(
            "partition %d: %d sensors, %d records replayed, restored in %.1f s",
            number, partition.sensors, max(0, offset - commit.unsaved_from), time.monotonic() - began,
        )  # fmt: skip

    def _read_changelog(self, number: int) -> None:
        newest: dict[str, Saved] = {}
        for key, value, _ in self._reader.read(self.settings.topics.changelog, number):
            if key is None:
                continue
            if value is None:
                newest.pop(key.decode(), None)
            else:
                newest[key.decode()] = read_changelog_value(value)
        self._store.put(number, newest.items())
