"""The tables of what people say, and what a command has to know of sensors and events in the same file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from service.embedded.state_file import Tables, Visit
from service.operations.control import Changes, ControlBook, ControlLog
from service.operations.names import NameBook
from service.settings import Settings
from service.wire import messages


class Book(Protocol):
    """What records come to."""

    def replace(self, records: Mapping[str, bytes]) -> None: ...


_Book = TypeVar("_Book", bound=Book)


class RecordTable(Generic[_Book]):
    """Keeps a book up to date with a table of records by key, which any process may write to."""

    def __init__(self, tables: Tables, table: str, book: _Book) -> None:
        self.book = book
        self._tables, self._table = tables, table
        self._last: dict[str, bytes] = {}

    def poll(self) -> None:
        """Take note of what has changed."""
        found = dict(self._tables.reading().execute(f"SELECT key, value FROM {self._table}"))
        if found != self._last:
            self._last = found
            self.book.replace(found)

    def read(self) -> _Book:
        """All that is said now."""
        self.poll()
        return self.book

    def write(self, changes: Changes) -> None:
        """Say something more; returns when it is on the disk."""
        said = [(key, value) for key, value in changes.items() if value is not None]
        taken_back = [(key,) for key, value in changes.items() if value is None]
        with self._tables.writing() as writing:
            writing.executemany(f"DELETE FROM {self._table} WHERE key = ?", taken_back)
            writing.executemany(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", said)


class ControlTable(RecordTable[ControlBook]):
    """The control records."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables, "control", ControlBook())


class NameTable(RecordTable[NameBook]):
    """The names of states."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables, "state_names", NameBook())


class EmbeddedDesk:
    """A service whose state is in one file."""

    what_stays = "its events go with its state; dead letters stay until newer ones take their place"

    def __init__(self, settings: Settings) -> None:
        self._visit = Visit(settings.source.state)
        self.control: ControlLog = ControlTable(self._visit)

    def generation_of(self, sensor: str) -> int | None:
        """The generation that a sensor is in: of its snapshot, or of its state where it has none yet."""
        reading = self._visit.reading()
        found = reading.execute("SELECT generation FROM sensors WHERE sensor = ?", (sensor,)).fetchone()
        if found is not None:
            return int(found[0])
        found = reading.execute("SELECT value FROM states WHERE sensor = ?", (sensor,)).fetchone()
        state = None if found is None else messages.decode(found[0])
        return state.generation if isinstance(state, messages.StateRecord) else None

    def sensors(self) -> list[str]:
        """All that have a state."""
        found = self._visit.reading().execute("SELECT sensor FROM sensors UNION SELECT sensor FROM states ORDER BY 1")
        return [sensor for (sensor,) in found]

    def events_with(self, beginning: str) -> dict[str, str]:
        """Changes whose ids begin so, with their sensors."""
        found = self._visit.reading().execute(
            "SELECT id, sensor FROM events WHERE substr(id, 1, ?) = ?", (len(beginning), beginning)
        )
        return dict(found)

    def close(self) -> None:
        self._visit.close()
