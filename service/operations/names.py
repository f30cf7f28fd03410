"""Names that people give to states. They are joined when states are shown, never written into events or state records.

Each is a record with a key of its own, made of sensor, generation and state. A later record replaces an earlier one
of the same key, and an empty one removes it. They are stored on a compacted topic that every view reads as a whole,
or in a table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from service.operations.control import Changes
from service.wire.messages import VERSION

log = logging.getLogger(__name__)

LONGEST = 60


class StateName(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="state_name"):
    """What people call a state of a sensor in one of its generations."""

    version: int = VERSION
    sensor: str
    generation: int
    state: Annotated[int, Meta(description="its `id` in state records")]
    name: str
    time: str
    by: Annotated[str, Meta(description="who said so")] = ""


RECORDS = {"state_name": StateName}


def key_of(sensor: str, generation: int, state: int) -> str:
    """Return the key of a state's name.

    >>> key_of("north/boiler-1", 0, 312)
    '0:312:north/boiler-1'
    """
    return f"{generation}:{state}:{sensor}"


def as_change(record: StateName) -> dict[str, bytes | None]:
    """Return the record as bytes by key. A record without a name removes the earlier one."""
    value = msgspec.json.encode(record) if record.name else None
    return {key_of(record.sensor, record.generation, record.state): value}


class NameBook:
    """State names folded from records. One thread changes it; other threads may read it."""

    def __init__(self) -> None:
        self._names: dict[str, StateName] = {}
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
        self._names = names
        self.version += bool(changes)

    def replace(self, records: Mapping[str, bytes]) -> None:
        """Replace all records. Those that are not among the given ones are removed."""
        gone: dict[str, bytes | None] = dict.fromkeys(key for key in self._names if key not in records)
        self.apply({**gone, **records})

    def name_of(self, sensor: str, generation: int, state: int) -> str | None:
        """Return a state's name, or None if it has none."""
        found = self._names.get(key_of(sensor, generation, state))
        return None if found is None else found.name

    def of_sensor(self, sensor: str) -> Iterable[str]:
        """Return the keys of a sensor's names, which are removed when the sensor is forgotten."""
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
