"""The log in one SQLite file: sources append records to the intake, and each cycle is one transaction.

    intake -> outputs, snapshots, position -> one transaction

All sensors are in one partition. A restore reads the sensors' snapshots and replays the intake that they have not
seen, without publishing. Records that every snapshot has seen are deleted from the intake.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack

from service.embedded import tables
from service.embedded.control import ControlTable
from service.embedded.database import Database
from service.embedded.feeds import Feed
from service.embedded.intake import Intake, IntakeRecord
from service.metrics import Metrics
from service.runtime.forwarding import Forwarder
from service.runtime.log import Assignment, Cycle, Polled, Restored, TopicPartition
from service.runtime.posting import Behind, NotTaken, PostedReading
from service.sensors.crashes import CrashJournal
from service.settings import RecordMapping, Settings
from service.settings.sources import POSTED
from service.sources.plant import Planted
from service.sources.registry import open_sources
from service.wire import decoding
from service.wire.readings import Reading

_PARTITION = 0
_DURABLE_WITHIN = 15.0


class SqliteLog:
    """A ``RecordLog``. ``planted`` is called for the faults of the demo plant."""

    topic = "intake"
    forwarder: Forwarder | None = None
    away: tuple[type[Exception], ...] = (sqlite3.Error,)
    retry_s = 1.0
    is_vanishing = False
    starts: Mapping[TopicPartition, int] = {}

    def __init__(
        self, settings: Settings, metrics: Metrics, planted: Callable[[Planted], None] = lambda _: None
    ) -> None:
        self.settings = settings
        self._metrics = metrics
        self._planted = planted
        self._decoders: dict[int, decoding.Decoder] = {}
        self._feeds: list[Feed] = []
        self._has_started = False
        self._began = 1
        self.is_restored = False
        self._closing = ExitStack()

    # Life

    def check(self) -> None:
        """Do nothing: ``open`` detects problems with the file."""

    def open(self, is_stopping: Callable[[float], bool], beat: Callable[[], None]) -> None:
        """Open the file. No other process may have it open."""
        state = self.settings.source.state
        self.database = Database(state)
        self._closing.callback(self.database.close)
        self.journal = CrashJournal(state.with_name(f"{state.name}.crash"))
        self._closing.callback(self.journal.close)
        self._intake = Intake(self.database)
        self._closing.callback(self._intake.close)
        self._own_format = self._intake.format_of(RecordMapping())
        self.control = ControlTable(self.database)
        self.states = tables.SnapshotTable(self.database)
        most = self.settings.source.backlog
        self._metrics.queue_fill.labels("intake").set_function(lambda: self._intake.backlog / most)

    def start(self) -> None:
        """Let the sources append."""
        most = self.settings.source.backlog
        self._feeds = [Feed(one, self._intake, most, self._planted) for one in open_sources(self.settings)]
        self._has_started = True
        for feed in self._feeds:
            feed.start()

    @property
    def is_at_end(self) -> bool:
        """Whether a source has failed. With ``until_end``, also whether all sources have ended and all records are
        processed."""
        if self.failure is not None:
            return True
        is_over = self._has_started and all(feed.is_over for feed in self._feeds)
        return self.settings.source.until_end and is_over and self._intake.backlog == 0

    @property
    def failure(self) -> Exception | None:
        """The error that ended a source, if one failed."""
        return next((feed.error for feed in self._feeds if feed.error is not None), None)

    def stop(self) -> None:
        """Let the sources append no more."""
        for feed in self._feeds:
            feed.stop()

    def close(self) -> None:
        """Write the records that wait in the intake, and close the file."""
        self._closing.close()

    # Records in

    def poll(self, seconds: float) -> Polled:
        """Return the records that are not processed yet."""
        if not self.is_restored:
            return Polled({})
        self._intake.wait(seconds)
        records = self._intake.new_records(self.settings.worker.poll_records)
        return Polled({(self.topic, _PARTITION): records} if records else {})

    def decode(self, record: IntakeRecord) -> list[Reading]:
        """Decode a record by the mapping that was in force when it was received."""
        decode = self._decoders.get(record.format)
        if decode is None:
            mapping = self._intake.mapping_of(record.format)
            decode = self._decoders[record.format] = decoding.decoder(mapping, self.settings.limits.record_bytes)
        return decode(record.key, record.value, record.timestamp)

    def lags(self) -> Mapping[TopicPartition, int]:
        """Return the number of records that wait for the detectors."""
        return {(self.topic, _PARTITION): self._intake.backlog}

    @property
    def is_in_touch(self) -> bool:
        """Always true for a file. Only a commit shows whether the file can be written."""
        return True

    def post(self, readings: list[PostedReading], received: int) -> int:
        """Append posted readings. Returns the last one's offset when they are on the disk."""
        source = self.settings.source
        if POSTED not in source.kinds:
            raise NotTaken("this service takes no readings over HTTP: add 'http' to source.kinds")
        waiting = self._intake.backlog
        if waiting > source.backlog:
            raise Behind(f"{waiting:,} readings wait for the detectors, the limit is {source.backlog:,}")
        return self._intake.append("http", self._own_format, [one.value for one in readings], received).result(
            _DURABLE_WITHIN
        )

    # The one partition

    def follow_assignment(self) -> Assignment:
        """Return no changes: the partition is never revoked."""
        return Assignment()

    def begin_anew(self, replaced: Collection[TopicPartition]) -> None:
        """Do nothing: the partition is never replaced."""

    def restore(self, open_partition: Callable[[Restored], None], until: float) -> None:
        """Restore the partition to the last commit."""
        if self.is_restored:
            return
        began = time.monotonic()
        self.control.poll()  # forgotten sensors must not come back with the replay
        standing = tables.position(self.database)
        replayed = self._intake.records(standing.unsaved_from, standing.next_offset)
        open_partition(
            Restored(_PARTITION, standing.next_offset, standing.clock, standing.unsaved_from, replayed, began)
        )
        self._began = standing.began
        self._intake.worked_off(standing.next_offset)
        self.is_restored = True

    @property
    def has_to_restore(self) -> bool:
        """Whether the partition is not restored."""
        return not self.is_restored

    # Cycles out

    def commit(self, cycle: Cycle) -> None:
        """Commit the cycle in one transaction."""
        source, position = self.settings.source, cycle.positions[self.topic, _PARTITION]
        assert position.unsaved_from is not None
        standing = tables.StoredPosition(position.next_offset, position.unsaved_from, position.clock, self._began)
        began = time.monotonic()
        tables.commit(self.database, cycle, standing, source.keep_events, source.keep_dead_letters)
        self._metrics.commit_seconds.observe(time.monotonic() - began)
        self._intake.worked_off(position.next_offset)

    def settle(self) -> None:
        """Do nothing: a transaction that failed was rolled back."""

    def roll_back(self) -> None:
        """Restore from the last commit at the next cycle."""
        self.is_restored = False
