"""A backtest of a topic says what a worker published, and leaves no trace on the brokers."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from kafka_helpers import committed_values
from running import START, committed, readings, running, send, settings_for, wait_for

from service import cli
from service.kafka import groups
from service.kafka.connection import ConnectionProblem
from service.tools.audit import audit


def jump(sensor, size, seed):
    rng = np.random.default_rng(seed)
    return readings(sensor, np.r_[rng.normal(0.0, 1.0, 60), rng.normal(size, 1.0, 60)].tolist())


def backtest(monkeypatch, capsys, settings, *words):
    monkeypatch.setattr("service.settings.load", lambda *_: settings)
    code = cli.main(["backtest", "--out", "out", "--pictures", "0", *words])
    assert code == 0, capsys.readouterr().err
    with open("out/events.jsonl", "rb") as file:
        return sorted(file.read().splitlines())


def published(connection, settings, partitions=2):
    topic = settings.topics.events
    return sorted(value for number in range(partitions) for value in committed_values(connection, topic, number))


def counted(settings):
    """Readings that detectors have taken; asked for now and then, as asking takes the worker's time."""
    time.sleep(1.0)
    try:
        return sum(one.accepted + one.in_no_snapshot for one in audit(settings).sensors)
    except ConnectionProblem:  # nothing is committed yet
        return 0


@pytest.mark.parametrize("keyed", [True, False])
def test_it_says_what_the_worker_published_byte_for_byte(connection, tmp_path, monkeypatch, capsys, keyed):
    monkeypatch.chdir(tmp_path)
    rules = [{"match": "b*", "alarms": {"threshold": 0.9}, "time": {"silent_after_s": 30.0}}, {}]
    mapping = {"partitioned_by_sensor": keyed}
    settings = settings_for(connection, tmp_path, rules=rules, mapping=mapping)
    send(settings, [*jump("a", 8.0, 1), b"no reading", *jump("b", -5.0, 2)], 0)
    send(settings, jump("c", 6.0, 3), 1)
    with running(settings):
        wait_for(lambda: committed(settings) == 361, 120)
        wait_for(lambda: counted(settings) == 360, 120)
    groups_before = groups.committed(connection, settings.kafka.group)
    events = backtest(monkeypatch, capsys, settings)
    assert len(events) >= 6
    assert events == published(connection, settings)
    assert groups.committed(connection, settings.kafka.group) == groups_before
    assert json.loads((tmp_path / "out" / "report.json").read_text())["configurations"][0]["refused"] == {"not_json": 1}


def test_a_stretch_of_a_topic_by_the_times_of_its_records(connection, tmp_path, monkeypatch, capsys):
    """The records' own timestamps are all a minute after START."""
    monkeypatch.chdir(tmp_path)
    settings = settings_for(connection, tmp_path)
    send(settings, jump("a", 8.0, 1))
    assert len(backtest(monkeypatch, capsys, settings, "--from", str(START), "--to", str(START + 61))) == 2
    for words in (["--from", str(START + 61)], ["--to", str(START + 60)]):
        assert backtest(monkeypatch, capsys, settings, *words) == []
        assert "no readings" in capsys.readouterr().out


def test_a_topic_that_is_not_there_is_one_line(connection, tmp_path, monkeypatch, capsys):
    settings = settings_for(connection, tmp_path)
    monkeypatch.setattr("service.settings.load", lambda *_: settings)
    assert cli.main(["backtest", "--topic", "nowhere"]) == 2
    assert "topic 'nowhere' does not exist" in capsys.readouterr().err
