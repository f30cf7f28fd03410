"""Rows of a CSV file or of JSON lines as they arrive, from a file or from a pipe that may have no end.

A line is a row. One that cannot be read is handed on with the reason, and the next one is read.
"""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from ishsmm_stream.commands import _read

FORMATS = ("auto", "csv", "jsonl")
_READ_AT_ONCE = 1 << 16
_SHOWN_OF_A_CELL = 40


class Wanted(NamedTuple):
    """What the rows are to hold."""

    columns: Sequence[str]  # none: the only one beside the other two
    sensor: str | None = None  # column that names the sensor
    time: str | None = None
    whole_below: float | None = None  # values are whole numbers from 0 and below this


class Row(NamedTuple):
    """One observation."""

    line: int  # of the file, from 1
    sensor: str  # "" where there is one only
    time: str  # "" where not asked for
    values: tuple[float, ...]  # NaN where missing


class BadRow(NamedTuple):
    """A row that is set aside."""

    line: int
    reason: str


class Lines:
    """Numbered lines of text, each as soon as it is complete."""

    def __init__(self, source: str, file: BinaryIO, size: int | None = None) -> None:
        self.source = source  # what messages call them
        self.size = size  # in bytes, where there is an end
        self.n_bytes = 0
        self.is_interrupted = False
        self._file: Any = file
        self._is_waiting = False
        self._number = 0
        self._complete: deque[bytes] = deque()
        self._begun = b""

    @property
    def are_at_hand(self) -> bool:
        """Whether the next one can be had without waiting."""
        return bool(self._complete)

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> tuple[int, str]:
        while not self.is_interrupted and not self._complete:
            if not self._read():
                raise StopIteration
        if self.is_interrupted:
            raise StopIteration
        self._number += 1
        text = self._complete.popleft().decode("utf-8", errors="replace")
        return self._number, text.lstrip("\ufeff") if self._number == 1 else text

    def _read(self) -> bool:
        """Take in what there is, at least one byte; False at the end."""
        try:
            self._is_waiting = True
            data = self._file.read1(_READ_AT_ONCE)
        except KeyboardInterrupt:
            self.is_interrupted = True
            return False
        finally:
            self._is_waiting = False
        self.n_bytes += len(data)
        if data:
            *lines, self._begun = (self._begun + data).split(b"\n")
            self._complete.extend(lines)
        elif self._begun:
            self._complete.append(self._begun)
            self._begun = b""
        return bool(data or self._complete)

    @contextmanager
    def ending_on_interrupt(self) -> Iterator[None]:
        """Inside, Ctrl-C is an end of the lines, so that nothing stops halfway; a second one stops everything."""

        def interrupt(*_: object) -> None:
            if self._is_waiting or self.is_interrupted:
                raise KeyboardInterrupt
            self.is_interrupted = True

        before = signal.getsignal(signal.SIGINT)
        if before != signal.SIG_IGN:  # as for jobs in the background
            signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def open_lines(path: str) -> Iterator[Lines]:
    """The lines of a file; ``-`` is stdin."""
    if path == "-":
        yield Lines("stdin", sys.stdin.buffer)
        return
    with open(path, "rb") as file:
        yield Lines(path, file, os.fstat(file.fileno()).st_size or None)


class _Unreadable(Exception):
    """Why a row is set aside."""


class RowReader:
    """Reads the header, or the first object, at once, then iterates over the rows.

    ValueError where a column is missing or there is nothing to read.
    """

    def __init__(self, lines: Lines, wanted: Wanted, format: str = "auto") -> None:
        self.columns: tuple[str, ...] = ()
        self._source = lines.source
        self._lines = lines
        self._wanted = wanted
        first = next(((number, text) for number, text in lines if text.strip()), None)
        if first is None:
            if lines.is_interrupted:
                raise KeyboardInterrupt
            raise ValueError(f"{lines.source} is empty: rows are needed, in CSV below a line with column names")
        if format == "auto":
            format = "jsonl" if first[1].lstrip().startswith("{") else "csv"
        self.format = format
        self._numbered: Iterator[tuple[int, str]] = lines
        if format == "csv":
            self._read_header(first[1])
        else:
            self._numbered = chain([first], lines)
            with suppress(_Unreadable):  # it comes again as a row
                self._cells_of_object(first[1])

    def __iter__(self) -> Iterator[Row | BadRow]:
        cells = self._cells_of_line if self.format == "csv" else self._cells_of_object
        blank: list[int] = []
        is_empty = True
        for number, text in self._numbered:
            if not text.strip():
                if self.format == "csv" and len(self._names) == 1:  # a missing value, unless nothing follows
                    blank.append(number)
                continue
            is_empty = False
            yield from (Row(line, "", "", (math.nan,)) for line in blank)
            blank.clear()
            try:
                yield self._row(number, *cells(text))
            except _Unreadable as reason:
                yield BadRow(number, str(reason))
        if is_empty and not self._lines.is_interrupted:
            raise ValueError(f"{self._source} has a header but no data")

    # Columns

    def _read_header(self, text: str) -> None:
        if "\ufffd" in text:
            raise ValueError(f"{self._source} is not a text file in UTF-8")
        self._choose(_read.read_header(self._source, _split(text)))

    def _choose(self, names: list[str]) -> None:
        """Find the columns asked for among those that there are."""
        self._names = names
        beside = [name for name in (self._wanted.sensor, self._wanted.time) if name is not None]
        for name in beside:
            _read.choose_columns(self._source, names, [name])
        columns = list(self._wanted.columns) or [name for name in names if name not in beside]
        if not self._wanted.columns and len(columns) != 1:
            raise ValueError(
                f"{self._source} has {len(columns)} columns that could be followed; choose with --column, "
                f"its columns are {', '.join(names)}"
            )
        self._places = _read.choose_columns(self._source, names, columns)
        self.columns = tuple(columns)

    # One row

    def _row(self, number: int, cells: list[Any], sensor: Any, time: Any) -> Row:
        values = tuple(self._value(name, cell) for name, cell in zip(self.columns, cells, strict=True))
        if self._wanted.sensor is not None and not _as_text(sensor):
            raise _Unreadable(f"no name in column {self._wanted.sensor!r}")
        return Row(number, _as_text(sensor), _as_text(time), values)

    def _cells_of_line(self, text: str) -> tuple[list[Any], Any, Any]:
        try:
            cells = _split(text)
        except csv.Error as error:
            raise _Unreadable(str(error)) from None
        if len(cells) != len(self._names):
            raise _Unreadable(f"{len(cells)} cells, but the header has {len(self._names)} columns")
        sensor, time = (
            cells[self._names.index(name)] if name is not None else ""
            for name in (self._wanted.sensor, self._wanted.time)
        )
        return [cells[place] for place in self._places], sensor, time

    def _cells_of_object(self, text: str) -> tuple[list[Any], Any, Any]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _Unreadable(f"no JSON: {error}") from None
        if not isinstance(found, dict):
            raise _Unreadable(f"no JSON object: {_shown(text)}")
        if not self.columns:
            self._choose(list(found))
        for name in self.columns:
            if name not in found:
                raise _Unreadable(f"no {name!r}")
        sensor, time = (
            found.get(name) if name is not None else "" for name in (self._wanted.sensor, self._wanted.time)
        )
        return [found[name] for name in self.columns], sensor, time

    def _value(self, name: str, cell: Any) -> float:
        number = _read.parse_number(cell) if isinstance(cell, str) else _json_number(cell)
        if number is None:
            raise _Unreadable(f"{_shown(cell)} in column {name!r} is no finite number")
        limit = self._wanted.whole_below
        if limit is not None and not math.isnan(number) and not (0.0 <= number < limit and number.is_integer()):
            below = f" below {limit:g}" if math.isfinite(limit) else ""
            raise _Unreadable(f"{_shown(cell)} in column {name!r} is no whole number from 0{below}")
        return number


def _split(text: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([text]))]


def _as_text(cell: Any) -> str:
    if cell is None:
        return ""
    text = cell.strip() if isinstance(cell, str) else json.dumps(cell)
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode()  # half a surrogate pair


def _json_number(cell: Any) -> float | None:
    """As ``parse_number`` for what JSON has beside text: null is missing, true is no number."""
    if cell is None:
        return math.nan
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return None
    try:
        number = float(cell)
    except OverflowError:
        return None
    return None if math.isinf(number) else number


def _shown(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= _SHOWN_OF_A_CELL else f"{text[:_SHOWN_OF_A_CELL]}..."
