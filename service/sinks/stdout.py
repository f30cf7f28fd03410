"""Events as JSON lines on stdout, for a pipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import BinaryIO

from service.settings.sinks import SinkSettings
from service.sinks.sink import Outgoing


class StdoutSink:
    """Prints. A reader that has gone away ends the program, as it does with any other in a pipe."""

    def __init__(self, out: BinaryIO | None = None) -> None:
        self._out = sys.stdout.buffer if out is None else out

    def send(self, event: Outgoing) -> None:
        """Print a line at once."""
        self._out.write(event.body + b"\n")
        self._out.flush()

    def close(self) -> None:
        """Stdout is not ours to close."""


def open_sink(settings: SinkSettings, environ: Mapping[str, str]) -> StdoutSink:
    """Take the standard output."""
    return StdoutSink()
