"""The worker without a broker: from the intake through detectors to the database, each cycle one transaction.

    intake -> decode -> detectors -> events, states, dead letters, snapshots, position -> commit

All sensors are one partition. A restore reads the sensors' snapshots and replays the intake that they have not seen,
without publishing; records that every snapshot has seen are deleted from the intake.
"""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from service.api import server as api
from service.api.answers import SensorEntry, SensorPosterior
from service.api.backend import Behind, NotTaken, PostedReading, StoredEvent
from service.api.posterior import Sensors
from service.embedded import tables
from service.embedded.control import ControlTable
from service.embedded.database import Database
from service.embedded.events import TableEvents
from service.embedded.feeds import Feed, Planted
from service.embedded.intake import Intake, IntakeRecord
from service.metrics import Metrics
from service.metrics import server as metrics_server
from service.runtime import watchdog
from service.runtime.dead_letter_log import DeadLetterLog
from service.runtime.housekeeping import Upkeep, settle_interpreter, warm_up
from service.sensors.crashes import CrashJournal
from service.sensors.partition import Partition, Rules, take_all
from service.settings import RecordMapping, Settings
from service.sinks import open_sink
from service.sinks.delivery import Deliveries, Delivery, SinkMetrics
from service.view.embedded_view import EmbeddedFleet
from service.wire import decoding as mappings
from service.wire.readings import Reading

log = logging.getLogger(__name__)

_PARTITION = 0
_TRY_AGAIN = 1.0
_DURABLE_WITHIN = 15.0


class Worker:
    """Runs until it is told to ``stop``. ``planted`` is called for the demo plant's faults, ``found`` for committed
    events, ``ready`` when the first record can come."""

    hint = ""  # nothing to add where a sensor is not found

    def __init__(
        self, settings: Settings, planted: Planted = lambda _: None, found: Callable[[bytes], None] = lambda _: None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.metrics = Metrics(settings)
        self._tell_planted, self._tell_found, self._tell_ready = planted, found, ready
        self._rules = Rules(settings)
        self._partitions: dict[int, Partition] = {}
        self._upkeep = Upkeep(settings, self.metrics, self._partitions)
        self._decoders: dict[int, mappings.Decoder] = {}
        self._lock = threading.Lock()  # held while sensors change and until that is committed
        self._sensors = Sensors(self._partitions, self._lock)
        self._stopping = threading.Event()
        self._last_cycle = time.monotonic()
        self._is_ready = False
        self._must_restore = True
        self._began = 1
        self._dead_letters = DeadLetterLog()

    # Life

    def stop(self) -> None:
        """Finish the cycle, save what is unsaved, and leave."""
        self._stopping.set()

    def run(self) -> None:
        """Work until told to stop, or until the sources have ended where the settings say so."""
        warm_up(self.settings, helpers=(os.cpu_count() or 1) - 1)
        settle_interpreter()
        if self._stopping.is_set():
            return
        with ExitStack() as closing:
            self._database = Database(self.settings.source.state)
            closing.callback(self._database.close)
            state = self.settings.source.state
            self._journal = CrashJournal(state.with_name(f"{state.name}.crash"))
            closing.callback(self._journal.close)
            self._intake = Intake(self._database)
            closing.callback(self._intake.close)
            self._own_format = self._intake.format_of(RecordMapping())
            self._control = ControlTable(self._database)
            self._fleet = EmbeddedFleet(self.settings, self._database, self.metrics.registry)
            server = api.serve(self.settings, self, self._fleet.front(self.sensor))
            if server is not None:
                closing.callback(server.close)
            self._watch()
            scraped = metrics_server.serve(self.settings.metrics, self.metrics.registry)
            if scraped is not None:
                closing.callback(scraped.close)
            deliveries = self._start_sinks()
            closing.callback(deliveries.finish, self.settings.worker.stop_within_s)
            self._run(deliveries)
            deliveries.raise_failure()
        log.info("left")

    def _watch(self) -> None:
        """What is measured at each scrape."""
        intake, most = self._intake, self.settings.source.backlog
        self.metrics.watch(self.is_ready, lambda: {("intake", _PARTITION): intake.backlog})
        self.metrics.queue_fill.labels("intake").set_function(lambda: intake.backlog / most)

    def _start_sinks(self) -> Deliveries:
        """Each on a thread of its own."""
        deliveries, metrics = Deliveries(threading.Event()), SinkMetrics(self.metrics.registry)
        opened = [(sink, open_sink(sink, os.environ)) for sink in self.settings.sinks_in_force]
        for settings, sink in opened:
            reader = TableEvents(self._database, settings.name, settings.max_age_s, settings.gets_incidents)
            deliveries.start(
                Delivery(
                    settings, sink, reader, self._control.book, metrics, rng=random.Random(),
                    incidents=self.settings.incidents, stopping=deliveries.stopping,
                )
            )  # fmt: skip
            log.info("sink %s: %s to %s", settings.name, settings.kind, settings.where)
        return deliveries

    def _run(self, deliveries: Deliveries) -> None:
        kinds = [kind for kind in self.settings.source.kinds if kind != "http"]
        feeds = [Feed(kind, self.settings, self._intake, self._tell_planted) for kind in kinds]
        self._guarded(self._restore)
        self._is_ready = True
        self._tell_ready()
        for feed in feeds:
            feed.start()
        while not self._stopping.is_set():
            self._guarded(self._cycle)
            self._look_at(feeds)
            if not deliveries.all_run():
                self._stopping.set()
        self._is_ready = False
        for feed in feeds:
            feed.stop()
        self._guarded(self._finish)
        for feed in feeds:
            if feed.error is not None:
                raise feed.error

    def _look_at(self, feeds: list[Feed]) -> None:
        """Stop when a source has failed, or when all have ended and that is to be the end."""
        is_done = all(feed.is_over for feed in feeds) and self._intake.backlog == 0
        if any(feed.error is not None for feed in feeds) or (self.settings.source.until_end and is_done):
            self._stopping.set()

    def _guarded(self, act: Callable[[], None]) -> None:
        """Where the disk does not take a cycle, forget what is in memory, and try again from the last commit."""
        try:
            with watchdog.deadline(self.settings.worker.watchdog_s, "a cycle"):
                if self._must_restore and act != self._restore:
                    self._restore()
                act()
        except sqlite3.Error as error:
            log.warning("cycle rolled back: %s", error)
            self.metrics.aborts.inc()
            self._must_restore = True
            self._stopping.wait(_TRY_AGAIN)
        self._last_cycle = time.monotonic()

    # Cycles

    def _cycle(self) -> None:
        rhythm = self.settings.worker
        self._intake.wait(rhythm.cycle_s)
        began = time.monotonic()
        records = self._intake.new_records(rhythm.poll_records)
        self.metrics.queue_fill.labels("poll").set(len(records) / rhythm.poll_records)
        if self._work(records):
            self.metrics.cycle_seconds.observe(time.monotonic() - began)
        self._upkeep.make_room()
        self._upkeep.count_sensors()
        # a commit waits for the disk whatever is in it: with little to do the next one waits for more
        if len(records) < rhythm.poll_records // 2:
            self._stopping.wait(max(0.0, rhythm.cycle_s - (time.monotonic() - began)))

    def _work(self, records: list[IntakeRecord], save_all: bool = False) -> bool:
        """One transaction: what came, what is due. Returns whether there was any."""
        source, partition = self.settings.source, self._partitions[_PARTITION]
        with self._lock:
            self._control.poll()
            forgotten = partition.forget()
            (outputs,), counts = take_all(
                [(partition, records)], threads=self.settings.worker.inference_threads, journal=self._journal
            )
            snapshots = self._upkeep.due_snapshots(save_all).get(_PARTITION, [])
            if not records and not snapshots and not forgotten:
                self._fleet.hear()
                return False
            unsaved_from = partition.unsaved_from([sensor for sensor, _ in snapshots])
            standing = tables.Position(partition.next_offset, unsaved_from, partition.clock, self._began)
            began = time.monotonic()
            tables.commit(
                self._database, outputs, snapshots, standing, source.keep_events, source.keep_dead_letters, forgotten
            )
            self.metrics.commit_seconds.observe(time.monotonic() - began)
            partition.saved(snapshots)
            self._journal.committed(
                {_PARTITION: partition.next_offset}, {_PARTITION: {sensor for sensor, _ in snapshots}}
            )
            self._intake.worked_off(partition.next_offset)
        self.metrics.committed(counts, outputs, [record.timestamp for record in records[:1]])
        self._dead_letters.add(outputs)
        self.metrics.snapshots.inc(len(snapshots))
        self.metrics.changelog_bytes.inc(sum(len(saved.state) for _, saved in snapshots))
        self.metrics.saved(partition.detectors(sensor for sensor, _ in snapshots))
        self._fleet.committed(outputs, forgotten)
        for output in outputs:
            if output.kind == "events":
                self._tell_found(output.value)
        return True

    def _finish(self) -> None:
        """Save everything that is unsaved, so that the next start has nothing to replay."""
        self._work([], save_all=True)

    def _restore(self) -> None:
        began = time.monotonic()
        standing = tables.position(self._database)
        partition = Partition(
            _PARTITION, self._rules, self._decode, tables.SnapshotTable(self._database),
            self._upkeep.has_room_for_sensor, self.settings.worker.snapshot_within_s, self._control.book,
            journal=self._journal,
        )  # fmt: skip
        self._control.poll()  # what was forgotten must not come back with what is replayed
        with self._lock:
            partition.begin(
                standing.next_offset,
                standing.clock,
                self._intake.records(standing.unsaved_from, standing.next_offset),
            )
            self._partitions[_PARTITION] = partition
            self._began = standing.began
            self._intake.worked_off(standing.next_offset)
            self._must_restore = False
        self.metrics.restores.inc()
        self.metrics.restore_seconds.observe(time.monotonic() - began)
        self._upkeep.count_sensors()
        log.info(
            "%d sensors, %d records replayed, restored in %.1f s",
            partition.sensors, standing.next_offset - standing.unsaved_from, time.monotonic() - began,
        )  # fmt: skip

    def _decode(self, record: IntakeRecord) -> list[Reading]:
        decode = self._decoders.get(record.format)
        if decode is None:
            mapping = self._intake.mapping_of(record.format)
            decode = self._decoders[record.format] = mappings.decoder(mapping, self.settings.limits.record_bytes)
        return decode(record.key, record.value, record.timestamp)

    # What the API asks

    def is_alive(self) -> bool:
        """Whether cycles end."""
        is_late = time.monotonic() - self._last_cycle >= self.settings.worker.watchdog_s
        return not is_late or watchdog.is_compiling()

    def is_ready(self) -> bool:
        """Whether records are being worked off."""
        return self._is_ready and not self._must_restore

    def submit(self, readings: list[PostedReading], received: int) -> int:
        """Append posted readings; the last one's offset once they are on the disk."""
        source = self.settings.source
        if "http" not in source.kinds:
            raise NotTaken("this service takes no readings over HTTP: add 'http' to source.kinds")
        waiting = self._intake.backlog
        if waiting > source.backlog:
            raise Behind(f"{waiting:,} readings wait for the detectors, the limit is {source.backlog:,}")
        return self._intake.append("http", self._own_format, [one.value for one in readings], received).result(
            _DURABLE_WITHIN
        )

    def events(
        self, between: tuple[int, int], limit: int, sensor: str | None, status: str | None, newest_first: bool
    ) -> list[StoredEvent]:
        """Events that were committed."""
        return tables.events_between(self._database, between, limit, sensor, status, newest_first)

    def sensor(self, name: str) -> SensorPosterior | None:
        """What is known of a sensor now."""
        return self._sensors.one(name)

    def sensors(self, after: str, limit: int) -> list[SensorEntry]:
        """Sensors by name."""
        return self._sensors.page(after, limit)
