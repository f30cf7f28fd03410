"""The tables of control records and state names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from service.embedded.state_file import Tables
from service.operations.control import Changes, ControlBook
from service.operations.names import NameBook


class ReplacedState(Protocol):
    """State folded from records."""

    def replace(self, records: Mapping[str, bytes]) -> None: ...


_Replaced = TypeVar("_Replaced", bound=ReplacedState)


class RecordTable(Generic[_Replaced]):
    """Keeps a book up to date with a table of records by key. Any process may write to the table."""

    def __init__(self, tables: Tables, table: str, book: _Replaced) -> None:
        self.book = book
        self._tables, self._table = tables, table
        self._last: dict[str, bytes] = {}

    def poll(self) -> None:
        """Apply what has changed in the table."""
        found = dict(self._tables.reading().execute(f"SELECT key, value FROM {self._table}"))
        if found != self._last:
            self._last = found
            self.book.replace(found)

    def read(self) -> _Replaced:
        """Return the book, up to date."""
        self.poll()
        return self.book

    def write(self, changes: Changes) -> None:
        """Write records and delete those whose value is None. Returns when the changes are on the disk."""
        said = [(key, value) for key, value in changes.items() if value is not None]
        taken_back = [(key,) for key, value in changes.items() if value is None]
        with self._tables.writing() as writing:
            writing.executemany(f"DELETE FROM {self._table} WHERE key = ?", taken_back)
            writing.executemany(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", said)


class ControlTable(RecordTable[ControlBook]):
    """The table of control records."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables, "control", ControlBook())


class NameTable(RecordTable[NameBook]):
    """The table of state names."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables, "state_names", NameBook())
