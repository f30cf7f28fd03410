"""The pace at which a file's readings go, and their times, without a broker."""

from __future__ import annotations

import pytest

from service import cli
from service.tools.produce import Pace, paced
from service.wire.readings import Reading

FILE = [Reading("a", 1_000_000 * 60 * i, (float(i),)) for i in range(4)]  # one a minute


class Clock:
    """A clock that only waiting moves."""

    def __init__(self, ends_at=1e12):
        self.now = 5000.0
        self.ends_at = ends_at

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds
        return self.now >= self.ends_at


def sent(pace, now=False, clock=None):
    clock = clock or Clock()
    return [
        (clock.now - 5000.0, reading.time / 1e6) for reading in paced(FILE, pace, now=now, wait=clock.wait, clock=clock)
    ]


def test_without_a_pace_nothing_waits_and_times_are_the_files():
    assert sent(Pace()) == [(0, 0), (0, 60), (0, 120), (0, 180)]


def test_a_rate_is_readings_a_second():
    assert sent(Pace(rate=2.0)) == [(0, 0), (0.5, 60), (1.0, 120), (1.5, 180)]


def test_a_speed_is_times_the_files_own_clock():
    assert sent(Pace(speed=60.0)) == [(0, 0), (1, 60), (2, 120), (3, 180)]


@pytest.mark.parametrize("pace", [Pace(rate=1.0), Pace(speed=60.0)])
def test_now_makes_readings_of_the_moment_at_which_they_are_sent(pace):
    assert sent(pace, now=True) == [(i, 5000.0 + i) for i in range(4)]


def test_it_ends_when_told_to():
    assert len(sent(Pace(rate=1.0), clock=Clock(ends_at=5002.0))) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rate", "1", "--speed", "2"], "--rate and --speed are given: keep one of them"),
        (["--rate", "0"], "--rate takes a number above 0, got 0"),
        (["--loop"], "--loop needs --now"),
        (["--now"], "--now needs --rate or --speed"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path, capsys, words, message):
    file = tmp_path / "a.csv"
    file.write_text("time,a\n1,2\n")
    assert cli.main(["produce", str(file), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_broker_that_is_not_there_is_one_line(tmp_path, capsys, monkeypatch):
    file = tmp_path / "a.csv"
    file.write_text("time,a\n1,2\n")
    monkeypatch.setenv("ISHSMM_KAFKA__BOOTSTRAP", "127.0.0.1:9")
    assert cli.main(["produce", str(file)]) == 2
    assert "connection refused: no broker listens there" in capsys.readouterr().err
