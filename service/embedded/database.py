"""The SQLite file that holds everything: readings on their way, sensors' states, events, and the positions of readers.

It has a write-ahead log. All writes are transactions of one connection, and a committed transaction is on the disk.
Readers have connections of their own and wait for nothing. Only one process at a time can open the file.
"""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service import files

VERSION = 1
# Raised by a transaction that is not on the disk.
WriteFailed = sqlite3.Error
_TABLES = """
CREATE TABLE formats (format INTEGER PRIMARY KEY, mapping TEXT NOT NULL UNIQUE);
CREATE TABLE intake (
    offset INTEGER PRIMARY KEY AUTOINCREMENT, received INTEGER NOT NULL, source TEXT NOT NULL,
    format INTEGER NOT NULL, key BLOB, value BLOB
);
CREATE TABLE sources (source TEXT PRIMARY KEY, position BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE position (
    only INTEGER PRIMARY KEY CHECK (only = 0), next_offset INTEGER NOT NULL, unsaved_from INTEGER NOT NULL,
    clock INTEGER NOT NULL, began INTEGER NOT NULL
);
CREATE TABLE sensors (
    sensor TEXT PRIMARY KEY, next_offset INTEGER NOT NULL, newest INTEGER NOT NULL, generation INTEGER NOT NULL,
    state BLOB NOT NULL
);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, committed INTEGER NOT NULL, sensor TEXT NOT NULL, id TEXT,
    status TEXT NOT NULL, value BLOB NOT NULL
);
CREATE INDEX events_of_sensor ON events (sensor, seq);
CREATE TABLE states (sensor TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE dead_letters (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, committed INTEGER NOT NULL, reason TEXT NOT NULL, value BLOB NOT NULL
);
CREATE TABLE cursors (name TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE control (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO position VALUES (0, 1, 1, 0, 1);
"""
# Tables that were added later, so older files lack them. Older readers of the same version do not need them.
_LATER_TABLES = """
CREATE TABLE IF NOT EXISTS state_names (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sinks (
    sink TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (sink, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS incidents (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, committed INTEGER NOT NULL, id TEXT NOT NULL, value BLOB NOT NULL
);
"""


class Database:
    """The open file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for file in (path, Path(f"{path}.lock")):
            files.create(file, files.STATE)
        self._held = open(f"{path}.lock", "w")  # noqa: SIM115 - held as long as we run
        # Lock the file itself, too: through a link it has another path. It is closed after SQLite's own connections,
        # since closing any descriptor of a file gives up the locks that SQLite holds on it.
        self._file = open(path, "ab")  # noqa: SIM115 - likewise
        try:
            for held in (self._held, self._file):
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._release()
            raise ValueError(f"source.state {path}: another process works with it") from None
        self._lock = threading.Lock()
        self._of_thread = threading.local()
        self._readers: list[sqlite3.Connection] = []
        try:
            self._writer = self._connect()
            self._prepare()
        except sqlite3.Error as error:
            self._release()
            raise ValueError(f"source.state {path}: {error}") from None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30.0)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _prepare(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"it has version {version}, this is {VERSION}")
        self._writer.execute("PRAGMA journal_mode = WAL")
        if version == 0:
            self._writer.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
        self._writer.executescript(_LATER_TABLES)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction. At the end of the block all of it is on the disk; if the block fails, nothing is."""
        with self._lock:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def reading(self) -> sqlite3.Connection:
        """Return this thread's connection for reading committed data."""
        connection = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._of_thread.connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            self._readers.append(connection)
        return connection

    def close(self) -> None:
        """Close all connections and release the file. No thread may be using it any more."""
        with self._lock:
            for connection in (*self._readers, self._writer):
                connection.close()
            self._release()

    def _release(self) -> None:
        self._held.close()
        self._file.close()
