"""Names and merges of states, made by people. They are applied when states are shown, never written into events or
state records, and inference does not read them.

Each is a record with a key of its own, made of sensor, generation and state. A later record replaces an earlier one
of the same key, and an empty one removes it. They are stored on a compacted topic that every view reads as a whole,
or in a table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from service.operations.control import Changes
from service.wire.messages import VERSION, KnownState

log = logging.getLogger(__name__)

LONGEST = 60


class StateName(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="state_name"):
    """How people want a state of a sensor to be shown, in one of its generations."""

    version: int = VERSION
    sensor: str
    generation: int
    state: Annotated[int, Meta(description="its `id` in state records")]
    name: Annotated[str, Meta(description="empty: none")]
    time: str
    by: Annotated[str, Meta(description="who said so")] = ""
    merged_into: Annotated[int | None, Meta(description="it is shown as this other state; null: as itself")] = None
    known: Annotated[
        KnownState | None,
        Meta(description="its entry in the state dictionary at that time, to show after the dictionary dropped it"),
    ] = None


RECORDS = {"state_name": StateName}


class NameLog(Protocol):
    """The store of names and merges."""

    def read(self) -> NameBook:
        """Return the state folded from all records."""
        ...

    def write(self, changes: Changes) -> None:
        """Write records. Returns when they are durable."""
        ...


def key_of(sensor: str, generation: int, state: int) -> str:
    """Return the key of a state's name.

    >>> key_of("north/boiler-1", 0, 312)
    '0:312:north/boiler-1'
    """
    return f"{generation}:{state}:{sensor}"


def as_change(record: StateName) -> dict[str, bytes | None]:
    """Return the record as bytes by key. A record without a name and a merge removes the earlier one."""
    value = msgspec.json.encode(record) if record.name or record.merged_into is not None else None
    return {key_of(record.sensor, record.generation, record.state): value}


def shown_as(state: int, names: Mapping[int, StateName]) -> int:
    """Return the state that a state is shown as: the last of its chain of merges.

    ``names``: records of the same sensor and generation, by state. Merges in a circle, which two people can make at
    the same time, do not count.
    """
    found, seen = state, {state}
    while (record := names.get(found)) is not None and record.merged_into is not None:
        found = record.merged_into
        if found in seen:
            return state
        seen.add(found)
    return found


class NameBook:
    """Names and merges folded from records. One thread changes it; other threads may read it."""

    def __init__(self) -> None:
        self._names: dict[str, StateName] = {}
        self._by_state: dict[tuple[str, int], dict[int, StateName]] = {}  # by sensor and generation
        self.version = 0  # rises with every change

    def apply(self, changes: Changes) -> None:
        """Apply changes, in their order."""
        names = dict(self._names)  # replaced as a whole, so that other threads can iterate over it
        for key, value in changes.items():
            record = None if value is None else _read(key, value)
            if record is not None:
                names[key] = record
            elif value is None:
                names.pop(key, None)
        by_state: dict[tuple[str, int], dict[int, StateName]] = {}
        for one in names.values():
            by_state.setdefault((one.sensor, one.generation), {})[one.state] = one
        self._names, self._by_state = names, by_state
        self.version += bool(changes)

    def replace(self, records: Mapping[str, bytes]) -> None:
        """Replace all records. Those that are not among the given ones are removed."""
        gone: dict[str, bytes | None] = dict.fromkeys(key for key in self._names if key not in records)
        self.apply({**gone, **records})

    def of(self, sensor: str, generation: int) -> Mapping[int, StateName]:
        """Return the records of a sensor's generation, by state."""
        return self._by_state.get((sensor, generation), {})

    def of_sensor(self, sensor: str) -> Iterable[str]:
        """Return the keys of a sensor's records, which are removed when the sensor is forgotten."""
        return [key for key, record in self._names.items() if record.sensor == sensor]


def _read(key: str, value: bytes) -> StateName | None:
    try:
        record = msgspec.json.decode(value, type=StateName)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("the name under %r is not ours and passed over: %s", key, error)
        return None
    if key_of(record.sensor, record.generation, record.state) != key:
        log.warning("the name under %r belongs under another key and is passed over", key)
        return None
    return record
