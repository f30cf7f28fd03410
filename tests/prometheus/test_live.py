"""A real Prometheus scrapes the running service: every expression has a series once its condition was provoked, every
alert fires and resolves."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time

import msgspec
import numpy as np
import pytest
from embedded_helpers import eventually, running, settings_of
from http_helpers import free_port, get, post
from prometheus_client import CollectorRegistry
from prometheus_helpers import (
    KAFKA_ONLY,
    alert_names,
    as_grafana_sends,
    dashboard_expressions,
    recorded,
    run_promtool,
    scraping,
)

from service.embedded import tables
from service.metrics import Metrics
from service.metrics.server import MetricsServer
from service.metrics.view import ViewMetrics
from service.settings.sections import MetricsSettings
from service.settings.sinks import CHANGES, SinkSettings

MODES = {
    "kind": "ied",
    "emission": {"family": "normal", "mean": 0.0, "mean_weight": 0.1, "shape": 1.0, "scale": 1.0},
    "duration": {"family": "poisson", "shape": 1.0, "scale": 100.0},
}
RULES = [
    {"match": "mode", "model": MODES, "detector": {"chains": 20}},
    {
        "match": "boiler",
        "labels": {"critical": True},
        "window": {"readings": 10},
        "alarms": {"per_sensor": "60 per minute"},  # the least that there is: 1,000 readings
    },
    {"match": "*", "time": {"silent_after_s": 40.0}, "window": {"readings": 10}},
]
QUIET = "quiet"
# Fired by the metrics of a worker on Kafka, in a test of their own
KAFKA_ALERTS = {"IshsmmPartitionsRefused", "IshsmmTopicRecreated", "IshsmmSensorSetAside"}
# Series that are there from the start: it takes more to see that they count.
PROVOKED = [
    "ishsmm_aborts_total",
    "ishsmm_evictions_total",
    "ishsmm_evicted_sensors",
    "ishsmm_incidents_total",
    "ishsmm_restore_seconds_count - 1",
    "ishsmm_effective_sample_size_ratio_count",
    'ishsmm_dead_letters_total{reason="duplicate"}',
    'ishsmm_readings_total{result="rejected"}',
    'ishsmm_events_total{status="back"}',
    'ishsmm_sensor_events_total{sensor="boiler", critical="true", status="confirmed"}',
    'ishsmm_sensor_events_total{sensor="quiet", critical="false", status="silent"}',
    'ishsmm_sink_events_total{sink="archive", outcome="sent"}',
]


class Plant:
    """Posts a reading of every sensor ten times a second, one second of their own time apart."""

    def __init__(self, port: int) -> None:
        self.sensors = ["boiler", "mode", QUIET, "steady"]
        self.level = 0.0  # of the boiler
        self.repeats = 1  # of every reading: a repetition is a duplicate
        self.burst = 0  # readings of another sensor in every post
        self._port = port
        self._time = time.time() - 7200.0
        self._noise = np.random.default_rng(4)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.wait(0.1):
            self._time += 1.0
            readings = []
            for name in self.sensors:
                value = self._noise.normal() + (self.level if name == "boiler" else 0.0)
                readings += [{"sensor": name, "time": self._time, "value": float(value)}] * self.repeats
            readings += [
                {"sensor": "busy", "time": self._time + i / 1000, "value": float(self._noise.normal())}
                for i in range(self.burst)
            ]
            with contextlib.suppress(OSError):  # the service is down at first
                post(self._port, readings)

    def __enter__(self) -> Plant:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


class Expectations:
    """Which expressions have had a series."""

    def __init__(self, server) -> None:
        self._server = server
        self.open = {place: as_grafana_sends(expr) for place, expr in dashboard_expressions().items()}
        self.open |= {name: name for name in recorded()}

    def look(self) -> None:
        self.open = {place: expr for place, expr in self.open.items() if not self._server.says(expr)}

    def until(self, condition, what: str) -> None:
        def looked() -> bool:
            self.look()
            return condition()

        eventually(looked, 45, f"{what}; still open: {sorted(self.open)}; firing: {self._server.firing()}")


@pytest.fixture
def view_port():
    """A view that knows of no incident yet."""
    registry, port = CollectorRegistry(), free_port()
    view = ViewMetrics(registry)
    server = MetricsServer(MetricsSettings(port=port), registry)
    yield port, view
    server.close()


@pytest.fixture
def kafka_worker():
    """The metrics of a worker on Kafka that is ready, for alerts that the embedded service cannot provoke."""
    port, metrics = free_port(), Metrics()
    metrics.ready.set(1)
    server = MetricsServer(MetricsSettings(port=port), metrics.registry)
    yield port, metrics
    server.close()


@pytest.mark.long
def test_alerts_on_what_happens_with_kafka_fire_and_resolve(tmp_path, kafka_worker):
    port, metrics = kafka_worker
    with scraping(tmp_path, port) as prometheus:
        eventually(lambda: prometheus.says("ishsmm_refused_partitions"), what="it is scraped")
        assert prometheus.firing() == set()
        metrics.refused_partitions.set(2)
        metrics.topics_recreated.inc()
        metrics.dead_letters.labels("set_aside").inc()
        fired: set[str] = set()
        eventually(lambda: fired.update(prometheus.firing()) or fired == KAFKA_ALERTS, 45, f"{KAFKA_ALERTS} fire")
        metrics.refused_partitions.set(0)
        eventually(lambda: prometheus.firing() == set(), 90, f"{KAFKA_ALERTS} resolve")


def test_every_expression_has_a_series_and_every_alert_fires_and_resolves(tmp_path, monkeypatch, view_port):
    port, scraped = free_port(), free_port()
    settings = settings_of(
        tmp_path, RULES, source={"kinds": ["http"]}, http={"port": port, "requests_per_s": 1e6},
        metrics={"port": scraped, "sensors": [QUIET]}, limits={"detectors": 3},
    )  # fmt: skip
    archive = SinkSettings(
        kind="lines", name="archive", path=tmp_path / "events.jsonl", age="publication", only=CHANGES
    )
    settings = msgspec.structs.replace(settings, sinks=(archive,))
    incidents_port, view = view_port
    fired, allowed, failing = set(), threading.Event(), threading.Event()
    allowed.set()
    commit = tables.commit

    def commit_when_allowed(*arguments):
        assert allowed.wait(30)
        if failing.is_set():
            failing.clear()
            raise sqlite3.OperationalError("disk I/O error")
        return commit(*arguments)

    monkeypatch.setattr(tables, "commit", commit_when_allowed)
    with scraping(tmp_path, scraped, incidents_port) as prometheus, Plant(port) as plant:
        expected = Expectations(prometheus)

        def fires(*names: str) -> None:
            expected.until(lambda: set(names) <= prometheus.firing(), f"{names} fire")
            fired.update(names)

        def resolve(*names: str) -> None:
            expected.until(lambda: not set(names) & prometheus.firing(), f"{names} resolve")

        # it is down
        fires("IshsmmWorkerNotReady")
        with running(settings):
            resolve("IshsmmWorkerNotReady")
            eventually(lambda: prometheus.query("ishsmm_sensor_run_length"), what="the boiler has a state")
            # so many readings that the boiler's habits are known well enough for a clear alarm
            known = 'ishsmm_sensor_run_length{sensor="boiler"} > 130'
            eventually(lambda: prometheus.query(known), 60, "the boiler has habits")
            assert prometheus.firing() == set()

            # a change, an incident, readings that are repeated, a sensor that says nothing
            plant.level, plant.repeats = 100.0, 2
            plant.sensors.remove(QUIET)
            view.incidents(1, 1)
            fires(
                "IshsmmCriticalSensorAlarm", "IshsmmCriticalSensorChanged", "IshsmmIncidentOpen", "IshsmmRejectsSpiking"
            )
            fires("IshsmmSensorSilent", "IshsmmSensorsSilent")
            shown = get(scraped, "/metrics").body
            plant.sensors.append(QUIET)
            plant.repeats = 1
            view.incidents(0, 1)

            # commits that wait while readings go on coming
            allowed.clear()
            plant.burst = 40
            fires("IshsmmCommitsStalled", "IshsmmLagGrowing")
            plant.burst = 0
            failing.set()
            allowed.set()
            resolve(*alert_names())
            for name in PROVOKED:
                assert prometheus.says(f"{name} > 0"), name
            expected.until(lambda: all(KAFKA_ONLY in expr for expr in expected.open.values()), "all expressions")
    assert fired == set(alert_names()) - KAFKA_ALERTS
    checked = run_promtool("check", "metrics", stdin=shown)
    assert checked.returncode == 0, checked.stdout + checked.stderr
