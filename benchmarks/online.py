"""What an observation costs: microseconds, memory and start-up of the online detector, with peers in the same run.

    python benchmarks/online.py [--quick] [--peers ...]

CPU time of one process, the best of several repetitions on streams of benchmarks/streams.py. Peers take one value a
call, as that is all they offer; ours is shown both ways. Memory is the resident set, as Linux reports it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from peers import KINDS, USUAL, alarms_of_peer, chosen, ours
from streams import piecewise_constant
from table import Table

import ishsmm_stream as hs

NORMAL = hs.emissions.Normal(mean=0.0, mean_weight=0.01, shape=1.0, scale=1.0)
DURATION = hs.durations.Poisson(shape=1.0, scale=274.0)

# Where a peer's default would not do its usual work: BOCPD's is in alarm all the time and looks cheap.
SETTINGS = {"focus": {"threshold": 12.0}, "bocpd": {"threshold": 0.9, "mean_run": 275.0, "spread": 500.0}}


def ilr_normal() -> Any:
    return ours(hs.ilr(NORMAL, DURATION), hazard=None, outliers=None, max_hypotheses=32)


def ilr_autoregressive() -> Any:
    return ours(hs.ilr(hs.emissions.Autoregressive(order=1), DURATION))


def ied_normal(chains: int) -> Any:
    return ours(hs.ied(NORMAL, DURATION), chains=chains)


MEMORY = """
import json, resource, numpy as np, ishsmm_stream as hs

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def fed():
    detector = hs.OnlineDetector()
    detector.update_many(values)
    return detector

values = np.random.default_rng(0).standard_normal(300)
fed()
before = resident()
kept = [fed() for _ in range({detectors})]
print(json.dumps((resident() - before) / {detectors}))
"""

START = """
import time
begin = time.perf_counter()
import json, numpy as np, ishsmm_stream as hs
hs.OnlineDetector().update_many(np.arange(100.0) % 7)
print(json.dumps(time.perf_counter() - begin))
"""


def in_fresh_process(program: str) -> float:
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return float(json.loads(answer.stdout))


def microseconds(run: Callable[[], Any], observations: int, repetitions: int) -> float:
    """CPU time an observation in the fastest of several calls; the first is not counted, it may compile."""
    run()
    spent = []
    for _ in range(repetitions):
        begin = time.process_time()
        run()
        spent.append(time.process_time() - begin)
    return 1e6 * min(spent) / observations


def of_peer(name: str, values: np.ndarray, repetitions: int) -> float:
    settings = SETTINGS.get(name, KINDS[name].default)
    return microseconds(lambda: alarms_of_peer(KINDS[name].make(**settings), values), len(values), repetitions)


def of_ours(make: Callable[[], Any], values: np.ndarray, repetitions: int) -> float:
    return microseconds(lambda: make().update_many(values), len(values), repetitions)


def a_value_a_call(make: Callable[[], Any], values: np.ndarray, repetitions: int) -> float:
    listed = values.tolist()

    def run() -> None:
        detector = make()
        for value in listed:
            detector.update(value)

    return microseconds(run, len(values), repetitions)


def of_fleet(detectors: int, window: int, length: int = 600) -> tuple[float, float]:
    """Wall time of windows of so many readings, together and one detector after the other."""
    arrays = [piecewise_constant(seed, length).values for seed in range(detectors)]
    took = []
    for together in (True, False):
        fleet = [ours() for _ in range(detectors)]
        hs.update_fleet(fleet, [array[:100] for array in arrays])
        begin = time.perf_counter()
        for at in range(100, length, window):
            pieces = [array[at : at + window] for array in arrays]
            if together:
                hs.update_fleet(fleet, pieces)
            else:
                for detector, piece in zip(fleet, pieces, strict=True):
                    detector.update_many(piece)
        took.append(1e6 * (time.perf_counter() - begin) / (detectors * (length - 100)))
    return took[0], took[1]


def flatness(make: Callable[[], Any], values: np.ndarray, repetitions: int) -> float:
    """What an observation of the last tenth costs over one of the second hundredth: 1 if old age costs nothing. By
    turns, the best of several each: the machine's speed changes within a minute."""
    tenth, hundredth = len(values) // 10, len(values) // 100
    detector = make()
    detector.update_many(values[:hundredth])
    young = detector.snapshot()
    detector.update_many(values[hundredth:-tenth])
    old = detector.snapshot()
    ages = {young: values[hundredth : 2 * hundredth], old: values[-tenth:]}
    spent: dict[bytes, list[float]] = {young: [], old: []}
    for _ in range(repetitions):
        for snapshot, stretch in ages.items():
            detector = hs.OnlineDetector.restore(snapshot)
            begin = time.process_time()
            detector.update_many(stretch)
            spent[snapshot].append((time.process_time() - begin) / len(stretch))
    return min(spent[old]) / min(spent[young])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=",".join(USUAL), help=f"of {', '.join(KINDS)}, or none")
    parser.add_argument("--quick", action="store_true", help="a tenth of the observations, two repetitions")
    options = parser.parse_args()
    share, repetitions = (10, 2) if options.quick else (1, 5)
    names = chosen(options.peers)
    values = piecewise_constant(0, 20_000 // share).values
    few, many = values[: 2_000 // share], piecewise_constant(1, 1_000_000 // share).values
    fleet = 10_000 // share
    table = Table(
        "us: CPU microseconds an observation, best of several; / peer: that over the peer's of this run, <1 faster",
        detector=-46, us=9, **{f"/_{name}": 13 for name in names},
    )  # fmt: skip
    peer_times = {name: of_peer(name, values, max(repetitions // 2, 1)) for name in names}

    def row(what: str, time_each: float) -> None:
        table.row(what, f"{time_each:.2f}", *(f"{time_each / peer:.2f}" for peer in peer_times.values()))

    for name, time_each in peer_times.items():
        row(name, time_each)
    row("ours, ILR Normal, fixed prior, 32 hypotheses", of_ours(ilr_normal, values, repetitions))
    row("ours, auto", of_ours(ours, values, repetitions))
    row("ours, auto, a value a call", a_value_a_call(ours, values, repetitions))
    row("ours, ILR AR(1)", of_ours(ilr_autoregressive, values, repetitions))
    for chains in (100, 200):
        row(f"ours, IED, {chains} chains", of_ours(partial(ied_normal, chains), few, repetitions))
    for window in (1, 10, 100):
        together, alone = of_fleet(fleet // 10, window)
        row(f"ours, auto, {fleet // 10:,} detectors, {window} at a time, update_fleet (wall time)", together)
        row("  one detector after the other (wall time)", alone)
    for what, make in {"ILR Normal": ilr_normal, "auto": ours}.items():
        ages = f"the last {len(many) // 10:,} of {len(many):,} over one of the second {len(many) // 100:,}"
        print(f"ours, {what}: cost of one of {ages} observations: {flatness(make, many, repetitions):.2f}")
    memory = in_fresh_process(MEMORY.format(detectors=fleet)) / 1024
    print(f"ours, auto: {memory:.1f} KiB resident a detector, {fleet:,} held after 300 observations each")
    seconds = min(in_fresh_process(START) for _ in range(3))
    print(f"ours, auto: import and first result from a warm cache in {seconds:.2f} s of wall time")


if __name__ == "__main__":
    main()
