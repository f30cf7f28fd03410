"""The tutorial does what it says, up to the part that needs a broker."""

from __future__ import annotations

import runpy
import time

import pytest
from tutorial import PAGE, ROOT, Tutorial, blocks


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield tmp_path
    monkeypatch.undo()
    time.tzset()


def test_its_commands_print_what_is_shown(here):
    tutorial = Tutorial(here)
    try:
        printed = tutorial.follow(blocks(PAGE.read_text(encoding="utf-8"), with_kafka=False))
    finally:
        tutorial.close()
    assert len(printed) == 6
    assert (here / "flow.png").stat().st_size > 20_000
    assert (here / "backtest" / "vibration.png").stat().st_size > 20_000


def test_its_data_are_those_of_the_script(tmp_path):
    script = tmp_path / "pump.py"
    script.write_text((ROOT / "docs" / "pump.py").read_text())
    runpy.run_path(str(script), run_name="__main__")
    for name in ("pump.csv", "pump-labels.csv"):
        assert (tmp_path / name).read_bytes() == (ROOT / "docs" / name).read_bytes()


def test_its_picture_is_there_and_small():
    assert 20_000 < (ROOT / "docs" / "pump.png").stat().st_size < 150_000
