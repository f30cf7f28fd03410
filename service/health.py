"""Whether the worker lives, whether it works, and what it counts: ``/healthz``, ``/readyz``, ``/metrics``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from service.partition import Counts


class Metrics:
    """The worker's metrics. Counters rise only after a commit: what was aborted was not done."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, says: str) -> Counter:
            return Counter(name, says, registry=self.registry)

        def gauge(name: str, says: str) -> Gauge:
            return Gauge(name, says, registry=self.registry)

        self.records = counter("ishsmm_records_total", "Input records, committed")
        self.readings = counter("ishsmm_readings_total", "Readings that detectors took, committed")
        self.dead_letters = counter("ishsmm_dead_letters_total", "Records and readings set aside, committed")
        self.events = counter("ishsmm_events_total", "Change-point events and notices published, committed")
        self.states = counter("ishsmm_states_total", "State records published, committed")
        self.snapshots = counter("ishsmm_snapshots_total", "States of sensors written to the changelog")
        self.changelog_bytes = counter("ishsmm_changelog_bytes_total", "Bytes written to the changelog")
        self.commits = counter("ishsmm_commits_total", "Cycles committed")
        self.aborts = counter("ishsmm_aborts_total", "Cycles that were rolled back and done again")
        self.restores = counter("ishsmm_restores_total", "Partitions restored")
        self.restore_seconds = gauge("ishsmm_restore_seconds", "How long the last restore took")
        self.sensors = gauge("ishsmm_sensors", "Sensors of the partitions that this worker has")
        self.silent = gauge("ishsmm_silent_sensors", "Sensors that have fallen silent")
        self.detectors = gauge("ishsmm_detectors", "Detectors in memory")
        self.partitions = gauge("ishsmm_partitions", "Partitions that this worker has")
        self.cycle_seconds = Histogram(
            "ishsmm_cycle_seconds", "From the poll to the commit of a cycle",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10), registry=self.registry,
        )  # fmt: skip

    def committed(self, counts: Counts) -> None:
        """Count what a cycle did."""
        self.commits.inc()
        self.records.inc(counts.records)
        self.readings.inc(counts.readings)
        self.dead_letters.inc(counts.dead_letters)
        self.events.inc(counts.events)
        self.states.inc(counts.states)


class HealthServer:
    """Answers on a thread of its own. ``is_alive`` and ``is_ready`` are asked at every request."""

    def __init__(
        self, host: str, port: int, metrics: Metrics, is_alive: Callable[[], bool], is_ready: Callable[[], bool]
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, generate_latest(metrics.registry), CONTENT_TYPE_LATEST)
                elif self.path == "/healthz":
                    self._answer(*((200, b"ok\n") if is_alive() else (503, b"no cycle for too long\n")))
                elif self.path == "/readyz":
                    self._answer(*((200, b"ready\n") if is_ready() else (503, b"starting, restoring or stopping\n")))
                else:
                    self._answer(404, b"there are /healthz, /readyz and /metrics\n")

            def _answer(self, status: int, body: bytes, content: str = "text/plain; charset=utf-8") -> None:
                self.send_response(status)
                self.send_header("Content-Type", content)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Probes come every few seconds: nothing worth a line."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise OSError(f"http.host, http.port: cannot listen on {host}:{port}: {error.strerror}") from None
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
