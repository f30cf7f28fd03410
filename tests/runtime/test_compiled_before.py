"""Kernels are compiled before the first record: no cycle waits for a compiler, however many sensors it has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# In a process of its own: others have compiled whatever they needed.
PROGRAM = """
import gc, sys, tempfile
from pathlib import Path
import numba, msgspec, numpy as np
from numba.core.dispatcher import Dispatcher
import records
from service.wire.decoding import decoder
from service.sensors.partition import Partition
from service.sensors.rules import Rules
from service.sensors.records import decode_with
from service.settings import RecordMapping, Rule, Settings
from service.runtime.snapshot_store import SnapshotStore
from service.runtime.warm_up import compile_kernels

def versions():
    kernels = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {f"{one.__module__}.{one.__name__}{signature}" for one in kernels for signature in one.signatures
            if one.__module__.startswith(("ishsmm_stream", "service"))}

rule = msgspec.json.decode(sys.argv[1], type=Rule)
if sys.argv[2] == "before":
    compile_kernels(rule)
compiled = versions()
with tempfile.TemporaryDirectory() as folder:
    own = RecordMapping(partitioned_by_sensor=True)
    rules = Rules(Settings(rules=(rule,)))
    store = SnapshotStore(Path(folder) / "store.sqlite")
    partition = Partition(0, rules, decode_with(decoder(own, 10**6)), store, lambda: True)
    draw, offset = np.random.default_rng(0), 0
    for cycle in range(60):
        batch = []
        for sensor in ["a", "b", "c"][: 1 + cycle % 3]:
            for _ in range(1 + cycle % 2):
                value = msgspec.json.encode({"sensor": sensor, "value": draw.normal(5.0 * (cycle > 40), 1.0)})
                batch.append(records.Record(offset, 1_700_000_000_000 + 1000 * offset, sensor.encode(), value))
                offset += 1
        if rule.channels() is None:  # readings choose how many
            for channels in (1, 2, 3, 12, 64):
                for _ in range(1 + cycle % 2):
                    value = {"sensor": f"wide-{channels}", "values": draw.normal(size=channels).tolist()}
                    key, value = f"wide-{channels}".encode(), msgspec.json.encode(value)
                    batch.append(records.Record(offset, 1_700_000_000_000 + 1000 * offset, key, value))
                    offset += 1
        partition.take(batch)
    for name, _ in partition.seen():
        partition.look(name).state_record()
    partition.snapshots(1e18, 10**9)
print("\\n".join(sorted(versions() - compiled)))
"""


def compiled_late(rule: str, when: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, rule, when],
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


RETURNING = """{"model": {"kind": "ied", "emission": {"family": "normal", "mean": 15.0, "mean_weight": 0.01},
    "duration": {"family": "poisson", "shape": 2.0, "scale": 100.0}}}"""


@pytest.mark.parametrize("rule", ["{}", RETURNING], ids=["auto", "returning"])
def test_no_cycle_waits_for_a_compiler(rule):
    assert [line for line in compiled_late(rule, "before") if line] == []


def test_a_kernel_that_is_compiled_late_is_found():
    assert len(compiled_late("{}", "never")) > 3
