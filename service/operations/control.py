"""Control records about sensors and events: mutes, acknowledgements, acceptances, resets and forgettings.

Each record has a key of its own. A later record replaces an earlier one of the same key, and an empty one removes
it. They are stored on a compacted topic that every reader reads as a whole, or in a table. ``ControlBook`` is the
state folded from them.

A reset or a forgetting names the generation that it ends, so that it can be read any number of times: a sensor with
a later generation ignores it. These records are kept for good, since the ids of events are made of sensor and
generation. A forgotten sensor that comes back continues with the next generation.
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

NEVER = -1  # no generation has ended
_DAY = 86_400 * 1_000_000
# Outdated records are kept for this long, in microseconds, so that people can look back at them.
_MUTES_KEPT, _ACKNOWLEDGEMENTS_KEPT = 7 * _DAY, 90 * _DAY

Changes = Mapping[str, bytes | None]  # by key; None: removed


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
    """The store of the control records."""

    def read(self) -> ControlBook:
        """Return the state folded from all records."""
        ...

    def write(self, changes: Changes) -> None:
        """Write records. Returns when they are durable."""
        ...


def key_of(record: ControlRecord) -> str:
    """Return the record's key.

    >>> key_of(Reset(sensor="boiler-1", generation=0, time="2026-01-01T00:00:00Z"))
    'reset:boiler-1'
    """
    if isinstance(record, Mute):
        about = record.pattern
    else:
        about = record.id if isinstance(record, Acknowledgement) else record.sensor
    return f"{type(record).__struct_config__.tag}:{about}"


def as_change(*records: ControlRecord) -> dict[str, bytes | None]:
    """Return records as bytes by key."""
    return {key_of(record): msgspec.json.encode(record) for record in records}


def _check(record: ControlRecord) -> None:
    """Raise ValueError or TypeError for a record that would do harm later."""
    for time in (record.since, record.until) if isinstance(record, Mute) else (record.time,):
        from_rfc3339(time)
    if isinstance(record, Acceptance | Reset | Forget) and not 0 <= record.generation < MOST_GENERATIONS:
        raise ValueError(f"generation takes 0 to {MOST_GENERATIONS - 1}, got {record.generation}")


class ControlBook:
    """State folded from control records. One thread changes it; other threads may read it."""

    def __init__(self) -> None:
        self._records: dict[str, ControlRecord] = {}
        # Replaced as a whole, so that other threads can iterate over it while it changes.
        self._mutes: tuple[tuple[Mute, int, int], ...] = ()
        self.finished: dict[str, int] = {}  # by sensor: the last generation that has ended
        self.forgotten: dict[str, int] = {}  # likewise, for sensors that are to be forgotten
        self.acceptances: dict[str, tuple[Acceptance, int]] = {}  # by sensor: the last one and its time
        self.version = 0  # rises with every change

    # Changes

    def apply(self, changes: Changes) -> None:
        """Apply changes, in their order."""
        for key, value in changes.items():
            self._take(key, value)
        if changes:
            self._add_up()
            self.version += 1

    def replace(self, records: Mapping[str, bytes]) -> None:
        """Replace all records. Those that are not among the given ones are removed."""
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

    # Questions

    def is_muted(self, sensor: str, time: int) -> Mute | None:
        """Return the mute that applies to a sensor at a time (microseconds), or None."""
        for mute, since, until in self._mutes:
            if since <= time < until and fnmatch.fnmatchcase(sensor, mute.pattern):
                return mute
        return None

    def acknowledgement(self, event_id: str) -> Acknowledgement | None:
        """Return the acknowledgement of a change or an alarm, or None."""
        found = self._records.get(f"acknowledgement:{event_id}")
        return found if isinstance(found, Acknowledgement) else None

    def finished_generation(self, sensor: str) -> int:
        """Return a sensor's last generation that a reset or a forgetting has ended, or -1 if there is none."""
        return self.finished.get(sensor, NEVER)

    def mutes(self) -> list[Mute]:
        """Return all mutes, beginning with the one that ends first."""
        return [mute for mute, _, _ in sorted(self._mutes, key=lambda one: one[2])]

    def of_sensor(self, sensor: str) -> Iterable[str]:
        """Yield the keys of a sensor's records that are removed when it is forgotten."""
        for key, record in self._records.items():
            if isinstance(record, Acknowledgement | Acceptance | Reset) and record.sensor == sensor:
                yield key

    def outdated(self, now: int) -> dict[str, bytes | None]:
        """Return changes that remove outdated records: nothing else removes them, and every reader reads them all."""
        past: dict[str, bytes | None] = {}
        for key, record in self._records.items():
            is_mute = isinstance(record, Mute) and from_rfc3339(record.until) < now - _MUTES_KEPT
            is_seen = isinstance(record, Acknowledgement) and from_rfc3339(record.time) < now - _ACKNOWLEDGEMENTS_KEPT
            if is_mute or is_seen:
                past[key] = None
        return past
