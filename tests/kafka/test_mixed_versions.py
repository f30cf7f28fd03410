"""A rolling upgrade and the way back: workers of this version and of an earlier one in one group."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from worker_helpers import eventually, first_difference, produce_readings, reading

ROOT = Path(__file__).parents[2]
PARTITIONS = 4
EARLIER = "052a09d"  # the last commit whose states have no checksum


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Variables that make a worker one of the earlier version."""
    folder = tmp_path_factory.mktemp("earlier")
    archive = ["git", "-C", str(ROOT), "archive", EARLIER, "service", "ishsmm_stream"]
    packed = subprocess.run(archive, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip("the earlier version is not in this checkout's history")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(folder, filter="data")
    variables = {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1", "NUMBA_CACHE_DIR": str(folder / "kernels")}
    program = "import service; print(service.__path__[0])"
    shown = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == str(folder / "service")
    return variables


@pytest.mark.long
@pytest.mark.parametrize("keyed", [True, False])
def test_workers_of_two_versions_share_a_group_and_take_over_from_each_other(service, earlier, keyed):
    found = service(rules=[{"match": "*", "window": {"readings": 20}}], mapping={"partitioned_by_sensor": keyed})
    draw, sent = random.Random(1), 0

    def send(count):
        nonlocal sent
        readings = [
            (f"s{k}", reading(f"s{k}", i, draw.gauss(6.0 * (i // 150 % 2), 1.0)))
            for i in range(sent, sent + count)
            for k in range(8)
        ]
        sent += count
        produce_readings(found.connection, found.name, readings, PARTITIONS)

    def start(is_earlier):
        worker = found.start(**(earlier if is_earlier else {}))
        worker.wait_until_said("restored in", 600)  # the earlier version compiles its kernels
        return worker

    running = start(is_earlier=True)
    send(200)
    found.wait_until_done()
    for is_earlier in (False, True, False, True):  # each joins the other, which then leaves
        following = start(is_earlier)
        send(100)
        found.wait_until_done()
        assert running.stop() == 0, running.tail()
        send(100)
        found.wait_until_done()
        running = following
    assert running.stop() == 0, running.tail()
    eventually(lambda: all(not worker.running for worker in found.workers), 10)
    assert first_difference(found.expected(), found.outputs()) is None
    assert not any(worker.said("new_generation") or worker.said("cannot be used") for worker in found.workers)
