"""Readings that crash the inference: after two crashes their sensor is set aside, and all others go on."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from embedded_helpers import configured

from service import cli
from service.embedded.database import Database
from service.wire import messages

ROOT = Path(__file__).parents[2]
START = 1_767_225_600
LENGTH, POISON = 60, 40
# A detector that dies of one value, as a fault in compiled code would.
PROGRAM = """
import os, signal, sys, time
import numpy as np
import ishsmm_stream as hs
from service.cli import main
update = hs.update_fleet_to_event
def fragile(detectors, pieces, **options):
    if any(np.isin(666.0, piece).any() for piece in pieces):
        if sys.argv[1] == "hang":
            time.sleep(60)
        os.kill(os.getpid(), int(sys.argv[1]))
    return update(detectors, pieces, **options)
hs.update_fleet_to_event = fragile
sys.exit(main(["serve", "--config", sys.argv[2]]))
"""


def write_readings(folder):
    rows = [
        (f"s{s}", START + t, 666.0 if (s, t) == (1, POISON) else float((7 * t + s) % 5))
        for t in range(LENGTH)
        for s in range(3)
    ]
    text = "".join(f"{sensor},{time},{value}\n" for sensor, time, value in rows)
    (folder / "readings.csv").write_text("sensor,time,value\n" + text)


def run(folder, cause):
    config = configured(
        folder,
        source={"kinds": ["file"], "until_end": True, "file": {"path": str(folder / "readings.csv")}},
        worker={"watchdog_s": 6.0, "transaction_timeout_s": 5.0},
    )
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, cause, str(config)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def found_in(folder):
    database = sqlite3.connect(folder / "state.sqlite")
    letters = [msgspec.json.decode(value) for (value,) in database.execute("SELECT value FROM dead_letters")]
    notices = [messages.decode(value) for (value,) in database.execute("SELECT value FROM events WHERE id IS NULL")]
    sensors = [sensor for (sensor,) in database.execute("SELECT sensor FROM sensors ORDER BY sensor")]
    database.close()
    return letters, notices, sensors


@pytest.mark.parametrize("cause", [str(int(signal.SIGSEGV)), "hang"], ids=["signal", "watchdog"])
def test_the_sensor_is_set_aside_after_the_second_crash(tmp_path, cause):
    write_readings(tmp_path)
    for _ in range(2):
        assert run(tmp_path, cause).returncode != 0
    done = run(tmp_path, cause)
    assert done.returncode == 0, done.stderr
    letters, notices, sensors = found_in(tmp_path)
    assert {(letter["reason"], letter["offset"] % 3) for letter in letters} == {("set_aside", letters[0]["offset"] % 3)}
    assert [(notice.sensor, notice.kind) for notice in notices if notice.kind == "set_aside"] == [("s1", "set_aside")]
    assert sensors == ["s0", "s1", "s2"]
    assert not list(tmp_path.glob("*.crash*"))  # it is written down where any worker finds it
    # ... as a further start shows, which is told of readings after those
    with open(tmp_path / "readings.csv", "a") as file:
        file.write(f"s1,{START + LENGTH},1.0\ns0,{START + LENGTH},1.0\n")
    assert run(tmp_path, cause).returncode == 0
    later, _, _ = found_in(tmp_path)
    assert [letter["reason"] for letter in later[len(letters) :]] == ["set_aside"]


def test_nothing_is_set_aside_where_the_process_was_killed(tmp_path):
    write_readings(tmp_path)
    for _ in range(3):
        assert run(tmp_path, str(int(signal.SIGKILL))).returncode == -signal.SIGKILL
    assert run(tmp_path, "0").returncode == 0  # signal 0 does nothing
    letters, notices, _ = found_in(tmp_path)
    assert letters == []
    assert notices == []


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_one_process_at_a_time_works_with_a_file_whatever_its_path(tmp_path, link):
    database = Database(tmp_path / "state.sqlite")
    getattr(tmp_path / "other.sqlite", link)(tmp_path / "state.sqlite")
    with pytest.raises(ValueError, match="another process works with it"):
        Database(tmp_path / "other.sqlite")
    database.close()
    Database(tmp_path / "other.sqlite").close()


def test_dead_letters_are_listed_by_command(tmp_path, capsys):
    write_readings(tmp_path)
    with open(tmp_path / "readings.csv", "a") as file:
        file.write("s1,yesterday,1.0\n")
    assert run(tmp_path, "0").returncode == 0
    assert cli.main(["dead-letters", "--config", str(tmp_path / "service.toml"), "--count"]) == 0
    assert capsys.readouterr().out.split() == ["1", "bad_time"]
