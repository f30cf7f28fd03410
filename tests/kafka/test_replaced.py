"""Two workers under one member's name: the newer one works, the older one ends."""

from __future__ import annotations

import random

import pytest
from worker_helpers import eventually, produce_readings, reading

PARTITIONS = 4
SMALL_WINDOWS = [{"match": "*", "window": {"readings": 20}}]


def level(sensor, first, count, mean, seed):
    draw = random.Random(seed)
    return [(sensor, reading(sensor, i, draw.gauss(mean, 1.0))) for i in range(first, first + count)]


@pytest.mark.parametrize(
    ("delivery", "is_busy"),
    [
        ("exactly-once", True),
        ("exactly-once", False),
        pytest.param("at-least-once", True, marks=pytest.mark.long),
        pytest.param("at-least-once", False, marks=pytest.mark.long),
    ],
)
def test_the_newer_worker_stays_and_the_older_one_ends(service, is_busy, delivery):
    """A busy worker learns of it from its producer, an idle one from its consumer."""
    found = service(rules=SMALL_WINDOWS, kafka={"member": "one", "delivery": delivery})
    older = found.start()
    older.wait_until_said("restored in", 60)
    produce_readings(found.connection, found.name, level("a", 0, 60, 0.0, 1), PARTITIONS)
    found.wait_until_done()
    newer = found.start()
    newer.wait_until_said("reading ", 60)
    for turn in range(30 if is_busy else 0):
        produce_readings(found.connection, found.name, level("a", 60 + turn, 1, 0.0, turn), PARTITIONS)
    eventually(lambda: not older.running, 60, f"the older one ends: {older.tail()}")
    assert older.process.returncode == 3  # which systemd does not start again
    assert older.said("instance id"), older.tail()
    produce_readings(found.connection, found.name, level("a", 90, 60, 50.0, 2), PARTITIONS)
    found.wait_until_done()
    assert newer.running, newer.tail()
    assert newer.stop() == 0
