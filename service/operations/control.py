"""What people say about sensors and events: mutes, acknowledgements, acceptances, resets and forgettings.

Each is a record under a key of its own; a later record of the key takes its place, none at all takes it back. They
stand on a compacted topic that everybody reads as a whole, or in a table. ``ControlBook`` answers what they come to.

A reset and a forgetting name the generation that is over with them, so that they can be heard of any number of times:
a sensor whose generation is a later one has nothing more to do. They are kept for good, since the ids of events are
made of sensor and generation: one that was forgotten and comes back goes on with the next generation.
"""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from service.wire.messages import MOST_GENERATIONS, VERSION
from service.wire.readings import from_rfc3339

log = logging.getLogger(__name__)

NEVER = -1  # the generation that is over where none is
_DAY = 86_400 * 1_000_000
# What is past is kept for so long, in microseconds, for people to look back at.
_MUTES_KEPT, _ACKNOWLEDGEMENTS_KEPT = 7 * _DAY, 90 * _DAY

Changes = Mapping[str, bytes | None]  # by key; None: taken back


class _ControlBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    version: int = VERSION
    by: Annotated[str, Meta(description="who said so")] = ""


class Mute(_ControlBase, tag="mute", frozen=True, kw_only=True):
    """Sinks are told nothing of sensors that match ``pattern`` which is published in this time."""

    pattern: str
    since: str = msgspec.field(name="from")
    until: str
    why: str = ""


class Acknowledgement(_ControlBase, tag="acknowledgement", frozen=True, kw_only=True):
    """Somebody has seen a change point. It stops nothing."""

    id: Annotated[str, Meta(description="of the change event")]
    sensor: str
    time: str
    note: str = ""


class Acceptance(_ControlBase, tag="acceptance", frozen=True, kw_only=True):
    """The sensor's present behaviour is a habit from its next reading on; a notice says which reading that was."""

    sensor: str
    generation: Annotated[int, Meta(description="the one that it is said of")]
    time: Annotated[str, Meta(description="when it was said; a later one is another acceptance")]


class Reset(_ControlBase, tag="reset", frozen=True, kw_only=True):
    """The sensor's detector starts afresh at its next reading."""

    sensor: str
    generation: Annotated[int, Meta(description="the one that is over")]
    time: str


class Forget(_ControlBase, tag="forget", frozen=True, kw_only=True):
    """Nothing is kept of the sensor. Should readings come again, it is a new one, in the next generation."""

    sensor: str
    generation: Annotated[int, Meta(description="the last one that is over")]
    time: str


ControlRecord = Mute | Acknowledgement | Acceptance | Reset | Forget
RECORDS = {
    "mute": Mute,
    "acknowledgement": Acknowledgement,
    "acceptance": Acceptance,
    "reset": Reset,
    "forget": Forget,
}


class ControlLog(Protocol):
    """Where the records stand."""

    def read(self) -> ControlBook:
        """All that is said now."""
        ...

    def write(self, changes: Changes) -> None:
        """Say something more; returns when it is kept."""
        ...


def key_of(record: ControlRecord) -> str:
    """The record's own key.

    >>> key_of(Reset(sensor="boiler-1", generation=0, time="2026-01-01T00:00:00Z"))
    'reset:boiler-1'
    """
    if isinstance(record, Mute):
        about = record.pattern
    else:
        about = record.id if isinstance(record, Acknowledgement) else record.sensor
    return f"{type(record).__struct_config__.tag}:{about}"


def as_change(*records: ControlRecord) -> dict[str, bytes | None]:
    """Records as they are written."""
    return {key_of(record): msgspec.json.encode(record) for record in records}


def _check(record: ControlRecord) -> None:
    """Raise ValueError or TypeError for a record that would do harm later."""
    for time in (record.since, record.until) if isinstance(record, Mute) else (record.time,):
        from_rfc3339(time)
    if isinstance(record, Acceptance | Reset | Forget) and not 0 <= record.generation < MOST_GENERATIONS:
        raise ValueError(f"generation takes 0 to {MOST_GENERATIONS - 1}, got {record.generation}")


class ControlBook:
    """What all records come to. One thread changes it, others may ask."""

    def __init__(self) -> None:
        self._records: dict[str, ControlRecord] = {}
        # Replaced as a whole, so that it can be gone through while it changes.
        self._mutes: tuple[tuple[Mute, int, int], ...] = ()
        self.finished: dict[str, int] = {}  # by sensor: the last generation that is over
        self.forgotten: dict[str, int] = {}  # likewise, for those that are to be forgotten
        self.acceptances: dict[str, tuple[Acceptance, int]] = {}  # by sensor: the last one and its time
        self.version = 0  # rises with every change

    # What is said

    def apply(self, changes: Changes) -> None:
        """Take note of records, in their order."""
        for key, value in changes.items():
            self._take(key, value)
        if changes:
            self._add_up()
            self.version += 1

    def replace(self, records: Mapping[str, bytes]) -> None:
        """Take note of all records that there are: those that are not among them are taken back."""
        gone: dict[str, Any] = dict.fromkeys(key for key in self._records if key not in records)
        self.apply({**gone, **records})

    def _take(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._records.pop(key, None)
            return
        try:
            record = msgspec.json.decode(value, type=ControlRecord)
            _check(record)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, TypeError) as error:
            log.warning("the control record %r is not ours and passed over: %s", key, error)
            return
        if key_of(record) != key:
            log.warning("the control record under %r belongs under %r and is passed over", key, key_of(record))
            return
        self._records[key] = record

    def _add_up(self) -> None:
        records = self._records.values()
        self._mutes = tuple(
            (record, from_rfc3339(record.since), from_rfc3339(record.until))
            for record in records
            if isinstance(record, Mute)
        )
        self.forgotten = {record.sensor: record.generation for record in records if isinstance(record, Forget)}
        finished = dict(self.forgotten)
        for record in records:
            if isinstance(record, Reset):
                finished[record.sensor] = max(record.generation, finished.get(record.sensor, NEVER))
        self.finished = finished
        self.acceptances = {
            record.sensor: (record, from_rfc3339(record.time)) for record in records if isinstance(record, Acceptance)
        }

    # What it comes to

    def is_muted(self, sensor: str, time: int) -> Mute | None:
        """The mute that holds for a sensor at a time (microseconds), if there is one."""
        for mute, since, until in self._mutes:
            if since <= time < until and fnmatch.fnmatchcase(sensor, mute.pattern):
                return mute
        return None

    def acknowledgement(self, event_id: str) -> Acknowledgement | None:
        """Who has acknowledged a change."""
        found = self._records.get(f"acknowledgement:{event_id}")
        return found if isinstance(found, Acknowledgement) else None

    def finished_generation(self, sensor: str) -> int:
        """The last generation of a sensor that is over by a reset or a forgetting; -1 where none is."""
        return self.finished.get(sensor, NEVER)

    def mutes(self) -> list[Mute]:
        """All mutes, those that end first in front."""
        return [mute for mute, _, _ in sorted(self._mutes, key=lambda one: one[2])]

    def of_sensor(self, sensor: str) -> Iterable[str]:
        """The keys of what was said of a sensor, which goes when it is forgotten."""
        for key, record in self._records.items():
            if isinstance(record, Acknowledgement | Acceptance | Reset) and record.sensor == sensor:
                yield key

    def outdated(self, now: int) -> dict[str, bytes | None]:
        """Taking back what is long past: nobody else does, and all of it is read by everybody."""
        past: dict[str, bytes | None] = {}
        for key, record in self._records.items():
            is_mute = isinstance(record, Mute) and from_rfc3339(record.until) < now - _MUTES_KEPT
            is_seen = isinstance(record, Acknowledgement) and from_rfc3339(record.time) < now - _ACKNOWLEDGEMENTS_KEPT
            if is_mute or is_seen:
                past[key] = None
        return past
