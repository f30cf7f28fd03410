"""Before the first record: kernels compiled, and the interpreter set up for a worker."""

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
    return subprocess.Popen([sys.executable, "-m", "service.runtime.warm_up", text], stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    _compile(*msgspec.json.decode(sys.argv[1], type=tuple[Rule, int]))
