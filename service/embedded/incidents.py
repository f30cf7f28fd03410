"""Incidents in the file, for sinks. On Kafka, incidents have a topic."""

from __future__ import annotations

import logging
import sqlite3
import time

from service.embedded.database import Database
from service.wire import messages
from service.wire.messages import Incident

log = logging.getLogger(__name__)


class IncidentTable:
    """Revisions of incidents in their order. The table keeps the newest ``keep``."""

    def __init__(self, database: Database, keep: int) -> None:
        self._database = database
        self._keep = keep
        self._waiting: list[Incident] = []

    def published(self) -> list[Incident]:
        """Return the last revision of each incident."""
        found = self._database.reading().execute(
            "SELECT value FROM incidents WHERE seq IN (SELECT max(seq) FROM incidents GROUP BY id)"
        )
        return [messages.decode_incident(value) for (value,) in found]

    def note(self, revisions: list[Incident]) -> None:
        """Write revisions. If the write fails, they are written with the next ones."""
        self._waiting += revisions
        if not self._waiting:
            return
        now = int(time.time() * 1000)
        rows = [(now, one.id, messages.encode(one)) for one in self._waiting]
        try:
            with self._database.writing() as writing:
                writing.executemany("INSERT INTO incidents (committed, id, value) VALUES (?, ?, ?)", rows)
                writing.execute(
                    "DELETE FROM incidents WHERE seq <= (SELECT max(seq) FROM incidents) - ?", (self._keep,)
                )
            self._waiting = []
        except sqlite3.Error as error:
            log.warning("incidents are not saved: %s", error)
