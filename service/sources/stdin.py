"""``kinds = ["stdin"]``: the lines of a pipe. It has no position: what was read and is not yet on the disk is lost when
the process is killed."""

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
    """Open the standard input."""
    return StdinLines(settings)


def describe(settings: Settings) -> str:
    """Name the standard input."""
    return "stdin"
