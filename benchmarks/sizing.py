"""What a sensor costs, for docs/sizing.md: CPU, memory and size of its state for each model and family, and fleets.

    python benchmarks/sizing.py [--quick] [--only models,keys,fleets]

``models`` measures each in a process of its own, through everything a worker does with a record but the Kafka client.
``keys`` measures one process with far more sensors than it holds in memory. ``fleets`` reckons from these figures, and
from those of benchmarks/service.py, how many cores, how much memory and how many partitions a fleet needs.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
# This folder last: it has a file with the name of a package.
sys.path = [path for path in sys.path if Path(path).resolve() != HERE]
sys.path += [str(HERE.parent), str(HERE)]

import msgspec  # noqa: E402
import numpy as np  # noqa: E402
from table import Table  # noqa: E402

from service.runtime.snapshot_store import SnapshotStore  # noqa: E402
from service.runtime.warm_up import compile_kernels  # noqa: E402
from service.sensors.envelope import changelog_value  # noqa: E402
from service.sensors.partition import Partition  # noqa: E402
from service.sensors.records import decode_with  # noqa: E402
from service.sensors.rules import Rules  # noqa: E402
from service.sensors.track import Track  # noqa: E402
from service.settings import RecordMapping, Rule, Settings  # noqa: E402
from service.wire.decoding import decoder  # noqa: E402

START = 1_760_000_000
POISSON = {"family": "poisson", "shape": 2.0, "scale": 100.0}
COVARIANCE = {"mean": [0.0, 0.0], "mean_weight": 0.1, "freedom": 4.0, "scale": [[1.0, 0.0], [0.0, 1.0]]}

# name: the rule's model
MODELS: dict[str, Any] = {
    "auto": "auto",
    "ilr, normal": {"kind": "ilr", "emission": {"family": "normal"}, "duration": POISSON},
    "ilr, poisson": {"kind": "ilr", "emission": {"family": "poisson"}, "duration": POISSON},
    "ilr, categorical": {
        "kind": "ilr", "duration": POISSON,
        "emission": {"family": "categorical", "concentration": 1.0, "categories": 4},
    },
    "ilr, multivariate_normal (2)": {
        "kind": "ilr", "emission": {"family": "multivariate_normal", **COVARIANCE}, "duration": POISSON,
    },
    "ilr, autoregressive": {"kind": "ilr", "emission": {"family": "autoregressive"}, "duration": POISSON},
    "ied, normal": {"kind": "ied", "emission": {"family": "normal"}, "duration": POISSON},
    "ied, poisson": {"kind": "ied", "emission": {"family": "poisson"}, "duration": POISSON},
    "hdp_hsmm, normal": {"kind": "hdp_hsmm", "emission": {"family": "normal"}, "duration": POISSON},
    "hdp_hmm, normal": {"kind": "hdp_hmm", "emission": {"family": "normal"}},
    "sticky_hdp_hmm, normal": {"kind": "sticky_hdp_hmm", "emission": {"family": "normal"}},
    "bayesian_hmm (3), normal": {"kind": "bayesian_hmm", "states": 3, "emission": {"family": "normal"}},
    "bayesian_hsmm (3), normal": {
        "kind": "bayesian_hsmm", "states": 3, "emission": {"family": "normal"}, "duration": POISSON,
    },
}  # fmt: skip
SNAPSHOT_EVERY = 57.0  # seconds: 0.95 of worker.snapshot_within_s


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes
    value: bytes
    topic: str = "sensors"
    partition: int = 0


class Cost(NamedTuple):
    """Of one sensor, or of one of its readings."""

    single_us: float  # a reading, where each comes in a cycle of its own
    batched_us: float  # a reading, where twenty come together
    memory_kb: float  # its objects and arrays
    state_kb: float  # in the changelog
    save_us: float
    restore_us: float


# --- one model ---------------------------------------------------------------------------------------------------


def rule_of(name: str) -> Rule:
    return msgspec.convert({"match": "*", "model": MODELS[name]}, Rule)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def readings(rule: Rule, sensors: int, first: int, count: int) -> Iterator[Record]:
    """``count`` readings of each sensor, by turns; the level jumps every 500 of them."""
    counts = rule.counts_below() is not None
    draw = np.random.default_rng(first)
    for i in range(first, first + count):
        for sensor in range(sensors):
            level = 1.0 + 2.0 * ((i + 37 * sensor) // 500 % 2)
            noise = draw.normal(0.0, 0.5, rule.channels() or 1)
            values = [float(draw.integers(0, 2) + level - 1.0)] if counts else (level + noise).round(4).tolist()
            data = {"sensor": f"sensor-{sensor}", "time": START + i, "values": values}
            yield Record(
                i * sensors + sensor, (START + i) * 1000, f"sensor-{sensor}".encode(), msgspec.json.encode(data)
            )


def empty_partition(rule: Rule, folder: Path) -> Partition:
    own = RecordMapping(partitioned_by_sensor=True)
    settings = Settings(rules=(rule,))
    store = SnapshotStore(folder / "store.sqlite")
    return Partition(0, Rules(settings), decode_with(decoder(own, 1_000_000)), store, lambda: True)


def timed(partition: Partition, rule: Rule, sensors: int, first: int, count: int, together: int) -> float:
    """CPU microseconds a reading, ``together`` of each sensor in a cycle."""
    spent = 0.0
    for at in range(first, first + count, together):
        batch = list(readings(rule, sensors, at, together))
        began = time.process_time()
        partition.take(batch)
        spent += time.process_time() - began
    return 1e6 * spent / (sensors * count)


def measure(name: str, sensors: int, settled: int, count: int) -> Cost:
    """One model, in this process."""
    rule = rule_of(name)
    compile_kernels(rule)
    with tempfile.TemporaryDirectory() as folder:
        partition = empty_partition(rule, Path(folder))
        for at in range(0, settled, 20):
            partition.take(readings(rule, sensors, at, 20))
        first = settled
        single = timed(partition, rule, sensors, first, count, 1)
        batched = timed(partition, rule, sensors, first + count, count, 20)
        began = time.process_time()
        saved = partition.snapshots(time.monotonic() + 1e6, 10**9)
        save = time.process_time() - began
        prepared = Rules(Settings(rules=(rule,))).of("sensor-0")
        began = time.process_time()
        for sensor, one in saved:
            Track.load(sensor, one.state, prepared)
        restore = time.process_time() - began
    size = float(np.mean([len(changelog_value(one)) for _, one in saved]))
    each = 1e6 / len(saved)
    return Cost(single, batched, memory(rule, sensors, settled) / 1e3, size / 1e3, save * each, restore * each)


def memory(rule: Rule, sensors: int, settled: int) -> float:
    """Bytes that a sensor's objects and arrays take, of a detector that has settled."""
    with tempfile.TemporaryDirectory() as folder:
        partition = empty_partition(rule, Path(folder))
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for at in range(0, settled, 20):
            partition.take(readings(rule, sensors, at, 20))
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    return grown / sensors


def in_process_of_its_own(*arguments: str) -> Any:
    line = [sys.executable, str(HERE / "sizing.py"), *arguments]
    return json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout)


def models(quick: bool) -> dict[str, Cost]:
    table = Table(
        "Each model: CPU microseconds a reading in a worker without the Kafka client (decoding, judging, detector, "
        "messages), where readings come one by one and where twenty of a sensor come together; readings a second on "
        "one core from these; memory and saved state of a sensor; CPU microseconds to save and to restore it.",
        model=-28, one=8, twenty=8, one_a_second=13, twenty_a_second=16, memory_kB=10, state_kB=9, save=7, restore=8,
    )  # fmt: skip
    found = {}
    for name in MODELS:
        cost = Cost(*in_process_of_its_own("--measure", name, *(["--quick"] if quick else [])))
        found[name] = cost
        table.row(
            name, f"{cost.single_us:.1f}", f"{cost.batched_us:.1f}", f"{1e6 / cost.single_us:,.0f}",
            f"{1e6 / cost.batched_us:,.0f}", f"{cost.memory_kb:.1f}", f"{cost.state_kb:.2f}", f"{cost.save_us:.0f}",
            f"{cost.restore_us:.0f}",
        )  # fmt: skip
    print()
    return found


# --- many sensors ------------------------------------------------------------------------------------------------


def many_keys(sensors: int, held: int) -> dict[str, float]:
    """More sensors than are held in memory, each heard once in a round: the worst order for a cache."""
    rule = rule_of("auto")
    compile_kernels(rule)
    with tempfile.TemporaryDirectory() as folder:
        partition = empty_partition(rule, Path(folder))
        before = resident()
        rounds = []
        for number in range(12):
            began = time.process_time()
            records = readings(rule, sensors, number, 1)
            while batch := [record for _, record in zip(range(2000), records, strict=False)]:
                partition.take(batch)
                if partition.in_memory > held:
                    partition.saved(partition.snapshots(time.monotonic() + 1e6, 10**9))
                    partition.evict(partition.in_memory - held)
            rounds.append(time.process_time() - began)
        made = time.process_time()
        for _ in readings(rule, sensors, 12, 1):
            pass
        making = time.process_time() - made
    each = (float(np.mean(rounds[2:])) - making) / sensors
    return {"us": 1e6 * each, "kb": (resident() - before) / sensors / 1e3}


def keys(quick: bool) -> None:
    sensors = 5_000 if quick else 20_000
    table = Table(
        f"One process with {sensors:,} sensors with model = auto, heard in turn, of which so many are held in memory "
        "and the others wait on disk: CPU microseconds a reading, readings a second on one core, memory a sensor.",
        held=9, us=8, a_second=9, memory_kB=10,
    )  # fmt: skip
    for held in (sensors, sensors // 5):
        told = in_process_of_its_own("--keys", str(sensors), str(held))
        table.row(f"{held:,}", f"{told['us']:.1f}", f"{1e6 / told['us']:,.0f}", f"{told['kb']:.1f}")
    print()


# --- fleets ------------------------------------------------------------------------------------------------------

# Of the Kafka client, CPU microseconds a reading in transactions of thousands; measured by benchmarks/service.py.
CLIENT_US = 16.0
BUSY = 0.6  # of a core: the rest is for catching up
PROCESS_MB = 250.0  # a worker without sensors


def fleets(cost: Cost, model: str) -> None:
    table = Table(
        f"Reckoned, not measured: a fleet with model = {model}, cores at {BUSY:.0%}, one worker a core, twice as many "
        "partitions as workers; memory of all workers with every detector in memory; changelog at a snapshot every "
        f"{SNAPSHOT_EVERY:g} s; CPU seconds in which all sensors of a worker that died are restored.",
        sensors=10, Hz=5, readings_a_second=18, workers=8, partitions=11, memory_GB=10, changelog_MB_a_second=22,
        restore_s=10,
    )  # fmt: skip
    for sensors, rate in ((1_000, 1.0), (100_000, 0.1), (100_000, 1.0), (1_000_000, 0.1), (1_000_000, 1.0)):
        per_second = sensors * rate
        saves = min(sensors / SNAPSHOT_EVERY, per_second)
        spent = per_second * (cost.single_us + CLIENT_US) + saves * cost.save_us
        workers = max(2, int(np.ceil(spent / 1e6 / BUSY)))
        table.row(
            f"{sensors:,}", f"{rate:g}", f"{per_second:,.0f}", f"{workers}", f"{2 * workers}",
            f"{(workers * PROCESS_MB + sensors * cost.memory_kb / 1e3) / 1e3:.1f}",
            f"{saves * cost.state_kb / 1e3:.2f}",
            f"{sensors / workers * cost.restore_us / 1e6:.0f}",
        )  # fmt: skip
    print()


PARTS = ("models", "keys", "fleets")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sensors and readings")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}, separated by commas")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--keys", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    quick, only = options.quick, options.only.split(",")
    if options.measure:
        print(json.dumps(measure(options.measure, *((100, 100, 40) if quick else (400, 200, 60)))))
    elif options.keys:
        print(json.dumps(many_keys(*options.keys)))
    else:
        found = models(quick) if {"models", "fleets"} & set(only) else {}
        if "keys" in only:
            keys(quick)
        if "fleets" in only:
            for model in ("auto", "ied, normal"):
                fleets(found[model], model)


if __name__ == "__main__":
    main()
