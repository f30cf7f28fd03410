"""Events as JSON lines at the end of a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from service import files
from service.settings.sinks import SinkSettings
from service.sinks.sink import Outgoing, TryAgain


class LinesSink:
    """Appends. Whoever rotates the file may move it away at any time: the next event begins a new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = self._open()

    def send(self, event: Outgoing) -> None:
        """Write a line and wait for the disk."""
        try:
            if self._file is None or self._was_moved(self._file):
                self.close()
                self._file = self._open()
            self._file.write(event.body + b"\n")
            os.fsync(self._file.fileno())
        except OSError as error:
            self.close()  # a line that was cut short is ended when the file is opened again
            raise TryAgain(f"{self._path}: {error.strerror}") from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> BinaryIO:
        files.create(self._path, files.LINES)
        file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - stays open until it is moved away
        if file.tell() and not self._ends_with_a_line():
            file.write(b"\n")
        return file

    def _ends_with_a_line(self) -> bool:
        with open(self._path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _was_moved(self, file: BinaryIO) -> bool:
        try:
            there, ours = os.stat(self._path), os.fstat(file.fileno())
        except FileNotFoundError:
            return True
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


def open_sink(settings: SinkSettings, environ: Mapping[str, str]) -> LinesSink:
    """Open the file that the settings name."""
    assert settings.path is not None
    return LinesSink(settings.path)
