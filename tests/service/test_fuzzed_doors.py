"""Short runs of ``make fuzz`` at the doors of the service, in this process, and the harness itself."""

from __future__ import annotations

import logging

import fuzz_service
import pytest


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("door", "trials"), [("states", 40), ("records", 200), ("control", 60), ("toml", 200)])
def test_whatever_comes_in_a_worker_goes_on(door, trials):
    outcomes = {fuzz_service.run_trial(door, 1, number).split(": ")[-1] for number in range(trials)}
    assert outcomes == {"accepted", "refused"}


def test_a_process_that_dies_or_fails_is_seen(tmp_path, monkeypatch):
    program = tmp_path / "doors.py"
    program.write_text(
        "import os, fuzz_service\n"
        "def trial(draw):\n"
        "    number = trial.count = trial.count + 1\n"
        "    if number == 4: os.abort()\n"
        "    return 'accepted' if number != 2 else 1 / 0\n"
        "trial.count = 0\n"
        "fuzz_service.DOORS['toml'] = trial\n"
        "fuzz_service.main()\n"
    )
    monkeypatch.setattr(fuzz_service, "__file__", str(program))
    monkeypatch.setenv("PYTHONPATH", f"{fuzz_service.EXAMPLE.parents[1]}:{fuzz_service.EXAMPLE.parents[1]}/tests")
    result = fuzz_service.fuzz("toml", 1, 60.0, trials=5)
    assert [failure.split(":")[0] for failure in result.failures] == ["toml 1", "toml 3"]
    assert "ZeroDivisionError" in result.failures[0]
    assert "the process dies" in result.failures[1]
    assert result.outcomes == {"accepted": 3}
