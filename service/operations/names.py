"""Names that people give to states. Joined where states are shown, never written into events or state records.

Each is a record under a key of its own, made of sensor, generation and state; a later record of the key takes its
place, none at all takes it back. They stand on a compacted topic that every view reads as a whole, or in a table.
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
    """The key of a state's name.

    >>> key_of("north/boiler-1", 0, 312)
    '0:312:north/boiler-1'
    """
    return f"{generation}:{state}:{sensor}"


def as_change(record: StateName) -> dict[str, bytes | None]:
    """The record as it is written; one without a name takes back what was said before."""
    value = msgspec.json.encode(record) if record.name else None
    return {key_of(record.sensor, record.generation, record.state): value}


class NameBook:
    """What all records come to. One thread changes it, others may ask."""

    def __init__(self) -> None:
        self._names: dict[str, StateName] = {}
        self.version = 0  # rises with every change

    def apply(self, changes: Changes) -> None:
        """Take note of records, in their order."""
        names = dict(self._names)  # replaced as a whole, so that it can be gone through while it changes
        for key, value in changes.items():
            record = None if value is None else _read(key, value)
            if record is not None:
                names[key] = record
            elif value is None:
                names.pop(key, None)
        self._names = names
        self.version += bool(changes)

    def replace(self, records: Mapping[str, bytes]) -> None:
        """Take note of all records that there are: those that are not among them are taken back."""
        gone: dict[str, bytes | None] = dict.fromkeys(key for key in self._names if key not in records)
        self.apply({**gone, **records})

    def name_of(self, sensor: str, generation: int, state: int) -> str | None:
        """What a state is called; None where nobody has named it."""
        found = self._names.get(key_of(sensor, generation, state))
        return None if found is None else found.name

    def of_sensor(self, sensor: str) -> Iterable[str]:
        """The keys of a sensor's names, which go when it is forgotten."""
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
