"""The process of ``ishsmm-stream serve``: a worker, its log, the API and metrics.

Without a broker it also runs the page and the sinks."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from service.api import server as api
from service.api.backend import Backend, EventPages, Front
from service.api.posterior import SensorLookup
from service.api.recent import RecentEvents
from service.embedded import tables
from service.embedded.events import TableEvents
from service.embedded.log import SqliteLog
from service.kafka.log import KafkaLog
from service.kafka.posting import Posting
from service.metrics import Metrics
from service.metrics import server as metrics_server
from service.runtime.dead_letter_log import DeadLetterLog
from service.runtime.log import RecordLog
from service.runtime.observers import CommittedCycle, Observer
from service.runtime.posting import PostingTarget
from service.runtime.warm_up import settle_interpreter, warm_up
from service.runtime.worker import Worker
from service.settings import Settings
from service.sinks import open_sink
from service.sinks.delivery import Deliveries, Delivery, SinkMetrics
from service.sources.plant import Planted
from service.view.embedded_view import EmbeddedView

log = logging.getLogger(__name__)


class Terminal(Observer, Protocol):
    """Shows a person the work of the service."""

    def ready(self) -> None:
        """Called when all sensors are restored and the first record can come."""
        ...

    def planted(self, fault: Planted) -> None:
        """Called when a fault of the demo plant begins or ends."""
        ...


class ServiceProcess:
    """Runs until ``stop`` is called, or until the input has ended."""

    def __init__(
        self, settings: Settings, records: RecordLog, metrics: Metrics, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.records = records
        self.observers: list[Observer] = [DeadLetterLog()]
        self.worker = Worker(settings, records, metrics, self.observers, on_ready)
        self.sensors = SensorLookup(self.worker.partitions, self.worker.lock)
        self._closing = ExitStack()

    def stop(self) -> None:
        """Finish the cycle, save all unsaved states, and end."""
        self.worker.stop()

    def run(self) -> None:
        """Check the log, compile kernels, open everything, and work. Raises the error that ended a source or a sink."""
        self.records.check()
        warm_up(self.settings, self._compilers)
        settle_interpreter()
        if self.worker.is_stopping():
            return
        with self._closing:
            self._closing.callback(self.records.close)
            self._open()
            self.worker.run()
        log.info("left")

    _compilers = 0  # further processes that compile kernels if none is cached

    def _open(self) -> None:
        raise NotImplementedError

    def _serve(self, intake: PostingTarget, events: EventPages, front: Front | None = None, hint: str = "") -> None:
        """Start the API and the metrics server."""
        worker, registry = self.worker, self.metrics.registry
        self.metrics.watch(worker.is_ready, self.records.lags)
        backend = Backend(
            registry, worker.is_alive, worker.is_ready, intake.post, events, self.sensors.one, self.sensors.page, hint
        )
        servers = (
            api.serve(self.settings, backend, front),
            metrics_server.serve(self.settings.metrics, registry),
        )
        for server in servers:
            if server is not None:
                self._closing.callback(server.close)

    def _open_log(self) -> None:
        self.records.open(self.worker.is_stopping, self.worker.beat)


class KafkaService(ServiceProcess):
    """A worker in a consumer group."""

    def __init__(self, settings: Settings) -> None:
        metrics = Metrics(settings)
        super().__init__(settings, KafkaLog(settings, metrics), metrics)

    def _open(self) -> None:
        events, posting = RecentEvents(), Posting(self.settings)
        self.observers.append(events)
        self._closing.callback(posting.close)
        # First, since the API answers while the log waits for brokers.
        self._serve(posting, events.page, hint=" by this worker: another one may have it")
        self._open_log()


class EmbeddedService(ServiceProcess):
    """A service in one process, without a broker."""

    records: SqliteLog
    _compilers = (os.cpu_count() or 1) - 1

    def __init__(self, settings: Settings, terminal: Terminal | None = None) -> None:
        metrics = Metrics(settings, "embedded")
        if terminal is None:
            super().__init__(settings, SqliteLog(settings, metrics), metrics)
        else:
            super().__init__(settings, SqliteLog(settings, metrics, terminal.planted), metrics, terminal.ready)
        self._terminal = terminal

    def run(self) -> None:
        """See ``ServiceProcess.run``."""
        super().run()
        if self.records.failure is not None:
            raise self.records.failure

    def _open(self) -> None:
        self._open_log()
        database = self.records.database
        view = EmbeddedView(self.settings, database, self.metrics.registry)
        self._serve(self.records, partial(tables.events_between, database), view.front(self.sensors.one))
        deliveries = self._start_sinks()
        self._closing.callback(deliveries.raise_failure)
        self._closing.callback(deliveries.finish, self.settings.worker.stop_within_s)
        self.observers += [view, _StopsWithSinks(deliveries, self.worker)]
        if self._terminal is not None:
            self.observers.append(self._terminal)

    def _start_sinks(self) -> Deliveries:
        """Start each sink on its own thread."""
        deliveries, metrics = Deliveries(threading.Event()), SinkMetrics(self.metrics.registry)
        opened = [(sink, open_sink(sink, os.environ)) for sink in self.settings.sinks_in_force]
        for settings, sink in opened:
            reader = TableEvents(self.records.database, settings.name, settings.max_age_s, settings.gets_incidents)
            deliveries.start(
                Delivery(
                    settings, sink, reader, self.records.control.book, metrics, rng=random.Random(),
                    incidents=self.settings.incidents, stopping=deliveries.stopping,
                )
            )  # fmt: skip
            log.info("sink %s: %s to %s", settings.name, settings.kind, settings.where)
        return deliveries


class _StopsWithSinks:
    """Stops the worker if a sink has failed."""

    def __init__(self, deliveries: Deliveries, worker: Worker) -> None:
        self._deliveries, self._worker = deliveries, worker

    def committed(self, cycle: CommittedCycle) -> None:
        self.idle()

    def idle(self) -> None:
        if not self._deliveries.all_run():
            self._worker.stop()
