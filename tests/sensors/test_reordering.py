"""Readings that wait for older ones: whatever the order within the limit, the detector takes them by time."""

from __future__ import annotations

import json
import random
import time

import numpy as np
import pytest
import records

from service.runtime.snapshot_store import SnapshotStore
from service.sensors.partition import Partition
from service.sensors.records import decode_with
from service.sensors.reordering import MOST_WAITING, ReorderBuffer
from service.sensors.rules import Rules
from service.settings import RecordMapping, Rule, Settings
from service.settings.rules import Window
from service.settings.times import TimePolicy
from service.wire import messages
from service.wire.decoding import decoder
from service.wire.readings import Reading

START = 1_700_000_000


@pytest.fixture
def store(tmp_path):
    with_store = SnapshotStore(tmp_path / "store.sqlite")
    yield with_store
    with_store.close()


def partition(store, within=10.0, **policy):
    rule = Rule(window=Window(readings=10), time=TimePolicy(reorder_within_s=within, **policy))
    mapping = decode_with(decoder(RecordMapping(partitioned_by_sensor=True), 10**6))
    part = Partition(0, Rules(Settings(rules=(rule,))), mapping, store, lambda: True)
    part.begin(0, 0)
    return part


def record(offset, second, value, sensor="a"):
    text = json.dumps({"sensor": sensor, "time": START + second, "value": value}).encode()
    return records.Record(offset, 1000 * (START + second), sensor.encode(), text)


def stream(seed=0, length=200):
    draw = np.random.default_rng(seed)
    return [(second, float(draw.normal(8.0 * (second > length // 2)))) for second in range(length)]


def shuffled(readings, by, seed=0):
    """No reading comes after one that is newer by more than ``by`` seconds."""
    draw = random.Random(seed)
    return sorted(readings, key=lambda one: one[0] + draw.uniform(0.0, by))


def published(outputs):
    return [(output.kind, output.encoded()) for output in outputs if output.kind != "dead_letters"]


@pytest.mark.parametrize("seed", range(5))
def test_any_order_within_the_limit_gives_the_same_messages(tmp_path, seed):
    found = []
    for n, readings in enumerate((stream(), shuffled(stream(), 9.5, seed))):
        part = partition(SnapshotStore(tmp_path / f"{n}.sqlite"))
        outputs, counts = part.take([record(i, *one) for i, one in enumerate(readings)])
        assert counts.readings == 200
        assert not counts.dead_letters
        found.append(published(outputs))
    assert found[0] == found[1]
    assert any(isinstance(messages.decode(value), messages.ChangeEvent) for _, value in found[0])


def test_without_the_limit_the_order_of_arrival_counts(store):
    readings = shuffled(stream(), 9.5)
    part = partition(store, within=None)
    outputs, _ = part.take([record(i, *one) for i, one in enumerate(readings)])
    other = partition(SnapshotStore(store._path.with_name("other.sqlite")), within=None)
    assert published(outputs) != published(other.take([record(i, *one) for i, one in enumerate(stream())])[0])


def test_what_waits_is_in_the_snapshot(store, tmp_path):
    readings = [record(i, *one) for i, one in enumerate(shuffled(stream(), 9.5))]
    whole = partition(SnapshotStore(tmp_path / "whole.sqlite"))
    expected = published(whole.take(readings)[0])
    part, found = partition(store), []
    for cut in range(0, 200, 17):
        found += published(part.take(readings[cut : cut + 17])[0])
        part.saved(part.snapshots(time.monotonic() + 1e6, 10))
        offset, clock = part.next_offset, part.clock
        part = partition(store)
        part.begin(offset, clock)
    for kind in ("events", "states"):
        assert [one for one in found if one[0] == kind] == [one for one in expected if one[0] == kind]


def test_readings_that_come_after_the_limit_are_late(store):
    part = partition(store, late="reject")
    order = [0, 1, 2, 20, 5, 21, 3, 22]  # at 20 everything up to 10 is released
    outputs, counts = part.take([record(i, second, 1.0 + second) for i, second in enumerate(order)])
    letters = [output.message for output in outputs if output.kind == "dead_letters"]
    assert [(letter.reason, letter.offset) for letter in letters] == [("late", 6)]
    assert counts.readings == 7


def test_duplicates_among_those_that_wait_are_refused(store):
    part = partition(store)
    outputs, _ = part.take([record(0, 5, 1.0), record(1, 3, 2.0), record(2, 5, 1.0), record(3, 5, 4.0)])
    letters = [output.message for output in outputs if output.kind == "dead_letters"]
    assert [(letter.reason, letter.offset) for letter in letters] == [("duplicate", 2)]


def test_a_new_generation_is_announced_once(store):
    part = partition(store)
    part.take([record(0, 0, 1.0)])
    part.saved(part.snapshots(time.monotonic() + 1e6, 10))
    rule = Rule(transform="sqrt", time=TimePolicy(reorder_within_s=10.0))
    other = Partition(0, Rules(Settings(rules=(rule,))), part._decode, store, lambda: True)
    other.begin(1, part.clock)
    outputs = [output for i in (1, 2, 3) for output in other.take([record(i, i, 1.0)])[0]]
    assert [output.message.kind for output in outputs] == ["new_generation"]


def test_a_rule_that_waits_no_more_releases_what_waited(store):
    part = partition(store)
    part.take([record(i, i, float(i)) for i in range(5)])
    part.saved(part.snapshots(time.monotonic() + 1e6, 10))
    other = partition(store, within=None)
    other.begin(5, part.clock)
    other.take([record(5, 5, 5.0)])
    assert other.look("a").accepted == 6


def test_the_buffer_is_bounded():
    buffer = ReorderBuffer()
    released = [buffer.add(Reading("a", i, (0.0,)), 10**9) for i in range(MOST_WAITING + 5)]
    assert [len(one) for one in released] == [0] * MOST_WAITING + [1] * 5
    assert len(buffer) == MOST_WAITING
