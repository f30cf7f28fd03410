"""Records through a configuration's rules, without publishing anything.

The worker's own code takes the records (``service.sensors.partition``), so what comes out is what a worker would have
published. Nothing is kept: states live in memory and are thrown away.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

import ishsmm_stream as hs
from service.runtime.forwarding import partition_of
from service.runtime.snapshot_store import SnapshotStore
from service.sensors.partition import Partition, SensorSlot
from service.sensors.records import InputRecord, Outbound, dead_letter, decode_with
from service.sensors.rules import Rules
from service.sensors.track import Track
from service.settings import RecordMapping, Rule, Settings
from service.wire import decoding as mappings
from service.wire import messages
from service.wire.decoding import Decoder
from service.wire.readings import BadRecord, Reading, encode_reading

_RECORDS_AT_ONCE = 5000
# Settled change points that a detector remembers, for the pictures; no part of the inference.
_KEEP = 10_000


class Change(msgspec.Struct, kw_only=True):
    """A change that would have been announced, as it was last published. Indices count the sensor's observations."""

    id: str
    sensor: str
    raised_at: int  # where it was announced
    raised_time: int  # microseconds since the epoch
    index: int  # first observation after the change
    time: int
    low: int
    high: int
    probability: float | None  # when it was announced
    status: str  # provisional, confirmed, retracted
    summary: str
    unit: str

    @property
    def delay(self) -> int:
        """Observations from the change to its announcement."""
        return self.raised_at - self.index

    @property
    def delay_s(self) -> float:
        """The same in seconds of the readings' own clock."""
        return (self.raised_time - self.time) / 1e6


class Alarm(msgspec.Struct, kw_only=True):
    """An alarm that would have been raised. Indices count the sensor's observations, times are in microseconds."""

    id: str
    sensor: str
    raised_at: int
    raised_time: int
    index: int  # where it began
    time: int
    cleared_at: int | None = None  # None: open at the end
    cleared_time: int | None = None
    return_period: float | None
    frequency: str
    reasons: list[str]


class PromiseKept(NamedTuple):
    """Alarms of the sensors of a rule against what its budget allows."""

    rule: str
    budget: str
    sensors: int
    raised: int
    promised: float


class Level(NamedTuple):
    """The state as it would have been published at an observation."""

    index: int  # type: ignore[assignment]
    parameters: dict[str, float | None]


@dataclass
class Followed:
    """What became of a sensor."""

    name: str
    rule: Rule
    times: array[int] = field(default_factory=lambda: array("q"))  # of every observation, inserted steps included
    values: array[float] = field(default_factory=lambda: array("d"))  # as its detector took them, channel by channel
    channels: int = 1
    inserted: int = 0
    changes: list[Change] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    promised: float = 0.0  # alarms that its budget allows for its readings
    notices: list[messages.Notice] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    change_points: tuple[hs.ChangePoint, ...] = ()  # as believed at the end, announced or not

    @property
    def readings(self) -> int:
        """Readings that were taken."""
        return len(self.times) - self.inserted


@dataclass
class Replayed:
    """What a configuration would have done with the records."""

    sensors: dict[str, Followed] = field(default_factory=dict)  # by name
    records: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    first_refused: dict[str, str] = field(default_factory=dict)  # an example of each
    events: list[bytes] = field(default_factory=list)  # as they would have been published, in the order of their times

    @property
    def readings(self) -> int:
        """Readings that were taken."""
        return sum(sensor.readings for sensor in self.sensors.values())

    @property
    def changes(self) -> list[Change]:
        """Of all sensors, in the order in which they were announced."""
        return sorted(
            (change for sensor in self.sensors.values() for change in sensor.changes),
            key=lambda change: (change.raised_time, change.sensor),
        )

    @property
    def alarms(self) -> list[Alarm]:
        """Of all sensors, in the order in which they were raised."""
        return sorted(
            (alarm for sensor in self.sensors.values() for alarm in sensor.alarms),
            key=lambda alarm: (alarm.raised_time, alarm.sensor),
        )

    @property
    def promise(self) -> list[PromiseKept]:
        """Alarms raised against alarms promised, of each rule that has sensors."""
        by_rule: dict[str, list[Followed]] = {}
        for sensor in self.sensors.values():
            by_rule.setdefault(sensor.rule.match, []).append(sensor)
        return [
            PromiseKept(
                match, found[0].rule.alarms.per_sensor or "", len(found), sum(len(one.alarms) for one in found),
                sum(one.promised for one in found),
            )
            for match, found in by_rule.items()
        ]  # fmt: skip

    @property
    def span(self) -> tuple[int, int]:
        """Times of the first and the last reading, microseconds."""
        times = [sensor.times for sensor in self.sensors.values() if sensor.times]
        return (min(map(min, times)), max(map(max, times))) if times else (0, 0)

    @property
    def days(self) -> float:
        """How long the readings span."""
        first, last = self.span
        return (last - first) / 86_400e6


class _Recorded(Track):
    """A track that keeps what its detector takes."""

    followed: Followed

    def remember(self, rows: np.ndarray, times: np.ndarray) -> None:
        self.followed.times.extend(times.tolist())
        self.followed.channels = self.channels
        self.followed.values.extend(rows.ravel().tolist())
        super().remember(rows, times)


class _Recording(Partition):
    """A partition whose sensors are all kept, in memory."""

    followed: dict[str, Followed]

    def _load(self, sensor: str, slot: SensorSlot) -> Track:
        new = super()._load(sensor, slot)
        track = _Recorded(sensor, new.prepared)
        track.followed = self.followed.setdefault(sensor, Followed(sensor, track.rule))
        return track

    def finish(self) -> None:
        """Note what the detectors say at the end."""
        for sensor, track in self.tracks():
            self.followed[sensor].inserted = track.inserted
            self.followed[sensor].promised = track.promised
            self.followed[sensor].change_points = track.detector.change_points


def replay(
    settings: Settings,
    records: Iterable[InputRecord],
    decode: Decoder,
    *,
    through_readings: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> Replayed:
    """Take the records in, partition by partition as they say.

    ``through_readings``: as a worker does with topics that are not keyed by sensor, each sensor's readings go to a
    partition of its own choosing first.
    """
    result = Replayed()
    rules = Rules(_keeping(settings))
    limit = settings.limits.record_bytes
    if through_readings:
        records = _sent_on(records, decode, settings.topics.partitions, result)
        decode = mappings.decoder(RecordMapping(partitioned_by_sensor=True), limit)
    partitions: dict[int, _Recording] = {}

    def has_room() -> bool:
        return len(result.sensors) < settings.limits.sensors

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(SnapshotStore(Path(folder) / "none.sqlite")) as store,
    ):
        for number, batch in _batches(records):
            if number not in partitions:
                partitions[number] = _Recording(number, rules, decode_with(decode), store, has_room)
                partitions[number].followed = result.sensors
            outputs, _ = partitions[number].take(batch)
            result.records += 0 if through_readings else len(batch)
            for output in outputs:
                _note(result, output)
            progress(result.records)
        for partition in partitions.values():
            partition.finish()
    result.events.sort(key=_moment)
    result.sensors = dict(sorted(result.sensors.items()))
    return result


def with_threshold(settings: Settings, threshold: float) -> Settings:
    """The settings with another threshold in every rule, in place of what it followed from."""

    def changed(rule: Rule) -> Rule:
        retract = rule.alarms.retract
        alarms = msgspec.structs.replace(
            rule.alarms, threshold=threshold, rate=None, costs=None, false_alarms_per_day=None, expected_sensors=None,
            retract=None if retract is None else min(retract, threshold),
        )  # fmt: skip
        return msgspec.structs.replace(rule, alarms=alarms)

    rules = settings.rules if settings.rules and settings.rules[-1].match == "*" else (*settings.rules, Rule())
    return msgspec.structs.replace(settings, rules=tuple(map(changed, rules)))


def _keeping(settings: Settings) -> Settings:
    """The settings with detectors that remember all their change points."""

    def changed(rule: Rule) -> Rule:
        detector = msgspec.structs.replace(rule.detector_settings, keep=_KEEP)
        return msgspec.structs.replace(rule, detector_settings=detector)

    rules = settings.rules if settings.rules and settings.rules[-1].match == "*" else (*settings.rules, Rule())
    return msgspec.structs.replace(settings, rules=tuple(map(changed, rules)))


def _batches(records: Iterable[InputRecord]) -> Iterator[tuple[int, list[InputRecord]]]:
    """Stretches of records of one partition."""
    for number, stretch in itertools.groupby(records, key=lambda record: record.partition):
        while batch := list(itertools.islice(stretch, _RECORDS_AT_ONCE)):
            yield number, batch


class _SentOn(NamedTuple):
    """A record of the internal topic."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    topic: str = "readings"


def _sent_on(
    records: Iterable[InputRecord], decode: Decoder, partitions: int, result: Replayed
) -> Iterator[InputRecord]:
    """Readings as the internal topic holds them, a stretch of each partition in turn."""
    ends = [0] * partitions
    records = iter(records)
    while batch := list(itertools.islice(records, _RECORDS_AT_ONCE)):
        waiting: list[list[_SentOn]] = [[] for _ in range(partitions)]
        for record in batch:
            result.records += 1
            try:
                readings = decode(record.key, record.value, record.timestamp)
            except BadRecord as bad:
                _note(result, dead_letter(record, bad))
                continue
            for reading in readings:
                number = partition_of(reading.sensor, partitions)
                sent = _SentOn(number, ends[number], record.timestamp, reading.sensor.encode(), encode_reading(reading))
                ends[number] += 1
                waiting[number].append(sent)
        yield from itertools.chain.from_iterable(waiting)


def _note(result: Replayed, output: Outbound) -> None:
    """Keep what is said of an output."""
    message = output.message
    assert not isinstance(message, Reading)
    if isinstance(message, messages.DeadLetter):
        result.refused[message.reason] += 1
        result.first_refused.setdefault(message.reason, f"{message.topic} {message.offset}: {message.detail}")
        return
    sensor = result.sensors[message.sensor]
    if isinstance(message, messages.StateDictionary):
        return
    if isinstance(message, messages.StateRecord):
        if message.state is not None:
            sensor.levels.append(Level(message.index, message.state.parameters))
        return
    result.events.append(output.encoded())
    if isinstance(message, messages.Notice):
        sensor.notices.append(message)
    elif isinstance(message, messages.AlarmEvent):
        _note_alarm(sensor, message)
    elif isinstance(message, messages.ChangeEvent):
        _note_change(sensor, message)


def _note_change(sensor: Followed, event: messages.ChangeEvent) -> None:
    if event.revision == 0:
        made = Change(
            id=event.id, sensor=event.sensor, raised_at=event.at.index, raised_time=sensor.times[event.at.index],
            index=event.index, time=0, low=0, high=0, probability=event.probability, status="", summary="",
            unit=str(sensor.rule.labels.get("unit", "")),
        )  # fmt: skip
        sensor.changes.append(made)
    change = next(one for one in reversed(sensor.changes) if one.id == event.id)
    change.index, change.low, change.high = event.index, event.low.index, event.high.index
    change.time = sensor.times[event.index]
    if event.status == "retracted":
        change.status = event.status
        return  # the summary from before it was retracted is what people saw
    change.summary = event.summary
    change.status = "provisional" if event.status == "relocated" and change.status != "confirmed" else event.status


def _note_alarm(sensor: Followed, event: messages.AlarmEvent) -> None:
    at, time = event.at.index, sensor.times[event.at.index]
    if event.status == "raised":
        made = Alarm(
            id=event.id, sensor=event.sensor, raised_at=at, raised_time=time, index=event.index,
            time=sensor.times[event.index], return_period=event.return_period, frequency=event.frequency,
            reasons=list(event.reasons),
        )  # fmt: skip
        sensor.alarms.append(made)
    else:
        alarm = next(one for one in reversed(sensor.alarms) if one.id == event.id)
        alarm.cleared_at, alarm.cleared_time = at, time


def _moment(event: bytes) -> str:
    message = messages.decode(event)
    assert isinstance(message, messages.Event)
    said = messages.time_of(message)
    # RFC 3339 with milliseconds or microseconds: as text, both are in the order of their times up to the last digits
    return (said or "").rstrip("Z")


def level_of(parameters: dict[str, float | None], channel: int, channels: int) -> tuple[float, float]:
    """Level and noise of a channel, NaN where the model has none."""
    suffix = f"[{channel}]" if channels > 1 else ""
    level = parameters.get(f"mean{suffix}", parameters.get("rate"))
    noise = parameters.get(f"sd{suffix}")
    if noise is None and level is not None and "rate" in parameters:
        noise = math.sqrt(max(level, 0.0))
    return math.nan if level is None else level, math.nan if noise is None else noise
