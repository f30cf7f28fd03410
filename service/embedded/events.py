"""Committed events in the file, for sinks and for commands that follow them."""

from __future__ import annotations

import heapq
import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence

from service.embedded.state_file import Tables
from service.operations.control import Changes
from service.sinks.delivery import CommittedEvent

log = logging.getLogger(__name__)

_MOST_EVENTS = 100
_LOOK_EVERY = 0.1
_TRY_AGAIN = 1.0


class TableEvents:
    """Reads events for a sink, and incidents if the sink gets them. Its cursors and records are stored under its name.

    A sink that has not read before begins ``since`` seconds ago. Older events are not sent anyway.
    """

    def __init__(self, tables: Tables, name: str, since: float, incidents: bool = False) -> None:
        self._tables = tables
        self._name = name
        self._cursors = {
            table: self._begin(table, since) for table in ("events", *(["incidents"] if incidents else []))
        }
        self._unsaved: dict[str, bytes | None] = {}
        self._remembered: dict[str, bytes] | None = dict(
            tables.reading().execute("SELECT key, value FROM sinks WHERE sink = ?", (name,))
        )

    def _begin(self, table: str, since: float) -> int:
        reading = self._tables.reading()
        found = reading.execute("SELECT seq FROM cursors WHERE name = ?", (self._cursor_name(table),)).fetchone()
        if found is None:
            begin = int((time.time() - since) * 1000)
            found = reading.execute(
                f"SELECT coalesce(max(seq), 0) FROM {table} WHERE committed < ?", (begin,)
            ).fetchone()
        return int(found[0])

    def _cursor_name(self, table: str) -> str:
        return self._name if table == "events" else f"{self._name}/{table}"  # a sink's name has no slash

    def read(self, timeout: float) -> Sequence[CommittedEvent]:
        """Return the next events in the order of their commits."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                found = [_after(self._tables, cursor, table) for table, cursor in self._cursors.items()]
            except sqlite3.Error as error:
                log.warning("events of sink %s cannot be read yet: %s", self._name, error)
                time.sleep(_TRY_AGAIN)
                return []
            if any(found) or time.monotonic() > deadline:
                return list(heapq.merge(*found, key=lambda event: event.published))
            time.sleep(_LOOK_EVERY)

    def done(self, events: Sequence[CommittedEvent], changes: Changes) -> None:
        """Move the cursors behind these events and save the sink's records, in one transaction.

        If the write fails, the events may be sent once more after a restart.
        """
        moved = dict(event.place for event in events)
        self._cursors |= moved
        self._write(changes, {self._cursor_name(table): seq for table, seq in moved.items()})

    def save(self, changes: Changes) -> None:
        """Save the sink's records."""
        self._write(changes, {})

    def _write(self, changes: Changes, cursors: Mapping[str, int]) -> None:
        self._unsaved |= changes
        if not self._unsaved and not cursors:
            return
        saved = [(self._name, key, value) for key, value in self._unsaved.items() if value is not None]
        deleted = [(self._name, key) for key, value in self._unsaved.items() if value is None]
        try:
            with self._tables.writing() as writing:
                writing.executemany("DELETE FROM sinks WHERE sink = ? AND key = ?", deleted)
                writing.executemany("INSERT OR REPLACE INTO sinks VALUES (?, ?, ?)", saved)
                writing.executemany("INSERT OR REPLACE INTO cursors VALUES (?, ?)", cursors.items())
            self._unsaved = {}
        except sqlite3.Error as error:
            log.warning("the position of sink %s is not saved: %s", self._name, error)

    def remembered(self) -> Mapping[str, bytes] | None:
        """Return the sink's records at the first call, and None after it. Only the sink changes them."""
        found, self._remembered = self._remembered, None
        return found

    def close(self) -> None:
        """Do nothing: the reader has nothing of its own open."""


def follow(tables: Tables, *, from_beginning: bool, until_end: bool) -> Iterator[tuple[bytes, int]]:
    """Yield events with the times of their commits (ms): new ones only, or all."""
    last = tables.reading().execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
    cursor = 0 if from_beginning else last
    while True:
        found = _after(tables, cursor)
        for event in found:
            _, seq = event.place
            if until_end and seq > last:
                return
            yield event.value, event.published
            cursor = seq
        if not found:
            if until_end:
                return
            time.sleep(_LOOK_EVERY)


def _after(tables: Tables, seq: int, table: str = "events") -> list[CommittedEvent]:
    found = tables.reading().execute(
        f"SELECT value, committed, seq FROM {table} WHERE seq > ? ORDER BY seq LIMIT ?", (seq, _MOST_EVENTS)
    )
    return [CommittedEvent(value, committed, (table, seq)) for value, committed, seq in found]
