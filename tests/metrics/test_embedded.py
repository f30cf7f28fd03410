"""What the embedded worker counts."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from embedded_helpers import eventually, running, settings_of
from http_helpers import free_port, get, post

from service.embedded import tables

RULES = [
    {"match": "mode", "model": {
        "kind": "ied",
        "emission": {"family": "normal", "mean": 0.0, "mean_weight": 0.1, "shape": 1.0, "scale": 1.0},
        "duration": {"family": "poisson", "shape": 1.0, "scale": 100.0},
    }},
    {"match": "critical", "labels": {"critical": True}, "alarms": {"threshold": 0.98}},
    {"match": "*", "alarms": {"threshold": 0.98}, "time": {"silent_after_s": 30.0}},
]  # fmt: skip


def stepping(sensor, length=90, seed=0):
    """A sensor with a step at two thirds, a reading a second."""
    values = np.random.default_rng(seed).normal(size=length) + 8.0 * (np.arange(length) >= 2 * length // 3)
    return [{"sensor": sensor, "time": 1.7e9 + t, "value": float(v)} for t, v in enumerate(values)]


@pytest.fixture
def service(tmp_path):
    port, own = free_port(), free_port()
    settings = settings_of(
        tmp_path, RULES, source={"kinds": ["http"]}, http={"port": port, "requests_per_s": 1e6},
        metrics={"port": own, "token": "secret", "sensors": ["quiet"]},
    )  # fmt: skip
    with running(settings) as worker:

        def value(name, **labels):
            return worker.metrics.registry.get_sample_value(name, labels)

        yield port, own, value


def test_what_is_counted(service):
    port, own, value = service
    assert value("ishsmm_ready") == 1
    assert value("ishsmm_events_total", status="provisional") == 0  # there before the first
    readings = stepping("critical") + stepping("mode", 90, 1) + stepping("quiet", 20)
    post(port, sorted(readings, key=lambda reading: reading["time"]))
    later = [{"sensor": "other", "time": 1.7e9 + 100, "value": 1.0}]
    post(port, later + later)
    eventually(lambda: value("ishsmm_readings_total", result="accepted") == 201)
    eventually(lambda: value("ishsmm_events_total", status="silent") == 1)
    assert value("ishsmm_readings_total", result="rejected") == 1
    assert value("ishsmm_readings_total", result="forwarded") == 0
    assert value("ishsmm_dead_letters_total", reason="duplicate") == 1
    assert value("ishsmm_dead_letters_total", reason="not_json") == 0
    assert value("ishsmm_sensor_events_total", sensor="critical", critical="true", status="provisional") == 1
    assert value("ishsmm_sensor_events_total", sensor="critical", critical="true", status="confirmed") == 1
    assert value("ishsmm_sensor_events_total", sensor="other", critical="false", status="confirmed") is None
    assert value("ishsmm_events_total", status="provisional") >= 1
    # the rest is promised for as long as it is read: a reading per second, at one alarm per week
    assert value("ishsmm_alarm_budget_per_week", rule="critical") == 7.0
    assert value("ishsmm_alarm_budget_per_week", rule="*") == 1.0
    for rule, seconds, per_week in (("critical", 90.0, 7.0), ("mode", 90.0, 1.0)):
        assert value("ishsmm_observed_seconds_total", rule=rule) == pytest.approx(seconds)
        assert value("ishsmm_alarms_promised_total", rule=rule) == pytest.approx(seconds * per_week / 604_800.0)
        assert value("ishsmm_alarms_raised_total", rule=rule) is not None
    eventually(lambda: value("ishsmm_silent_sensors") == 1)
    assert value("ishsmm_sensor_silent", sensor="quiet", critical="false") == 1
    assert value("ishsmm_active_sensors") == 3
    assert value("ishsmm_sensors") == value("ishsmm_detectors") == 4
    assert value("ishsmm_evicted_sensors") == 0
    assert value("ishsmm_lag_records", topic="intake", partition="0") == 0
    assert value("ishsmm_queue_fill_ratio", queue="intake") == 0
    # a cycle may end between two questions: what is counted first is asked for last
    cycles, measured = value("ishsmm_cycle_seconds_count"), value("ishsmm_end_to_end_seconds_count")
    commits = value("ishsmm_commits_total")
    assert 0 < measured <= commits <= value("ishsmm_commit_seconds_count")
    assert cycles <= commits
    assert 1e-6 < value("ishsmm_inference_step_seconds_sum") / value("ishsmm_inference_step_seconds_count") < 1
    eventually(lambda: value("ishsmm_snapshots_total") >= 4)
    assert value("ishsmm_changelog_bytes_total") > 1000
    eventually(lambda: value("ishsmm_effective_sample_size_ratio_count") >= 1)
    assert value("ishsmm_discarded_mass_ratio_count") >= 3
    assert value("ishsmm_restore_seconds_count") == value("ishsmm_restores_total") == 1
    assert value("ishsmm_rebalances_total") is None
    # the same on both ports
    assert get(own, "/metrics").status == 401
    shown = get(own, "/metrics", authorization="Bearer secret").body.decode()
    assert 'ishsmm_sensor_silent{critical="false",sensor="quiet"} 1.0' in shown
    assert 'ishsmm_build_info{mode="embedded"' in shown
    there = [line.split(" ")[0] for line in get(port, "/metrics").body.decode().splitlines()]
    assert there == [line.split(" ")[0] for line in shown.splitlines()]
    assert "_created" not in shown


def test_what_was_rolled_back_is_not_counted(service, monkeypatch):
    port, _, value = service
    commit, failed = tables.commit, []

    def fails_once(*arguments):
        if arguments[1].outputs and not failed:
            failed.append(True)
            raise sqlite3.OperationalError("disk I/O error")
        return commit(*arguments)

    monkeypatch.setattr(tables, "commit", fails_once)
    post(port, stepping("critical", 90))
    eventually(lambda: value("ishsmm_aborts_total") == 1)
    eventually(lambda: value("ishsmm_events_total", status="confirmed"))
    assert failed
    assert value("ishsmm_readings_total", result="accepted") == 90
    assert value("ishsmm_sensor_events_total", sensor="critical", critical="true", status="provisional") == 1
    assert value("ishsmm_events_total", status="provisional") == 1
    assert value("ishsmm_commits_total") == value("ishsmm_commit_seconds_count")
