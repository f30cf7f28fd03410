"""Committed events in the file, for sinks and for people who follow them."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence

from service.delivery import Committed
from service.embedded.visit import Tables

log = logging.getLogger(__name__)

_MOST_EVENTS = 100
_LOOK_EVERY = 0.1
_TRY_AGAIN = 1.0


class TableEvents:
    """A sink's way through the events: its cursor stands under its name.

    One that has not read before begins ``since`` seconds ago: what is older is not sent anyway.
    """

    def __init__(self, tables: Tables, name: str, since: float) -> None:
        self._tables = tables
        self._name = name
        reading = tables.reading()
        found = reading.execute("SELECT seq FROM cursors WHERE name = ?", (name,)).fetchone()
        if found is None:
            begin = int((time.time() - since) * 1000)
            found = reading.execute("SELECT coalesce(max(seq), 0) FROM events WHERE committed < ?", (begin,)).fetchone()
        self._cursor = int(found[0])

    def read(self, timeout: float) -> Sequence[Committed]:
        """The next events in their order."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                found = _after(self._tables, self._cursor)
            except sqlite3.Error as error:
                log.warning("events of sink %s cannot be read yet: %s", self._name, error)
                time.sleep(_TRY_AGAIN)
                return []
            if found or time.monotonic() > deadline:
                return found
            time.sleep(_LOOK_EVERY)

    def done(self, events: Sequence[Committed]) -> None:
        """Move the cursor behind these. Where the disk does not take it, they may be sent once more after a restart."""
        if not events:
            return
        self._cursor = events[-1].place
        try:
            with self._tables.writing() as writing:
                writing.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (self._name, self._cursor))
        except sqlite3.Error as error:
            log.warning("the cursor of sink %s is not saved: %s", self._name, error)

    def close(self) -> None:
        """Nothing of its own is open."""


def follow(tables: Tables, *, from_beginning: bool, until_end: bool) -> Iterator[tuple[bytes, int]]:
    """Events with the times at which they were committed (ms): those that come from now on, or all."""
    last = tables.reading().execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
    cursor = 0 if from_beginning else last
    while True:
        found = _after(tables, cursor)
        for event in found:
            if until_end and event.place > last:
                return
            yield event.value, event.published
            cursor = event.place
        if not found:
            if until_end:
                return
            time.sleep(_LOOK_EVERY)


def _after(tables: Tables, seq: int) -> list[Committed]:
    found = tables.reading().execute(
        "SELECT value, committed, seq FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (seq, _MOST_EVENTS)
    )
    return [Committed(*row) for row in found]
