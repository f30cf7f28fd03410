"""The embedded worker: whatever the source and however often it is restarted, what comes out is the same."""

from __future__ import annotations

import base64
import itertools
import json
import sqlite3
import sys
import threading
from concurrent.futures import Future

import numpy as np
import pytest
from embedded_helpers import eventually, run_to_end, running, settings_of
from http_helpers import free_port, get, post

from service.embedded import feeds as feeds_module
from service.embedded import tables
from service.embedded.intake import Intake
from service.embedded.log import SqliteLog
from service.sensors.inference import infer
from service.sensors.rules import prepare_rule
from service.sensors.track import Track, tally
from service.sources import plant
from service.tools.show import introduction
from service.wire import messages
from service.wire.readings import Reading

START = 1_767_225_600
RULES = [{"window": {"readings": 20}}]


def stream(sensors=4, length=120, seed=0):
    """(sensor, seconds, value) of several sensors in turn, each with a step at two thirds."""
    rng = np.random.default_rng(seed)
    return [
        (f"s{s}", START + t, round(float(rng.normal()) + (7.0 if t >= 2 * length // 3 + s else 0.0), 6))
        for t in range(length)
        for s in range(sensors)
    ]


def long_csv(readings):
    return "sensor,time,value\n" + "".join(f"{sensor},{time},{value}\n" for sensor, time, value in readings)


def json_lines(readings):
    return "".join(json.dumps({"sensor": s, "time": t, "value": v}) + "\n" for s, t, v in readings)


def wide_csv(readings):
    names = sorted({sensor for sensor, _, _ in readings})
    rows = itertools.groupby(readings, key=lambda one: one[1])
    cells = [(time, {sensor: value for sensor, _, value in row}) for time, row in rows]
    return f"time,{','.join(names)}\n" + "".join(
        f"{time},{','.join(str(row.get(name, '')) for name in names)}\n" for time, row in cells
    )


def alone(readings, settings):
    """The events of each sensor run by itself, all its readings in one go."""
    found = {}
    for name in sorted({sensor for sensor, _, _ in readings}):
        track = Track(name, prepare_rule(settings.rule_for(name)))
        taken = []
        for sensor, time, value in readings:
            if sensor == name:
                reading = Reading(sensor, time * 1_000_000, (value,))
                taken.append((reading.time, reading.values, track.judge(reading, -1)))
        found[name] = [messages.encode(event) for event in infer(track, taken).events]
    return found


def events_in(folder):
    database = sqlite3.connect(folder / "state.sqlite")
    found = {}
    for sensor, value in database.execute("SELECT sensor, value FROM events ORDER BY seq"):
        found.setdefault(sensor, []).append(value)
    database.close()
    return found


def counted_in(folder):
    database = sqlite3.connect(folder / "state.sqlite")
    found = {sensor: tally(state).accepted for sensor, state in database.execute("SELECT sensor, state FROM sensors")}
    database.close()
    return found


def letters_in(folder):
    database = sqlite3.connect(folder / "state.sqlite")
    found = [json.loads(value) for (value,) in database.execute("SELECT value FROM dead_letters ORDER BY seq")]
    database.close()
    return found


def of_file(folder, name, text, rules=RULES, **options):
    (folder / name).write_text(text)
    source = {"kinds": ["file"], "until_end": True, "file": {"path": str(folder / name), **options}}
    return settings_of(folder, rules, source=source)


@pytest.mark.parametrize(
    ("name", "write"), [("data.csv", long_csv), ("wide.csv", wide_csv), ("data.jsonl", json_lines)]
)
def test_every_kind_of_file_gives_the_same_events(tmp_path, name, write):
    settings = of_file(tmp_path, name, write(stream()))
    run_to_end(settings)
    assert events_in(tmp_path) == alone(stream(), settings)
    assert counted_in(tmp_path) == {f"s{s}": 120 for s in range(4)}
    assert letters_in(tmp_path) == []
    run_to_end(settings)  # nothing is read again
    assert counted_in(tmp_path) == {f"s{s}": 120 for s in range(4)}


def test_stdin_gives_the_same_events(tmp_path, monkeypatch):
    (tmp_path / "in").write_text(json_lines(stream()))
    settings = settings_of(tmp_path, RULES, source={"kinds": ["stdin"], "until_end": True})
    with (tmp_path / "in").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        run_to_end(settings)
    assert events_in(tmp_path) == alone(stream(), settings)


def test_restarts_in_the_middle_of_a_followed_file_change_nothing(tmp_path):
    readings = stream(length=200)
    path = tmp_path / "data.csv"
    path.write_text("")
    source = {"kinds": ["file"], "file": {"path": str(path), "follow": True}}
    settings = settings_of(tmp_path, RULES, source=source)
    text = long_csv(readings)
    for begin in range(0, len(text), 5000):  # pieces end anywhere in a line
        with path.open("a") as file:
            file.write(text[begin : begin + 5000])
        lines = text[: begin + 5000].count("\n") - 1
        with running(settings) as worker:
            eventually(lambda lines=lines: tables.position(worker.records.database).next_offset == lines + 1)
    assert events_in(tmp_path) == alone(readings, settings)


def test_bad_lines_are_dead_letters_with_their_bytes_and_their_source(tmp_path):
    text = "sensor,time,value\na,1,1\na,x,2\na,3,oops\n\xff\n,4,4\na,5,5\n"
    path = tmp_path / "data.csv"
    settings = of_file(tmp_path, "data.csv", "")
    path.write_bytes(text.encode("latin-1"))
    run_to_end(settings)
    letters = letters_in(tmp_path)
    assert [letter["reason"] for letter in letters] == ["bad_time", "not_a_number", "not_utf8", "bad_sensor"]
    assert base64.b64decode(letters[1]["value"]) == b"a,3,oops"
    assert letters[0]["topic"] == f"file:{path}"
    assert letters[1]["detail"] == 'column value is "oops"'
    assert counted_in(tmp_path) == {"a": 2}


def test_a_header_that_cannot_be_read_ends_the_worker_with_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"data\.csv: there is no column 'time'"):
        run_to_end(of_file(tmp_path, "data.csv", "a,b\n1,2\n"))


def test_a_missing_file_ends_the_worker(tmp_path):
    settings = of_file(tmp_path, "data.csv", "")
    (tmp_path / "data.csv").unlink()
    with pytest.raises(FileNotFoundError):
        run_to_end(settings)


def test_another_model_starts_a_new_generation(tmp_path):
    settings = of_file(tmp_path, "data.csv", long_csv(stream()))
    run_to_end(settings)
    more = stream(length=140)[480:]
    (tmp_path / "data.csv").write_text(long_csv(stream()) + long_csv(more).split("\n", 1)[1])
    source = {"kinds": ["file"], "until_end": True, "file": {"path": str(tmp_path / "data.csv")}}
    run_to_end(settings_of(tmp_path, [{"detector": {"seed": 9}}], source=source))
    last = [json.loads(events[-1]) for events in events_in(tmp_path).values()]
    assert [event["kind"] for event in last] == ["new_generation"] * 4
    assert counted_in(tmp_path) == {f"s{s}": 20 for s in range(4)}


def test_a_disk_that_refuses_a_commit_costs_nothing(tmp_path, monkeypatch):
    commit, left = tables.commit, [3]

    def refusing(*arguments):
        if left[0] and arguments[1].outputs:
            left[0] -= 1
            raise sqlite3.OperationalError("database or disk is full")
        commit(*arguments)

    monkeypatch.setattr(tables, "commit", refusing)
    monkeypatch.setattr(SqliteLog, "retry_s", 0.01)
    settings = of_file(tmp_path, "data.csv", long_csv(stream()))
    run_to_end(settings)
    assert left == [0]
    assert events_in(tmp_path) == alone(stream(), settings)


def test_an_intake_that_refuses_is_tried_again(tmp_path, monkeypatch):
    append, left = Intake.append, [2]

    def refusing(self, *arguments, **options):
        done = append(self, *arguments, **options) if not left[0] else None
        if done is None:
            left[0] -= 1
            done = Future()
            done.set_exception(sqlite3.OperationalError("database or disk is full"))
        return done

    monkeypatch.setattr(Intake, "append", refusing)
    monkeypatch.setattr(feeds_module, "_TRY_AGAIN", 0.01)
    run_to_end(of_file(tmp_path, "data.csv", long_csv(stream())))
    assert left == [0]
    assert counted_in(tmp_path) == {f"s{s}": 120 for s in range(4)}


def test_more_sensors_than_detectors_in_memory(tmp_path):
    readings = stream(sensors=6)
    path = tmp_path / "data.csv"
    path.write_text(long_csv(readings))
    source = {"kinds": ["file"], "until_end": True, "file": {"path": str(path)}}
    limits = {"detectors": 2}
    settings = settings_of(tmp_path, RULES, source=source, limits=limits, worker={"poll_records": 40})
    run_to_end(settings)
    assert events_in(tmp_path) == alone(readings, settings)


def test_the_plant_goes_on_where_it_was_and_its_readings_are_all_there(tmp_path):
    source = {"kinds": ["simulate"], "simulate": {"rate": 200.0, "seed": 5}}
    settings = settings_of(tmp_path, source=source)
    for least in (20, 40):
        with running(settings) as worker:
            eventually(lambda least=least: int(worker.records._intake.position_of("simulate:5") or 0) >= least)
    with running(settings_of(tmp_path, source={"kinds": ["http"]})) as worker:  # what was still on its way
        eventually(lambda: worker.records._intake.backlog == 0)
    database = sqlite3.connect(tmp_path / "state.sqlite")
    (last,) = database.execute("SELECT position FROM sources").fetchone()
    steps = list(itertools.islice(plant.ticks(5), int(last) + 1))
    expected = {}
    for sensor, value, _ in itertools.chain.from_iterable(steps):
        if value is not None:
            expected[sensor] = expected.get(sensor, 0) + 1
    assert counted_in(tmp_path) == expected


def test_sources_wait_while_the_detectors_are_behind(tmp_path):
    readings = stream(sensors=2, length=3000)
    path = tmp_path / "data.csv"
    path.write_text(long_csv(readings))
    source = {"kinds": ["file"], "until_end": True, "backlog": 100, "file": {"path": str(path)}}
    settings = settings_of(tmp_path, RULES, source=source, worker={"poll_records": 300})
    highest = []

    class Watched(feeds_module.Feed):
        def _append(self, *arguments):
            highest.append(self._intake.backlog)
            super()._append(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.embedded.log.Feed", Watched)
        run_to_end(settings)
    assert max(highest) <= 100
    assert sum(counted_in(tmp_path).values()) == 6000


# Over HTTP


def test_posts_are_answered_429_while_behind_and_taken_again_after(tmp_path):
    """The detectors are held up; the clients are told so; when they go on, so do the clients, and nothing is lost."""
    port = free_port()
    source = {"kinds": ["http"], "backlog": 200}
    settings = settings_of(tmp_path, source=source, http={"port": port, "requests_per_s": 1e6})
    with running(settings) as worker:
        taken, refused = 0, 0
        with worker.worker.lock:  # as in a cycle without end
            for i in range(40):
                batch = [{"sensor": "a", "time": START + 10 * i + j, "value": float(j)} for j in range(10)]
                answer = post(port, batch)
                if answer.status == 200:
                    taken += 10
                else:
                    assert answer.problem == (429, "behind")
                    assert int(answer.headers["retry-after"]) >= 1
                    refused += 1
            assert refused > 5
            assert taken >= 200
        eventually(lambda: worker.records._intake.backlog == 0, what="worked off")
        later = {"sensor": "a", "time": START + 1000, "value": 1.0}
        eventually(lambda: post(port, later).status == 200, what="taken again")
        eventually(lambda: get(port, "/v1/sensors/a").json["accepted"] == taken + 1, what="counted")


def test_without_http_among_the_kinds_nothing_is_posted(tmp_path):
    port = free_port()
    (tmp_path / "data.csv").write_text("sensor,time,value\n")
    source = {"kinds": ["file"], "file": {"path": str(tmp_path / "data.csv")}}
    with running(settings_of(tmp_path, source=source, http={"port": port})):
        answer = post(port, {"sensor": "a", "value": 1})
        assert answer.problem == (409, "not_taken")
        assert "source.kinds" in answer.json["error"]["detail"]


def test_the_api_tells_of_what_was_posted(tmp_path):
    port = free_port()
    settings = settings_of(tmp_path, RULES, source={"kinds": ["http"]}, http={"port": port, "requests_per_s": 1e6})
    readings = stream(sensors=2)
    with running(settings):
        for begin in range(0, len(readings), 37):
            batch = [{"sensor": s, "time": t, "value": v} for s, t, v in readings[begin : begin + 37]]
            assert post(port, batch).status == 200
        eventually(lambda: get(port, "/v1/sensors/s1").json.get("accepted") == 120)
        found = get(port, "/v1/events?sensor=s1").json["events"]
        expected = [json.loads(value) for value in alone(readings, settings)["s1"]]
        assert [one["event"] for one in found] == expected
        assert [one["sensor"] for one in get(port, "/v1/sensors").json["sensors"]] == ["s0", "s1"]
        metrics = get(port, "/metrics").body.decode()
        assert 'ishsmm_readings_total{result="accepted"} 240.0' in metrics
        # a posterior asked for from many threads while readings come
        errors = []

        def ask():
            for _ in range(10):
                answer = get(port, "/v1/sensors/s0")
                if answer.status != 200:
                    errors.append(answer)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i in range(20):
            post(port, {"sensor": "s0", "time": START + 1000 + i, "value": 7.0})
        for thread in threads:
            thread.join()
        assert errors == []


def test_people_are_told_what_runs_and_where_to_look(tmp_path):
    (tmp_path / "data.csv").write_text(long_csv(stream()))
    source = {"kinds": ["file", "http"], "file": {"path": str(tmp_path / "data.csv"), "follow": True}}
    said = "\n".join(introduction(settings_of(tmp_path, source=source, http={"port": 1234})))
    assert "data.csv and what is appended to it" in said
    assert "http://127.0.0.1:1234/v1/events" in said
    assert "curl" in said
    assert "Ctrl-C" in said
