"""Write a cycle to the database, and read what was written.

``commit`` writes everything in one transaction: events, states, dead letters, snapshots and the position in the intake.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from service.embedded.database import Database
from service.embedded.state_file import Tables
from service.runtime.log import Cycle
from service.runtime.observers import StoredEvent
from service.sensors.saved import Saved
from service.wire import messages
from service.wire.readings import Reading


class StoredPosition(NamedTuple):
    """The worker's position in the intake."""

    next_offset: int
    unsaved_from: int  # a restore replays the intake from here to the next offset
    clock: int  # stream time, microseconds
    began: int


class SnapshotTable:
    """Sensors' saved states, with the interface of ``runtime.snapshot_store.SnapshotStore`` for a partition."""

    def __init__(self, database: Tables) -> None:
        self._database = database

    def get(self, partition: int, sensor: str) -> Saved | None:
        """Return a sensor's state, or None if it has none."""
        found = self._database.reading().execute(
            "SELECT next_offset, newest, generation, state FROM sensors WHERE sensor = ?", (sensor,)
        )
        row = found.fetchone()
        return None if row is None else Saved(*row)

    def last_seen(self, partition: int) -> dict[str, int]:
        """Return the time of the newest reading by sensor."""
        return dict(self._database.reading().execute("SELECT sensor, newest FROM sensors"))

    def next_offsets(self, partition: int) -> dict[str, int]:
        """Return the next offset by sensor: its state has seen everything before.

        States that are ahead of the worker's position are left out, since they are damaged.
        """
        found = "SELECT sensor, next_offset FROM sensors WHERE next_offset <= (SELECT next_offset FROM position)"
        return dict(self._database.reading().execute(found))

    def delete(self, partition: int, sensor: str) -> None:
        """Do nothing: the cycle's transaction deletes the sensor."""

    def put(self, partition: int, sensors: Iterable[tuple[str, Saved]]) -> None:
        """Do nothing: the cycle's transaction has written the states."""


def position(database: Tables) -> StoredPosition:
    """Return the worker's position."""
    found = database.reading().execute("SELECT next_offset, unsaved_from, clock, began FROM position").fetchone()
    return StoredPosition(*found)


def commit(
    database: Database, cycle: Cycle, standing: StoredPosition, keep_events: int, keep_dead_letters: int
) -> None:
    """Commit a cycle, all or nothing."""
    now = int(time.time() * 1000)
    events, states, letters = [], {}, []
    for _, output in cycle.outputs:
        message, value = output.message, output.encoded()
        if isinstance(message, messages.StateRecord | messages.StateDictionary):
            states[output.key.decode()] = value
        elif isinstance(message, messages.DeadLetter):
            letters.append((now, message.reason, value))
        elif not isinstance(message, Reading):
            identity = None if isinstance(message, messages.Notice) else message.id
            events.append((now, message.sensor, identity, messages.status_of(message), value))
    snapshots = [(name, *saved) for saved_ones in cycle.snapshots.values() for name, saved in saved_ones]
    with database.writing() as writing:
        for table in ("sensors", "states", "events"):
            writing.executemany(f"DELETE FROM {table} WHERE sensor = ?", [(sensor,) for _, sensor in cycle.forgotten])
        dictionaries = [(messages.dictionary_key(sensor).decode(),) for _, sensor in cycle.forgotten]
        writing.executemany("DELETE FROM states WHERE sensor = ?", dictionaries)
        writing.executemany("INSERT INTO events (committed, sensor, id, status, value) VALUES (?, ?, ?, ?, ?)", events)
        writing.executemany("INSERT OR REPLACE INTO states VALUES (?, ?)", states.items())
        writing.executemany("INSERT INTO dead_letters (committed, reason, value) VALUES (?, ?, ?)", letters)
        writing.executemany("INSERT OR REPLACE INTO sensors VALUES (?, ?, ?, ?, ?)", snapshots)
        writing.execute("UPDATE position SET next_offset = ?, unsaved_from = ?, clock = ?, began = ?", standing)
        writing.execute("DELETE FROM intake WHERE offset < ?", (standing.unsaved_from,))
        if events:
            _keep_newest(writing, "events", keep_events)
        if letters:
            _keep_newest(writing, "dead_letters", keep_dead_letters)


def _keep_newest(writing: sqlite3.Connection, table: str, most: int) -> None:
    writing.execute(f"DELETE FROM {table} WHERE seq <= (SELECT max(seq) FROM {table}) - ?", (most,))


# For the API and for sinks


def events_between(
    database: Database, between: tuple[int, int], limit: int, sensor: str | None = None, status: str | None = None,
    newest_first: bool = False,
) -> list[StoredEvent]:  # fmt: skip
    """Return the events after the first number and before the second, of a sensor or with a status."""
    conditions, arguments = ["seq > ?", "seq < ?"], [*between]
    for column, wanted in (("sensor", sensor), ("status", status)):
        if wanted is not None:
            conditions.append(f"{column} = ?")
            arguments.append(wanted)  # type: ignore[arg-type]
    found = database.reading().execute(
        f"SELECT seq, committed, value FROM events WHERE {' AND '.join(conditions)}"
        f" ORDER BY seq {'DESC' if newest_first else 'ASC'} LIMIT ?",
        (*arguments, limit),
    )
    return [StoredEvent(seq, committed, messages.decode_event(value)) for seq, committed, value in found]


def messages_since(database: Database, since: int) -> Iterator[messages.Message]:
    """Yield the events since a time (ms), and every sensor's state."""
    reading = database.reading()
    for (value,) in reading.execute("SELECT value FROM events WHERE committed >= ? ORDER BY seq", (since,)):
        yield messages.decode(value)
    for (value,) in reading.execute("SELECT value FROM states"):
        yield messages.decode(value)
