"""A million observations: the same cost, the same memory, the same answers."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import ishsmm_stream as hs

BATCH = 10_000
TOTAL = 1_000_000


def batches(kind, seed):
    """TOTAL observations in batches; "changing": a level that jumps once in 300."""
    rng = np.random.default_rng(seed)
    level = 0.0
    for _ in range(TOTAL // BATCH):
        jumps = rng.normal(0.0, 3.0, BATCH) * (rng.random(BATCH) < 1.0 / 300.0) * (kind == "changing")
        levels = level + np.cumsum(jumps)
        level = levels[-1]
        yield levels + rng.normal(size=BATCH)


def memory():
    """Resident bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def seconds_for(detector, rows):
    """CPU time that taking rows in costs."""
    began = time.process_time()
    detector.update_many(rows)
    return time.process_time() - began


@pytest.mark.long
@pytest.mark.parametrize("kind", ["changing", "quiet"])
def test_a_million_observations_cost_the_same_from_beginning_to_end(kind):
    """Cost by CPU time: the median of the last ten batches is at most 1.1 times that of the second one, which is taken
    in again beside each of them, since machines are not equally fast for minutes."""
    detector = hs.OnlineDetector()
    early, late, resident, sizes = [], [], [], []
    for number, rows in enumerate(batches(kind, seed=1)):
        if number == 1:
            after_one, second = detector.snapshot(), rows
        if number >= TOTAL // BATCH - 10:
            early.append(seconds_for(hs.OnlineDetector.restore(after_one), second))
            late.append(seconds_for(detector, rows))
        else:
            detector.update_many(rows)
        resident.append(memory())
        sizes.append(len(detector.snapshot()))
    assert detector.time == TOTAL
    assert np.median(late) < 1.1 * np.median(early)
    assert resident[-1] - resident[10] < 5e6
    assert max(sizes) < 64_000
    assert max(sizes[50:]) < 1.3 * max(sizes[:50])
    assert np.isfinite(detector.log_evidence)
    assert len(detector.announced_changes) <= 100
    if kind == "quiet":
        assert len(detector.announced_changes) <= 10
        change = np.random.default_rng(2).normal(1.0, 1.0, 300)
        events = detector.update_many(change)
        (found,) = [event for event in events if event.kind == "raised"]
        assert found.index == pytest.approx(TOTAL, abs=30)
        assert found.at < TOTAL + 100
        assert detector.change_points[-1].index == pytest.approx(TOTAL, abs=30)


def test_the_cost_of_an_observation_does_not_grow():
    """The short version: 60,000 observations, changing, no batch of the last 20,000 dearer by half than the second. A
    machine's speed may change within a run, hence up to three; a cost that grows is seen in each."""
    assert any(late < 1.5 * early for early, late in (early_and_late_seconds() for _ in range(3)))


def early_and_late_seconds():
    detector = hs.OnlineDetector()
    seconds = []
    for number, rows in enumerate(batches("changing", seed=3)):
        for half in np.array_split(rows, 2):
            began = time.process_time()
            detector.update_many(half)
            seconds.append(time.process_time() - began)
        if number == 5:
            break
    return min(seconds[2:6]), min(seconds[-4:])


def test_a_snapshot_stays_small():
    detector = hs.OnlineDetector()
    sizes = []
    for number, rows in enumerate(batches("changing", seed=4)):
        detector.update_many(rows[:2000])
        sizes.append(len(detector.snapshot()))
        if number == 9:
            break
    assert max(sizes) < 64_000
    assert max(sizes[5:]) < 1.3 * max(sizes[:5])


@pytest.mark.long
def test_the_memory_of_a_detector_is_bounded():
    """A thousand detectors in a process of their own: measured per detector, with a lag and a cap as by default."""
    program = """
import os, numpy as np, ishsmm_stream as hs
def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
y = np.random.default_rng(0).normal(size=300)
warm = hs.OnlineDetector(); warm.update_many(y)
before = memory()
fleet = [hs.OnlineDetector() for _ in range(1000)]
for detector in fleet:
    detector.update_many(y)
print((memory() - before) / 1000)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(finished.stdout) < 150_000
