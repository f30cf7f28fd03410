"""The log on Kafka: a consumer group reads the input, and each cycle is one transaction.

    records of the input -> outputs, snapshots (the changelog), offsets of the group -> one transaction

Records of topics that are not keyed by sensor go through the internal topic of readings, which is.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from service.kafka import groups
from service.kafka import topics as kafka_topics
from service.kafka.assigned_partitions import AssignedPartitions
from service.kafka.changelog import ChangelogReader, ReadStalled
from service.kafka.connection import ConnectionProblem
from service.kafka.consumer import BrokersAway, Subscription
from service.kafka.control import ControlFollower
from service.kafka.input import connection_of, reads_directly, sensor_topic
from service.kafka.producer import MAX_BYTES_IN_FLIGHT, AtLeastOnce, Producer, ProducerLost, Transactions
from service.metrics import Metrics
from service.runtime.forwarding import Forwarder
from service.runtime.log import Assignment, Cycle, Polled, Records, Restored, Snapshots, TopicPartition
from service.runtime.snapshot_store import SnapshotStore
from service.sensors.crashes import CrashJournal
from service.sensors.envelope import changelog_value
from service.sensors.records import Outbound, decode_with
from service.settings import RecordMapping, Settings
from service.wire import decoding, messages

log = logging.getLogger(__name__)

# After the producer was lost, a worker waits this long before it tries again: first wait and longest wait, in seconds.
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0
_LARGEST_RECORD = 1024**2
# Bytes that a batch of one record adds to its key and value, with room to spare.
_FRAMING = 256


class KafkaLog:
    """A ``RecordLog``."""

    away: tuple[type[Exception], ...] = (BrokersAway, ReadStalled)
    retry_s = _FIRST_WAIT
    is_at_end = False

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.topic = sensor_topic(settings)
        self.forwarder: Forwarder | None = None
        self._metrics = metrics
        self._connection = connection_of(settings)
        self._is_direct = reads_directly(settings)
        self._process_name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._name = settings.kafka.member or self._process_name
        self._transactional_id = f"{settings.kafka.group}-{self._name}"
        self._lags: dict[TopicPartition, int] = {}
        self._n_partitions = 0
        self._largest_letter = 0  # bytes
        self._closing = ExitStack()

    # Life

    def check(self) -> None:
        """Raise ConnectionProblem with the reason if the service cannot work with these topics."""
        settings, names = self.settings, self.settings.topics
        writes = [names.events, names.states, names.dead_letters, names.changelog]
        reads = [names.changelog, names.control] + ([self.topic] if self._is_direct else [names.readings])
        if not self._is_direct:
            writes.append(names.readings)
            reads += [] if settings.kafka.topics_pattern else list(settings.kafka.topics)
        exactly_once = settings.kafka.delivery == "exactly-once"
        self._connection.check(reads, writes, settings.kafka.group, self._transactional_id if exactly_once else None)
        counts = kafka_topics.partition_counts(self._connection, {self.topic, *writes})
        self._n_partitions = counts[names.changelog]
        expected = counts[self.topic]
        if expected > self._n_partitions and groups.committed(self._connection, settings.kafka.group):
            expected = self._n_partitions  # the input was given more: AssignedPartitions refuses only those
        for topic in writes:
            if counts[topic] != expected:
                raise ConnectionProblem(
                    f"topic {self.topic!r} has {counts[self.topic]} partitions, {topic!r} has {counts[topic]}: they "
                    "go together. If the input was given more partitions, its sensors have moved between them and lost "
                    "their state: read it through the internal topic (partitioned_by_sensor = false, sensor from a "
                    "field), or make new topics under other names with `ishsmm-stream topics create`"
                )
        self._largest_letter = kafka_topics.largest_record(self._connection, names.dead_letters) - _FRAMING
        kept = kafka_topics.retention_ms(self._connection, self.topic)
        needed = 2000.0 * settings.worker.snapshot_within_s
        if kept is not None and kept < needed:
            raise ConnectionProblem(
                f"topic {self.topic!r} keeps records for {kept / 1000:g} s, but a restore reads back as far as "
                f"worker.snapshot_within_s = {settings.worker.snapshot_within_s:g} s and needs twice that: raise "
                "retention.ms or lower snapshot_within_s"
            )

    def open(self, is_stopping: Callable[[float], bool], beat: Callable[[], None]) -> None:
        """Join the group. See ``RecordLog``."""
        settings, own = self.settings, RecordMapping(partitioned_by_sensor=True)
        self._is_stopping, self._beat = is_stopping, beat
        mapping, limit = settings.mapping, settings.limits.record_bytes
        self.decode = decode_with(decoding.decoder(mapping if self._is_direct else own, limit))
        if not self._is_direct:
            self.forwarder = Forwarder(decoding.decoder(mapping, limit), self._n_partitions)
        files = settings.worker.store / self._process_name
        self.journal = CrashJournal(Path(f"{files}.crash"), settings.worker.store.glob("*.crash"))
        self._closing.callback(self.journal.close)
        for left in self.journal.taken_over:
            left.with_suffix(".sqlite").unlink(missing_ok=True)
        self.states = SnapshotStore(Path(f"{files}.sqlite"))
        self._closing.callback(self.states.close)
        self._subscription = self._subscribe()
        # Callbacks run in reverse order: the subscription leaves the group, then the producer is closed. A lambda,
        # since the producer is replaced now and then.
        self._closing.callback(lambda: self._producer.close())
        self._closing.callback(self._subscription.close)
        self._producer = self._new_producer()
        self._reader = ChangelogReader(self._connection, quickly=True)
        self._closing.callback(self._reader.close)
        self.control = ControlFollower(self._connection, settings.topics.control)
        self._closing.callback(self.control.close)
        self._assigned = AssignedPartitions(
            settings, self._subscription, self._reader, self.control, self.states, self._metrics, self._n_partitions
        )
        log.info("reading %s as %s", self.topic, self._name)

    def start(self) -> None:
        """Do nothing: records come by themselves."""

    def stop(self) -> None:
        """Do nothing: no sources feed this log."""

    def close(self) -> None:
        """Leave the group."""
        self._closing.close()

    def _subscribe(self) -> Subscription:
        kafka = self.settings.kafka
        pattern, topics = kafka.topics_pattern, [] if kafka.topics_pattern else list(kafka.topics)
        if pattern is not None:
            pattern = f"^(?:{pattern}|{self.topic.replace('.', '[.]')})$"
        elif not self._is_direct:
            topics.append(self.topic)
        start_ms = kafka.start_time_ms
        return Subscription(
            self._connection,
            kafka.group,
            topics,
            pattern=pattern,
            start_from=kafka.start_from if start_ms is None else start_ms,
            # Other workers may have written to the topic before its partitions are first assigned.
            from_earliest=() if self._is_direct else (self.topic,),
            shared_apart=None if self._is_direct else self.topic,
            group_instance_id=kafka.member or None,
            max_poll_records=self.settings.worker.poll_records,
            quickly=True,
        )

    def _new_producer(self) -> Producer:
        """Return a new producer, which settles the outcome of the previous one. Waits for brokers that are away."""
        wait = _FIRST_WAIT
        while True:
            gc.collect()  # a client that is closed or was refused leaves sockets and records in reference cycles
            try:
                # A dead letter is larger than the record that it describes.
                room = {"max_request_size": max(_LARGEST_RECORD, self._largest_letter + _FRAMING)}
                if self.settings.kafka.delivery == "at-least-once":
                    return AtLeastOnce(self._connection, self._subscription, **room)
                timeout = int(self.settings.worker.transaction_timeout_s * 1000)
                return Transactions(self._connection, self._transactional_id, transaction_timeout_ms=timeout, **room)
            except (ProducerLost, ConnectionProblem) as problem:
                if self._is_stopping(0.0):
                    raise
                log.warning("no producer yet, trying again in %.1f s: %s", wait, problem)
                self._beat()
                self._is_stopping(wait)
                wait = min(2.0 * wait, _LONGEST_WAIT)

    # Records in

    def poll(self, seconds: float) -> Polled:
        """Poll records of the restored partitions."""
        records = self._subscription.poll(seconds)
        self._note_lags(records)
        # Captured now: as soon as the client learns that it was shut out, it reports an anonymous member.
        return Polled(records, self._subscription.group_metadata())

    def _note_lags(self, in_hand: Records) -> None:
        """Note the uncommitted records: those that were not polled, and the polled ones, ``in_hand``."""
        unread = self._subscription.unread()
        self._lags = {place: count + len(in_hand.get(place, ())) for place, count in unread.items()}

    def lags(self) -> Mapping[TopicPartition, int]:
        """Return the lags at the last poll or commit."""
        return self._lags

    @property
    def is_in_touch(self) -> bool:
        """Whether the group's broker has answered within the session timeout."""
        return self._subscription.is_in_touch

    # Partitions that come and go

    @property
    def is_vanishing(self) -> bool:
        """Whether the topic that detectors read was deleted."""
        return self._assigned.has_vanished

    def follow_assignment(self) -> Assignment:
        """Apply changes of the assignment. Returns the revoked partitions, and those whose topic was deleted and
        created again."""
        return Assignment(self._assigned.follow_assignment(), self._assigned.replaced())

    def begin_anew(self, replaced: Collection[TopicPartition]) -> None:
        """Begin partitions again in the topic that has the name now."""
        self._assigned.begin_anew(set(replaced))

    def restore(self, open_partition: Callable[[Restored], None], until: float) -> None:
        """Restore partitions from the changelog and the input."""
        self._assigned.restore_until(open_partition, until)

    @property
    def is_restored(self) -> bool:
        """Whether all partitions are restored and can be read."""
        return self._assigned.are_restored and not self._subscription.unreadable

    @property
    def has_to_restore(self) -> bool:
        """Whether a partition is due to be restored."""
        return self._assigned.has_to_restore

    @property
    def starts(self) -> Mapping[TopicPartition, int]:
        """Offsets at which partitions begin that are in no commit yet."""
        return self._assigned.starts

    # Cycles out

    def commit(self, cycle: Cycle) -> None:
        """Commit the cycle in one transaction. See ``RecordLog``."""
        names = self.settings.topics.names
        producer = self._producer
        offsets = {place: self._assigned.commit_of(place, position) for place, position in cycle.positions.items()}
        producer.begin()
        for number, sensor in cycle.forgotten:  # first, since the sensor may already be back
            for kind in ("changelog", "states"):
                producer.send(names[kind], sensor.encode(), None, number)
            producer.send(names["states"], messages.dictionary_key(sensor), None, number)
        for number, output in cycle.outputs:
            producer.send(names[output.kind], output.key, self._encoded(output), number)
        for number, key, value in self._changelog_records(cycle.snapshots):
            producer.send(names["changelog"], key, value, number)
        self._metrics.queue_fill.labels("producer").set(producer.bytes_in_flight / MAX_BYTES_IN_FLIGHT)
        began = time.monotonic()
        producer.commit(offsets, cycle.member)
        self._metrics.commit_seconds.observe(time.monotonic() - began)
        if cycle.positions:
            self._assigned.starts.clear()
        self._note_lags({})

    def _encoded(self, output: Outbound) -> bytes:
        if isinstance(output.message, messages.DeadLetter):
            return messages.shortened(output.message, self._largest_letter - len(output.key))
        return output.encoded()

    def _changelog_records(self, snapshots: Snapshots) -> Iterable[tuple[int, bytes, bytes]]:
        for number, sensors in snapshots.items():
            for sensor, saved in sensors:
                yield number, sensor.encode(), changelog_value(saved)

    def settle(self) -> None:
        """Open a new producer with the same transactional id. It ends the transaction that the last one left open."""
        self._producer.close()
        self._producer = self._new_producer()

    def roll_back(self) -> None:
        """Continue from the last commit."""
        self._assigned.roll_back()
