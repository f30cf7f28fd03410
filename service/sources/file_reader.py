"""Read the lines of a file, each with the position after it, so that reading can continue there after a restart.

A line is a record; blank lines are skipped. If a file is followed, its last line is read when it is complete.

- Rotation: if the path names another file, the old file is read to its end and the new one from its start.
- Truncation: if the file becomes shorter or its beginning changes, it is read from its start.
- A file that was replaced while nothing followed it is read from its start. Lines that were appended to the old file
  meanwhile are not read.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from service.settings.sources import FileSource
from service.sources.header import mapping_of
from service.wire.mapping import RecordMapping

log = logging.getLogger(__name__)

# Number of bytes at a file's beginning that identify it.
_HEAD = 4096
_SKIPPED_AT_ONCE = 1 << 20


class FilePosition(msgspec.Struct, frozen=True):
    """The position that a reader has reached in a file."""

    offset: int  # bytes
    line: int  # number of the last line read, from 1
    head: str  # hash of the first bytes up to here, at most ``_HEAD``


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


_START = FilePosition(0, 0, _hash(b""))


class Line(NamedTuple):
    """A line without its line end, and the position after it."""

    position: FilePosition
    value: bytes


class FileReader:
    """Reads the file that the settings name from a position on, or from its start.

    ``mapping`` decodes the lines. For CSV it comes from the header, which is read along the way; otherwise it is the
    given one. ``limit``: maximum size of a record in bytes. A longer line is cut, but stays long enough for the
    decoder to refuse it.
    """

    def __init__(
        self, source: FileSource, mapping: RecordMapping, limit: int, position: FilePosition | None = None
    ) -> None:
        if source.path is None:
            raise ValueError("source.file.path is missing: it takes a path")
        self.mapping = mapping
        self.is_over = False  # read to its end, and not followed
        self._source = source
        self._path: Path = source.path
        self._limit = limit
        self._file: BinaryIO | None = None
        self._offset = self._number = 0
        self._header: bytes | None = None
        self._waits_for_mapping = source.is_csv
        self._open(position)

    def read(self, most: int = 1000) -> list[Line]:
        """Return at most ``most`` lines that are in the file now."""
        if self._source.follow:
            self._begin_where_rewritten()
        lines = self._more(most)
        if not lines and self._source.follow:
            lines = self._follow(most)
        self.is_over = not lines and not self._source.follow
        return lines

    def lines(self) -> Iterator[Line]:
        """Yield all lines up to the end of a file that is not followed."""
        while lines := self.read():
            yield from lines

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    # The file behind the path

    def _open(self, position: FilePosition | None) -> None:
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            if not self._source.follow:
                raise
            return  # the file may come later
        if position is None:
            self._begin()
        elif self._head(position.offset) == position.head:
            self._begin()
            if self._source.is_csv:
                self._first_row()
            self._file.seek(position.offset)
            self._offset, self._number, self._seen = position.offset, position.line, position
        else:
            log.warning("%s is another file than the one that was read before: reading it from its start", self._path)
            self._begin()

    def _begin(self) -> None:
        assert self._file is not None
        self._file.seek(0)
        self._offset = self._number = 0
        self._seen = _START
        self._header = None
        self._waits_for_mapping = self._source.is_csv

    def _follow(self, most: int) -> list[Line]:
        """If the path now names another file, switch to it. Returns the next lines: the old file's last one, or the new
        file's."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return []
        if self._file is None:
            self._open(None)
            return self._more(most)
        here = os.fstat(self._file.fileno())
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            last = self._more(most, is_final=True)  # a last line without an end
            log.info("%s was rotated", self._path)
            self.close()
            self._open(None)
            return last or self._more(most)
        return []

    def _begin_where_rewritten(self) -> None:
        if self._file is None:
            return
        is_shorter = os.fstat(self._file.fileno()).st_size < self._offset
        if is_shorter or self._head(self._seen.offset) != self._seen.head:
            log.info("%s was truncated: reading it from its start", self._path)
            self._begin()

    def _head(self, offset: int) -> str | None:
        """Return the hash of the beginning that a reader at ``offset`` has seen, or None if the file is shorter."""
        assert self._file is not None
        descriptor = self._file.fileno()
        if os.fstat(descriptor).st_size < offset:
            return None
        return _hash(os.pread(descriptor, min(offset, _HEAD), 0))

    # Lines

    def _more(self, most: int, is_final: bool = False) -> list[Line]:
        lines: list[Line] = []
        if self._file is None or (self._waits_for_mapping and not self._first_row()):
            return lines
        while len(lines) < most:
            value = self._next(is_final)
            if value is None:
                break
            if value.strip():
                lines.append(Line(self._position(), value))
        return lines

    def _position(self) -> FilePosition:
        # A beginning of full length does not change any more.
        head = self._seen.head if self._seen.offset >= _HEAD else self._head(self._offset)
        self._seen = FilePosition(self._offset, self._number, head or "")
        return self._seen

    def _first_row(self) -> bool:
        """Read the header and look at the first row. Returns whether both are there."""
        if self._header is None:
            self._header = self._next_with_text()
        if self._header is None:
            return False
        assert self._file is not None
        before = self._offset, self._number
        first = self._next_with_text()
        if first is None and self._source.follow:
            return False
        try:
            self.mapping = mapping_of(self._header, first or b"", self._source)
        except ValueError as error:
            raise ValueError(f"{self._path}: {error}") from None
        self._waits_for_mapping = False
        self._offset, self._number = before
        self._file.seek(self._offset)
        return True

    def _next_with_text(self) -> bytes | None:
        while (value := self._next()) is not None:
            if value.strip():
                return value
        return None

    def _next(self, is_final: bool = False) -> bytes | None:
        """Return the next line, or None if there is none or it is incomplete."""
        assert self._file is not None
        value = self._file.readline(self._limit + 2)
        size, is_whole = len(value), value.endswith(b"\n")
        while not is_whole and (rest := self._file.readline(_SKIPPED_AT_ONCE)):
            size, is_whole = size + len(rest), rest.endswith(b"\n")
        if size == 0 or not (is_whole or is_final or not self._source.follow):
            self._file.seek(self._offset)
            return None
        self._offset += size
        self._number += 1
        return value.removesuffix(b"\n").removesuffix(b"\r")
