"""``kinds = ["file"]``: the lines of a file, followed or read to its end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import msgspec

from service.settings import Settings
from service.sources.file_reader import FilePosition, FileReader
from service.sources.source import Source, SourceBatch

log = logging.getLogger(__name__)

_LINES_AT_ONCE = 2000
_LOOK_AGAIN = 0.2


class FileLines:
    """A ``Source``."""

    blocks = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        assert settings.source.file.path is not None
        self.name = f"file:{settings.source.file.path.resolve()}"

    def batches(self, position: bytes | None, pause: Callable[[float], object]) -> Iterator[SourceBatch]:
        """See ``Source``."""
        source, limit = self._settings.source.file, self._settings.limits.record_bytes
        reached = None if position is None else msgspec.json.decode(position, type=FilePosition)
        reader = FileReader(source, self._settings.mapping, limit, reached)
        try:
            while True:
                lines = reader.read(_LINES_AT_ONCE)
                if lines:
                    values = [line.value for line in lines]
                    yield SourceBatch(values, reader.mapping, msgspec.json.encode(lines[-1].position))
                elif reader.is_over:
                    log.info("%s is read to its end", source.path)
                    return
                else:
                    pause(_LOOK_AGAIN)
                    yield SourceBatch([], reader.mapping)
        finally:
            reader.close()


def open_source(settings: Settings) -> Source:
    """Return the source for the file that the settings name."""
    return FileLines(settings)


def describe(settings: Settings) -> str:
    """Describe the file in words."""
    file = settings.source.file
    return f"file {file.path}{' and what is appended to it' if file.follow else ''}"
