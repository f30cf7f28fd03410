"""``kinds = ["stdin"]``: the lines of a pipe.

The pipe has no position. If the process is killed, lines that were read and are not yet on the disk are lost.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator

from service.settings import Settings
from service.sources.line_splitter import LineSplitter
from service.sources.source import Source, SourceBatch

log = logging.getLogger(__name__)


class StdinLines:
    """A ``Source``."""

    name = "stdin"
    blocks = True

    def __init__(self, settings: Settings) -> None:
        self._splitter = LineSplitter(settings.source.file, settings.mapping, settings.limits.record_bytes)

    def batches(self, position: bytes | None, pause: Callable[[float], object]) -> Iterator[SourceBatch]:
        """See ``Source``."""
        descriptor, is_open = sys.stdin.fileno(), True
        while is_open:
            data = os.read(descriptor, 1 << 16)
            is_open = bool(data)
            yield SourceBatch(self._splitter.split(data), self._splitter.mapping)
        log.info("stdin has ended")


def open_source(settings: Settings) -> Source:
    """Return the source for the standard input."""
    return StdinLines(settings)


def describe(settings: Settings) -> str:
    """Describe the standard input in words."""
    return "stdin"
