"""``ishsmm-stream serve --embedded`` as a newcomer meets it, and as a pipe."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

from embedded_helpers import configured, eventually
from http_helpers import free_port, get

SERVE = [sys.executable, "-u", "-m", "service.cli", "serve"]


def test_the_first_planted_fault_is_alarmed_within_a_minute_and_ordinary_life_is_not(tmp_path):
    port = free_port()
    environment = {**os.environ, "ISHSMM_HTTP__PORT": str(port), "NO_COLOR": "1"}
    started = subprocess.Popen(
        [*SERVE, "--embedded"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said: list[tuple[float, str]] = []

    def listen() -> None:
        assert started.stdout is not None
        said.extend((time.monotonic(), line) for line in started.stdout)

    listening = threading.Thread(target=listen)
    listening.start()

    def when(pattern: str) -> float:
        def found() -> list[float]:
            assert started.poll() is None
            return [moment for moment, line in list(said) if re.search(pattern, line)]

        return eventually(found, 300, pattern)[0]

    try:
        ready = when("== ready")
        when(r"boiler-1/temperature +planted +level far off")
        alarmed = when(r"boiler-1/temperature +ALARM ")
        # 13 seconds on a quiet machine
        assert alarmed - ready < 60.0
        raised = get(port, "/v1/events?status=raised").json["events"]
        assert raised[-1]["event"]["sensor"] == "north/boiler-1/temperature"
        assert len(raised) <= 3, "the budget allows one or two in the days before"
        when(r"== score after .* 1 of 1 planted fault alarmed, 0 other alarms")
        assert not [line for _, line in said if "provisional" in line], "changes are not shown"
        assert get(port, "/v1/sensors?limit=1000").json["sensors"][0]["sensor"] == "north/boiler-1/pressure"
        assert get(port, "/v1/sensors/south/mixer-1/power").json["rule"] == "*/mixer-*/power"
    finally:
        started.send_signal(signal.SIGINT)
        code = started.wait(60)
        listening.join(10)
    assert code == 0, started.stderr.read() if started.stderr else ""
    assert started.stderr is not None
    assert started.stderr.read() == ""
    assert (tmp_path / "out" / "ishsmm.sqlite").exists()


def test_a_pipe_ends_with_the_pipe(tmp_path):
    config = configured(tmp_path, source={"kinds": ["stdin"], "until_end": True})
    lines = "".join(
        json.dumps({"sensor": "p", "time": 1_767_225_600 + i, "value": 0.5 * (-1) ** i + 8.0 * (i > 60)}) + "\n"
        for i in range(100)
    )
    done = subprocess.run(
        [*SERVE, "--config", str(config), "--show"], input=lines, capture_output=True, text=True, timeout=300,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [line.split()[3] for line in done.stdout.splitlines() if " p " in line] == [
        "provisional", "confirmed",
    ]  # fmt: skip


def test_mistakes_are_one_line(tmp_path):
    config = configured(tmp_path, source={"kinds": ["file"], "file": {"path": str(tmp_path / "none.csv")}})
    done = subprocess.run([*SERVE, "--config", str(config)], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("none.csv: No such file or directory")
    done = subprocess.run([*SERVE, "--config", "x", "--embedded"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = subprocess.run([*SERVE, "--show"], capture_output=True, text=True, timeout=300)
    assert "ishsmm-stream tail" in done.stderr
