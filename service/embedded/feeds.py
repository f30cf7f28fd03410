"""The sources of the embedded worker: each on a thread, appending to the intake until it is told to stop.

A source's position is committed with its records, so that each record of a file and each tick of the plant is in the
intake exactly once, whatever happens. Stdin has no position: what was read from the pipe and not yet on the disk is
lost when the process is killed.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from service.embedded.intake import Intake
from service.settings import RecordMapping, Settings
from service.sources import plant
from service.sources.files import FileReader, Position
from service.sources.lines import LineSplitter

log = logging.getLogger(__name__)

_LINES_AT_ONCE = 2000
_LOOK_AGAIN = 0.2
_TRY_AGAIN = 1.0

Planted = Callable[[plant.Planted], None]
_HISTORY_AT_ONCE = 60  # ticks


class Feed:
    """One source. ``planted`` is called for the faults of the demo plant."""

    def __init__(self, kind: str, settings: Settings, intake: Intake, planted: Planted) -> None:
        self.kind = kind
        self.error: Exception | None = None
        self._settings = settings
        self._intake = intake
        self._planted = planted
        self._stopping = threading.Event()
        self._formats: dict[RecordMapping, int] = {}
        self._thread = threading.Thread(target=self._run, name=f"source {kind}", daemon=True)

    def start(self) -> None:
        """Begin, or go on."""
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has come to its end, or failed."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Append no more. A read from stdin cannot be ended: its thread ends with the process."""
        self._stopping.set()
        if self.kind != "stdin":
            self._thread.join()

    def _run(self) -> None:
        try:
            {"file": self._feed_file, "stdin": self._feed_stdin, "simulate": self._feed_plant}[self.kind]()
        except Exception as error:
            self.error = error

    def _feed_file(self) -> None:
        source, limit = self._settings.source.file, self._settings.limits.record_bytes
        assert source.path is not None
        name = f"file:{source.path.resolve()}"
        reached = self._intake.position_of(name)
        position = None if reached is None else msgspec.json.decode(reached, type=Position)
        reader = FileReader(source, self._settings.mapping, limit, position)
        while self._waits_for_room():
            lines = reader.read(_LINES_AT_ONCE)
            if lines:
                values = [line.value for line in lines]
                self._append(name, reader.mapping, values, msgspec.json.encode(lines[-1].position))
            elif reader.is_over:
                log.info("%s is read to its end", source.path)
                break
            else:
                self._stopping.wait(_LOOK_AGAIN)
        reader.close()

    def _feed_stdin(self) -> None:
        splitter = LineSplitter(self._settings.source.file, self._settings.mapping, self._settings.limits.record_bytes)
        descriptor = sys.stdin.fileno()
        is_open = True
        while is_open and self._waits_for_room():
            data = os.read(descriptor, 1 << 16)
            is_open = bool(data)
            values = splitter.split(data)
            if values:
                self._append("stdin", splitter.mapping, values)
        log.info("stdin has ended")

    def _feed_plant(self) -> None:
        options = self._settings.source.simulate
        name = f"simulate:{options.seed}"
        reached = self._intake.position_of(name)
        tick = 0 if reached is None else int(reached) + 1
        began = time.time()
        waiting: list[bytes] = []
        due = time.monotonic()
        for number, step in enumerate(plant.ticks(options.seed, tick), tick):
            if not self._waits_for_room():
                return
            # the days before the start come at once, with the times that they would have had
            ahead = plant.HISTORY - number
            now = began - ahead / options.rate if ahead > 0 else time.time()
            waiting += [plant.record(sensor, round(now, 3), value) for sensor, value, _ in step]
            if ahead > 1 and number % _HISTORY_AT_ONCE:
                continue
            self._append(name, RecordMapping(), waiting, str(number).encode())
            waiting = []
            for _, _, planted in step:
                if planted is not None:
                    self._planted(planted)
            if ahead > 1:
                continue
            # a plant that could not keep up does not catch up: its readings have the time of their making
            due = max(due + 1.0 / options.rate, time.monotonic())
            self._stopping.wait(due - time.monotonic())

    def _waits_for_room(self) -> bool:
        """Wait while too much is waiting for the detectors; False when it is time to stop."""
        while not self._stopping.is_set() and self._intake.backlog > self._settings.source.backlog:
            self._stopping.wait(0.05)
        return not self._stopping.is_set()

    def _append(
        self, name: str, mapping: RecordMapping, values: Sequence[bytes], position: bytes | None = None
    ) -> None:
        """Append, and try again while the disk does not take it."""
        while True:
            try:
                if mapping not in self._formats:
                    self._formats[mapping] = self._intake.format_of(mapping)
                self._intake.append(name, self._formats[mapping], values, position=position).result()
                return
            except sqlite3.Error as error:
                log.warning("the intake cannot be written, trying again: %s", error)
                if self._stopping.wait(_TRY_AGAIN):
                    return
