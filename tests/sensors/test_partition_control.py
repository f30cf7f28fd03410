"""Resets and forgettings in a partition, without Kafka: also where a worker dies around them."""

from __future__ import annotations

import json
import time
from collections import defaultdict

import numpy as np
import pytest
from records import Record

from service.operations.control import Acceptance, ControlBook, Forget, Reset, as_change
from service.runtime.snapshot_store import SnapshotStore
from service.sensors.envelope import changelog_value, read_changelog_value
from service.sensors.partition import Partition
from service.sensors.records import decode_with
from service.sensors.rules import Rules
from service.sensors.track import tally
from service.settings import RecordMapping, Rule, Settings
from service.settings.rules import Alarms
from service.settings.times import TimePolicy
from service.wire import messages
from service.wire.decoding import decoder
from service.wire.readings import rfc3339

BEGIN = 1_700_000_000
T0 = "2026-01-01T00:00:00Z"
EVER = 1e9
HOURLY = Alarms(per_sensor="1 per hour")


def stream(length=80, sensors=("a", "b"), seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for t in range(length):
        for sensor in sensors:
            data = {"sensor": sensor, "time": BEGIN + t, "value": float(rng.normal())}
            found.append(Record(len(found), (BEGIN + t) * 1000, sensor.encode(), json.dumps(data).encode()))
    return found


class Life:
    """A partition that is committed and killed; its changelog is what a topic would hold."""

    def __init__(self, folder, settings=Settings()):
        self.folder, self.settings = folder, settings
        self.book = ControlBook()
        self.changelog, self.states = {}, {}
        self.events = defaultdict(list)
        self.committed, self.clock, self.unsaved_from = 0, 0, 0
        self.restarts = 0
        self.start([])

    def start(self, records):
        """A new worker, from what was committed."""
        self.restarts += 1
        store = SnapshotStore(self.folder / f"{self.restarts}.sqlite")
        store.put(0, [(sensor, read_changelog_value(value)) for sensor, value in self.changelog.items()])
        decode = decode_with(decoder(RecordMapping(partitioned_by_sensor=True), 1_000_000))
        self.part = Partition(0, Rules(self.settings), decode, store, lambda: True, 60.0, self.book)
        self.part.begin(self.committed, self.clock, records[self.unsaved_from : self.committed])

    def cycle(self, records, commits=True, saves=()):
        """One transaction; without ``commits`` the worker dies before it."""
        forgotten = self.part.forget()
        outputs = self.part.take(records)[0]
        snapshots = self.part.snapshots(-EVER, 0)
        snapshots += [one for one in self.part.snapshots(time.monotonic() + EVER, 100) if one[0] in saves]
        if not commits:
            return
        for sensor in forgotten:
            self.changelog.pop(sensor, None)
            self.states.pop(sensor, None)
        for output in outputs:
            self._publish(output)
        for sensor, saved in snapshots:
            self.changelog[sensor] = changelog_value(saved)
        self.unsaved_from = self.part.unsaved_from(sensor for sensor, _ in snapshots)
        self.committed, self.clock = self.part.next_offset, self.part.clock
        self.part.saved(snapshots)

    def _publish(self, output):
        sensor = output.key.decode()
        if output.kind == "events":
            self.events[sensor].append(output.message)
        elif output.kind == "states":
            self.states[sensor] = output.message

    def reset(self, sensor, generation=0):
        self.book.apply(as_change(Reset(sensor=sensor, generation=generation, time=T0)))

    def forget(self, sensor, generation=0):
        self.book.apply(as_change(Forget(sensor=sensor, generation=generation, time=T0)))

    def accept(self, sensor, generation=0, at=T0):
        self.book.apply(as_change(Acceptance(sensor=sensor, generation=generation, time=at, by="ann")))

    def alarms(self, sensor):
        return [
            (event.generation, event.status, event.summary if event.status == "cleared" else "")
            for event in self.events[sensor]
            if isinstance(event, messages.AlarmEvent)
        ]

    def generations(self, sensor):
        """Of its announcements."""
        return [
            (notice.generation, notice.why)
            for notice in self.events[sensor]
            if isinstance(notice, messages.Notice) and notice.kind == "new_generation"
        ]

    def tally(self, sensor):
        return tally(read_changelog_value(self.changelog[sensor]).state)


def test_a_reset_starts_one_new_generation_at_the_next_reading(tmp_path):
    records, life = stream(), Life(tmp_path)
    life.cycle(records[:60])
    life.reset("a")
    assert life.generations("a") == []
    for at in range(60, 160, 10):
        life.cycle(records[at : at + 10])
    assert life.generations("a") == [(1, "reset")]
    assert life.generations("b") == []
    told = life.tally("a")
    assert (told.generation, told.earlier, told.accepted) == (1, 30, 5)  # saved with the cycle that announced it


@pytest.mark.parametrize("dies", ["before the commit", "after the commit", "before it hears of it"])
@pytest.mark.parametrize("saved", [(), ("a",), ("a", "b")])
def test_a_reset_happens_once_wherever_the_worker_dies(tmp_path, dies, saved):
    records, life = stream(), Life(tmp_path)
    life.cycle(records[:30], saves=saved)
    life.cycle(records[30:60])
    if dies == "before it hears of it":
        life.start(records)
    life.reset("a")
    if dies == "before the commit":
        life.cycle(records[60:70], commits=False)
        life.start(records)
    life.cycle(records[60:70])
    if dies == "after the commit":
        life.start(records)
    life.cycle(records[70:], saves=("a", "b"))
    life.start(records)
    assert life.generations("a") == [(1, "reset")]
    told = life.tally("a")
    assert (told.generation, told.earlier, told.accepted) == (1, 30, 50)
    assert life.tally("b").accepted == 80


def test_a_refused_reading_does_not_use_up_a_reset(tmp_path):
    records, life = stream(), Life(tmp_path)
    life.cycle(records[:20], saves=("a", "b"))
    life.reset("a")
    ahead = records[20]._replace(timestamp=0)  # its time lies far ahead of its record's
    life.cycle([ahead])
    assert life.generations("a") == []
    life.cycle(records[21:30])
    assert life.generations("a") == [(1, "reset")]


def test_a_second_reset_is_another_generation_and_ids_never_collide(tmp_path):
    rng = np.random.default_rng(1)
    steps = np.r_[rng.normal(0, 1, 40), rng.normal(15, 1, 40)].tolist() * 3
    records = [
        Record(i, (BEGIN + i) * 1000, b"a", json.dumps({"sensor": "a", "time": BEGIN + i, "value": v}).encode())
        for i, v in enumerate(steps)
    ]
    life = Life(tmp_path)
    life.cycle(records[:80])
    life.reset("a")
    life.cycle(records[80:160])
    life.forget("a", 1)
    life.cycle(records[160:])
    assert life.generations("a") == [(1, "reset"), (2, "it was forgotten")]
    first = [event for event in life.events["a"] if isinstance(event, messages.ChangeEvent) and event.revision == 0]
    assert {event.generation for event in first} == {0, 1, 2}
    assert len({event.id for event in first}) == len(first)


def test_a_forgotten_sensor_leaves_nothing_but_tombstones(tmp_path):
    quiet = Settings(rules=(Rule(time=TimePolicy(silent_after_s=5.0)),))
    records, life = stream(), Life(tmp_path, quiet)
    life.cycle(records[:130], saves=("a", "b"))
    assert set(life.states) == set(life.changelog) == {"a", "b"}
    life.forget("a")
    life.cycle([])
    assert set(life.states) == set(life.changelog) == {"b"}
    assert life.part.sensors == 1
    # time goes on for the other one: nobody is silent, and a restore brings nothing back
    life.cycle([record for record in records[130:] if record.key == b"b"])
    assert life.part.forget() == []
    life.start(records)
    assert life.part.sensors == 1
    assert life.events["a"] == []


@pytest.mark.parametrize("saved", [(), ("a",), ("b",), ("a", "b")])
@pytest.mark.parametrize("dies", ["before the commit", "after the commit", "before it hears of it", "never"])
def test_readings_from_before_do_not_come_back_with_a_replay(tmp_path, dies, saved):
    """b is in no snapshot, so that a restore replays readings of a from before it was forgotten."""
    records, life = stream(), Life(tmp_path)
    life.cycle(records[:40], saves=saved)
    life.cycle(records[40:60])
    if dies == "before it hears of it":
        life.forget("a")
        life.start(records)
    else:
        life.forget("a")
        life.cycle([], commits=dies != "before the commit")
        if dies != "never":
            life.start(records)
    life.cycle([])
    assert "a" not in life.changelog
    assert life.part.sensors == 1
    life.cycle(records[60:80])
    assert life.generations("a") == [(1, "it was forgotten")]
    life.start(records)
    life.cycle(records[80:], saves=("a", "b"))
    assert life.generations("a") == [(1, "it was forgotten")]
    told = life.tally("a")
    assert (told.generation, told.accepted, told.earlier) == (1, 50, None)
    assert life.tally("b").accepted == 80


def test_a_reading_that_comes_with_the_forgetting_begins_the_new_sensor(tmp_path):
    records, life = stream(), Life(tmp_path)
    life.cycle(records[:20], saves=("a", "b"))
    life.forget("a")
    life.cycle(records[20:30])
    assert life.generations("a") == [(1, "it was forgotten")]
    assert life.tally("a").accepted == 5


def test_without_control_records_nothing_differs(tmp_path):
    """The same bytes with a book in which others are named."""
    records = stream()
    plain, other = Life(tmp_path / "1"), Life(tmp_path / "2")
    other.reset("c")
    other.forget("d")
    for life in (plain, other):
        for at in range(0, 160, 20):
            life.cycle(records[at : at + 20], saves=("a", "b"))
    assert plain.changelog == other.changelog
    assert (plain.events, plain.states) == (other.events, other.states)


def shifted(length=3000, at=2640, sensor="a"):
    """Noise, then a level that was never seen."""
    rng = np.random.default_rng(3)
    values = rng.normal(0.0, 1.0, length)
    values[at:] += 40.0
    return [
        Record(i, (BEGIN + i) * 1000, sensor.encode(), json.dumps(
            {"sensor": sensor, "time": BEGIN + i, "value": value}
        ).encode())
        for i, value in enumerate(values.tolist())
    ]  # fmt: skip


def accepted_notices(life):
    return [
        (notice.index, notice.time)
        for notice in life.events["a"]
        if isinstance(notice, messages.Notice) and notice.kind == "accepted"
    ]


@pytest.mark.parametrize("dies", ["never", "before the commit", "after the commit", "before it hears of it"])
@pytest.mark.parametrize("saves", [(), ("a",)])
def test_an_acceptance_clears_the_alarm_once_and_holds_across_restarts(tmp_path, dies, saves):
    records, life = shifted(), Life(tmp_path, Settings(rules=(Rule(alarms=HOURLY),)))
    life.cycle(records[:2650], saves=saves)
    assert life.alarms("a") == [(0, "raised", "")]
    if dies == "before it hears of it":
        life.start(records)
    life.accept("a")
    if dies == "before the commit":
        life.cycle(records[2650:2655], commits=False)
        life.start(records)
    life.cycle(records[2650:2660])
    if dies == "after the commit":
        life.start(records)
    life.cycle(records[2660:])
    assert life.alarms("a") == [(0, "raised", ""), (0, "cleared", "accepted by ann")]
    assert accepted_notices(life) == [(2650, rfc3339((BEGIN + 2650) * 1_000_000))]
    life.accept("a", at="2026-01-01T00:00:01Z")  # a later one is another
    life.accept("a", generation=7)  # of another generation
    life.cycle(shifted(3010)[3000:])
    assert len(accepted_notices(life)) == 1
    # the same bytes as in a life without restarts
    other = Life(tmp_path / "other", life.settings)
    other.cycle(records[:2650])
    other.accept("a")
    other.cycle(records[2650:])
    assert life.events["a"] == other.events["a"]


def test_an_alarm_that_is_open_at_a_reset_is_cleared(tmp_path):
    records, life = shifted(), Life(tmp_path, Settings(rules=(Rule(alarms=HOURLY),)))
    life.cycle(records[:2650], saves=("a",))
    life.start(records)
    life.reset("a")
    life.cycle(records[2650:2660])
    assert life.alarms("a") == [(0, "raised", ""), (0, "cleared", "its detector started afresh")]
    raised, cleared = (event for event in life.events["a"] if isinstance(event, messages.AlarmEvent))
    assert (raised.id, raised.index, raised.time) == (cleared.id, cleared.index, cleared.time)
    assert life.generations("a") == [(1, "reset")]


def test_an_alarm_that_is_open_when_its_rule_changes_is_cleared(tmp_path):
    records, life = shifted(), Life(tmp_path, Settings(rules=(Rule(alarms=HOURLY),)))
    life.cycle(records[:2650], saves=("a",))
    life.settings = Settings(rules=(Rule(alarms=HOURLY, transform="difference"),))
    life.start(records)
    life.cycle(records[2650:2660])
    assert life.alarms("a") == [(0, "raised", ""), (0, "cleared", "its detector started afresh")]
