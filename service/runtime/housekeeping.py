"""What every worker does for its sensors, wherever their records come from: kernels compiled before the first record,
snapshots in time, detectors within memory."""

from __future__ import annotations

import gc
import logging
import resource
import subprocess
import sys
import time
from collections.abc import Mapping

import msgspec
import numpy as np

import ishsmm_stream as hs
from service.metrics import Metrics
from service.runtime.snapshot_store import Saved
from service.sensors.partition import Partition
from service.sensors.recent import downsample
from service.settings import Rule, Settings
from service.wire.messages import MOST_RECENT

log = logging.getLogger(__name__)

# Snapshots that one cycle takes: a fleet that started at once is spread over cycles, 1 ms each.
_SNAPSHOTS_A_CYCLE = 200
_MEMORY_LOOKED_AT_EVERY = 5.0
# The places of detectors that left memory are kept for others, so the process stays as large as it was: only where it
# has grown since do more have to leave.
_MEMORY_STEP_MB = 8.0
_KIB = 1024
# Seconds of CPU; loading a model's kernels takes one, compiling them half a minute.
_CACHED_WITHIN = 6.0
# New objects after which Python looks for garbage that refers to itself, and how seldom among older ones. A cycle makes
# tens of thousands, none of them such garbage: with the usual 700 looking takes a fifth of the worker's time. But the
# client's refused connections are such garbage, a file and 37 objects each: with many more a process whose brokers are
# away would run out of files.
_COLLECT_AFTER = (10_000, 20, 100)
# Seconds that a thread waits for the interpreter: with the usual 5 ms the threads that infer stand still half the time.
_SWITCH_AFTER = 0.001


def warm_up(settings: Settings, helpers: int = 0) -> None:
    """Compile what the rules need before anybody waits for it.

    Where nothing is in the kernels' cache yet, so many ``helpers`` compile for further models at the same time, as
    processes, and leave what they made in the cache.
    """
    began = time.monotonic()
    rules = {rule.inference_fingerprint(): rule for rule in settings.rules_in_force}
    first, *others = [(rule, channels) for rule in rules.values() for channels in _channel_counts(rule)]
    compiling = [_helper(*other) for other in others[:helpers]]
    before = time.process_time()
    _compile(*first)
    was_cached = time.process_time() - before < _CACHED_WITHIN
    for helper in compiling:
        if was_cached:
            helper.kill()
        helper.wait()
    for other in others:
        _compile(*other)
    log.info("kernels of %d models ready after %.1f s", len(rules), time.monotonic() - began)


def settle_interpreter() -> None:
    """Let Python do in this process what a worker needs: look for garbage seldom, and never again among what is loaded
    by now; let threads that want the interpreter have it soon."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_AFTER)


def compile_kernels(rule: Rule) -> None:
    """Whatever a detector of the rule is asked later, by readings or by people, is compiled now."""
    for channels in _channel_counts(rule):
        _compile(rule, channels)


def _channel_counts(rule: Rule) -> tuple[int, ...]:
    """The numbers of channels that have kernels of their own: those for two serve any further number too."""
    channels = rule.channels()
    return (1, 2) if channels is None else (channels,)


def _compile(rule: Rule, channels: int) -> None:
    detector, other = rule.detector(), rule.detector()
    change = 1000.0 if rule.counts_below() is None else 1.0  # one that no prior overlooks
    before, after = ([[level] * channels] * 40 for level in (0.0, change))
    for one in (detector, other):
        one.update_many(before)
    # windows of many sensors go together; a change is described by a kernel of its own
    hs.update_fleet_to_event([detector, other], [after, after])
    _ = detector.state, detector.change_points, detector.run_length(), detector.forecast(1)
    type(detector).restore(detector.snapshot())
    many = 2 * MOST_RECENT
    downsample(np.arange(many), np.zeros((many, channels)))


def _helper(rule: Rule, channels: int) -> subprocess.Popen[bytes]:
    text = msgspec.json.encode((rule, channels)).decode()
    return subprocess.Popen([sys.executable, "-m", "service.runtime.housekeeping", text], stderr=subprocess.DEVNULL)


class Upkeep:
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


if __name__ == "__main__":
    _compile(*msgspec.json.decode(sys.argv[1], type=tuple[Rule, int]))
