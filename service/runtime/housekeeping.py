"""Work between cycles: choose the snapshots that are due, and keep detectors within the memory limits."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping

from service.metrics import Metrics
from service.sensors.partition import Partition
from service.sensors.saved import Saved
from service.settings import Settings

# Maximum number of snapshots per cycle, about 1 ms each. It spreads a fleet that started at once over several cycles.
_SNAPSHOTS_A_CYCLE = 200
_MEMORY_LOOKED_AT_EVERY = 5.0
# Evicted detectors leave room for others, but the process does not shrink. So evict more only if the process has grown
# by this much since.
_MEMORY_STEP_MB = 8.0
_KIB = 1024


class Housekeeping:
    """Housekeeping for a worker's partitions. The worker adds partitions to the given mapping and removes them."""

    def __init__(self, settings: Settings, metrics: Metrics, partitions: Mapping[int, Partition]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._partitions = partitions
        self._memory_looked_at = 0.0
        self._made_room_at = 0.0

    def due_snapshots(self, save_all: bool = False) -> dict[int, list[tuple[str, Saved]]]:
        """Return the snapshots that are due now, by partition."""
        now = time.monotonic()
        # A little early, so that a slow commit is still in time.
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
        """Return whether the worker accepts one more sensor."""
        return sum(partition.sensors for partition in self._partitions.values()) < self._settings.limits.sensors

    def make_room(self) -> None:
        """Evict detectors to disk if there are too many, or if they use too much memory."""
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
        """Update the gauges."""
        self._metrics.look_at(self._partitions)


def _resident_mb() -> float:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / _KIB**2
    except OSError:  # not on Linux: the peak is the best value available
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB
