"""What is known of the sensors, from the messages about them."""

from __future__ import annotations

import fnmatch
from collections import deque
from dataclasses import dataclass

import msgspec

from service.wire import messages

MOST_EVENTS = 50


@dataclass
class Row:
    """A sensor."""

    sensor: str
    state: messages.StateRecord | None = None
    change: messages.ChangeEvent | None = None  # the last word about the latest one
    alarm: messages.AlarmEvent | None = None  # the open one
    is_silent: bool = False

    @property
    def changed(self) -> str:
        """When its last change was said, as text that sorts."""
        return "" if self.change is None else self.change.at.time or ""


class Board:
    """The sensors whose names match, and the last events."""

    def __init__(self, pattern: str = "*") -> None:
        self._pattern = pattern
        self._rows: dict[str, Row] = {}
        self.events: deque[messages.Event] = deque(maxlen=MOST_EVENTS)
        self.counts: dict[str, int] = {}  # events by status

    def take(self, value: bytes) -> messages.Event | None:
        """Take a message in; returns it where it is an event of ours."""
        try:
            message = messages.decode(value)
        except msgspec.DecodeError:
            return None  # other things may stand on a topic
        if isinstance(message, messages.DeadLetter | messages.StateDictionary) or not fnmatch.fnmatchcase(
            message.sensor, self._pattern
        ):
            return None
        row = self._rows.setdefault(message.sensor, Row(message.sensor))
        if isinstance(message, messages.StateRecord):
            row.state = message
            return None
        kind = messages.status_of(message)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.events.append(message)
        if isinstance(message, messages.ChangeEvent):
            row.change = message
        elif isinstance(message, messages.AlarmEvent):
            row.alarm = message if message.status == "raised" else None
        elif isinstance(message, messages.Notice) and message.kind in ("silent", "back"):
            row.is_silent = message.kind == "silent"
        return message

    @property
    def rows(self) -> list[Row]:
        """The sensors: open alarms first, then by how unusual they are now, then those that changed last."""
        return sorted(self._rows.values(), key=_order, reverse=True)

    @property
    def silent(self) -> int:
        """How many have fallen silent."""
        return sum(row.is_silent for row in self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)


def _order(row: Row) -> tuple[float, float, str, float]:
    probability = None if row.state is None else row.state.change_probability
    return *messages.unusual_now(row.alarm, row.state), row.changed, probability or 0.0
