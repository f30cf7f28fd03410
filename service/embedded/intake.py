"""The intake: a log of records in the database, in place of an input topic.

Sources append to it. Each source's position is in the same transaction as its records, so a restart neither loses
nor repeats records. Appends that wait at the same time share a transaction, since each transaction waits for the
disk.
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
from service.embedded.state_file import Tables
from service.settings import RecordMapping

_MOST_AT_ONCE = 20_000  # records per transaction


class IntakeRecord(NamedTuple):
    """A record of the intake, in the form that a partition takes."""

    offset: int
    timestamp: int  # when it was received, milliseconds
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


def records_between(tables: Tables, first: int, end: int, most: int = -1) -> Iterator[IntakeRecord]:
    """Yield the records from ``first`` to before ``end``."""
    found: Iterable[tuple[Any, ...]] = tables.reading().execute(
        "SELECT offset, received, source, format, key, value FROM intake WHERE offset >= ? AND offset < ?"
        " ORDER BY offset LIMIT ?",
        (first, end, most),
    )
    return (IntakeRecord(*row) for row in found)


class Intake:
    """The log. Any thread may call ``append``."""

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
        """Append records. When they are on the disk, the future gets the offset of the last one."""
        now = int(time.time() * 1000) if received is None else received
        batch = _Append(source, format, values, now, position, Future())
        self._waiting.put(batch)
        return batch.done

    def format_of(self, mapping: RecordMapping) -> int:
        """Return the number of a mapping, so that records can be decoded after the configuration has changed."""
        text = msgspec.json.encode(mapping).decode()
        with self._database.writing() as database:
            database.execute("INSERT OR IGNORE INTO formats (mapping) VALUES (?)", (text,))
            return int(database.execute("SELECT format FROM formats WHERE mapping = ?", (text,)).fetchone()[0])

    def mapping_of(self, format: int) -> RecordMapping:
        """Return the mapping that has this number."""
        found = self._database.reading().execute("SELECT mapping FROM formats WHERE format = ?", (format,)).fetchone()
        return msgspec.json.decode(found[0], type=RecordMapping)

    def position_of(self, source: str) -> bytes | None:
        """Return a source's position, or None if the source is new."""
        found = self._database.reading().execute("SELECT position FROM sources WHERE source = ?", (source,)).fetchone()
        return None if found is None else found[0]

    def close(self) -> None:
        """Write all waiting records. No thread may append any more."""
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
        except Exception as error:  # most likely a full disk; the callers that wait report it
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
        """The number of records that wait for the detectors."""
        return self._next_offset - self._worked_off

    def wait(self, seconds: float) -> None:
        """Wait until there are records to process, at most this many seconds."""
        if self.backlog == 0:
            self._came.wait(seconds)
        self._came.clear()

    def records(self, first: int, end: int, most: int = -1) -> Iterator[IntakeRecord]:
        """Yield the records from ``first`` to before ``end``."""
        return records_between(self._database, first, end, most)

    def new_records(self, most: int) -> list[IntakeRecord]:
        """Return the records that are not processed yet."""
        return list(self.records(self._worked_off, 2**62, most))

    def worked_off(self, next_offset: int) -> None:
        """Mark everything before ``next_offset`` as processed and committed."""
        self._worked_off = next_offset
