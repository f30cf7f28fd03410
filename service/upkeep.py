"""What every worker does for its sensors, wherever their records come from: kernels compiled before the first record,
snapshots in time, detectors within memory."""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Mapping

from service.metrics import Metrics
from service.partition import Partition
from service.settings import Settings
from service.store import Saved

log = logging.getLogger(__name__)

# Snapshots that one cycle takes: a fleet that started at once is spread over cycles, 1 ms each.
_SNAPSHOTS_A_CYCLE = 200
_MEMORY_LOOKED_AT_EVERY = 5.0
_KIB = 1024


def warm_up(settings: Settings) -> None:
    """Compile what the rules need before anybody waits for it."""
    began = time.monotonic()
    seen = set()
    for rule in settings.rules_in_force:
        fingerprint = rule.inference_fingerprint()
        if fingerprint not in seen:
            seen.add(fingerprint)
            detector = rule.detector()
            detector.update_many([[0.0] * (rule.channels() or 1)] * 40)
            assert detector.state is not None
            type(detector).restore(detector.snapshot())
    log.info("kernels of %d models ready after %.1f s", len(seen), time.monotonic() - began)


class Upkeep:
    """Looks after a worker's partitions, which come and go in the table it is given."""

    def __init__(self, settings: Settings, metrics: Metrics, partitions: Mapping[int, Partition]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._partitions = partitions
        self._memory_looked_at = 0.0

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
            if _resident_mb() > limits.memory_mb:
                surplus = max(surplus, held // 4)
        for partition in self._partitions.values():
            if surplus <= 0:
                break
            surplus -= partition.evict(surplus)

    def count_sensors(self) -> None:
        """Bring the gauges up to date."""
        partitions = self._partitions.values()
        self._metrics.partitions.set(len(partitions))
        self._metrics.sensors.set(sum(partition.sensors for partition in partitions))
        self._metrics.detectors.set(sum(partition.in_memory for partition in partitions))
        self._metrics.silent.set(sum(partition.silent for partition in partitions))


def _resident_mb() -> float:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / _KIB**2
    except OSError:  # not on Linux: the peak is the best there is
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB
