"""The view of the sensors of one process, from its own file and from what it commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry

from service.api.answers import SensorPosterior
from service.embedded.control import ControlTable, NameTable
from service.embedded.database import Database
from service.embedded.incidents import IncidentTable
from service.metrics.view import ViewMetrics
from service.sensors.partition import Output
from service.settings import Settings
from service.view.people import FleetDesk, People
from service.view.routes import Front
from service.view.view import View
from service.wire import messages

# Seconds between two looks at what was said by other processes.
_HEAR_EVERY = 0.2


class EmbeddedFleet:
    """Begins with what the file holds. ``committed`` and ``hear`` are called by the worker."""

    def __init__(self, settings: Settings, database: Database, registry: CollectorRegistry) -> None:
        self._people = People(ControlTable(database), NameTable(database))
        self._people.poll()
        self._view = View(settings, self._people)
        self._metrics = ViewMetrics(registry)
        self._desk = FleetDesk(self._view.fleet, self._people)
        self._heard = time.monotonic()
        since = int((time.time() - settings.view.events_back_s) * 1000)
        reading = database.reading()
        for (value,) in reading.execute("SELECT value FROM events WHERE committed >= ? ORDER BY seq", (since,)):
            self._view.take_earlier(messages.decode(value))
        for (value,) in reading.execute("SELECT value FROM states"):
            self._view.take_earlier(messages.decode(value))
        self._view.caught_up()
        self._incidents = IncidentTable(database, settings.source.keep_events)
        self._incidents.note(self._view.go_on_from(self._incidents.published()))
        self._view.on_incidents = self._incidents.note

    def front(self, sensor: Callable[[str], SensorPosterior | None]) -> Front:
        """What the API has of it; ``sensor`` asks the detector."""
        return Front(self._view, self._desk, sensor)

    def committed(self, outputs: Iterable[Output], forgotten: Iterable[str]) -> None:
        """What a cycle has committed."""
        now = int(time.time() * 1000)
        for sensor in forgotten:
            self._view.forget(sensor)
            self._desk.forget(sensor)
        for output in outputs:
            if output.kind in ("events", "states"):
                self._view.take(messages.decode(output.value), now)
        self._view.advance()
        self.hear()

    def hear(self) -> None:
        """Take note of what people say in other processes."""
        if time.monotonic() - self._heard >= _HEAR_EVERY:
            self._heard = time.monotonic()
            if self._people.poll():
                self._view.said()
            self._metrics.incidents(self._view.counts().incidents, self._view.opened)
