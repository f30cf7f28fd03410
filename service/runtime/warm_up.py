"""Prepare a worker before the first record: compile kernels and set up the interpreter."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import time

import msgspec
import numpy as np

import ishsmm_stream as hs
from service.sensors.recent import downsample
from service.settings import Rule, Settings
from service.wire.messages import MOST_RECENT

log = logging.getLogger(__name__)

# Seconds of CPU time. Loading a model's kernels from the cache takes one second, compiling them half a minute.
_CACHED_WITHIN = 6.0
# Thresholds of the garbage collector: new objects before it looks at them, and how seldom it looks at older ones. A
# cycle makes tens of thousands of objects, none of them cyclic garbage. With the default of 700, collecting takes a
# fifth of the worker's time. But refused connections of the Kafka client are cyclic garbage, a file and 37 objects
# each. With much higher thresholds, a process whose brokers are away would run out of files.
_COLLECT_AFTER = (10_000, 20, 100)
# Seconds that a thread waits for the interpreter. With the default of 5 ms, the threads that infer are idle half the
# time.
_SWITCH_AFTER = 0.001


def warm_up(settings: Settings, helpers: int = 0) -> None:
    """Compile the kernels of all rules before the first record.

    If the kernels' cache is empty, up to ``helpers`` further processes compile other models at the same time and
    leave the kernels in the cache.
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
    """Set up this process's interpreter for a worker: collect garbage seldom, never look again at objects that are
    loaded by now, and switch threads quickly."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_AFTER)


def compile_kernels(rule: Rule) -> None:
    """Compile every kernel that a detector of the rule may need later, for readings or for requests."""
    for channels in _channel_counts(rule):
        _compile(rule, channels)


def _channel_counts(rule: Rule) -> tuple[int, ...]:
    """Return the numbers of channels that have kernels of their own. The kernels for two serve any larger number."""
    channels = rule.channels()
    return (1, 2) if channels is None else (channels,)


def _compile(rule: Rule, channels: int) -> None:
    detector, other = rule.detector(), rule.detector()
    change = 1000.0 if rule.counts_below() is None else 1.0  # a change that no prior overlooks
    before, after = ([[level] * channels] * 40 for level in (0.0, change))
    for one in (detector, other):
        one.update_many(before)
    # The windows of many sensors are processed together. A change has a kernel of its own.
    hs.update_fleet_to_event([detector, other], [after, after])
    _ = detector.state, detector.change_points, detector.run_length(), detector.forecast(1)
    type(detector).restore(detector.snapshot())
    many = 2 * MOST_RECENT
    downsample(np.arange(many), np.zeros((many, channels)))


def _helper(rule: Rule, channels: int) -> subprocess.Popen[bytes]:
    text = msgspec.json.encode((rule, channels)).decode()
    return subprocess.Popen([sys.executable, "-m", "service.runtime.warm_up", text], stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    _compile(*msgspec.json.decode(sys.argv[1], type=tuple[Rule, int]))
