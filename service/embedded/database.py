"""The one file that holds everything: readings on their way, sensors' states, events, and how far each has come.

SQLite with a write-ahead log. Whoever writes does it in a transaction through the one connection for writing, and what
is committed is on the disk; readers have connections of their own and wait for nobody. One process at a time has it.
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
# What a transaction raises that is not on the disk.
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
# Tables that came later than the files that some people have; readers of the same version need not know them.
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
        # The file itself, too: by a link it has another path. Closed after SQLite's own connections, since closing any
        # descriptor of a file gives up the locks that SQLite holds on it.
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
        """A transaction: all of it is on the disk at the end of the block, or none where the block fails."""
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
        """This thread's connection for reading what is committed."""
        connection = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._of_thread.connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            self._readers.append(connection)
        return connection

    def close(self) -> None:
        """Done with; nobody may be using it any more."""
        with self._lock:
            for connection in (*self._readers, self._writer):
                connection.close()
            self._release()

    def _release(self) -> None:
        self._held.close()
        self._file.close()
