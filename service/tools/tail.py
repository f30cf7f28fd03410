"""Events as lines for people."""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime
from typing import TextIO

import msgspec

from service.operations.control import ControlBook
from service.sources.plant import Planted
from service.wire import messages
from service.wire.readings import from_rfc3339

# ANSI, by what a line says
_COLOURS = {
    "ALARM": "1;31", "cleared": "32", "provisional": "0", "confirmed": "0", "relocated": "2", "retracted": "2",
    "silent": "31", "back": "32", "new generation": "35", "accepted": "32",
    "planted": "2",
}  # fmt: skip
_WIDEST_SENSOR = 32


def decode(value: bytes) -> messages.Event | None:
    """The event; None for what is none of ours."""
    try:
        message = messages.decode(value)
    except msgspec.DecodeError:
        return None
    return message if isinstance(message, messages.Event) else None


def line(message: messages.Event) -> tuple[str, str, str, str, str]:
    """Return time, sensor, status, words and, for a change, how probable it is.

    The time is the one at which this could be said; where a change lies further back, the words say when it was.
    """
    if isinstance(message, messages.Notice):
        return clock(message.time), message.sensor, message.kind.replace("_", " "), message.why, ""
    if isinstance(message, messages.AlarmEvent):
        status = "ALARM" if message.status == "raised" else "cleared"
        return clock(message.at.time), message.sensor, status, message.summary, ""
    if isinstance(message, messages.StateEvent):
        probable = "" if message.probability is None else percent(message.probability)
        return clock(message.at.time), message.sensor, message.status.replace("_", " "), message.summary, probable
    unit = message.labels.get("unit")
    summary = message.summary + (f" {unit}" if unit and "->" in message.summary and "," not in message.summary else "")
    at = clock(message.at.time)
    if message.time is not None and clock(message.time) != at and message.status != "retracted":
        summary += f", since {clock(message.time)}"
    probable = "" if message.probability is None else f"{percent(message.probability)}"
    return at, message.sensor, message.status, summary, probable


def remarks(message: messages.Event, published: int, book: ControlBook, with_id: bool = False) -> str:
    """What people have said of an event, and its id. ``published``: in milliseconds."""
    found = []
    if with_id and not isinstance(message, messages.Notice):
        found.append(message.id)
    if book.is_muted(message.sensor, published * 1000) is not None:
        found.append("muted")
    seen = None if isinstance(message, messages.Notice) else book.acknowledgement(message.id)
    if seen is not None:
        found.append(f"acknowledged{f' by {seen.by}' if seen.by else ''}{f': {seen.note}' if seen.note else ''}")
    return ", ".join(found)


def percent(probability: float) -> str:
    """With as many nines as matter, and never a round 100 % that nobody can be sure of.

    >>> percent(0.5), percent(0.987), percent(0.99996), percent(1.0)
    ('50 %', '98.7 %', '> 99.9 %', '> 99.9 %')
    """
    if probability > 0.999:
        return "> 99.9 %"
    return f"{100.0 * probability:.3g} %"


def clock(moment: str | None) -> str:
    """The time of day here; with the date where it is not today's."""
    if moment is None:
        return "?"
    local = datetime.fromtimestamp(from_rfc3339(moment) / 1e6).astimezone()
    pattern = "%H:%M:%S" if local.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M:%S"
    return local.strftime(pattern)


class Printer:
    """Prints lines in columns, in colour on a terminal (unless NO_COLOR is set)."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._in_colour = self._out.isatty() and "NO_COLOR" not in os.environ
        self._width = 28

    def __call__(
        self, moment: str, sensor: str, status: str, words: str, probable: str = "", remarks: str = ""
    ) -> None:
        """One line."""
        self._width = min(_WIDEST_SENSOR, max(self._width, len(sensor)))
        said = f"{status:<14}"
        if self._in_colour:
            said = f"\x1b[{_COLOURS.get(status, '0')}m{said}\x1b[0m"
        tail = (f"  ({probable})" if probable else "") + (f"  [{remarks}]" if remarks else "")
        print(f"{moment}  {sensor:<{self._width}}  {said}  {words}{tail}", file=self._out, flush=True)

    def planted(self, fault: Planted) -> None:
        """Print a line about a fault of the demo plant."""
        self(time.strftime("%H:%M:%S"), fault.sensor, "planted", fault.words)

    def note(self, words: str) -> None:
        """Print a line of its own."""
        print(words, file=self._out, flush=True)
