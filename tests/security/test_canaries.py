"""Secrets are seen nowhere: a canary is put into every option that may hold one, and looked for in all that is said."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from canaries import Given, given, secret_options, toml, variable
from embedded_helpers import eventually
from http_helpers import free_port, get, post

# Two ways to say everything: an option and its file cannot be given together.
PLAIN = {
    ("kafka", "security", "password"), ("http", "token"), ("metrics", "token"),
    ("sinks", "url"), ("sinks", "token_variable"), ("sinks", "secret_variable"),
}  # fmt: skip
FILES = {
    ("kafka", "security", "password_file"), ("kafka", "security", "key_file"), ("http", "token_file"),
    ("metrics", "token_file"), ("sinks", "url_file"), ("sinks", "token_file"), ("sinks", "secret_file"),
}  # fmt: skip
WAYS = {"plain": PLAIN, "files": FILES}


def test_every_option_that_may_hold_a_secret_is_tried():
    """A new one has to be put into one of the two ways."""
    assert set(secret_options()) == PLAIN | FILES


class Configured:
    """A configuration with canaries, as a file and as an environment."""

    def __init__(self, way: str, folder: Path, *, kafka: bool, in_environment: bool, **webhook: str) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {}
        self.canaries: dict[str, str] = {}
        table: dict[str, Any] = {
            "http": {"port": free_port()},
            "metrics": {"port": free_port()},
            "sinks": [
                {
                    "kind": "webhook",
                    "name": "pager",
                    "age": "publication",
                    "attempts": 2,
                    "backoff_s": 0.1,
                    "only": ["provisional"],
                }
            ],
            "alarms": {"false_alarms_per_day": 1000.0, "expected_sensors": 1},
        }
        if kafka:
            table["kafka"] = {"security": {"protocol": "sasl_ssl", "username": "app"}}
            if way == "files":
                certificate = folder / "certificate.pem"
                certificate.write_text("none is needed to read the configuration", encoding="utf-8")
                table["kafka"]["security"]["certificate_file"] = str(certificate)
        else:
            table["source"] = {"kinds": ["http"], "state": str(folder / "state.sqlite")}
            table["worker"] = {"cycle_s": 0.02}
        for place in sorted(WAYS[way]):
            if place[0] == "kafka" and not kafka:
                continue
            found = given(place, folder, self.environment)
            if place[-1].startswith("url") and webhook:
                found = self._address(place, webhook["url"], found)
            self.canaries[".".join(place)] = found.canary
            if place[0] == "sinks":
                table["sinks"][0][place[-1]] = found.value
            elif in_environment:
                self.environment[variable(place)] = found.value
            else:
                section = table
                for name in place[:-1]:
                    section = section.setdefault(name, {})
                section[place[-1]] = found.value
        self.ports = table["http"]["port"], table["metrics"]["port"]
        self.path = folder / "service.toml"
        self.path.write_text(toml(table), encoding="utf-8")

    def _address(self, place: tuple[str, ...], root: str, found: Given) -> Given:
        """The webhook's address, at a receiver of ours; the secret is in its path."""
        secret = found.canary.rpartition("/")[2]
        if place[-1] == "url":
            return Given(f"{root}/{secret}", secret)
        Path(found.value).write_text(f"{root}/{secret}\n", encoding="utf-8")
        return Given(found.value, secret)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command, to its end."""
        line = [sys.executable, "-m", "service.cli", *arguments, "--config", str(self.path)]
        environment = {**os.environ, **self.environment}
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)

    def seen_in(self, text: str) -> list[str]:
        """The options whose canaries can be read in a text."""
        assert self.canaries
        return [option for option, canary in self.canaries.items() if canary in text]


@pytest.mark.parametrize("in_environment", [False, True], ids=["file", "environment"])
@pytest.mark.parametrize("kafka", [True, False], ids=["kafka", "embedded"])
@pytest.mark.parametrize("way", WAYS)
def test_check_config_shows_none(tmp_path, way, kafka, in_environment):
    configured = Configured(way, tmp_path, kafka=kafka, in_environment=in_environment)
    done = configured.run("check-config")
    assert done.returncode == 0, done.stderr
    assert configured.seen_in(done.stdout + done.stderr) == []


def test_a_secret_that_is_shown_is_found(tmp_path):
    """The search above can fail."""
    configured = Configured("plain", tmp_path, kafka=False, in_environment=False)
    assert configured.seen_in(configured.path.read_text(encoding="utf-8")) == [
        "http.token",
        "metrics.token",
        "sinks.url",
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("[http]", "[http]\nbodybytes = 1"),  # a mistake elsewhere, with everything read before it
        ('kind = "webhook"', 'kind = "weebhook"'),
        ('protocol = "sasl_ssl"', 'protocol = "plaintext"'),
        ('username = "app"', ""),
    ],
)
def test_errors_show_none(tmp_path, way, right, wrong):
    configured = Configured(way, tmp_path, kafka=True, in_environment=False)
    text = configured.path.read_text(encoding="utf-8")
    assert right in text
    configured.path.write_text(text.replace(right, wrong), encoding="utf-8")
    done = configured.run("check-config")
    assert done.returncode == 2
    assert configured.seen_in(done.stdout + done.stderr) == []


@pytest.mark.parametrize("place", sorted(PLAIN | FILES), ids=".".join)
@pytest.mark.parametrize("wrong", ["a list", "a table", "of several lines"])
def test_an_error_about_the_secret_itself_does_not_show_it(tmp_path, place, wrong):
    way = "plain" if place in PLAIN else "files"
    configured = Configured(way, tmp_path, kafka=True, in_environment=False)
    text, canary = configured.path.read_text(encoding="utf-8"), configured.canaries[".".join(place)]
    before = next(line for line in text.splitlines() if line.startswith(f"{place[-1]} = "))
    if wrong == "of several lines":
        if place in FILES:
            (tmp_path / "-".join(place)).write_text(f"{canary}\0\n{canary}\n", encoding="utf-8")
        changed = before
    else:
        changed = f"{place[-1]} = " + (f'["{canary}"]' if wrong == "a list" else f'{{ canary = "{canary}" }}')
    configured.path.write_text(text.replace(before, changed), encoding="utf-8")
    done = configured.run("check-config")
    assert canary not in done.stdout + done.stderr


class _Echo(BaseHTTPRequestHandler):
    """A receiver that refuses, and repeats everything that it was told."""

    def do_POST(self) -> None:
        told = f"{self.headers.get('Authorization')} {self.path}".encode()
        self.send_response(400)
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def a_receiver() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@pytest.mark.parametrize("way", WAYS)
def test_a_service_at_work_says_none(tmp_path, way):
    """DEBUG log, answers, metrics; with right and wrong tokens, and a webhook whose receiver repeats its secrets."""
    log = tmp_path / "log"
    with a_receiver() as address, log.open("wb") as written:
        configured = Configured(way, tmp_path, kafka=False, in_environment=True, url=address)
        line = [sys.executable, "-m", "service.cli", "serve", "--config", str(configured.path), "--log-level", "DEBUG"]
        process = subprocess.Popen(
            line, env={**os.environ, **configured.environment}, cwd=tmp_path, stdout=written, stderr=written
        )
        try:
            api, scraped = configured.ports
            eventually(lambda: answered(api, "/readyz") or process.poll() is not None, 120, "ready")
            assert process.poll() is None, log.read_text()
            kinds = {name.split(".")[0]: canary for name, canary in configured.canaries.items()}
            right = {"Authorization": f"Bearer {kinds['http']}"}
            noise = [20.0 + (7 * i % 11) / 10 for i in range(60)]
            values = noise + [value + 30.0 for value in noise]
            for i, value in enumerate(values):
                taken = post(api, {"sensor": "boiler", "time": 1.7e9 + i, "value": value}, **right)
                assert taken.status == 200, taken.body
            eventually(lambda: "given up" in log.read_text(encoding="utf-8"), 60, "an event that is given up")
            texts = [
                get(api, "/v1/sensors/boiler", **right).body,
                get(api, "/v1/events", **right).body,
                get(api, "/metrics", **right).body,
                get(scraped, "/metrics", authorization=f"Bearer {kinds['metrics']}").body,
                get(api, "/v1/events", authorization="Bearer wrong").body,
                get(scraped, "/metrics", authorization="Bearer wrong").body,
                post(api, b"no json", **right).body,
            ]
            assert b"ishsmm_readings_total" in texts[3]
        finally:
            process.terminate()
            process.wait(60)
    assert configured.seen_in(b"\n".join(texts).decode()) == []
    assert configured.seen_in(log.read_text(encoding="utf-8")) == []


def answered(port: int, path: str) -> bool:
    try:
        return get(port, path).status == 200
    except OSError:
        return False
