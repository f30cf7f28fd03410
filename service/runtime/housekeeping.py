"""Between cycles: which snapshots are due, and detectors within memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping

from service.metrics import Metrics
from service.sensors.partition import Partition
from service.sensors.saved import Saved
from service.settings import Settings

# Snapshots that one cycle takes: a fleet that started at once is spread over cycles, 1 ms each.
_SNAPSHOTS_A_CYCLE = 200
_MEMORY_LOOKED_AT_EVERY = 5.0
# The places of detectors that left memory are kept for others, so the process stays as large as it was: only where it
# has grown since do more have to leave.
_MEMORY_STEP_MB = 8.0
_KIB = 1024


class Housekeeping:
    """Looks after a worker's partitions, which come and go in the table it is given."""

    def __init__(self, settings: Settings, metrics: Metrics, partitions: Mapping[int, Partition]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._partitions = partitions
        self._memory_looked_at = 0.0
        self._made_room_at = 0.0

    def due_snapshots(self, save_all: bool = False) -> dict[int, list[tuple[str, Saved]]]:
        """The sensors' states that have to be saved now, by partition."""
        now = time.monotonic()
        # a little early, so that a commit that takes long is still in time
        older_than = now if save_all else now - 0.95 * self._settings.worker.snapshot_within_s
        found: dict[int, list[tuple[str, Saved]]] = {}
        room = 10**9 if save_all else _SNAPSHOTS_A_CYCLE
        for number, partition in self._partitions.items():
            due = partition.snapshots(older_than, room)
            if due:
                found[number] = due
                room -= len(due)
        return found

    def has_room_for_sensor(self) -> bool:
        """Whether one more sensor is taken on."""
        return sum(partition.sensors for partition in self._partitions.values()) < self._settings.limits.sensors

    def make_room(self) -> None:
        """Move detectors to disk where there are too many, or too little memory."""
        limits = self._settings.limits
        held = sum(partition.in_memory for partition in self._partitions.values())
        surplus = held - limits.detectors
        now = time.monotonic()
        if now - self._memory_looked_at > _MEMORY_LOOKED_AT_EVERY:
            self._memory_looked_at = now
            resident = _resident_mb()
            if resident > max(limits.memory_mb, self._made_room_at + _MEMORY_STEP_MB):
                self._made_room_at = resident
                surplus = max(surplus, held // 4)
        for partition in self._partitions.values():
            if surplus <= 0:
                break
            evicted = partition.evict(surplus)
            surplus -= evicted
            self._metrics.evictions.inc(evicted)

    def count_sensors(self) -> None:
        """Bring the gauges up to date."""
        self._metrics.look_at(self._partitions)


def _resident_mb() -> float:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / _KIB**2
    except OSError:  # not on Linux: the peak is the best there is
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB
