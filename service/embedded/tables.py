"""What the worker leaves in the database at the end of a cycle, and what others read there.

``commit`` writes it all in one transaction: events, states, dead letters, snapshots and the position in the intake.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from typing import NamedTuple

from service.api.backend import StoredEvent
from service.embedded.database import Database
from service.runtime.snapshot_store import Saved
from service.sensors.partition import Output
from service.wire import messages


class Position(NamedTuple):
    """How far the worker has come; as ``service.kafka.input.Commit``, with the offset."""

    next_offset: int
    unsaved_from: int  # from here to the next offset the intake is replayed at a restore
    clock: int  # stream time, microseconds
    began: int


class SnapshotTable:
    """Sensors' saved states; has the interface of ``service.store.Store``, for a partition to read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, partition: int, sensor: str) -> Saved | None:
        """A sensor's state; None where it has none."""
        found = self._database.reading().execute(
            "SELECT next_offset, newest, generation, state FROM sensors WHERE sensor = ?", (sensor,)
        )
        row = found.fetchone()
        return None if row is None else Saved(*row)

    def last_seen(self, partition: int) -> dict[str, int]:
        """The time of every sensor's newest reading."""
        return dict(self._database.reading().execute("SELECT sensor, newest FROM sensors"))

    def next_offsets(self, partition: int) -> dict[str, int]:
        """What every sensor's state has seen; none can be ahead of the worker, unless it is damaged."""
        found = "SELECT sensor, next_offset FROM sensors WHERE next_offset <= (SELECT next_offset FROM position)"
        return dict(self._database.reading().execute(found))

    def delete(self, partition: int, sensor: str) -> None:
        """Nothing to do: it goes in the cycle's transaction."""

    def put(self, partition: int, sensors: Iterable[tuple[str, Saved]]) -> None:
        """Nothing to do: they were written in the cycle's transaction."""


def position(database: Database) -> Position:
    """Where the worker stands."""
    found = database.reading().execute("SELECT next_offset, unsaved_from, clock, began FROM position").fetchone()
    return Position(*found)


def commit(
    database: Database, outputs: list[Output], snapshots: list[tuple[str, Saved]], standing: Position,
    keep_events: int, keep_dead_letters: int, forgotten: Iterable[str] = (),
) -> None:  # fmt: skip
    """A cycle, all or nothing. Nothing is kept of the sensors in ``forgotten`` but what the cycle itself has to say."""
    now = int(time.time() * 1000)
    events = [
        (now, output.key.decode(), *_id_and_status(output.value), output.value)
        for output in outputs
        if output.kind == "events"
    ]
    states = {output.key.decode(): output.value for output in outputs if output.kind == "states"}
    letters = [(now, _reason(output.value), output.value) for output in outputs if output.kind == "dead_letters"]
    with database.writing() as writing:
        for table in ("sensors", "states", "events"):
            writing.executemany(f"DELETE FROM {table} WHERE sensor = ?", [(sensor,) for sensor in forgotten])
        writing.executemany("INSERT INTO events (committed, sensor, id, status, value) VALUES (?, ?, ?, ?, ?)", events)
        writing.executemany("INSERT OR REPLACE INTO states VALUES (?, ?)", states.items())
        writing.executemany("INSERT INTO dead_letters (committed, reason, value) VALUES (?, ?, ?)", letters)
        writing.executemany(
            "INSERT OR REPLACE INTO sensors VALUES (?, ?, ?, ?, ?)", ((name, *saved) for name, saved in snapshots)
        )
        writing.execute("UPDATE position SET next_offset = ?, unsaved_from = ?, clock = ?, began = ?", standing)
        writing.execute("DELETE FROM intake WHERE offset < ?", (standing.unsaved_from,))
        if events:
            _keep_newest(writing, "events", keep_events)
        if letters:
            _keep_newest(writing, "dead_letters", keep_dead_letters)


def _keep_newest(writing: sqlite3.Connection, table: str, most: int) -> None:
    writing.execute(f"DELETE FROM {table} WHERE seq <= (SELECT max(seq) FROM {table}) - ?", (most,))


def _id_and_status(value: bytes) -> tuple[str | None, str]:
    event = messages.decode(value)
    assert isinstance(event, messages.Event)
    return None if isinstance(event, messages.Notice) else event.id, messages.status_of(event)


def _reason(value: bytes) -> str:
    letter = messages.decode(value)
    assert isinstance(letter, messages.DeadLetter)
    return letter.reason


# For the API and for sinks


def events_between(
    database: Database, between: tuple[int, int], limit: int, sensor: str | None = None, status: str | None = None,
    newest_first: bool = False,
) -> list[StoredEvent]:  # fmt: skip
    """Events after the first number and before the second, of a sensor or of a status."""
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
    return [StoredEvent(*row) for row in found]


def last_event(database: Database) -> int:
    """The number of the newest event; 0 before the first."""
    return database.reading().execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]


def cursor(database: Database, name: str) -> int:
    """The number of the last event that a reader of events is done with."""
    found = database.reading().execute("SELECT seq FROM cursors WHERE name = ?", (name,)).fetchone()
    return 0 if found is None else found[0]


def move_cursor(database: Database, name: str, seq: int) -> None:
    """A reader of events is done with them up to ``seq``."""
    with database.writing() as writing:
        writing.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (name, seq))
