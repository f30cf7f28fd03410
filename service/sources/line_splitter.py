"""Split the data of a pipe into lines. If there is a CSV header, it becomes the mapping."""

from __future__ import annotations

from service.settings.sources import FileSource
from service.sources.header import mapping_of
from service.wire.mapping import RecordMapping


class LineSplitter:
    """Assembles whole lines from pieces of data.

    ``mapping`` decodes the lines. A line longer than ``limit`` is cut, but stays long enough for the decoder to
    refuse it.
    """

    def __init__(self, source: FileSource, mapping: RecordMapping, limit: int) -> None:
        self.mapping = mapping
        self._source = source
        self._limit = limit
        self._begun = b""
        self._header: bytes | None = None
        self._has_mapping = source.format != "csv"

    def split(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete with ``data``. Empty data marks the end, which completes the last line."""
        *lines, begun = (self._begun + data).split(b"\n")
        if not data and begun:
            lines.append(begun)
            begun = b""
        self._begun = begun[: self._limit + 2]
        found = [line[: self._limit + 2].removesuffix(b"\r") for line in lines if line.strip()]
        return found if self._has_mapping else self._after_header(found)

    def _after_header(self, lines: list[bytes]) -> list[bytes]:
        if self._header is None and lines:
            self._header, *lines = lines
        if self._header is None or not lines:
            return []
        try:
            self.mapping = mapping_of(self._header, lines[0], self._source)
        except ValueError as error:
            raise ValueError(f"stdin: {error}") from None
        self._has_mapping = True
        return lines
