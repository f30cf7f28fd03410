"""The worker: it reads records from a log, runs detectors and publishes messages. Each cycle is all or nothing.

     1  poll the log
     2  follow the assignment of partitions, and restore newly assigned ones
     3  apply operations: drop the sensors that are to be forgotten
     4  forward records of topics that are not keyed by sensor
     5  accept: decode records and check their readings
     6  infer: run the readings through their sensors' detectors
     7  collect outputs: events, states, dead letters
     8  choose snapshots
     9  commit all of it, with the positions that were reached
    10  notify observers

Nothing is left uncommitted between two polls, so a partition can be revoked at any time. Whatever goes wrong with a
commit, the remedy is the same: forget the partitions and restore them from the last commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from service.metrics import Metrics
from service.runtime import watchdog
from service.runtime.housekeeping import Housekeeping
from service.runtime.log import (
    Cycle,
    CycleAborted,
    OutcomeUnknown,
    Position,
    RecordLog,
    Records,
    Restored,
    Snapshots,
    TopicPartition,
)
from service.runtime.observers import CommittedCycle, Observer
from service.sensors.counts import CycleCounts, add_up
from service.sensors.partition import Partition
from service.sensors.pipeline import process
from service.sensors.records import InputRecord, Outbound
from service.sensors.rules import Rules
from service.settings import Settings

log = logging.getLogger(__name__)

# Seconds per cycle for restoring partitions.
_RESTORES_A_CYCLE = 1.0
# Seconds since the last cycle in which our partitions cannot have been assigned to another member: half the session
# timeout.
_STILL_MEMBER = 5.0


class Worker:
    """Runs until ``stop`` is called, or until the log's input ends. ``records`` must be open."""

    def __init__(
        self, settings: Settings, records: RecordLog, metrics: Metrics, observers: Sequence[Observer] = (),
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.partitions: dict[int, Partition] = {}
        self.lock = threading.Lock()  # held while sensors change and until the changes are committed
        self._log = records
        self._metrics = metrics
        self._observers = observers
        self._on_ready = on_ready
        self._rules = Rules(settings)
        self._housekeeping = Housekeeping(settings, metrics, self.partitions)
        self._stopping = threading.Event()
        self._last_cycle = time.monotonic()
        self._member: Any = None  # membership token of the last poll
        self._is_ready = self._was_ready = False
        self._must_roll_back = False
        self._looked_at = -1  # version of the control records at the last search for sensors to forget
        self._to_look_through: set[int] = set()  # partitions in which that search is still due

    # Life

    def stop(self) -> None:
        """Finish the cycle, save all unsaved states, and end."""
        self._stopping.set()

    def is_stopping(self, wait: float = 0.0) -> bool:
        """Return whether ``stop`` was called. Waits for it at most this many seconds."""
        return self._stopping.wait(wait) if wait else self._stopping.is_set()

    def beat(self) -> None:
        """Mark the worker as alive although no cycle ends."""
        self._last_cycle = time.monotonic()

    def run(self) -> None:
        """Work until ``stop`` is called, or until the input has ended."""
        watchdog.report_to(self._log.journal.fault)
        try:
            while not self._stopping.is_set() and not self._log.is_at_end:
                self._guarded_cycle()
            self._is_ready = False
            self._log.stop()
            self._leave()
        finally:
            self._is_ready = False
            watchdog.report_to(None)

    def is_alive(self) -> bool:
        """Return whether cycles end in time."""
        is_late = time.monotonic() - self._last_cycle >= self.settings.worker.watchdog_s
        return not is_late or watchdog.is_compiling()

    def is_ready(self) -> bool:
        """Return whether all partitions are being worked on, and the log answers."""
        return self._is_ready and self._log.is_in_touch

    def _leave(self) -> None:
        """Save everything that is unsaved, so that the next worker has nothing to replay."""
        if self._must_roll_back:
            return  # the state in memory was not committed
        with watchdog.deadline(self.settings.worker.stop_within_s, "stopping"):
            problems: tuple[type[Exception], ...] = (CycleAborted, OutcomeUnknown, *self._log.away)
            try:
                with self.lock:
                    committed = self._process({}, self._member, save_all=True)
                self._notify(committed)
            except problems as problem:
                log.warning("states are not saved, the next worker replays: %s", problem)

    # Cycles

    def _guarded_cycle(self) -> None:
        try:
            with watchdog.deadline(self.settings.worker.watchdog_s, "a cycle"):
                if self._must_roll_back:
                    with self.lock:
                        self._roll_back()
                self._cycle()
        except CycleAborted as aborted:
            log.warning("cycle rolled back: %s", aborted)
            self._must_roll_back = True
        except OutcomeUnknown as unknown:
            log.warning("cycle rolled back, new producer: %s", unknown)
            self._must_roll_back = True
            self._log.settle()
        except self._log.away as away:
            log.warning("going on from the last commit when the log answers: %s", away)
            self._must_roll_back, self._is_ready = True, False
            self._stopping.wait(self._log.retry_s)
        self.beat()

    def _roll_back(self) -> None:
        """Forget everything in memory and continue from the last commit."""
        self._metrics.aborts.inc()
        self.partitions.clear()
        self._log.roll_back()
        self._must_roll_back = False

    def _cycle(self) -> None:
        began = time.monotonic()
        rhythm = self.settings.worker
        polled = self._log.poll(rhythm.cycle_s)  # 1
        self._member = polled.member
        busy = sum(map(len, polled.records.values()))
        self._metrics.queue_fill.labels("poll").set(busy / rhythm.poll_records)
        with self.lock:
            records = self._follow_assignment(polled.records, began)  # 2
            started = time.monotonic()
            self._log.control.poll()
            committed = self._process(records, polled.member)  # 3 to 9
            if committed is not None:
                self._metrics.cycle_seconds.observe(time.monotonic() - started)
            self._housekeeping.make_room()
            self._housekeeping.count_sensors()
        self._notify(committed)  # 10
        # A commit costs 10 ms whatever its size. With little to do, the next cycle waits for more records.
        waiting = busy + sum(self._log.lags().values())
        if waiting < rhythm.poll_records // 2 and not self._log.has_to_restore:
            self._stopping.wait(max(0.0, rhythm.cycle_s - (time.monotonic() - began)))

    def _notify(self, committed: CommittedCycle | None) -> None:
        if committed is not None:
            self._metrics.committed(committed.counts, committed.outputs, committed.oldest)
        for observer in self._observers:
            if committed is None:
                observer.idle()
            else:
                observer.committed(committed)

    def _follow_assignment(self, records: Records, began: float) -> Records:
        """Follow the assignment. Returns the records without those of replaced partitions, which begin anew."""
        if self._log.is_vanishing and time.monotonic() - self._last_cycle < _STILL_MEMBER:
            self._save_without_positions()
        assignment = self._log.follow_assignment()
        for number in assignment.revoked:
            self.partitions.pop(number, None)
        if assignment.replaced:
            records = {place: taken for place, taken in records.items() if place not in assignment.replaced}
            self._notify(self._process({}, self._member, save_all=True))  # unsaved readings can no longer be replayed
            for topic, number in assignment.replaced:
                if topic == self._log.topic:
                    self.partitions.pop(number, None)
            self._log.begin_anew(assignment.replaced)
        self._log.restore(self._open_partition, began + _RESTORES_A_CYCLE)
        self._is_ready = self._log.is_restored
        if self._is_ready and not self._was_ready:
            self._was_ready = True
            self._on_ready()
            self._log.start()
        return records

    def _open_partition(self, restored: Restored) -> None:
        partition = Partition(
            restored.number,
            self._rules,
            self._log.decode,
            self._log.states,
            self._housekeeping.has_room_for_sensor,
            self.settings.worker.snapshot_within_s,
            self._log.control.book,
            restored.origin,
            self._log.journal,
        )
        partition.begin(restored.next_offset, restored.clock, restored.replayed, restored.moved, restored.end)
        self.partitions[restored.number] = partition
        self._to_look_through.add(restored.number)
        took = time.monotonic() - restored.began
        self._metrics.restores.inc()
        self._metrics.restore_seconds.observe(took)
        log.info(
            "partition %d: %d sensors, %d records replayed, restored in %.1f s",
            restored.number, partition.sensors, max(0, restored.next_offset - restored.unsaved_from), took,
        )  # fmt: skip

    def _process(self, records: Records, member: Any, save_all: bool = False) -> CommittedCycle | None:
        """Process and commit the records and the snapshots that are due. Returns None if there was neither."""
        forgotten = self._forget()  # 3
        batches, forwarded = self._split(records)
        outputs: list[tuple[int, Outbound]] = []
        counts: list[CycleCounts] = []
        if forwarded:
            assert self._log.forwarder is not None
            outputs, count = self._log.forwarder.forward(list(forwarded.values()))  # 4
            counts.append(count)
        inferred, count = process(  # 5, 6, 7
            [(self.partitions[number], taken) for number, taken in batches.items()],
            threads=self.settings.worker.inference_threads,
            journal=self._log.journal,
        )
        for number, of_partition in zip(batches, inferred, strict=True):
            outputs += [(number, output) for output in of_partition]
        snapshots = self._housekeeping.due_snapshots(save_all)  # 8
        positions = {place: Position(offset) for place, offset in self._log.starts.items()}
        positions |= {place: Position(taken[-1].offset + 1) for place, taken in forwarded.items()}
        for number in self._touched(records, snapshots, forgotten):
            partition = self.partitions[number]
            unsaved_from = partition.unsaved_from([sensor for sensor, _ in snapshots.get(number, [])])
            place = self._log.topic, number
            positions[place] = Position(partition.next_offset, unsaved_from, partition.clock)
        if not positions:
            return None
        self._commit(Cycle(outputs, snapshots, forgotten, positions, member))  # 9
        return CommittedCycle(
            add_up([*counts, count]),
            [output for _, output in outputs],
            [sensor for _, sensor in forgotten],
            [taken[0].timestamp for taken in records.values() if taken],
        )

    def _split(
        self, records: Records
    ) -> tuple[dict[int, Sequence[InputRecord]], dict[TopicPartition, Sequence[InputRecord]]]:
        """Return the records for our detectors, and the records to forward.

        A partition that was revoked after the poll is in neither.
        """
        forwarded = {place: taken for place, taken in records.items() if place[0] != self._log.topic}
        batches = {
            number: taken
            for (topic, number), taken in records.items()
            if topic == self._log.topic and number in self.partitions
        }
        return batches, forwarded

    def _touched(self, records: Records, snapshots: Snapshots, forgotten: Sequence[tuple[int, str]]) -> set[int]:
        """Return the partitions whose position is committed."""
        touched = {number for topic, number in (*records, *self._log.starts) if topic == self._log.topic}
        return (touched | set(snapshots) | {number for number, _ in forgotten}) & set(self.partitions)

    def _forget(self) -> list[tuple[int, str]]:
        """Drop the sensors that are to be forgotten. Returns them with their partitions."""
        book = self._log.control.book
        if book.version != self._looked_at:
            self._looked_at = book.version
            self._to_look_through |= set(self.partitions)
        looked_through = sorted(self._to_look_through & set(self.partitions))
        self._to_look_through.clear()
        found = [(number, sensor) for number in looked_through for sensor in self.partitions[number].forget()]
        if found:
            log.info("forgetting %s", ", ".join(sensor for _, sensor in found))
        return found

    def _save_without_positions(self) -> None:
        """Save all states before the partitions of a deleted topic are revoked.

        The topic can no longer be replayed, and brokers take no offsets for it.
        """
        snapshots = self._housekeeping.due_snapshots(save_all=True)
        if snapshots:
            log.warning("%s was deleted: saving the states of its sensors", self._log.topic)
            self._commit(Cycle([], snapshots, [], {}, self._member))

    def _commit(self, cycle: Cycle) -> None:
        self._log.commit(cycle)
        for number, saved in cycle.snapshots.items():
            self.partitions[number].saved(saved)
            self._metrics.saved(saved, self.partitions[number].detectors(sensor for sensor, _ in saved))
        if cycle.positions:
            self._log.journal.committed(
                {number: partition.next_offset for number, partition in self.partitions.items()},
                {number: {sensor for sensor, _ in saved} for number, saved in cycle.snapshots.items()},
            )
