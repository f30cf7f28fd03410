"""Sinks and handling where one file holds everything: commands of other processes, resets, forgetting, a kill."""

from __future__ import annotations

import json
import sqlite3
import time
import typing

import msgspec
import numpy as np
import pytest
from embedded_helpers import Process, eventually, running, settings_of
from events import incident
from http_helpers import post

from service import cli
from service.embedded.database import Database
from service.embedded.events import TableEvents
from service.embedded.incidents import IncidentTable
from service.embedded.state_file import StateFile
from service.settings.sinks import SinkSettings, Status
from service.wire import messages

RULES = [{"window": {"readings": 20}}]


def jump(begin, length=60, size=20.0):
    rng = np.random.default_rng(0)
    values = np.r_[rng.normal(0.0, 1.0, length), rng.normal(size, 1.0, length)].tolist()
    return [(begin + i, value) for i, value in enumerate(values)]


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Readings come from a file that grows; a sink writes lines."""
    (tmp_path / "in.jsonl").touch()
    source = {"kinds": ["file"], "file": {"path": str(tmp_path / "in.jsonl"), "follow": True, "format": "lines"}}
    made = settings_of(tmp_path, RULES, source=source)
    lines = SinkSettings(kind="lines", name="archive", path=tmp_path / "events.jsonl", only=typing.get_args(Status))
    made = msgspec.structs.replace(made, sinks=(lines,))
    monkeypatch.setattr("service.settings.load", lambda *_: made)
    return made


def add(settings, sensor, readings):
    with settings.source.file.path.open("a") as file:
        for at, value in readings:
            file.write(json.dumps({"sensor": sensor, "time": at, "value": value}) + "\n")


def sent(settings):
    return [messages.decode(line) for line in settings.sinks[0].path.read_bytes().splitlines()]


def asked(settings, question):
    connection = sqlite3.connect(settings.source.state)
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()


def generations(settings, sensor):
    """Announced in the events that are kept."""
    found = [json.loads(value) for (value,) in asked(settings, "SELECT value FROM events ORDER BY seq")]
    return [(one["generation"], one["why"]) for one in found if one["sensor"] == sensor and one["type"] == "notice"]


def accepted(worker, sensor):
    found = worker.sensors.one(sensor)
    return 0 if found is None else found.accepted


def test_events_are_delivered_once_across_restarts_and_muted_ones_are_not(settings, capsys):
    add(settings, "a", jump(time.time() - 120))
    with running(settings):
        eventually(lambda: len(sent(settings)) == 2)
        assert cli.main(["mute", "b*", "--for", "1h"]) == 0
        add(settings, "b", jump(time.time() - 120))
        eventually(lambda: len(asked(settings, "SELECT seq FROM events")) == 4)
    with running(settings):  # what was muted stays unsaid
        add(settings, "c", jump(time.time() - 120))
        eventually(lambda: len(sent(settings)) == 4)
    assert [(event.sensor, event.status) for event in sent(settings)] == [
        ("a", "provisional"), ("a", "confirmed"), ("c", "provisional"), ("c", "confirmed"),
    ]  # fmt: skip
    capsys.readouterr()
    assert cli.main(["tail", "--no-follow", "--ids"]) == 0
    marked = [line.rsplit("[", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert [", muted]" in mark for mark in marked] == [False, False, True, True, False, False]
    assert cli.main(["ack", marked[0][:10], "--by", "ann"]) == 0
    assert f"acknowledged: {marked[0][:24]} of a, by ann" in capsys.readouterr().out


def test_what_is_old_is_not_sent(settings):
    add(settings, "a", jump(time.time() - 5000))
    with running(settings) as worker:
        counted = worker.metrics.registry.get_sample_value
        eventually(lambda: counted("ishsmm_sink_events_total", {"sink": "archive", "outcome": "too_old"}) == 2)
    assert sent(settings) == []


def test_a_running_service_hears_of_a_reset_and_of_a_forgetting(settings, capsys):
    begin = time.time() - 600
    add(settings, "a", jump(begin))
    add(settings, "b", jump(begin))
    with running(settings) as worker:
        eventually(lambda: len(asked(settings, "SELECT sensor FROM sensors")) == 2)
        eventually(lambda: accepted(worker, "b") == 120)
        assert cli.main(["reset", "a"]) == 0
        assert cli.main(["reset", "aa"]) == 2
        assert "no sensor 'aa' has a state; did you mean 'a'?" in capsys.readouterr().err
        add(settings, "a", [(begin + 200 + i, 1.0) for i in range(30)])
        eventually(lambda: generations(settings, "a") == [(1, "reset")])
        assert cli.main(["reset", "a"]) == 0
        assert cli.main(["reset", "a"]) == 2  # it waits for a reading
        assert cli.main(["forget", "b", "--yes"]) == 0
        eventually(lambda: worker.sensors.one("b") is None)
        for table in ("sensors", "states", "events"):
            assert asked(settings, f"SELECT DISTINCT sensor FROM {table} ORDER BY 1") == [("a",)]
    with running(settings) as worker:
        assert worker.sensors.one("b") is None
        add(settings, "b", [(begin + 300 + i, 1.0) for i in range(30)])
        eventually(lambda: accepted(worker, "b") == 30)
    assert generations(settings, "b") == [(1, "it was forgotten")]
    assert asked(settings, "SELECT generation FROM sensors WHERE sensor = 'b'") == [(1,)]


def test_a_reset_happens_once_although_the_service_is_killed(tmp_path, capsys):
    service = Process(tmp_path, rules=RULES)

    def give(first, count):
        body = [{"sensor": "a", "time": first + i, "value": float(i % 3)} for i in range(count)]
        assert post(service.port, body).status == 200

    begin = int(time.time()) - 900
    try:
        service.start()
        give(begin, 50)
        eventually(lambda: service.accepted("a") == 50)
        eventually(lambda: cli.main(["reset", "a", "--config", str(service.config)]) == 0)
        give(begin + 50, 50)
        service.kill()
        service.start()
        give(begin + 100, 50)
        eventually(lambda: asked_of(tmp_path, "SELECT count(*) FROM events")[0][0] >= 1)
        service.kill()
        service.start()
        give(begin + 150, 50)
        assert service.stop() == 0
    finally:
        service.kill()
    told = [json.loads(value) for (value,) in asked_of(tmp_path, "SELECT value FROM events ORDER BY seq")]
    assert [(one["generation"], one["why"]) for one in told if one["type"] == "notice"] == [(1, "reset")]
    assert asked_of(tmp_path, "SELECT generation FROM sensors") == [(1,)]


def asked_of(folder, question):
    connection = sqlite3.connect(folder / "state.sqlite")
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()


def test_a_reader_goes_on_behind_what_was_done(settings):
    add(settings, "a", jump(time.time() - 120))
    with running(settings):
        eventually(lambda: len(sent(settings)) == 2)
    visit = StateFile(settings.source.state)
    first = TableEvents(visit, "new", 900.0)
    both = first.read(0.0)
    assert len(both) == 2
    first.done(both[:1], {"open/x": b"{}"})
    assert first.read(0.0) == both[1:]
    assert TableEvents(visit, "new", 900.0).read(0.0) == both[1:]
    assert TableEvents(visit, "new", 900.0).remembered() == {"open/x": b"{}"}
    assert TableEvents(visit, "late", -1.0).read(0.0) == []  # nothing that new
    visit.close()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["mutes"], "there is no such file, the service has not run yet"),
        (["deliver"], "fed by `ishsmm-stream serve` itself"),
    ],
)
def test_a_mistake_is_one_line(settings, capsys, line, said):
    assert cli.main(line) == 2
    assert said in capsys.readouterr().err


def test_sinks_read_incidents_of_the_file_and_a_restart_goes_on_with_their_revisions(settings):
    with running(settings):
        pass
    database = Database(settings.source.state)
    at = time.time()
    table = IncidentTable(database, keep=2)
    table.note([incident("g", revision=i, seconds=at) for i in range(3)])
    assert [one.revision for one in IncidentTable(database, 2).published()] == [2]
    reader = TableEvents(database, "pager", 900.0, incidents=True)
    found = reader.read(0.0)
    assert [messages.decode_incident(one.value).revision for one in found] == [1, 2]  # as many as are kept
    reader.done(found[:1], {})
    again = TableEvents(database, "pager", 900.0, incidents=True).read(0.0)
    assert [one.place for one in again] == [("incidents", 3)]
    assert TableEvents(database, "archive", 900.0).read(0.0) == []
    database.close()
    limited = msgspec.structs.replace(settings.sinks[0], only=(), at_most="20 per day")
    with running(msgspec.structs.replace(settings, sinks=(limited,))):  # retracts what is not found in the events
        eventually(lambda: asked(settings, "SELECT max(seq) FROM incidents") == [(4,)])
    (value,) = asked(settings, "SELECT value FROM incidents ORDER BY seq DESC LIMIT 1")[0]
    assert messages.decode_incident(value).revision == 3
