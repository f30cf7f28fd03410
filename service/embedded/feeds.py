"""The sources of an embedded service. Each runs on a thread of its own and appends to the intake until it is stopped.

A source's position is committed with its records. So each record of a file and each tick of the plant is in the
intake exactly once, whatever happens.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable

from service.embedded.intake import Intake
from service.settings import RecordMapping
from service.sources.plant import Planted
from service.sources.source import Source, SourceBatch

log = logging.getLogger(__name__)

_TRY_AGAIN = 1.0


class Feed:
    """Runs one source.

    ``most``: maximum number of records that may wait for the detectors. ``planted`` is called for the faults of the
    demo plant.
    """

    def __init__(self, source: Source, intake: Intake, most: int, planted: Callable[[Planted], None]) -> None:
        self.error: Exception | None = None
        self._source = source
        self._intake = intake
        self._most = most
        self._planted = planted
        self._stopping = threading.Event()
        self._formats: dict[RecordMapping, int] = {}
        self._thread = threading.Thread(target=self._run, name=f"source {source.name}", daemon=True)

    def start(self) -> None:
        """Start the thread. The source begins, or continues at its position."""
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the source has ended or failed."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Append no more. A read that cannot be interrupted ends with the process."""
        self._stopping.set()
        if not self._source.blocks:
            self._thread.join()

    def _run(self) -> None:
        try:
            batches = self._source.batches(self._intake.position_of(self._source.name), self._stopping.wait)
            while self._waits_for_room() and (batch := next(batches, None)) is not None:
                if batch.values:
                    self._append(batch)
                for fault in batch.planted:
                    self._planted(fault)
        except Exception as error:
            self.error = error

    def _waits_for_room(self) -> bool:
        """Wait while too many records wait for the detectors. Returns False if it is time to stop."""
        while not self._stopping.is_set() and self._intake.backlog > self._most:
            self._stopping.wait(0.05)
        return not self._stopping.is_set()

    def _append(self, batch: SourceBatch) -> None:
        """Append a batch. If the write fails, try again."""
        while True:
            try:
                if batch.mapping not in self._formats:
                    self._formats[batch.mapping] = self._intake.format_of(batch.mapping)
                number = self._formats[batch.mapping]
                self._intake.append(self._source.name, number, batch.values, position=batch.position).result()
                return
            except sqlite3.Error as error:
                log.warning("the intake cannot be written, trying again: %s", error)
                if self._stopping.wait(_TRY_AGAIN):
                    return
