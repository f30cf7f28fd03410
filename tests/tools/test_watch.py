"""The board of all sensors, how it is drawn, and where its messages come from without a broker."""

from __future__ import annotations

import io
import threading

import msgspec
import numpy as np
import pytest
from rich.console import Console

from service import cli
from service.composition import EmbeddedService
from service.deployment import deployment_of
from service.sensors.inference import infer
from service.sensors.rules import prepare_rule
from service.sensors.track import Track
from service.settings import Rule
from service.settings.rules import Alarms
from service.tools.watch.board import Board
from service.tools.watch.screen import Screen, sparkline
from service.wire import messages
from service.wire.readings import Reading

BEGIN = 1_767_225_600


def published(sensor, levels, rule=Rule(labels={"unit": "bar"}, alarms=Alarms(threshold=0.98)), seed=0):
    """The messages of a sensor that has 60 readings at each level."""
    rng = np.random.default_rng(seed)
    track = Track(sensor, prepare_rule(rule))
    accepted = []
    for i, value in enumerate(np.concatenate([rng.normal(level, 1.0, 60) for level in levels])):
        reading = Reading(sensor, (BEGIN + i) * 1_000_000, (float(value),))
        track.judge(reading, -1)
        accepted.append((reading.time, reading.values, 0))
    events, states = infer(track, accepted)
    return [messages.encode(message) for message in (*events, *states)]


@pytest.fixture(scope="module")
def said():
    return {"still": published("still", [5.0, 5.0]), "early": published("early", [0.0, 9.0, 9.0]),
            "late": published("late", [0.0, 0.0, -9.0])}  # fmt: skip


def board_of(said, pattern="*"):
    board = Board(pattern)
    for value in [value for values in said.values() for value in values]:
        board.take(value)
    return board


def drawn(board, width=130, height=30):
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(Screen(board, "watch"), height=height)
    return console.file.getvalue()


def test_the_sensors_that_changed_last_come_first(said):
    assert [row.sensor for row in board_of(said).rows] == ["late", "early", "still"]
    assert [row.sensor for row in board_of(said, "*l*").rows] == ["late", "early", "still"]
    assert [row.sensor for row in board_of(said, "e*").rows] == ["early"]


def test_what_is_none_of_ours_is_passed_over():
    board = Board()
    letter = messages.dead_letter("empty", "", topic="t", partition=0, offset=0, timestamp=0, key=None, value=None)
    for value in (b"no message", b"{}", messages.encode(letter)):
        assert board.take(value) is None
    assert len(board) == 0


def test_a_sensor_that_is_silent_and_back(said):
    board = board_of(said)
    track = Track("still", prepare_rule(Rule()))
    board.take(messages.encode(track.notice("silent", BEGIN * 1_000_000, "no reading came")))
    assert board.silent == 1
    assert "still silent" in drawn(board)
    board.take(messages.encode(track.notice("back", BEGIN * 1_000_000, "a reading came")))
    assert board.silent == 0


def test_the_table_has_level_change_and_sparkline(said):
    text = drawn(board_of(said))
    late = next(line for line in text.splitlines() if line.startswith("late"))
    assert "-9" in late
    assert "bar" in late
    assert "confirmed" in late
    assert "█" in late
    assert "3 sensors" in text
    assert "2 confirmed" in text
    assert text.rstrip().splitlines()[-1].split()[2:4] in (["early", "provisional"], ["early", "confirmed"])


@pytest.mark.parametrize(("width", "height"), [(60, 12), (100, 10), (200, 50)])
def test_it_fits_the_terminal(said, width, height):
    board = board_of(said)
    for i in range(80):
        value = said["still"][-1].replace(b'"still"', f'"sensor-with-a-rather-long-name/{i}"'.encode())
        board.take(value)
    lines = drawn(board, width, height).rstrip("\n").splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert any("83 sensors" in line and "shown" in line for line in lines)


def test_a_board_without_sensors_says_so():
    assert "nothing has come yet" in drawn(Board())


def test_a_sparkline_of_many_values_is_as_wide_as_asked():
    assert sparkline(list(range(90)), 9) == "▁▂▃▄▅▆▇██"


# Without a broker


@pytest.fixture
def served(tmp_path):
    """A service that has read a file: its settings."""
    rng = np.random.default_rng(0)
    values = np.r_[rng.normal(0.0, 1.0, 60), rng.normal(9.0, 1.0, 60)]
    lines = ["time,a,b", *(f"{BEGIN + i},{value:.3f},{-value:.3f}" for i, value in enumerate(values))]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    config = tmp_path / "service.toml"
    config.write_text(
        f'[source]\nkinds = ["file"]\nuntil_end = true\nstate = "{tmp_path}/state.sqlite"\n'
        f'[source.file]\npath = "{tmp_path}/data.csv"\n[http]\nport = 0\n[worker]\ncycle_s = 0.01\n'
        "[[rules]]\nalarms = { threshold = 0.98 }\n"
    )
    assert cli.main(["serve", "--config", str(config), "--log-level", "ERROR"]) == 0
    return config


def test_lines_where_nobody_looks(served, capsys):
    assert cli.main(["watch", "--config", str(served), "--sensor", "b", "--seconds", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2:4] for line in lines] == [["b", "provisional"], ["b", "confirmed"]]


def test_the_file_is_followed_while_the_service_works(served, monkeypatch):
    from service.settings import load

    settings = load(served, {})
    over = threading.Event()
    found = deployment_of(settings).messages(with_states=True, earlier=200, is_over=over.is_set)
    earlier = []
    while (value := next(found)) is not None:
        earlier.append(msgspec.json.decode(value))
    assert [one["sensor"] for one in earlier if one["type"] == "state"] == ["a", "b"]
    assert len([one for one in earlier if one["type"] == "change"]) == 4
    with open(settings.source.file.path, "a") as file:
        file.writelines(f"{BEGIN + 120 + i},-50,50\n" for i in range(40))
    EmbeddedService(settings).run()
    later = []
    while (value := next(found)) is None:
        pass
    while value is not None:
        later.append(msgspec.json.decode(value))
        value = next(found)
    changes = [one["index"] for one in later if one["type"] == "change"]
    assert len(changes) >= 2
    assert set(changes) <= {120, 121}
    over.set()


def test_a_service_that_has_not_run_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ISHSMM_SOURCE__KINDS", "http")
    monkeypatch.setenv("ISHSMM_SOURCE__STATE", str(tmp_path / "none.sqlite"))
    for words in (["watch"], ["inspect", "a"]):
        assert cli.main(words) == 2
        assert "there is no such file, the service has not run yet" in capsys.readouterr().err
