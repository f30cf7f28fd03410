"""A partition's sensors, without Kafka: records in, messages and snapshots out."""

from __future__ import annotations

import base64
import functools
import json
import math
import random
import time
from collections import defaultdict

import msgspec
import numpy as np
import pytest
import records

from service.runtime.snapshot_store import SnapshotStore
from service.sensors.envelope import changelog_value, read_changelog_value
from service.sensors.inference import infer
from service.sensors.partition import Partition
from service.sensors.pipeline import process
from service.sensors.records import decode_with
from service.sensors.rules import Rules
from service.sensors.saved import Saved
from service.settings import RecordMapping, Rule, Settings
from service.settings.rules import DetectorSettings
from service.settings.times import TimePolicy
from service.wire import messages
from service.wire.decoding import decoder

BEGIN = 1_700_000_000


Record = functools.partial(records.Record, partition=3)


def record(offset, sensor, second, value):
    data = json.dumps({"sensor": sensor, "time": BEGIN + second, "value": value}).encode()
    return Record(offset, (BEGIN + second) * 1000, sensor.encode(), data)


def stream(sensors=4, length=150, seed=0):
    """Readings of several sensors in turn, each with a step at two thirds."""
    rng = np.random.default_rng(seed)
    records = []
    for t in range(length):
        for s in range(sensors):
            value = rng.normal() + (7.0 if t >= 2 * length // 3 + s else 0.0)
            records.append(record(len(records), f"s{s}", t, float(value)))
    return records


@pytest.fixture
def store(tmp_path):
    opened = SnapshotStore(tmp_path / "store.sqlite")
    yield opened
    opened.close()


def partition(store, settings=Settings(), room=lambda: True):
    own = RecordMapping(partitioned_by_sensor=True)
    return Partition(3, Rules(settings), decode_with(decoder(own, 1_000_000)), store, room)


def by_sensor(outputs):
    found = defaultdict(list)
    for output in outputs:
        found[output.kind, output.key].append(output.encoded())
    return dict(found)


def taken(part, records, size):
    outputs = []
    for at in range(0, len(records), size):
        outputs += part.take(records[at : at + size])[0]
    return outputs


def test_cycles_change_nothing(tmp_path):
    found = []
    for size in (1, 13, 1000):
        store = SnapshotStore(tmp_path / f"{size}.sqlite")
        part = partition(store)
        part.begin(0, 0)
        found.append(by_sensor(taken(part, stream(), size)))
        store.close()
    assert found[0] == found[1] == found[2]
    assert all(("events", f"s{s}".encode()) in found[0] for s in range(4))


@pytest.mark.parametrize("stops_at", [30, 301, 477])
@pytest.mark.parametrize("saves_at", [0, 20, 300])
def test_a_restore_goes_on_as_if_nothing_had_happened(tmp_path, stops_at, saves_at):
    """Some sensors are saved at one time, the partition is committed at another, and then the worker dies."""
    records = stream()
    whole_store, store, next_store = (SnapshotStore(tmp_path / f"{i}.sqlite") for i in range(3))
    whole = partition(whole_store)
    whole.begin(0, 0)
    expected = by_sensor(taken(whole, records, 50))

    part = partition(store)
    part.begin(0, 0)
    published, changelog = [], {}
    for at in range(0, stops_at, 11):
        published += part.take(records[at : min(at + 11, stops_at)])[0]
        if at <= saves_at < at + 11:
            snapshots = part.snapshots(time.monotonic() + 1e6, 2)
            part.saved(snapshots)
            changelog |= {sensor: changelog_value(saved) for sensor, saved in snapshots}
    committed, clock, unsaved_from = part.next_offset, part.clock, part.unsaved_from()
    assert committed == stops_at
    assert unsaved_from <= committed

    restored = partition(next_store)
    next_store.put(3, [(sensor, read_changelog_value(value)) for sensor, value in changelog.items()])
    restored.begin(committed, clock, records[unsaved_from:committed])
    published += taken(restored, records[committed:], 29)
    assert by_sensor(published) == expected
    assert restored.sensors == 4
    for opened in (whole_store, store, next_store):
        opened.close()


def test_eviction_changes_nothing(store, tmp_path):
    records = stream()
    other = SnapshotStore(tmp_path / "other.sqlite")
    small, large = partition(store), partition(other)
    small.begin(0, 0)
    large.begin(0, 0)
    expected = by_sensor(taken(large, records, 40))
    published = []
    for at in range(0, len(records), 10):
        published += small.take(records[at : at + 10])[0]
        small.saved(small.snapshots(time.monotonic() + 1e6, 100))
        assert small.evict(3) == 3
        assert small.in_memory == 1
    assert by_sensor(published) == expected
    other.close()


def test_bad_records_are_set_aside_with_their_bytes(store):
    part = partition(store)
    part.begin(0, 0)
    records = [
        record(0, "a", 0, 1.0),
        Record(1, 0, b"k", b"not json"),
        Record(2, 0, None, None),
        record(3, "a", 0, 1.0),  # the same again
        record(4, "a", 1, 2.0),
    ]
    outputs, counted = part.take(records)
    letters = [output.message for output in outputs if output.kind == "dead_letters"]
    assert [(letter.reason, letter.offset) for letter in letters] == [("not_json", 1), ("empty", 2), ("duplicate", 3)]
    assert base64.b64decode(letters[0].value) == b"not json"
    assert (letters[0].topic, letters[0].partition) == ("sensors", 3)
    assert (counted.records, counted.readings, counted.dead_letters) == (5, 2, 3)
    assert part.next_offset == 5


def test_a_sensor_too_many_is_a_dead_letter_and_known_ones_go_on(store):
    part = partition(store, room=lambda: part.sensors < 2)
    part.begin(0, 0)
    outputs, counted = part.take([record(i, f"s{i % 3}", i, 0.0) for i in range(9)])
    assert {output.message.reason for output in outputs} == {"too_many_sensors"}
    assert (counted.readings, counted.dead_letters) == (6, 3)


SILENCE = Settings(rules=(Rule(match="quiet-*", time=TimePolicy(silent_after_s=10.0)),))


def silent_stream():
    """Of three sensors one falls silent twice; time passes through the others."""
    records = []
    for t in range(120):
        for sensor in ("quiet-1", "quiet-2", "other"):
            if sensor != "quiet-1" or t < 20 or 50 <= t < 60:
                records.append(record(len(records), sensor, t, float(t % 5)))
    return records


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_sensor_that_falls_silent_is_told_of_once_and_when_it_is_back(store, size):
    part = partition(store, SILENCE)
    part.begin(0, 0)
    told = [output.message for output in taken(part, silent_stream(), size) if output.kind == "events"]
    notices = [(notice.sensor, notice.kind, notice.time[14:19]) for notice in told if notice.sensor == "quiet-1"]
    assert notices == [
        ("quiet-1", "silent", "13:49"), ("quiet-1", "back", "14:10"), ("quiet-1", "silent", "14:29"),
    ]  # fmt: skip
    assert part.silent == 1


def test_silence_is_not_told_of_again_after_a_restore(store, tmp_path):
    records = silent_stream()
    expected = by_sensor(_whole(tmp_path, records))
    for cut in (70, 120, 200, len(records) - 1):
        fresh, part = SnapshotStore(tmp_path / f"{cut}.sqlite"), None
        first = SnapshotStore(tmp_path / f"{cut}-first.sqlite")
        part = partition(first, SILENCE)
        part.begin(0, 0)
        published = taken(part, records[:cut], 9)
        part.saved(part.snapshots(time.monotonic() + 1e6, 1))
        fresh.put(3, [(s, found) for s in ("quiet-1", "quiet-2", "other") if (found := first.get(3, s))])
        restored = partition(fresh, SILENCE)
        restored.begin(part.next_offset, part.clock, records[part.unsaved_from() : cut])
        published += taken(restored, records[cut:], 9)
        assert by_sensor(published) == expected, cut
        first.close()
        fresh.close()


def _whole(tmp_path, records):
    store = SnapshotStore(tmp_path / "whole.sqlite")
    part = partition(store, SILENCE)
    part.begin(0, 0)
    found = taken(part, records, 100)
    store.close()
    return found


def test_a_changed_model_is_a_new_generation_and_is_told_of(store):
    part = partition(store)
    part.begin(0, 0)
    records = stream(sensors=1)
    part.take(records[:100])
    part.saved(part.snapshots(time.monotonic() + 1e6, 10))
    changed = partition(store, Settings(rules=(Rule(prior="auto"),)))
    changed.begin(part.next_offset, part.clock)
    outputs, _ = changed.take(records[100:])
    first = outputs[0].message
    assert (first.kind, first.generation) == ("new_generation", 1)
    assert all(output.message.generation == 1 for output in outputs)


def test_a_state_that_cannot_be_read_is_a_new_generation(store):
    store.put(3, [("s0", Saved(0, 0, 4, b"from another version"))])
    part = partition(store)
    part.begin(0, 0)
    outputs, _ = part.take([record(0, "s0", 0, 1.0)])
    notice = outputs[0].message
    assert (notice.kind, notice.generation) == ("new_generation", 5)
    assert "cannot be read" in notice.why


def damaged(saved):
    """A state in many ways that a disk, a broker or somebody with a shell can damage it."""
    yield "empty", Saved(0, 0, 0, b"")
    yield "another sensor's offset", saved._replace(next_offset=saved.next_offset + 1)
    yield "offset far ahead", saved._replace(next_offset=2**62)
    yield "time far ahead", saved._replace(newest=2**62)
    yield "time before all times", saved._replace(newest=-(2**62))
    yield "largest generation", saved._replace(generation=2**31 - 1)
    yield "negative generation", saved._replace(generation=-7)
    yield "cut off", saved._replace(state=saved.state[:-1])
    yield "random bytes", saved._replace(state=random.Random(0).randbytes(500))
    middle = len(saved.state) // 2
    flipped = saved.state[:middle] + bytes([saved.state[middle] ^ 1]) + saved.state[middle + 1 :]
    yield "a bit", saved._replace(state=flipped)
    fields = msgspec.msgpack.decode(saved.state)
    for name, number in (("times", 6), ("values", 7), ("channels", 8), ("detector", 12)):
        wrong = [*fields[:20]]  # as a version without checksums writes it
        wrong[number] = 3 if name == "channels" else b"damaged"
        yield name, saved._replace(state=msgspec.msgpack.encode(wrong))


def test_a_damaged_state_is_a_new_generation_and_the_others_go_on(store, tmp_path):
    records = stream(sensors=2)
    part = partition(store)
    part.begin(0, 0)
    part.take(records[:100])
    snapshots = part.snapshots(time.monotonic() + 1e6, 10)
    part.saved(snapshots)
    expected = by_sensor(part.take(records[100:])[0])
    states = dict(snapshots)
    for n, (what, wrong) in enumerate(damaged(states["s0"])):
        other = SnapshotStore(tmp_path / f"damaged-{n}.sqlite")
        other.put(3, [("s0", wrong), ("s1", states["s1"])])
        restored = partition(other)
        restored.begin(100, part.clock, moved=["s0"] if wrong.next_offset > 100 else [])
        outputs = by_sensor(restored.take(records[100:])[0])
        assert outputs["states", b"s1"] == expected["states", b"s1"], what
        kinds = [getattr(messages.decode(value), "kind", None) for value in outputs["events", b"s0"]]
        assert "new_generation" in kinds, what
        generations = [messages.decode(value).generation for value in outputs["events", b"s0"]]
        assert generations[0] == 1, what
        restored.saved(restored.snapshots(time.monotonic() + 1e6, 10))  # it can be saved, and restored again
        again = partition(other)
        again.begin(restored.next_offset, restored.clock)
        assert again.look("s0").accepted == 100, what
        other.close()


def test_a_sensor_of_a_recreated_topic_goes_on_and_is_told_of(store):
    records = stream(sensors=1)
    part = partition(store)
    part.begin(0, 0)
    part.take(records[:100])
    part.saved(part.snapshots(time.monotonic() + 1e6, 10))
    restored = partition(store)
    restored.begin(0, part.clock, moved=["s0"])
    outputs, _ = restored.take([one._replace(offset=i) for i, one in enumerate(records[100:])])
    first = outputs[0].message
    assert (first.kind, first.generation) == ("topic_recreated", 0)
    assert restored.look("s0").accepted == len(records)
    restored.saved(restored.snapshots(-math.inf, 10))  # with the commit that says so
    assert store.get(3, "s0").next_offset == len(records) - 100


def test_the_first_snapshots_of_a_fleet_are_spread_over_time(store):
    part = partition(store)
    part.begin(0, 0)
    part.take([record(i, f"s{i}", 0, 0.0) for i in range(100)])
    now = time.monotonic()
    early = [len(part.snapshots(now - share * 60.0, 1000)) for share in (1.0, 0.75, 0.5, 0.25, 0.0)]
    assert early[0] < 5
    assert early == sorted(early)
    assert 15 < early[1] < 40
    assert early[-1] == 100


def test_a_new_generation_begins_with_the_first_live_reading_and_is_saved_at_once(store):
    """Readings that are replayed were another model's. The state is saved by the commit that announces the generation:
    later restores have nothing to announce."""
    records = stream(sensors=1, length=60)
    old = partition(store)
    old.begin(0, 0)
    old.take(records[:20])
    old.saved(old.snapshots(time.monotonic() + 1e6, 10))
    other = Settings(rules=(Rule(detector_settings=DetectorSettings(hazard=(1.0, 200.0))),))
    new = partition(store, other)
    new.begin(40, 0, records[20:40])
    assert new.in_memory == 0
    outputs, _ = new.take(records[40:])
    notice = outputs[0].message
    assert (notice.kind, notice.generation, notice.index) == ("new_generation", 1, None)
    ((_, saved),) = new.snapshots(-1e9, 0)
    assert (saved.generation, saved.next_offset) == (1, 60)


def test_a_refused_reading_announces_no_generation(store):
    old = partition(store)
    old.begin(0, 0)
    old.take(stream(sensors=1, length=5))
    old.saved(old.snapshots(time.monotonic() + 1e6, 10))
    new = partition(store, Settings(rules=(Rule(detector_settings=DetectorSettings(hazard=(1.0, 200.0))),)))
    new.begin(5, 0)
    ahead = record(5, "s0", 10**7, 1.0)._replace(timestamp=BEGIN * 1000)
    outputs, _ = new.take([ahead])
    assert [output.kind for output in outputs] == ["dead_letters"]
    outputs, _ = new.take([record(6, "s0", 10, 1.0)])
    assert outputs[0].message.kind == "new_generation"


def test_looking_at_a_sensor_changes_nothing_and_shows_what_is_accepted_only(store, tmp_path):
    records = stream()
    other = SnapshotStore(tmp_path / "other.sqlite")
    looked_at, left_alone = partition(store), partition(other)
    looked_at.begin(0, 0)
    left_alone.begin(0, 0)
    found = []
    for at in range(0, len(records), 40):
        found += looked_at.take(records[at : at + 40])[0]
        copy = looked_at.look("s1")
        assert copy is not None
        assert copy.accepted == (at + 40) // 4
        infer(copy, [(copy.newest.time + 1, (99.0,), 0)])  # the copy is ours to harm
        looked_at.saved(looked_at.snapshots(time.monotonic() + 1e6, 10**9))
        looked_at.evict(2)
    assert by_sensor(found) == by_sensor(taken(left_alone, records, 40))
    ahead = record(len(records), "ahead", 10**6, 1.0)
    outputs, _ = looked_at.take([Record(ahead.offset, BEGIN * 1000, b"ahead", ahead.value)])
    assert [output.kind for output in outputs] == ["dead_letters"]
    assert looked_at.look("ahead") is None
    assert looked_at.look("nobody") is None
    assert looked_at.last_seen("ahead") is None
    other.close()


def test_partitions_that_are_taken_together_publish_what_each_would_alone(store, tmp_path):
    batches = [stream(sensors=30, length=60, seed=seed) for seed in range(3)]
    batches[1].insert(40, Record(40, BEGIN * 1000, b"s1", b"no reading"))
    alone = [partition(store).take(batch) for batch in batches]
    together, counts = process([(partition(store), batch) for batch in batches], threads=2)
    assert together == [outputs for outputs, _ in alone]
    assert any(output.kind == "events" for output in together[2])
    assert counts.records == 3 * 1800 + 1
    assert counts.dead_letters == 1
    assert counts[:6] == tuple(map(sum, zip(*(one[:6] for _, one in alone), strict=True)))
