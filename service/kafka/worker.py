"""The worker: records from Kafka through detectors to topics, a cycle at a time, each cycle all or nothing.

    poll -> decode -> detectors -> events, states, dead letters, snapshots, offsets -> commit

Two kinds of input go through the same cycle. Records of topics that are not keyed by sensor are decoded and sent on,
keyed, through the internal topic of readings. Records of that topic, or of one that is keyed by sensor, reach the
detectors. Nothing is left uncommitted between two polls, so that a partition can be taken away at any time.

Whatever goes wrong with a commit, the remedy is the same: forget the partitions, see what was committed, and restore
them from there.
"""

from __future__ import annotations

import gc
import heapq
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from service.api import server as api
from service.api.answers import SensorEntry, SensorPosterior
from service.api.backend import PostedReading, StoredEvent
from service.api.posterior import Sensors
from service.api.recent import RecentEvents
from service.kafka import groups
from service.kafka import topics as kafka_topics
from service.kafka.assigned_partitions import Holdings
from service.kafka.changelog import ChangelogReader, ReadStalled
from service.kafka.connection import ConnectionProblem
from service.kafka.consumer import BrokersAway, Subscription
from service.kafka.consumer import Partition as Place
from service.kafka.control import ControlFollower
from service.kafka.input import connection_of, partition_of, reads_directly, sensor_topic
from service.kafka.posting import Posting
from service.kafka.producer import MAX_BYTES_IN_FLIGHT, AtLeastOnce, CycleAborted, Producer, ProducerLost, Transactions
from service.metrics import Metrics
from service.metrics import server as metrics_server
from service.runtime import watchdog
from service.runtime.dead_letter_log import DeadLetterLog
from service.runtime.housekeeping import Upkeep, settle_interpreter, warm_up
from service.runtime.snapshot_store import Saved, Store
from service.sensors.crashes import CrashJournal
from service.sensors.envelope import changelog_value
from service.sensors.partition import (
    Counts,
    Output,
    Partition,
    Record,
    Rules,
    add_up,
    dead_letter,
    decode_with,
    take_all,
)
from service.settings import RecordMapping, Settings
from service.wire import decoding as mappings
from service.wire import messages
from service.wire.readings import BadRecord, encode_reading

log = logging.getLogger(__name__)

# A worker that lost its producer waits this long before it tries again, at first and at most.
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0
# Seconds of restoring between two polls.
_RESTORES_A_CYCLE = 1.0
# Seconds since the last cycle within which nobody else can have been given our partitions: half the session timeout.
_STILL_MEMBER = 5.0
_LARGEST_RECORD = 1024**2
# Bytes that a batch of one record costs on top of its key and value, with room to spare.
_FRAMING = 256


class Worker:
    """Runs until it is told to ``stop``."""

    hint = " by this worker: another one may have it"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics(settings)
        self._lags: dict[Place, int] = {}
        self.metrics.watch(self.is_ready, lambda: self._lags)
        self._connection = connection_of(settings)
        self._topic = sensor_topic(settings)
        self._is_direct = reads_directly(settings)
        self._decode_input = mappings.decoder(settings.mapping, settings.limits.record_bytes)
        own = RecordMapping(partitioned_by_sensor=True)
        self._decode = self._decode_input if self._is_direct else mappings.decoder(own, settings.limits.record_bytes)
        self._rules = Rules(settings)
        self._process_name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._name = settings.kafka.member or self._process_name
        self._transactional_id = f"{settings.kafka.group}-{self._name}"
        self._stopping = threading.Event()
        self._last_cycle = time.monotonic()
        self._is_ready = False
        self._must_roll_back = False
        self._partitions: dict[int, Partition] = {}
        self._lock = threading.Lock()  # held while sensors change and until that is committed
        self._sensors = Sensors(self._partitions, self._lock)
        self._recent = RecentEvents()
        self._dead_letters = DeadLetterLog()
        self._posting = Posting(self._connection, settings)
        self._looked_at = -1  # the version of the control records in which what is to be forgotten was looked for
        self._to_look_through: set[int] = set()  # partitions in which it was not yet
        self._n_partitions = 0
        self._largest_letter = 0  # bytes
        self._upkeep = Upkeep(settings, self.metrics, self._partitions)

    # Life

    def stop(self) -> None:
        """Finish the cycle, save what is unsaved, and leave."""
        self._stopping.set()

    def run(self) -> None:
        """Work until told to stop."""
        settings = self.settings
        self._check()
        warm_up(settings)
        settle_interpreter()
        files = settings.worker.store / self._process_name
        self._journal = CrashJournal(Path(f"{files}.crash"), settings.worker.store.glob("*.crash"))
        for left in self._journal.taken_over:
            left.with_suffix(".sqlite").unlink(missing_ok=True)
        store = Store(Path(f"{files}.sqlite"))
        server = api.serve(settings, self)
        scraped = metrics_server.serve(settings.metrics, self.metrics.registry)
        self._subscription = self._subscribe()
        self._member = self._subscription.group_metadata()
        self._producer = self._new_producer()
        self._reader = ChangelogReader(self._connection, quickly=True)
        self._control = ControlFollower(self._connection, settings.topics.control)
        self._holdings = Holdings(
            settings, self._partitions, self._rules, decode_with(self._decode), self._subscription, self._reader,
            self._control, store, self._upkeep, self.metrics, self._journal,
            self._n_partitions,
        )  # fmt: skip
        log.info("reading %s as %s", self._topic, self._name)
        try:
            while not self._stopping.is_set():
                self._guarded_cycle()
            self._leave()
        finally:
            self._is_ready = False
            for closing in (
                server, scraped, self._posting, self._subscription, self._producer, self._reader, self._control, store,
                self._journal,
            ):  # fmt: skip
                if closing is not None:
                    closing.close()
            log.info("left")

    def _check(self) -> None:
        """Refuse to start where it cannot work, with the reason."""
        settings, names = self.settings, self.settings.topics
        writes = [names.events, names.states, names.dead_letters, names.changelog]
        reads = [names.changelog, names.control] + ([self._topic] if self._is_direct else [names.readings])
        if not self._is_direct:
            writes.append(names.readings)
            reads += [] if settings.kafka.topics_pattern else list(settings.kafka.topics)
        exactly_once = settings.kafka.delivery == "exactly-once"
        self._connection.check(reads, writes, settings.kafka.group, self._transactional_id if exactly_once else None)
        counts = kafka_topics.partition_counts(self._connection, {self._topic, *writes})
        self._n_partitions = counts[names.changelog]
        expected = counts[self._topic]
        if expected > self._n_partitions and groups.committed(self._connection, settings.kafka.group):
            expected = self._n_partitions  # partitions were added to the input: see Holdings, which refuses those alone
        for topic in writes:
            if counts[topic] != expected:
                raise ConnectionProblem(
                    f"topic {self._topic!r} has {counts[self._topic]} partitions, {topic!r} has {counts[topic]}: they "
                    "go together. If the input was given more partitions, its sensors have moved between them and lost "
                    "their state: read it through the internal topic (partitioned_by_sensor = false, sensor from a "
                    "field), or make new topics under other names with `ishsmm-stream topics create`"
                )
        self._largest_letter = kafka_topics.largest_record(self._connection, names.dead_letters) - _FRAMING
        kept = kafka_topics.retention_ms(self._connection, self._topic)
        needed = 2000.0 * settings.worker.snapshot_within_s
        if kept is not None and kept < needed:
            raise ConnectionProblem(
                f"topic {self._topic!r} keeps records for {kept / 1000:g} s, but a restore reads back as far as "
                f"worker.snapshot_within_s = {settings.worker.snapshot_within_s:g} s and needs twice that: raise "
                "retention.ms or lower snapshot_within_s"
            )

    def _subscribe(self) -> Subscription:
        kafka = self.settings.kafka
        pattern, topics = kafka.topics_pattern, [] if kafka.topics_pattern else list(kafka.topics)
        if pattern is not None:
            pattern = f"^(?:{pattern}|{self._topic.replace('.', '[.]')})$"
        elif not self._is_direct:
            topics.append(self._topic)
        start_ms = kafka.start_time_ms
        return Subscription(
            self._connection,
            kafka.group,
            topics,
            pattern=pattern,
            start_from=kafka.start_from if start_ms is None else start_ms,
            # other workers may have written to it before its partitions are first given to anybody
            from_earliest=() if self._is_direct else (self._topic,),
            shared_apart=None if self._is_direct else self._topic,
            group_instance_id=kafka.member or None,
            max_poll_records=self.settings.worker.poll_records,
            quickly=True,
        )

    def _new_producer(self) -> Producer:
        """A producer; it settles the outcome of the one before it. Waits for brokers that are away."""
        wait = _FIRST_WAIT
        while True:
            gc.collect()  # a client that is gone or was refused leaves sockets and records in cycles
            try:
                # a dead letter is larger than the record that it is about
                room = {"max_request_size": max(_LARGEST_RECORD, self._largest_letter + _FRAMING)}
                if self.settings.kafka.delivery == "at-least-once":
                    return AtLeastOnce(self._connection, self._subscription, **room)
                timeout = int(self.settings.worker.transaction_timeout_s * 1000)
                return Transactions(self._connection, self._transactional_id, transaction_timeout_ms=timeout, **room)
            except (ProducerLost, ConnectionProblem) as problem:
                if self._stopping.is_set():
                    raise
                log.warning("no producer yet, trying again in %.1f s: %s", wait, problem)
                self._last_cycle = time.monotonic()
                self._stopping.wait(wait)
                wait = min(2.0 * wait, _LONGEST_WAIT)

    # Cycles

    def _guarded_cycle(self) -> None:
        try:
            with watchdog.deadline(self.settings.worker.watchdog_s, "a cycle"):
                if self._must_roll_back:
                    with self._lock:
                        self._holdings.roll_back()
                        self._must_roll_back = False
                self._cycle()
        except CycleAborted as aborted:
            log.warning("cycle rolled back: %s", aborted)
            self._must_roll_back = True
        except ProducerLost as lost:
            log.warning("cycle rolled back, new producer: %s", lost)
            self._must_roll_back = True
            self._producer.close()
            self._producer = self._new_producer()
        except (BrokersAway, ReadStalled) as problem:
            log.warning("going on from the last commit when brokers answer: %s", problem)
            self._must_roll_back = True
            self._stopping.wait(_FIRST_WAIT)
        self._last_cycle = time.monotonic()

    def _cycle(self) -> None:
        began = time.monotonic()
        records = self._subscription.poll(self.settings.worker.cycle_s)
        # Who we were when these came: the client may hear at any time that it was shut out, and then signs otherwise.
        self._member = self._subscription.group_metadata()
        self._note_lags(records)
        busy = sum(map(len, records.values()))
        self.metrics.queue_fill.labels("poll").set(busy / self.settings.worker.poll_records)
        with self._lock:
            self._take_in(records, began)
        self._note_lags({})
        # A transaction costs 10 ms whatever is in it: with little to do the next one waits for more.
        waiting = busy + sum(self._lags.values())
        if waiting < self.settings.worker.poll_records // 2 and not self._holdings.has_to_restore:
            self._stopping.wait(max(0.0, self.settings.worker.cycle_s - (time.monotonic() - began)))

    def _note_lags(self, in_hand: Mapping[Place, Sequence[Record]]) -> None:
        """What is not committed: records that were not polled, and those that were, ``in_hand``."""
        unread = self._subscription.unread()
        self._lags = {place: count + len(in_hand.get(place, ())) for place, count in unread.items()}

    def _take_in(self, records: Mapping[Place, Sequence[Record]], began: float) -> None:
        if self._holdings.has_vanished and time.monotonic() - self._last_cycle < _STILL_MEMBER:
            self._save_without_offsets()
        self._holdings.follow_assignment()
        replaced = self._holdings.replaced()
        if replaced:
            records = {place: taken for place, taken in records.items() if place not in replaced}
            self._work({}, save_all=True)  # what is unsaved cannot be replayed: the records are gone
            self._holdings.begin_anew(replaced)
        self._holdings.restore_until(began + _RESTORES_A_CYCLE)
        self._is_ready = self._holdings.are_restored and not self._subscription.unreadable
        started = time.monotonic()
        self._control.poll()
        if self._work(records):
            self.metrics.cycle_seconds.observe(time.monotonic() - started)
        self._upkeep.make_room()
        self._upkeep.count_sensors()

    def _work(self, records: Mapping[Place, Sequence[Record]], save_all: bool = False) -> bool:
        """One transaction: what came, what is due. Returns whether there was any."""
        offsets: dict[Place, tuple[int, str]] = {}
        outputs: list[tuple[int, Output]] = []
        forgotten = self._forget()
        batches: dict[int, Sequence[Record]] = {}  # records of the detectors' topic
        counts: list[Counts] = []
        foreign: list[Sequence[Record]] = []
        for place, taken in records.items():
            topic, number = place
            if topic != self._topic:
                foreign.append(taken)
                offsets[place] = self._holdings.position(place, taken[-1].offset + 1)
            elif number in self._partitions:  # or it was taken away while its records were under way
                batches[number] = taken
        if foreign:
            # a sensor's readings may be in several partitions, which are polled one after the other
            sent_on, count = self._send_on(heapq.merge(*foreign, key=lambda record: record.timestamp))
            outputs += sent_on
            counts.append(count)
        inferences, inferred = take_all(
            [(self._partitions[number], taken) for number, taken in batches.items()],
            threads=self.settings.worker.inference_threads,
            journal=self._journal,
        )
        for number, of_partition in zip(batches, inferences, strict=True):
            outputs += [(number, output) for output in of_partition]
        total = add_up([*counts, inferred])
        snapshots = self._upkeep.due_snapshots(save_all)
        for place, offset in self._holdings.begun.items():
            offsets.setdefault(place, self._holdings.position(place, offset))
        touched = {number for topic, number in (*records, *self._holdings.begun) if topic == self._topic} | set(
            snapshots
        )
        touched |= {number for number, _ in forgotten}
        for number in touched & set(self._partitions):
            partition = self._partitions[number]
            saved = [sensor for sensor, _ in snapshots.get(number, [])]
            unsaved_from, place = partition.unsaved_from(saved), (self._topic, number)
            offsets[place] = self._holdings.position(place, partition.next_offset, unsaved_from, partition.clock)
        if not offsets:
            return False
        self._commit(outputs, snapshots, offsets, forgotten)
        oldest = [taken[0].timestamp for taken in records.values() if taken]
        published = [output for _, output in outputs]
        self.metrics.committed(total, published, oldest)
        self._dead_letters.add(published)
        self._recent.add(output.value for output in published if output.kind == "events")
        self._holdings.begun.clear()
        self._journal.committed(
            {number: partition.next_offset for number, partition in self._partitions.items()},
            {number: {sensor for sensor, _ in saved} for number, saved in snapshots.items()},
        )
        self._note_saved(snapshots)
        return True

    def _save_without_offsets(self) -> None:
        """Save all states before the group takes the partitions of a topic that was deleted: nobody can replay it, and
        brokers take no offsets for it."""
        snapshots = self._upkeep.due_snapshots(save_all=True)
        if snapshots:
            log.warning("%s was deleted: saving the states of its sensors", self._topic)
            self._commit([], snapshots, {}, [])
            self._note_saved(snapshots)

    def _note_saved(self, snapshots: dict[int, list[tuple[str, Saved]]]) -> None:
        for number, saved_sensors in snapshots.items():
            self._partitions[number].saved(saved_sensors)
            self.metrics.saved(self._partitions[number].detectors(sensor for sensor, _ in saved_sensors))

    def _forget(self) -> list[tuple[int, str]]:
        """Drop what people want forgotten; returns the sensors with their partitions."""
        book = self._control.book
        if book.version != self._looked_at:
            self._looked_at = book.version
            self._to_look_through |= set(self._partitions)
        self._to_look_through |= self._holdings.take_new()
        looked_through = sorted(self._to_look_through & set(self._partitions))
        self._to_look_through.clear()
        found = [(number, sensor) for number in looked_through for sensor in self._partitions[number].forget()]
        if found:
            log.info("forgetting %s", ", ".join(sensor for _, sensor in found))
        return found

    def _send_on(self, records: Iterable[Record]) -> tuple[list[tuple[int, Output]], Counts]:
        """Readings of topics that are not keyed by sensor, on their way to the partitions of the internal topic."""
        outputs: list[tuple[int, Output]] = []
        n_records = bad_ones = 0
        for record in records:
            n_records += 1
            try:
                readings = self._decode_input(record.key, record.value, record.timestamp)
            except BadRecord as bad:
                outputs.append((record.partition % self._n_partitions, dead_letter(record, bad)))
                bad_ones += 1
                continue
            for reading in readings:
                number = partition_of(reading.sensor, self._n_partitions)
                outputs.append((number, Output("readings", reading.sensor.encode(), encode_reading(reading))))
        return outputs, Counts(records=n_records, dead_letters=bad_ones, forwarded=len(outputs) - bad_ones)

    def _commit(
        self,
        outputs: list[tuple[int, Output]],
        snapshots: dict[int, list[tuple[str, Saved]]],
        offsets: dict[Place, tuple[int, str]],
        forgotten: list[tuple[int, str]],
    ) -> None:
        names = self.settings.topics.names
        self._producer.begin()
        for number, sensor in forgotten:  # first: it may be back already
            for kind in ("changelog", "states"):
                self._producer.send(names[kind], sensor.encode(), None, number)
        for number, output in outputs:
            value = output.value
            if output.kind == "dead_letters":
                value = messages.shortened(value, self._largest_letter - len(output.key))
            self._producer.send(names[output.kind], output.key, value, number)
        written = 0
        for number, key, value in self._changelog_records(snapshots):
            self._producer.send(names["changelog"], key, value, number)
            written += len(value)
        self.metrics.queue_fill.labels("producer").set(self._producer.bytes_in_flight / MAX_BYTES_IN_FLIGHT)
        began = time.monotonic()
        self._producer.commit(offsets, self._member)
        self.metrics.commit_seconds.observe(time.monotonic() - began)
        self.metrics.snapshots.inc(sum(map(len, snapshots.values())))
        self.metrics.changelog_bytes.inc(written)

    def _changelog_records(self, snapshots: dict[int, list[tuple[str, Saved]]]) -> Iterable[tuple[int, bytes, bytes]]:
        for number, sensors in snapshots.items():
            for sensor, saved in sensors:
                yield number, sensor.encode(), changelog_value(saved)

    # Leaving

    def _leave(self) -> None:
        """Save everything that is unsaved, so that the next one has nothing to replay."""
        if self._must_roll_back:
            return  # what is in memory was not committed
        with watchdog.deadline(self.settings.worker.stop_within_s, "stopping"):
            try:
                with self._lock:
                    self._work({}, save_all=True)
            except (CycleAborted, ProducerLost) as problem:
                log.warning("states are not saved, the next worker replays: %s", problem)

    # What the API asks

    def is_alive(self) -> bool:
        """Whether cycles end."""
        is_late = time.monotonic() - self._last_cycle >= self.settings.worker.watchdog_s
        return not is_late or watchdog.is_compiling()

    def is_ready(self) -> bool:
        """Whether all partitions are being worked on, and the group's broker answers."""
        return self._is_ready and self._subscription.is_in_touch

    def submit(self, readings: list[PostedReading], received: int) -> int:
        """Produce posted readings to the input topic; the last one's offset once all are acknowledged."""
        return self._posting.send(readings, received)

    def events(
        self, between: tuple[int, int], limit: int, sensor: str | None, status: str | None, newest_first: bool
    ) -> list[StoredEvent]:
        """Events that this worker has committed since it started."""
        return self._recent.page(between, limit, sensor, status, newest_first)

    def sensor(self, name: str) -> SensorPosterior | None:
        """What is known of one of its sensors now."""
        return self._sensors.one(name)

    def sensors(self, after: str, limit: int) -> list[SensorEntry]:
        """Its sensors by name."""
        return self._sensors.page(after, limit)
