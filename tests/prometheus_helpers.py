"""A Prometheus that scrapes what a test runs, a hundred times faster than in production."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import local_prometheus
import pytest
from http_helpers import free_port

FASTER = 100
DASHBOARDS = Path(local_prometheus.HERE).parent / "grafana" / "dashboards"
# Only a worker on Kafka has these.
KAFKA_ONLY = "ishsmm_rebalances_total"


def promtool() -> str:
    """Its path; the test is skipped where there is none to be had, and fails where there has to be."""
    try:
        return local_prometheus.programs()[1]
    except local_prometheus.PrometheusUnavailable as reason:
        if os.geteuid() == 0 and Path("/etc/debian_version").exists():
            pytest.fail(f"no Prometheus: {reason}")
        pytest.skip(f"no Prometheus: {reason}")


def dashboard_expressions() -> dict[str, str]:
    """The expressions of all panels, by dashboard, panel and query."""
    found = {}
    for path in sorted(DASHBOARDS.glob("*.json")):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            for target in panel.get("targets", ()):  # a row has none
                found[f"{path.stem}/{panel['title']}/{target['refId']}"] = target["expr"]
    return found


def as_grafana_sends(expression: str) -> str:
    """With all jobs and sensors chosen, and ranges as short as the scrapes are."""
    for name, value in (("$__rate_interval", "5s"), ("$job", ".+"), ("$sensor", ".+")):
        expression = expression.replace(name, value)
    return expression


def recorded() -> list[str]:
    """The names of the series that recording rules make."""
    text = (local_prometheus.HERE / "rules" / "recording.yml").read_text(encoding="utf-8")
    return re.findall(r"record: (\S+)", text)


def alert_names() -> list[str]:
    text = (local_prometheus.HERE / "rules" / "alerts.yml").read_text(encoding="utf-8")
    return re.findall(r"alert: (\S+)", text)


class Server:
    """A running Prometheus, asked over HTTP."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}"

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._root}{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Series with their values; an expression that is none raises."""
        found = self._ask(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def says(self, expression: str) -> bool:
        """Whether the expression has a series, with a number."""
        return any(not math.isnan(value) for _, value in self.query(expression))

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self._ask("/api/v1/alerts")["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._root}/-/ready", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False


@contextlib.contextmanager
def scraping(folder: Path, *ports: int) -> Iterator[Server]:
    """A Prometheus with our rules that scrapes these ports of this machine, ended with the test."""
    promtool()
    port = free_port()
    config = local_prometheus.render(folder / "prometheus", *(f"127.0.0.1:{one}" for one in ports), faster=FASTER)
    process = local_prometheus.start(config, folder / "data", port, folder / "prometheus.log")
    try:
        server = Server(port)
        deadline = time.monotonic() + 30
        while not server.is_ready():
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            assert time.monotonic() < deadline, "Prometheus does not start"
            time.sleep(0.05)
        yield server
    finally:
        process.kill()
        process.wait()


def run_promtool(*arguments: object, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([promtool(), *map(str, arguments)], input=stdin, capture_output=True, check=False)
