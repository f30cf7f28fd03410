"""The detect command as a user calls it: through the program's entry, with files and pipes."""

import io
import json
import math
import os
import pty
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.commands import _detection, _rows, _sensors, detect
from service import cli
from service.cli import main

ROOT = Path(cli.__file__).parents[1]


def no_constant(name):
    raise AssertionError(f"{name} is not JSON")


def read_json(path):
    return json.loads(path.read_text(), parse_constant=no_constant)


def read_events(path):
    return [json.loads(line, parse_constant=no_constant) for line in path.read_text().splitlines()]


def run(*arguments):
    return main(["detect", *map(str, arguments)])


def failure(capsys, *arguments):
    """The one line that a failing call prints."""
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ishsmm-stream: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def steps(*levels, length=60, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(level, 1.0, length) for level in levels]).round(3)


def as_cell(value):
    return "" if math.isnan(value) else repr(float(value))


@pytest.fixture
def one(tmp_path):
    """One sensor with two changes and a gap."""
    y = steps(0.0, 8.0, 0.0)
    y[20:23] = np.nan
    path = tmp_path / "one.csv"
    path.write_text("t,value\n" + "".join(f"{10 * t},{as_cell(value)}\n" for t, value in enumerate(y)))
    return path, y


@pytest.fixture
def three(tmp_path):
    """Three sensors whose rows come in turn, with rows that cannot be read among them."""
    streams = {"a": steps(0.0, 8.0, seed=1), "b": steps(5.0, 5.0, seed=2), "c": steps(3.0, -9.0, seed=3)}
    lines = ["sensor,when,value"]
    for t in range(120):
        lines += [f"{name},{t:03d}h,{as_cell(y[t])}" for name, y in streams.items()]
        if t in (30, 90):
            lines += ["a,,error", "b,,-inf", ",,1.0", "c,1"]
    path = tmp_path / "three.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, streams


# What it says


def test_the_files_hold_what_the_detector_says(one, tmp_path, capsys):
    path, y = one
    out, events, picture = tmp_path / "result.json", tmp_path / "events.jsonl", tmp_path / "result.png"
    options = ["--column", "value", "--time-column", "t", "--threshold", 0.95, "--lag", 32, "--seed", 3]
    assert run(path, *options, "--out", out, "--events", events, "--plot", picture, "--quiet") == 0

    detector = hs.OnlineDetector(threshold=0.95, lag=32, seed=3)
    expected = detector.update_many(y)
    result = read_json(out)
    assert read_events(events) == result["events"]
    assert [{key: event[key] for key in hs.Event._fields} for event in result["events"]] == [
        {**event._asdict(), "reasons": list(event.reasons)} for event in expected
    ]
    for event in result["events"]:
        assert (event["line"], event["time"]) == (event["at"] + 2, str(10 * event["at"]))
        assert (event["index_line"], event["index_time"]) == (event["index"] + 2, str(10 * event["index"]))
        assert event["sensor"] is None

    (sensor,) = result["sensors"]
    assert [point["index"] for point in sensor["change_points"]] == [60, 120]
    assert sensor["change_points"] == [
        {**point._asdict(), "line": point.index + 2, "time": str(10 * point.index)} for point in detector.change_points
    ]
    assert sensor["alarms"] == [alarm._asdict() for alarm in detector.announced_changes]
    state = sensor["state"]
    assert {key: state[key] for key in hs.StateEstimate._fields} == detector.state._asdict()
    assert (state["line"], state["time"]) == (122, "1200")
    assert (sensor["n_observations"], sensor["n_missing"]) == (180, 3)
    assert sensor["log_evidence"] == detector.log_evidence
    assert (result["n_observations"], result["n_bad_rows"], result["bad_rows"]) == (180, 0, [])
    assert not result["is_interrupted"]
    assert result["settings"] == {
        "data": str(path), "format": "csv", "columns": ["value"], "sensor_column": None, "time_column": "t",
        "model": "auto", "every": 1000.0, "threshold": 0.95, "lag": 32, "seed": 3, "version": hs.__version__,
    }  # fmt: skip

    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    assert sorted(tmp_path.iterdir()) == sorted([path, out, events, picture])  # nothing half-written is left
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert lines[0].split() == ["at", "event", "change", "at", "probability", "90%", "interval", "unusual"]
    for line, event in zip(lines[1:], expected, strict=False):
        at, when, kind, index, since, *_ = line.split()
        assert (int(at), int(when), kind) == (event.at, 10 * event.at, event.kind)
        assert (int(index), int(since)) == (event.index, 10 * event.index)
    assert "auto: 180 observations of value, 3 missing, 0 alarms, 2 announced changes" in captured.out
    assert "State now" in captured.out


def test_each_sensor_is_followed_apart_and_events_come_in_order(three, tmp_path, capsys):
    path, streams = three
    out = tmp_path / "result.json"
    assert run(path, "--sensor-column", "sensor", "--time-column", "when", "--out", out, "--quiet") == 0
    result = read_json(out)
    assert [sensor["sensor"] for sensor in result["sensors"]] == ["a", "b", "c"]
    lines = [event["line"] for event in result["events"]]
    assert lines == sorted(lines)
    for sensor in result["sensors"]:
        detector = hs.OnlineDetector()
        expected = detector.update_many(streams[sensor["sensor"]])
        its_events = [event for event in result["events"] if event["sensor"] == sensor["sensor"]]
        assert [(event["kind"], event["at"]) for event in its_events] == [(event.kind, event.at) for event in expected]
        assert all(event["time"] == f"{event['at']:03d}h" for event in its_events)
        assert [point["index"] for point in sensor["change_points"]] == [
            point.index for point in detector.change_points
        ]
    assert len(result["sensors"][0]["change_points"]) == 1
    text = capsys.readouterr().out
    assert "auto: 360 observations of value, 3 sensors, 8 rows set aside, 0 alarms, 2 announced changes" in text


def test_bad_rows_are_set_aside_with_their_reason(three, tmp_path, capsys):
    path, _ = three
    out = tmp_path / "result.json"
    assert run(path, "--sensor-column", "sensor", "--time-column", "when", "--out", out) == 0
    result = read_json(out)
    reasons = [
        "'error' in column 'value' is no finite number",
        "'-inf' in column 'value' is no finite number",
        "no name in column 'sensor'",
        "2 cells, but the header has 3 columns",
    ]
    assert result["n_bad_rows"] == 8
    assert [row["reason"] for row in result["bad_rows"]] == reasons * 2
    assert [row["line"] for row in result["bad_rows"]] == [95, 96, 97, 98, 279, 280, 281, 282]
    captured = capsys.readouterr()
    notes = captured.err.splitlines()
    assert notes[:2] == [f"line 95 is set aside: {reasons[0]}", f"line 96 is set aside: {reasons[1]}"]
    assert sum("is set aside" in note for note in notes) == 5
    assert "more lines are set aside; --out writes all of them" in notes
    assert "8 rows set aside" in captured.out


@pytest.mark.parametrize("model", [[], ["--model", "ilr"]], ids=["auto", "ilr"])
@pytest.mark.parametrize(("bytes_at_once", "rows_at_once"), [(1, 4096), (7, 3), (1 << 16, 1), (1 << 16, 37)])
def test_the_result_does_not_depend_on_what_is_read_at_once(
    three, tmp_path, monkeypatch, capsys, bytes_at_once, rows_at_once, model
):
    path, _ = three
    options = [path, "--sensor-column", "sensor", "--column", "value", *model, "--quiet"]
    files = [tmp_path / name for name in ("a.json", "b.json", "a.jsonl", "b.jsonl")]
    assert run(*options, "--out", files[0], "--events", files[2]) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(_rows, "_READ_AT_ONCE", bytes_at_once)
    monkeypatch.setattr(detect, "_ROWS_AT_ONCE", rows_at_once)
    assert run(*options, "--out", files[1], "--events", files[3]) == 0
    assert capsys.readouterr().out == whole
    assert files[0].read_text() == files[1].read_text()
    assert files[2].read_text() == files[3].read_text()


def test_missing_first_values_are_no_matter_of_what_is_read_at_once(one, tmp_path, monkeypatch):
    path, y = one
    path.write_text("value\n" + "".join(f"{as_cell(value) or 'nan'}\n" for value in [math.nan, math.nan, *y]))
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    assert run(path, "--events", files[0], "--quiet") == 0
    monkeypatch.setattr(detect, "_ROWS_AT_ONCE", 1)
    assert run(path, "--events", files[1], "--quiet") == 0
    assert len(read_events(files[1])) == 4
    assert files[0].read_text() == files[1].read_text()


def test_several_columns_are_one_series(tmp_path):
    y = np.column_stack([steps(0.0, 5.0, seed=1), steps(0.0, -5.0, seed=2)])
    path, out, picture = tmp_path / "two.csv", tmp_path / "result.json", tmp_path / "two.png"
    path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in y))
    assert run(path, "--column", "x,y", "--out", out, "--plot", picture, "--quiet") == 0
    detector = hs.OnlineDetector()
    detector.update_many(y)
    (sensor,) = read_json(out)["sensors"]
    assert [point["index"] for point in sensor["change_points"]] == [60]
    assert sensor["log_evidence"] == detector.log_evidence


def test_nothing_happening_is_said(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("value\n1\n2\n\n1.5\n\n\n")
    assert run(path, "--quiet") == 0
    text = capsys.readouterr().out
    assert text.startswith("auto: 4 observations of value, 1 missing, 0 alarms, 0 announced changes\n")
    assert "no change points" in text


def test_only_bad_rows_are_no_failure(tmp_path, capsys):
    path, picture = tmp_path / "data.csv", tmp_path / "none.png"
    path.write_text("value\nx\ny\n")
    assert run(path, "--plot", picture) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("auto: 0 observations of value, 2 rows set aside, 0 alarms, 0 announced changes\n")
    assert not picture.exists()
    assert "wrote" not in captured.err


def test_names_cannot_move_the_cursor(tmp_path, capsys):
    path = tmp_path / "data.jsonl"
    y = steps(0.0, 9.0, length=30)
    path.write_text("".join(json.dumps({"s": "evil\x1b[2J\nname", "v": float(value)}) + "\n" for value in y))
    assert run(path, "--sensor-column", "s", "--column", "v", "--quiet") == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "evil?[2J?name" in text


# The left-to-right model


def test_a_model_with_all_of_its_numbers_is_that_of_the_library(tmp_path, capsys):
    years, counts = hs.datasets.coal_disasters()
    path, out = tmp_path / "coal.csv", tmp_path / "result.json"
    path.write_text("year,count\n" + "".join(f"{year},{count}\n" for year, count in zip(years, counts, strict=True)))
    priors = ["--set", "emission.rate=1", "--set", "emission.shape=1", "--set", "duration.scale=100"]
    options = ["--column", "count", "--time-column", "year", "--model", "ilr", "--emission", "poisson", *priors]
    assert run(path, *options, "--out", out, "--quiet") == 0
    detector = hs.OnlineDetector(hs.ilr(hs.emissions.Poisson(1.0, 1.0), hs.durations.Poisson(1.0, 100.0)))
    events = detector.update_many(counts)
    result = read_json(out)
    assert [(event["at"], event["index"]) for event in result["events"]] == [
        (event.at, event.index) for event in events
    ]
    (sensor,) = result["sensors"]
    assert sensor["settings"]["emission"] == {"family": "poisson", "shape": 1.0, "rate": 1.0}
    assert [point["time"] for point in sensor["change_points"]] == ["1892"]
    assert "emission: poisson (shape = 1, rate = 1)" in capsys.readouterr().out


def test_priors_are_scaled_to_a_sensors_first_values_only(tmp_path):
    y = 1e6 * steps(0.0, 8.0, seed=1)
    y[:3] = np.nan
    settings = []
    for length in (30, 60, 120):
        path, out = tmp_path / "data.csv", tmp_path / "result.json"
        path.write_text("v\n" + "".join(f"{as_cell(value) or 'nan'}\n" for value in y[:length]))
        assert run(path, "--model", "ilr", "--out", out, "--quiet") == 0
        (sensor,) = read_json(out)["sensors"]
        settings.append(sensor["settings"])
    assert settings[0] != settings[1] == settings[2]
    assert math.sqrt(settings[1]["emission"]["scale"]) == pytest.approx(1e6, rel=0.5)
    assert [point["index"] for point in sensor["change_points"]] == [60]


def test_values_that_a_family_cannot_have_are_set_aside(tmp_path):
    path, out = tmp_path / "data.csv", tmp_path / "result.json"
    path.write_text("v\n1\n-1\n2\n1.5\n0\n3\n")
    assert run(path, "--model", "ilr", "--emission", "poisson", "--out", out, "--quiet") == 0
    result = read_json(out)
    assert [row["line"] for row in result["bad_rows"]] == [3, 5]
    assert result["bad_rows"][0]["reason"] == "'-1' in column 'v' is no whole number from 0"
    options = ["--model", "ilr", "--emission", "categorical", "--set", "emission.categories=3"]
    assert run(path, *options, "--out", out, "--quiet") == 0
    assert [row["line"] for row in read_json(out)["bad_rows"]] == [3, 5, 7]


# JSON lines


def test_json_lines_are_read_as_csv_is(three, tmp_path):
    path, streams = three
    lines = tmp_path / "data.jsonl"
    with open(lines, "w") as file:
        for t in range(120):
            for name, y in streams.items():
                print(json.dumps({"value": float(y[t]), "when": f"{t:03d}h", "sensor": name, "other": [t]}), file=file)
    results = []
    for data in (path, lines):
        options = ["--sensor-column", "sensor", "--time-column", "when", "--column", "value"]
        assert run(data, *options, "--out", tmp_path / "result.json", "--quiet") == 0
        result = read_json(tmp_path / "result.json")
        results.append([{key: event[key] for key in event if "line" not in key} for event in result["events"]])
        assert result["settings"]["format"] == data.suffix[1:]
    assert results[0] == results[1]


def rows_of(text, *columns, sensor=None, time=None, format="auto", whole_below=None):
    lines = _rows.Lines("test", io.BytesIO(text.encode() if isinstance(text, str) else text))
    return list(_rows.RowReader(lines, _rows.Wanted(columns, sensor, time, whole_below), format))


def test_what_json_can_say():
    text = """{"v": 1, "s": 7, "t": null}
{"v": null, "s": "x", "t": 2.5}

{"v": NaN, "s": "x"}
{"v": "2.5", "s": "x"}
{"v": true, "s": "x"}
{"v": Infinity, "s": "x"}
{"v": 1e400, "s": "x"}
{"v": %s, "s": "x"}
{"v": [1], "s": "x"}
{"s": "x"}
{"v": 1, "s": null}
[1]
{"v": 1, "s":
{"v": 1, "s": "\\ud800"}
""" % ("9" * 400)
    found = rows_of(text, "v", sensor="s", time="t")
    good = [row for row in found if isinstance(row, _rows.Row)]
    assert [(row.line, row.sensor, row.time) for row in good] == [
        (1, "7", ""), (2, "x", "2.5"), (4, "x", ""), (5, "x", ""), (15, "?", ""),
    ]  # fmt: skip
    np.testing.assert_array_equal([row.values[0] for row in good], [1.0, math.nan, math.nan, 2.5, 1.0])
    bad = {row.line: row.reason for row in found if isinstance(row, _rows.BadRow)}
    assert sorted(bad) == [6, 7, 8, 9, 10, 11, 12, 13, 14]
    assert bad[6] == "True in column 'v' is no finite number"
    assert bad[9].endswith("... in column 'v' is no finite number")
    assert bad[11] == "no 'v'"
    assert bad[12] == "no name in column 's'"
    assert bad[13].startswith("no JSON object: ")
    assert bad[14].startswith("no JSON: ")


def test_a_stream_can_be_joined_in_the_middle_of_a_line():
    found = rows_of('"v": 1}\n{"v": 2}\n', "v", format="jsonl")
    assert [type(row).__name__ for row in found] == ["BadRow", "Row"]


# Reading


def test_what_csv_can_say():
    text = (
        b'\xef\xbb\xbfname,"a, b"\r\nx, 1.5 \r\n\r\n"y, z",NA\r\n\xff,3\r\nw,\xff\r\n"v,4\r\nu,"5"\r\nt,1_0\r\nlast,6'
    )
    found = rows_of(text, "a, b", sensor="name")
    good = {row.line: (row.sensor, row.values[0]) for row in found if isinstance(row, _rows.Row)}
    assert good[2] == ("x", 1.5)
    assert good[4][0] == "y, z"
    assert math.isnan(good[4][1])
    assert good[5] == ("\ufffd", 3.0)
    assert good[8] == ("u", 5.0)  # the open quote of the line before ends with that line
    assert good[10] == ("last", 6.0)
    assert sorted(row.line for row in found if isinstance(row, _rows.BadRow)) == [6, 7, 9]


def test_blank_lines_are_missing_in_a_file_of_one_column_unless_nothing_follows():
    found = rows_of("\nv\n1\n\n\n2\n\n\n")
    assert [row.line for row in found] == [3, 4, 5, 6]
    np.testing.assert_array_equal([row.values[0] for row in found], [1.0, math.nan, math.nan, 2.0])


def test_a_cell_without_end_is_set_aside():
    found = rows_of("v,w\n1,2\n" + "x" * 200_000 + ",3\n4,5\n", "w")
    assert [type(row).__name__ for row in found] == ["Row", "BadRow", "Row"]


def test_places_of_changes_are_remembered_when_rows_are_forgotten(monkeypatch):
    monkeypatch.setattr(_sensors, "_MOST_REMEMBERED", 100)
    y = steps(0.0, 9.0, 0.0, 9.0, length=150)
    sensor = _sensors.Sensor("", lambda _: (hs.OnlineDetector(), {}), 0, is_pictured=True)
    for t in range(0, 600, 30):
        rows = [_rows.Row(i + 2, "", f"t{i}", (float(y[i]),)) for i in range(t, t + 30)]
        sensor.take(rows)
    assert len(sensor.rows.lines) == len(sensor.rows.times) == len(sensor.rows.values) <= 100
    assert sensor.rows.place(599) == (601, "t599")
    assert sensor.rows.place(sensor.rows.first - 1) == (None, None)
    np.testing.assert_array_equal(sensor.rows.values, y[sensor.rows.first :])
    points = sensor.summary()["change_points"]
    assert [(point["index"], point["line"], point["time"]) for point in points] == [
        (150, 152, "t150"), (300, 302, "t300"), (450, 452, "t450"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        (["1", "2.5", "2.5"], "f"),
        (["2026-03-01T10:00:00Z", "2026-03-01T12:00:00+01:00"], "M"),
        (["2026-03-01", "2026-03-02 10:30"], "M"),
        (["2", "1"], None),
        (["2026-03-01", ""], None),
        (["morning", "noon"], None),
    ],
)  # fmt: skip
def test_times_that_can_be_an_axis_are_one(times, kind):
    found = _detection._moments(times)
    assert (None if found is None else found.dtype.kind) == kind


# Pipes


class Running:
    """The command as a process that is fed line by line."""

    def __init__(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "detect", "-", *map(str, arguments)], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=1,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)

    def send(self, *lines):
        self.process.stdin.write("".join(f"{line}\n" for line in lines))
        self.process.stdin.flush()

    def next_line(self):
        return self.lines.get(timeout=180)

    def end(self):
        code = self.process.wait(timeout=60)
        self.process.stdin.close()
        time.sleep(0.1)
        return code, "".join(self.lines.queue), self.process.stderr.read()


def test_events_appear_at_once_and_an_interrupt_sums_up(tmp_path):
    out, events = tmp_path / "result.json", tmp_path / "events.jsonl"
    y = steps(0.0, 12.0, length=40)
    running = Running("--column", "value", "--out", out, "--events", events)
    running.send("value", *y[:45])
    assert "event" in running.next_line()
    assert running.next_line().split()[1] == "raised"  # while the pipe is open and nothing follows
    (event,) = read_events(events)
    assert event["index"] == 40
    assert not out.exists()
    running.send("oops", *y[45:])
    assert running.next_line().split()[1] == "confirmed"
    running.process.send_signal(signal.SIGINT)
    code, text, notes = running.end()
    assert code == 130
    assert "auto: 80 observations of value, 1 row set aside, 0 alarms, 1 announced change (interrupted)" in text
    assert "State now" in text
    assert "line 47 is set aside: 'oops'" in notes
    assert "Traceback" not in notes
    result = read_json(out)
    assert result["is_interrupted"]
    assert [point["index"] for point in result["sensors"][0]["change_points"]] == [40]


def test_an_interrupt_before_anything_came_is_no_error(monkeypatch, capsys):
    class Terminal:
        def read1(self, size):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": Terminal()}))
    assert run("-", "--column", "value") == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("waiting", [True, False])
def test_an_interrupt_ends_the_lines_between_two_of_them(waiting):
    class Pipe:
        def __init__(self):
            self.texts = [b"a\nb\n", b"c\n"]

        def read1(self, size):
            if len(self.texts) == 1 and waiting:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1.0)
            return self.texts.pop(0) if self.texts else b""

    lines = _rows.Lines("test", Pipe())
    found = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        with lines.ending_on_interrupt():
            for _, text in lines:
                found.append(text)
                if not waiting and text == "a":
                    os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert lines.is_interrupted
    assert found == (["a", "b"] if waiting else ["a"])


def test_with_a_bar_on_the_terminal_events_still_go_to_stdout(one):
    terminal, its_end = pty.openpty()
    seen = []

    def watch():
        while True:
            seen.append(os.read(terminal, 1000))

    threading.Thread(target=watch, daemon=True).start()
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", "detect", str(one[0]), "--column", "value"], stdout=subprocess.PIPE,
        stderr=its_end, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, timeout=180, check=True,
    )  # fmt: skip
    assert seen
    assert [line.split()[1] for line in done.stdout.splitlines()[1:5]] == ["raised", "confirmed"] * 2


def test_stdin_is_read_in_either_format(one, tmp_path, monkeypatch):
    path, y = one
    texts = [path.read_text(), "".join(json.dumps({"value": float(value)}) + "\n" for value in y)]
    found = []
    for text in texts:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert run("-", "--column", "value", "--out", tmp_path / "result.json", "--quiet") == 0
        found.append(read_json(tmp_path / "result.json")["sensors"][0]["change_points"])
    assert [point["index"] for point in found[0]] == [point["index"] for point in found[1]] == [60, 120]


def test_a_cold_cache_is_announced_before_the_work(one, tmp_path, monkeypatch, capsys):
    from ishsmm_stream import _jit

    monkeypatch.setattr(_jit, "cache_folder", lambda layer: str(tmp_path))  # where nothing has been compiled
    assert run(one[0], "--column", "value") == 0
    assert capsys.readouterr().err == "compiling kernels (first run only, up to a minute)\n"


# What it refuses, in one line


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", [], "is empty"),
        ("\n\n", [], "is empty"),
        ("a,b\n", ["--column", "a"], "has a header but no data"),
        ("a,b\n1,2\n", ["--column", "c"], "has no column 'c'; its columns are a, b"),
        ("a,b\n1,2\n", [], "has 2 columns that could be followed; choose with --column, its columns are a, b"),
        ("a,b\n1,2\n", ["--sensor-column", "c"], "has no column 'c'"),
        ("a,b\n1,2\n", ["--column", "a", "--time-column", "c"], "has no column 'c'"),
        ("a,a\n1,2\n", ["--column", "a"], "has more than one column 'a'"),
        ("a,b\n1,2\n", ["--column", "a,a"], "--column a is given twice"),
        ("1\n2\n", [], "a header with column names is needed"),
        ('{"a": 1}\n', ["--column", "b"], "has no column 'b'; its columns are a"),
        ('{"a": 1, "b": 2}\n', [], "choose with --column"),
        ("a\n1\n", ["--format", "json"], "did you mean 'jsonl'?"),
        ("a\n1\n", ["--model", "irl"], "did you mean 'ilr'?"),
        ("a\n1\n", ["--emission", "poisson"], "--emission, --duration and --set are for --model ilr"),
        ("a\n1\n", ["--model", "ilr", "--emission", "poison"], "did you mean 'poisson'?"),
        ("a\n1\n", ["--model", "ilr", "--set", "emission.shap=1"], "did you mean 'emission.shape'?"),
        ("a\n1\n", ["--model", "ilr", "--set", "emission.shape=-1"], "emission.shape must be greater than 0"),
        ("a\n1\n", ["--model", "ilr", "--emission", "categorical"], "needs --set emission.categories=K"),
        ("a,b\n1,2\n", ["--column", "a,b", "--model", "ilr", "--emission", "poisson"], "takes one column"),
        ("a\n1\n", ["--threshold", 1], "--threshold must lie between 0 and 1, got 1"),
        ("a\n1\n", ["--lag", 2], "--lag must be at least 8, got 2"),
        ("a\n1\n", ["--seed", -1], "--seed must be at least 0"),
        ("a\n1\n", ["--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(text, options, message, tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text(text)
    assert message in failure(capsys, path, *options)


def test_a_picture_is_no_data(tmp_path, capsys):
    path = tmp_path / "data.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    assert "is not a text file in UTF-8" in failure(capsys, path)


def test_a_missing_file_is_one_line(tmp_path, capsys):
    assert "nowhere.csv: No such file or directory" in failure(capsys, tmp_path / "nowhere.csv")
    assert "Is a directory" in failure(capsys, tmp_path)


@pytest.mark.parametrize("option", ["--out", "--events", "--plot"])
def test_outputs_that_cannot_be_written_are_refused_before_the_data_are_read(option, tmp_path, capsys):
    data = tmp_path / "nowhere.csv"
    assert "there is no folder" in failure(capsys, data, option, tmp_path / "new" / "result.png")
    assert "is a folder" in failure(capsys, data, option, tmp_path)


# The picture


def test_the_picture_shows_the_first_sensors_and_says_so(tmp_path, monkeypatch):
    from ishsmm_stream import plots

    drawn = []
    monkeypatch.setattr(plots, "plot_streams", lambda streams, **settings: drawn.append((streams, settings)))
    monkeypatch.setattr(detect._terminal, "write_whole", lambda path, write: write(path))
    path = tmp_path / "data.csv"
    rows = [f"s{k},2026-01-{day:02d},{k + day % 3}\n" for day in range(1, 20) for k in range(9)]
    path.write_text("sensor,day,v\n" + "".join(rows))
    options = ["--sensor-column", "sensor", "--time-column", "day", "--plot", tmp_path / "result.png", "--quiet"]
    assert run(path, *options) == 0
    ((streams, settings),) = drawn
    assert [stream.name for stream in streams] == [f"s{k}" for k in range(detect.MOST_PICTURED)]
    assert settings["title"] == "The first 6 of 9 sensors"
    assert settings["x_label"] == "day"
    assert all(stream.values.shape == (19, 1) and len(stream.x) == 19 for stream in streams)


def test_states_that_return_are_listed(tmp_path, capsys):
    rng = np.random.default_rng(0)
    values = np.repeat([0.0, 6.0, 0.0, 6.0, 0.0, 6.0, 12.0], 80) + rng.normal(size=560)
    (tmp_path / "values.csv").write_text("power\n" + "".join(f"{value:.3f}\n" for value in values))
    assert run(tmp_path / "values.csv", "--model", "recurring", "--out", tmp_path / "out.json", "--quiet") == 0
    printed = capsys.readouterr().out
    assert "States that return" in printed
    assert "state 480, new state" in printed
    (sensor,) = read_json(tmp_path / "out.json")["sensors"]
    assert [round(state["mean"]) for state in sensor["states"]] == [0, 6, 12]
    assert sum(state["readings"] for state in sensor["states"]) == 560
    assert sensor["state"]["id"] == sensor["states"][-1]["id"]


def test_recurring_states_take_one_column_and_no_priors(tmp_path, capsys):
    (tmp_path / "values.csv").write_text("a,b\n1,2\n3,4\n")
    assert "one channel" in failure(capsys, tmp_path / "values.csv", "--model", "recurring", "--column", "a,b")
    said = failure(capsys, tmp_path / "values.csv", "--model", "recurring", "--column", "a", "--emission", "normal")
    assert "recurring needs no settings" in said
