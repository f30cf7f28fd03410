"""Sinks fed from Kafka: a consumer group for each, so that they do not wait for each other."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Sequence

import prometheus_client

from service.kafka.changelog import ReadStalled
from service.kafka.connection import ConnectionProblem
from service.kafka.control import ControlFollower
from service.kafka.events import KafkaEvents
from service.kafka.input import connection_of
from service.kafka.sink_records import SinkRecords
from service.metrics.server import MetricsServer
from service.settings import Settings
from service.settings.sections import MetricsSettings
from service.settings.sinks import SinkSettings
from service.sinks import open_sink
from service.sinks.delivery import Deliveries, Delivery, SinkMetrics

log = logging.getLogger(__name__)

_MUTES_READ_EVERY = 0.5


def group_of(settings: Settings, sink: SinkSettings) -> str:
    """The consumer group of a sink."""
    return f"{settings.kafka.group}-{sink.name}"


def _read_by(settings: Settings, sink: SinkSettings) -> list[str]:
    """The topics whose messages a sink may be sent. Incidents are there if a view runs."""
    return [settings.topics.events, *([settings.topics.incidents] if sink.gets_incidents else [])]


def deliver(settings: Settings, sinks: Sequence[SinkSettings], stopping: threading.Event, port: int = 0) -> None:
    """Feed the sinks until told to stop; raises what ended one of them before that."""
    connection, names = connection_of(settings), settings.topics
    for sink in sinks:
        reads = [*_read_by(settings, sink), names.control, names.sink_records]
        connection.check(reads=reads, writes=[names.sink_records], group=group_of(settings, sink))
    control = ControlFollower(connection, names.control)
    try:
        control.catch_up()
    except ReadStalled as stalled:
        control.close()
        raise ConnectionProblem(str(stalled)) from stalled
    metrics = SinkMetrics(prometheus_client.CollectorRegistry())
    if port:
        scraped = MetricsSettings(port=port, hosts=settings.metrics.hosts)
        MetricsServer(scraped, metrics.registry, keys="--port")
    deliveries = Deliveries(stopping)
    for sink in sinks:
        reader = KafkaEvents(
            connection, _read_by(settings, sink), group_of(settings, sink), sink.max_age_s,
            SinkRecords(connection, names.sink_records, group_of(settings, sink)), one_member=sink.limit is not None,
        )  # fmt: skip
        deliveries.start(
            Delivery(
                sink, open_sink(sink, os.environ), reader, control.book, metrics,
                rng=random.Random(), incidents=settings.incidents, stopping=stopping,
            )
        )  # fmt: skip
        log.info("sink %s: %s to %s", sink.name, sink.kind, sink.where)
    try:
        while not stopping.wait(_MUTES_READ_EVERY) and deliveries.all_run():
            control.poll()
    finally:
        stopping.set()
        deliveries.join()
        control.close()
        log.info("left")
    deliveries.raise_failure()
