"""The view of the sensors of one process, from its own file and its committed cycles."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from service.api.answers import SensorPosterior
from service.embedded import tables
from service.embedded.control import ControlTable, NameTable
from service.embedded.database import Database, WriteFailed
from service.embedded.incidents import IncidentTable
from service.metrics.view import ViewMetrics
from service.runtime.observers import CommittedCycle
from service.settings import Settings
from service.view.operations import People, ViewOperations
from service.view.routes import FleetRoutes
from service.view.view import View
from service.wire import messages
from service.wire.readings import Reading

# Seconds between two polls for records that other processes wrote.
_HEAR_EVERY = 0.2


class EmbeddedView:
    """A view that begins with the contents of the file. It is an observer of the worker."""

    def __init__(self, settings: Settings, database: Database, registry: CollectorRegistry) -> None:
        self._people = People(ControlTable(database), NameTable(database))
        self._people.poll()
        self._view = View(settings, self._people)
        self._metrics = ViewMetrics(registry)
        self._operations = ViewOperations(self._view.fleet, self._people)
        self._heard = time.monotonic()
        since = int((time.time() - settings.view.events_back_s) * 1000)
        for message in tables.messages_since(database, since):
            self._view.take_earlier(message)
        self._view.caught_up()
        self._incidents = IncidentTable(database, settings.source.keep_events)
        self._incidents.note(self._view.go_on_from(self._incidents.published()))
        self._view.on_incidents = self._incidents.note

    def front(self, sensor: Callable[[str], SensorPosterior | None]) -> FleetRoutes:
        """Return the routes that it adds to the API. ``sensor`` returns a sensor's posterior."""
        return FleetRoutes(self._view, self._operations, sensor, not_kept=(WriteFailed,))

    def committed(self, cycle: CommittedCycle) -> None:
        """Apply a committed cycle."""
        now = int(time.time() * 1000)
        for sensor in cycle.forgotten:
            self._view.forget(sensor)
            self._operations.forget(sensor)
        for output in cycle.outputs:
            if not isinstance(output.message, messages.DeadLetter | Reading):
                self._view.take(output.message, now)
        self._view.advance()
        self.idle()

    def idle(self) -> None:
        """Apply records that other processes wrote."""
        if time.monotonic() - self._heard >= _HEAR_EVERY:
            self._heard = time.monotonic()
            if self._people.poll():
                self._view.said()
            self._metrics.incidents(self._view.counts().incidents, self._view.opened)
