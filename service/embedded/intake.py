"""Records on their way to the detectors: a log in the database, which takes the place of an input topic.

Sources append to it, each with its own position in the same transaction, so that a restart neither loses nor repeats.
Whoever waits at the same time shares a transaction, since each costs a wait for the disk.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import msgspec

from service.embedded.database import Database
from service.settings import RecordMapping

_MOST_AT_ONCE = 20_000  # records of one transaction


class IntakeRecord(NamedTuple):
    """A record of the log, as a partition takes it."""

    offset: int
    timestamp: int  # when it came, milliseconds
    topic: str  # the source
    format: int
    key: bytes | None
    value: bytes | None
    partition: int = 0


class _Append(NamedTuple):
    source: str
    format: int
    values: Sequence[bytes]
    received: int
    position: bytes | None
    done: Future[int]


class Intake:
    """The log. ``append`` may be called from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        found = database.reading().execute("SELECT seq FROM sqlite_sequence WHERE name = 'intake'").fetchone()
        self._next_offset: int = 1 if found is None else found[0] + 1
        self._worked_off: int = database.reading().execute("SELECT next_offset FROM position").fetchone()[0]
        self._waiting: queue.SimpleQueue[_Append | None] = queue.SimpleQueue()
        self._came = threading.Event()
        self._writer = threading.Thread(target=self._write, name="intake", daemon=True)
        self._writer.start()

    # In

    def append(
        self, source: str, format: int, values: Sequence[bytes], received: int | None = None,
        position: bytes | None = None,
    ) -> Future[int]:  # fmt: skip
        """Append records; the future has the offset of the last one once they are on the disk."""
        now = int(time.time() * 1000) if received is None else received
        batch = _Append(source, format, values, now, position, Future())
        self._waiting.put(batch)
        return batch.done

    def format_of(self, mapping: RecordMapping) -> int:
        """The number under which the log knows how a record is decoded: also after the configuration has changed."""
        text = msgspec.json.encode(mapping).decode()
        with self._database.writing() as database:
            database.execute("INSERT OR IGNORE INTO formats (mapping) VALUES (?)", (text,))
            return int(database.execute("SELECT format FROM formats WHERE mapping = ?", (text,)).fetchone()[0])

    def mapping_of(self, format: int) -> RecordMapping:
        """The mapping of a number."""
        found = self._database.reading().execute("SELECT mapping FROM formats WHERE format = ?", (format,)).fetchone()
        return msgspec.json.decode(found[0], type=RecordMapping)

    def position_of(self, source: str) -> bytes | None:
        """How far a source had come; None where it is new."""
        found = self._database.reading().execute("SELECT position FROM sources WHERE source = ?", (source,)).fetchone()
        return None if found is None else found[0]

    def close(self) -> None:
        """Write what waits; nobody may append any more."""
        self._waiting.put(None)
        self._writer.join()

    def _write(self) -> None:
        is_open = True
        while is_open:
            batches = [self._waiting.get()]
            size = 0
            while size < _MOST_AT_ONCE and batches[-1] is not None:
                size += len(batches[-1].values)
                try:
                    batches.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            is_open = batches[-1] is not None
            self._write_together([batch for batch in batches if batch is not None])

    def _write_together(self, batches: list[_Append]) -> None:
        offset = self._next_offset
        lasts = []
        rows = []
        for batch in batches:
            head = batch.received, batch.source, batch.format
            rows += [(offset + i, *head, value) for i, value in enumerate(batch.values)]
            offset += len(batch.values)
            lasts.append(offset - 1)
        positions = [(batch.source, batch.position) for batch in batches if batch.position is not None]
        try:
            with self._database.writing() as database:
                database.executemany(
                    "INSERT INTO intake (offset, received, source, format, value) VALUES (?, ?, ?, ?, ?)", rows
                )
                database.executemany("INSERT OR REPLACE INTO sources VALUES (?, ?)", positions)
        except Exception as error:  # a full disk, most likely: theirs to say who wait
            for batch in batches:
                batch.done.set_exception(error)
            return
        self._next_offset = offset
        self._came.set()
        for batch, last in zip(batches, lasts, strict=True):
            batch.done.set_result(last)

    # Out

    @property
    def backlog(self) -> int:
        """Records that wait for the detectors."""
        return self._next_offset - self._worked_off

    def wait(self, seconds: float) -> None:
        """Wait until there is something to do, at most so long."""
        if self.backlog == 0:
            self._came.wait(seconds)
        self._came.clear()

    def records(self, first: int, end: int, most: int = -1) -> Iterator[IntakeRecord]:
        """Records from ``first`` to before ``end``."""
        found: Iterable[tuple[Any, ...]] = self._database.reading().execute(
            "SELECT offset, received, source, format, key, value FROM intake WHERE offset >= ? AND offset < ?"
            " ORDER BY offset LIMIT ?",
            (first, end, most),
        )
        return (IntakeRecord(*row) for row in found)

    def new_records(self, most: int) -> list[IntakeRecord]:
        """The records that nobody has worked off."""
        return list(self.records(self._worked_off, 2**62, most))

    def worked_off(self, next_offset: int) -> None:
        """Everything before ``next_offset`` is done and committed."""
        self._worked_off = next_offset
