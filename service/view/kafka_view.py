"""The view of a fleet on Kafka: it reads the messages of all workers from the start, in no consumer group.

States are read from the beginning of their compacted topic, which has the present state of every sensor and some of
its past. Events are read from as far back as configured, and control records and state names as a whole. Records of
open and aborted transactions are never visible. A view keeps nothing, so it can be started, killed and duplicated at
any time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from service.api.answers import SensorEntry
from service.api.backend import Backend
from service.api.recent import RecentEvents
from service.api.server import ApiServer
from service.kafka.changelog import ReadStalled
from service.kafka.connection import ConnectionProblem
from service.kafka.control import ControlFollower, NameFollower
from service.kafka.following import Beginning, Since, TopicReader
from service.kafka.incidents import IncidentWriter, group_of, transactional_id_of
from service.kafka.input import connection_of
from service.metrics.view import ViewMetrics
from service.runtime.posting import NotTaken, PostedReading
from service.settings import Settings
from service.view.operations import People, ViewOperations
from service.view.routes import FleetRoutes
from service.view.view import View
from service.wire import messages

log = logging.getLogger(__name__)

_POLL_MS = 100
_POLL_RECORDS = 2000
_HEAR_EVERY = 0.5
_TRY_AGAIN = 1.0
# Seconds without a turn of the loop after which the view counts as dead.
_ALIVE_WITHIN = 60.0


class KafkaView:
    """Runs until ``stop`` is called."""

    def __init__(self, settings: Settings) -> None:
        self.settings = msgspec.structs.replace(
            settings, http=msgspec.structs.replace(settings.http, port=settings.view.port)
        )
        self._connection = connection_of(settings)
        self._stopping = threading.Event()
        self._last_turn = time.monotonic()
        self._is_ready = False
        self._recent = RecentEvents()

    def stop(self) -> None:
        """End the view."""
        self._stopping.set()

    def run(self) -> None:
        """Follow the topics and serve requests until ``stop`` is called."""
        names = self.settings.topics
        self._connection.check(
            reads=[names.states, names.events, names.control, names.state_names, names.incidents],
            writes=[names.incidents],
            group=group_of(self.settings),
            transactional_id=transactional_id_of(self.settings),
        )
        with ExitStack() as closing:
            control = ControlFollower(self._connection, names.control)
            closing.callback(control.close)
            given_names = NameFollower(self._connection, names.state_names)
            closing.callback(given_names.close)
            try:
                control.catch_up()
                given_names.catch_up()
            except ReadStalled as stalled:
                raise ConnectionProblem(str(stalled)) from stalled
            self._people = People(control, given_names)
            self.view = View(self.settings, self._people)
            self._writer = IncidentWriter(self._connection, self.settings, self.view.go_on_from)
            closing.callback(self._writer.close)
            self.view.on_incidents = self._writer.note
            self._operations = ViewOperations(self.view.fleet, self._people)
            self.metrics = ViewMetrics(CollectorRegistry())
            front = FleetRoutes(self.view, self._operations, self.view.sensor, not_kept=(ConnectionProblem,))
            backend = Backend(
                self.metrics.registry, self.is_alive, self.is_ready, _refuse, self._recent.page, self.view.sensor,
                self._entries,
            )  # fmt: skip
            server = ApiServer(self.settings, backend, front)
            closing.callback(server.close)
            self._follow(closing)
        log.info("left")

    def _follow(self, closing: ExitStack) -> None:
        names = self.settings.topics
        since = int((time.time() - self.settings.view.events_back_s) * 1000)
        beginnings: dict[str, Beginning] = {names.states: None, names.events: Since(since)}
        reader = TopicReader(self._connection, beginnings, max_poll_records=_POLL_RECORDS)
        closing.callback(reader.close)
        began = heard = time.monotonic()
        while not self._stopping.is_set():
            self._last_turn = time.monotonic()
            try:
                records = reader.poll(_POLL_MS)
                has_caught_up = self._is_ready or reader.has_caught_up
            except ConnectionProblem as problem:
                log.warning("for now, %s", problem)
                self._stopping.wait(_TRY_AGAIN)
                continue
            self._take_in(records)
            if has_caught_up and not self._is_ready:
                self.view.caught_up()
                self._is_ready = True
                found = self.view.counts()
                log.info("%d sensors, caught up in %.1f s", found.sensors, time.monotonic() - began)
            if time.monotonic() - heard >= _HEAR_EVERY:
                heard = time.monotonic()
                if self._people.poll():
                    self.view.said()
                self.metrics.incidents(self.view.counts().incidents, self.view.opened)

    def _take_in(self, records: Iterable[Any]) -> None:
        for record in records:
            is_event = record.topic == self.settings.topics.events
            if record.value is not None:
                self._take(record.value, record.timestamp, is_event)
            elif not is_event and record.key is not None:
                self._forget(record.key.decode(errors="replace"))
        if self._is_ready:
            self.view.advance()
            self._writer.turn()

    def _take(self, value: bytes, published: int, is_event: bool) -> None:
        try:
            message = messages.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return  # other records may be on a topic
        if is_event != isinstance(message, messages.Event):
            return
        if isinstance(message, messages.Event):
            self._recent.add([message], published)
        if self._is_ready:
            self.view.take(message, published)
        else:
            self.view.take_earlier(message)

    def _forget(self, sensor: str) -> None:
        self.view.forget(sensor)
        if self._is_ready:  # views that ran at that time have removed the names of earlier forgotten sensors
            try:
                self._operations.forget(sensor)
            except ConnectionProblem as problem:
                log.warning("the names of %s's states stay: %s", sensor, problem)

    # For the API

    def is_alive(self) -> bool:
        """Return whether the topics are still being polled."""
        return time.monotonic() - self._last_turn < _ALIVE_WITHIN

    def is_ready(self) -> bool:
        """Return whether all records that existed at the start are read."""
        return self._is_ready and not self._stopping.is_set()

    def _entries(self, after: str, limit: int) -> list[SensorEntry]:
        return self.view.sensors("", "name", None, 0, limit, after)[0]


def _refuse(readings: list[PostedReading], received: int) -> int:
    raise NotTaken("the view takes no readings: post them to a worker, or produce to the input topic")
