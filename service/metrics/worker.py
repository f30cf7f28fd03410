"""What a worker counts."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

import ishsmm_stream as hs
from service.metrics.lag import Lags, LagSeries
from service.metrics.sensors import SensorSeries
from service.sensors.counts import CycleCounts
from service.sensors.partition import Partition
from service.sensors.records import Outbound
from service.sensors.saved import Saved
from service.settings import Settings
from service.settings.sinks import STATUSES
from service.wire import messages
from service.wire.readings import REASONS

RESULTS = ("accepted", "rejected", "forwarded")

_CYCLES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_AGES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
_RESTORES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_STEPS = (5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 1e-2, 0.1)
_MASSES = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)

# Counters need no second series that says when they began.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The worker's metrics. Counters rise only after a commit: what was aborted was not done."""

    def __init__(self, settings: Settings = Settings(), mode: Literal["kafka", "embedded"] = "kafka") -> None:
        registry = self.registry = CollectorRegistry()
        only_kafka = registry if mode == "kafka" else None

        def counter(name: str, says: str, *labels: str) -> Counter:
            return Counter(name, says, labels, registry=registry)

        def gauge(name: str, says: str, *labels: str) -> Gauge:
            return Gauge(name, says, labels, registry=registry)

        def histogram(name: str, says: str, buckets: Iterable[float]) -> Histogram:
            return Histogram(name, says, buckets=tuple(buckets), registry=registry)

        Info("ishsmm_build", "What runs here", registry=registry).info(
            {
                "version": hs.__version__,
                "python": platform.python_version(),
                "mode": mode,
            }
        )
        ProcessCollector(registry=registry)
        self.ready = gauge("ishsmm_ready", "1 while records are worked off, 0 while starting, restoring or stopping")

        self.records = counter("ishsmm_records_total", "Input records, committed")
        self.readings = counter(
            "ishsmm_readings_total",
            "Readings by result, committed; a record that cannot be read is one reading",
            "result",
        )
        self.dead_letters = counter(
            "ishsmm_dead_letters_total", "Records and readings set aside by reason, committed", "reason"
        )
        self.events = counter("ishsmm_events_total", "Alarms, changes and notices by status, committed", "status")
        self.promised = counter(
            "ishsmm_alarms_promised_total",
            "Alarms that the sensors' budgets allow for the readings so far, by rule, committed",
            "rule",
        )
        self.raised = counter("ishsmm_alarms_raised_total", "Alarms raised, by rule, committed", "rule")
        self.observed = counter(
            "ishsmm_observed_seconds_total",
            "Time that sensors were read: readings times their mean interval, by rule, committed",
            "rule",
        )
        self.budget = gauge(
            "ishsmm_alarm_budget_per_week", "Alarms per sensor-week that the configuration allows, by rule", "rule"
        )
        self.states = counter("ishsmm_states_total", "State records published, committed")
        self.snapshots = counter("ishsmm_snapshots_total", "States of sensors written to the changelog")
        self.changelog_bytes = counter("ishsmm_changelog_bytes_total", "Bytes of these states")
        self.commits = counter("ishsmm_commits_total", "Cycles committed")
        self.aborts = counter("ishsmm_aborts_total", "Cycles that were rolled back and done again")
        self.restores = counter("ishsmm_restores_total", "Partitions restored")
        self.evictions = counter("ishsmm_evictions_total", "Detectors that were moved from memory to disk")
        # Without brokers there are none: then no series claims otherwise.
        self.rebalances = Counter("ishsmm_rebalances_total", "Times that partitions came or went", registry=only_kafka)
        self.topics_recreated = Counter(
            "ishsmm_topics_recreated_total",
            "Partitions of the input that were begun anew because their topic was deleted and created again",
            registry=only_kafka,
        )

        self.refused_partitions = Gauge(
            "ishsmm_refused_partitions",
            "Partitions of the input that are not read because they were added after the service's topics were made",
            registry=only_kafka,
        )

        self.sensors = gauge("ishsmm_sensors", "Sensors of the partitions that this worker has")
        self.active = gauge("ishsmm_active_sensors", "Sensors that have not fallen silent")
        self.silent = gauge("ishsmm_silent_sensors", "Sensors that have fallen silent")
        self.evicted = gauge("ishsmm_evicted_sensors", "Sensors whose detector waits on disk")
        self.detectors = gauge("ishsmm_detectors", "Detectors in memory")
        self.partitions = gauge("ishsmm_partitions", "Partitions that this worker has")
        self.queue_fill = gauge("ishsmm_queue_fill_ratio", "How full a queue is: 1 is its limit", "queue")

        self.cycle_seconds = histogram(
            "ishsmm_cycle_seconds", "Processing: from the records of a cycle in hand to their commit", _CYCLES
        )
        self.commit_seconds = histogram("ishsmm_commit_seconds", "How long commits took", _CYCLES)
        self.end_to_end_seconds = histogram(
            "ishsmm_end_to_end_seconds",
            "From the timestamp of a partition's oldest record in a cycle to its commit",
            _AGES,
        )
        self.inference_step_seconds = histogram(
            "ishsmm_inference_step_seconds",
            "The worker's time for inference and its messages, a reading, the mean of a cycle",
            _STEPS,
        )
        self.restore_seconds = histogram("ishsmm_restore_seconds", "How long restores of partitions took", _RESTORES)
        self.discarded_mass = histogram(
            "ishsmm_discarded_mass_ratio",
            "Mass that an exact filter dropped per observation, at each snapshot",
            _MASSES,
        )
        self.effective_chains = histogram(
            "ishsmm_effective_sample_size_ratio",
            "Effective sample size per chain of a detector, at each snapshot",
            _SHARES,
        )

        self.lag = LagSeries()
        registry.register(self.lag)
        self.by_sensor = SensorSeries(settings)
        registry.register(self.by_sensor)

        # Every series is there before its first count: an increase from nothing is none.
        self._results = {name: self.readings.labels(name) for name in RESULTS}
        self._reasons = {name: self.dead_letters.labels(name) for name in REASONS}
        self._statuses = {name: self.events.labels(name) for name in STATUSES}
        for rule in reversed(settings.rules_in_force):  # of two with one pattern the first is used
            for by_rule in (self.promised, self.raised, self.observed):
                by_rule.labels(rule.match)
            self.budget.labels(rule.match).set(rule.alarms.budget.per_week)

    def watch(self, is_ready: Callable[[], bool], lags: Lags) -> None:
        """Ask these at each scrape."""
        self.ready.set_function(lambda: float(is_ready()))
        self.lag.measure = lags

    # After a commit

    def committed(self, counts: CycleCounts, outputs: Iterable[Outbound], oldest: Iterable[int]) -> None:
        """Count what a cycle did. ``oldest``: the timestamp of each partition's first record, in milliseconds."""
        self.commits.inc()
        self.records.inc(counts.records)
        self._results["accepted"].inc(counts.readings)
        self._results["forwarded"].inc(counts.forwarded)
        self._results["rejected"].inc(counts.dead_letters)
        self.states.inc(counts.states)
        for counter, by_rule in (
            (self.promised, counts.promised), (self.raised, counts.raised), (self.observed, counts.observed)
        ):  # fmt: skip
            for rule, amount in by_rule.items():
                counter.labels(rule).inc(amount)
        for output in outputs:
            message = output.message
            if isinstance(message, messages.DeadLetter):
                self._reasons[message.reason].inc()
            elif isinstance(message, messages.Event):
                self._statuses[messages.status_of(message)].inc()
        self.by_sensor.committed(outputs)
        if counts.readings:
            self.inference_step_seconds.observe(counts.inference_seconds / counts.readings)
        now = time.time() * 1000.0
        for timestamp in oldest:
            if timestamp >= 0:
                self.end_to_end_seconds.observe(max(0.0, now - timestamp) / 1000.0)

    def saved(self, snapshots: Sequence[tuple[str, Saved]], detectors: Iterable[hs.OnlineDetector]) -> None:
        """Look at snapshots that were committed, and at their detectors."""
        self.snapshots.inc(len(snapshots))
        self.changelog_bytes.inc(sum(len(saved.state) for _, saved in snapshots))
        for detector in detectors:
            size = detector.effective_sample_size
            if size is not None:
                self.effective_chains.observe(size / detector.chains)
            elif detector.time:
                self.discarded_mass.observe(detector.discarded / detector.time)

    # Between cycles

    def look_at(self, partitions: Mapping[int, Partition]) -> None:
        """Bring what is said about sensors up to date."""
        held = partitions.values()
        sensors = sum(partition.sensors for partition in held)
        detectors = sum(partition.in_memory for partition in held)
        silent = sum(partition.silent for partition in held)
        self.partitions.set(len(partitions))
        self.sensors.set(sensors)
        self.detectors.set(detectors)
        self.evicted.set(sensors - detectors)
        self.silent.set(silent)
        self.active.set(sensors - silent)
        self.by_sensor.follow(partitions)
