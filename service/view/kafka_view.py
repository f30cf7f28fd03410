"""The view of a fleet on Kafka: what all workers publish, read from the start, in no consumer group.

States are read from the beginning of their compacted topic, which has the present of every sensor and some of its
past; events from as far back as is configured; what people say as a whole. Records of open and aborted transactions
are never seen. A view keeps nothing: it can be started, killed and doubled at any time.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack

import msgspec
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from service.api.answers import SensorEntry, SensorPosterior
from service.api.backend import NotTaken, PostedReading, StoredEvent
from service.api.recent import RecentEvents
from service.api.server import ApiServer
from service.kafka import topics as kafka_topics
from service.kafka.changelog import ReadStalled
from service.kafka.connection import REQUEST_MS, ConnectionProblem
from service.kafka.control import ControlFollower, NameFollower
from service.kafka.incidents import IncidentWriter, group_of, transactional_id_of
from service.kafka.input import connection_of
from service.metrics.view import ViewMetrics
from service.settings import Settings
from service.view.people import FleetDesk, People
from service.view.routes import Front
from service.view.view import View
from service.wire import messages

log = logging.getLogger(__name__)

_POLL_MS = 100
_POLL_RECORDS = 2000
_HEAR_EVERY = 0.5
_TRY_AGAIN = 1.0
# Without a turn of the loop for so long it is not alive.
_ALIVE_WITHIN = 60.0


class FleetView:
    """Runs until it is told to ``stop``."""

    hint = ""

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
        """Leave."""
        self._stopping.set()

    def run(self) -> None:
        """Follow the topics and answer until told to stop."""
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
            self._desk = FleetDesk(self.view.fleet, self._people)
            self.metrics = ViewMetrics(CollectorRegistry())
            front = Front(self.view, self._desk, self.view.sensor, not_kept=(ConnectionProblem,))
            server = ApiServer(self.settings, self, front)
            closing.callback(server.close)
            self._follow(closing)
        log.info("left")

    def _follow(self, closing: ExitStack) -> None:
        names = self.settings.topics
        consumer = self._connection.consumer(
            isolation_level="read_committed", enable_auto_commit=False, auto_offset_reset="earliest",
            max_poll_records=_POLL_RECORDS,
        )  # fmt: skip
        closing.callback(consumer.close)
        counts = kafka_topics.partition_counts(self._connection, [names.states, names.events])
        places = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        ends = self._begin(consumer, places)
        began = heard = time.monotonic()
        while not self._stopping.is_set():
            self._last_turn = time.monotonic()
            try:
                self._turn(consumer)
                if not self._is_ready and all(consumer.position(place) >= end for place, end in ends.items()):
                    self.view.caught_up()
                    self._is_ready = True
                    found = self.view.counts()
                    log.info("%d sensors, caught up in %.1f s", found.sensors, time.monotonic() - began)
            except KafkaError as error:
                log.warning("the topics cannot be read for now: %s: %s", type(error).__name__, error)
                self._stopping.wait(_TRY_AGAIN)
            if time.monotonic() - heard >= _HEAR_EVERY:
                heard = time.monotonic()
                if self._people.poll():
                    self.view.said()
                self.metrics.incidents(self.view.counts().incidents, self.view.opened)

    def _begin(self, consumer: KafkaConsumer, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Go to where each partition is read from; returns where they end by now."""
        since = int((time.time() - self.settings.view.events_back_s) * 1000)
        events = [place for place in places if place.topic == self.settings.topics.events]
        try:
            consumer.assign(places)
            ends = consumer.end_offsets(places, timeout_ms=REQUEST_MS)
            firsts = consumer.beginning_offsets(places, timeout_ms=REQUEST_MS)
            found = consumer.offsets_for_times(dict.fromkeys(events, since), timeout_ms=REQUEST_MS)
        except KafkaError as error:
            topics = ", ".join(sorted({place.topic for place in places}))
            raise ConnectionProblem(f"{topics} cannot be read: {type(error).__name__}: {error}") from error
        for place in places:
            if place in found:
                later = found[place]
                consumer.seek(place, ends[place] if later is None else later.offset)
            else:
                consumer.seek(place, firsts[place])
        return ends

    def _turn(self, consumer: KafkaConsumer) -> None:
        for place, records in consumer.poll(timeout_ms=_POLL_MS).items():
            is_events = place.topic == self.settings.topics.events
            for record in records:
                if record.value is not None:
                    self._take(record.value, record.timestamp, is_events)
                elif not is_events and record.key is not None:
                    self._forget(record.key.decode(errors="replace"))
        if self._is_ready:
            self.view.advance()
            self._writer.turn()

    def _take(self, value: bytes, published: int, is_event: bool) -> None:
        try:
            message = messages.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return  # other things may stand on a topic
        if is_event != isinstance(message, messages.Event):
            return
        if is_event:
            self._recent.add([value], published)
        if self._is_ready:
            self.view.take(message, published)
        else:
            self.view.take_earlier(message)

    def _forget(self, sensor: str) -> None:
        self.view.forget(sensor)
        if self._is_ready:  # what lies further back was heard by those who ran then
            try:
                self._desk.forget(sensor)
            except ConnectionProblem as problem:
                log.warning("the names of %s's states stay: %s", sensor, problem)

    # What the API asks

    def is_alive(self) -> bool:
        """Whether the topics are looked at."""
        return time.monotonic() - self._last_turn < _ALIVE_WITHIN

    def is_ready(self) -> bool:
        """Whether all that was there at the start is known."""
        return self._is_ready and not self._stopping.is_set()

    def submit(self, readings: list[PostedReading], received: int) -> int:
        """Nothing is taken."""
        raise NotTaken("the view takes no readings: post them to a worker, or produce to the input topic")

    def events(
        self, between: tuple[int, int], limit: int, sensor: str | None, status: str | None, newest_first: bool
    ) -> list[StoredEvent]:
        """Events in the order in which they were read, numbered since the start."""
        return self._recent.page(between, limit, sensor, status, newest_first)

    def sensor(self, name: str) -> SensorPosterior | None:
        """What is known of a sensor."""
        return self.view.sensor(name)

    def sensors(self, after: str, limit: int) -> list[SensorEntry]:
        """Sensors by name."""
        return self.view.sensors("", "name", None, 0, limit, after)[0]
