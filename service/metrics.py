"""What a worker counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
