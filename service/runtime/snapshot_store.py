"""The last committed state of every sensor, on disk. Evicted detectors are loaded from here.

The store is a cache of the changelog topic in SQLite. Every assignment of a partition fills it anew, so losing it
costs a restore and nothing else. Hence it has no journal and does not wait for the disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from service import files
from service.sensors.saved import Saved


class SnapshotStore:
    """Sensors' states by partition."""

    def __init__(self, path: Path) -> None:
        for leftover in (path, Path(f"{path}-journal")):
            leftover.unlink(missing_ok=True)
        files.create(path, files.STATE)
        self._path = path
        # The API reads sensors from threads of its own, but never at the same time as the worker.
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(
            "CREATE TABLE sensors (part INTEGER, sensor TEXT, next_offset INTEGER, newest INTEGER,"
            " generation INTEGER, state BLOB, PRIMARY KEY (part, sensor)) WITHOUT ROWID"
        )

    def put(self, partition: int, sensors: Iterable[tuple[str, Saved]]) -> None:
        """Write sensors' states, in place of existing ones."""
        rows = ((partition, sensor, *saved) for sensor, saved in sensors)
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR REPLACE INTO sensors VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._database.execute("COMMIT")

    def get(self, partition: int, sensor: str) -> Saved | None:
        """Return a sensor's state, or None if it has none."""
        found = self._database.execute(
            "SELECT next_offset, newest, generation, state FROM sensors WHERE part = ? AND sensor = ?",
            (partition, sensor),
        ).fetchone()
        return None if found is None else Saved(*found)

    def last_seen(self, partition: int) -> dict[str, int]:
        """Return the time of the newest reading by sensor."""
        return dict(self._database.execute("SELECT sensor, newest FROM sensors WHERE part = ?", (partition,)))

    def next_offsets(self, partition: int) -> dict[str, int]:
        """Return the next offset by sensor: its state has seen everything before."""
        return dict(self._database.execute("SELECT sensor, next_offset FROM sensors WHERE part = ?", (partition,)))

    def delete(self, partition: int, sensor: str) -> None:
        """Delete a sensor."""
        self._database.execute("DELETE FROM sensors WHERE part = ? AND sensor = ?", (partition, sensor))

    def drop(self, partition: int) -> None:
        """Delete all sensors of a partition."""
        self._database.execute("DELETE FROM sensors WHERE part = ?", (partition,))

    def close(self) -> None:
        """Close the store and delete its file."""
        self._database.close()
        self._path.unlink(missing_ok=True)
