"""The wheel, as it comes out of the sdist, in an environment that has nothing else: it holds everything that runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tarfile
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest
from deploy_tools import ROOT, program
from http_helpers import free_port

import ishsmm_stream

CONFIG = """
[source]
kinds = ["http"]
state = "state.sqlite"
[http]
port = {port}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """sdist and wheel; uv makes the wheel from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([program("uv"), "build", "--quiet", "--out-dir", folder, ROOT], check=True)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def files_of_packages() -> set[str]:
    """Everything under version control in the two packages."""
    listed = subprocess.run(
        ["git", "ls-files", "ishsmm_stream", "service"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(listed.stdout.split())


def test_wheel_and_sdist_hold_every_file_of_the_packages(built):
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    assert files_of_packages() - in_wheel == set()
    assert files_of_packages() - in_sdist == set()
    assert not [name for name in in_wheel if not name.startswith(("ishsmm_stream", "service"))]


def test_version_is_the_same_everywhere(built):
    for path in built:
        assert f"-{ishsmm_stream.__version__}" in path.name
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == ishsmm_stream.__version__


def test_installed_from_the_wheel_it_serves(built, tmp_path):
    """Kernels are not compiled here, to be quick: what is asked is whether everything is there."""
    _, wheel = built
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    }
    subprocess.run([program("uv"), "venv", "--quiet", tmp_path / "empty"], check=True, env=environment)
    python = tmp_path / "empty/bin/python"
    install = [
        program("uv"),
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        f"ishsmm-stream[service] @ {wheel.as_uri()}",
    ]
    subprocess.run(install, check=True, env=environment)
    port = free_port()
    (tmp_path / "service.toml").write_text(CONFIG.format(port=port), encoding="utf-8")
    process = subprocess.Popen(
        [tmp_path / "empty/bin/ishsmm-stream", "serve", "--config", "service.toml"],
        cwd=tmp_path, env={**environment, "NUMBA_DISABLE_JIT": "1"}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until_ready(port, process)
        assert post(port, {"sensor": "mine", "value": 20.1})["accepted"] == 1
        document = get(port, "/openapi.json")
        assert document["info"]["version"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def wait_until_ready(port: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 90
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        except OSError:
            if process.poll() is not None:
                assert process.stderr is not None
                raise AssertionError(process.stderr.read()) from None
            assert time.monotonic() < deadline, "it does not become ready"
            time.sleep(0.1)


def get(port: int, path: str) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return json.load(answer)


def post(port: int, reading: dict) -> dict:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/readings", json.dumps(reading).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_the_charts_rules_are_those_of_prometheus():
    """By a link, which archives and file managers lose; Helm then says nothing, and no alert is ever made."""
    chart, written = (ROOT / "deploy" / folder for folder in ("helm/ishsmm-stream/rules", "prometheus/rules"))
    assert (
        {path.name: path.read_text() for path in chart.glob("*.yml")}
        == {path.name: path.read_text() for path in written.glob("*.yml")}
        != {}
    )
