"""The service's file, opened beside the process that uses it, for commands that read or write records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from service.embedded.database import VERSION


class Tables(Protocol):
    """The connections of an open file. ``Database`` implements this, too."""

    def reading(self) -> sqlite3.Connection: ...

    def writing(self) -> AbstractContextManager[sqlite3.Connection]: ...


class StateFile:
    """An open file for one thread. The write-ahead log allows this while the service runs."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ValueError(f"source.state {path}: there is no such file, the service has not run yet")
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error as error:
            raise ValueError(f"source.state {path}: {error}") from None
        if version != VERSION:
            raise ValueError(f"source.state {path}: it has version {version}, this is {VERSION}")

    def reading(self) -> sqlite3.Connection:
        """Return the connection for reading committed data."""
        return self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction. It is on the disk at the end of the block."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._connection.close()
