"""The embedded service as a process or on a thread."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from http_helpers import free_port, get, is_ready

from service.composition import EmbeddedService
from service.settings import Settings, load

# Settings under which a test sees snapshots, and does not wait
QUICK = {"worker": {"cycle_s": 0.02, "snapshot_within_s": 0.5}}


def eventually(condition: Callable[[], Any], seconds: float = 60.0, what: str = "") -> Any:
    """Wait for a condition and return what it returned."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what or condition}"
        time.sleep(0.02)
    return found


def configured(folder: Path, rules: list[dict[str, Any]] | None = None, **sections: dict[str, Any]) -> Path:
    """A configuration file with a state of its own; JSON's plain values are TOML's as well."""
    plain: dict[str, Any] = {"source": {"state": str(folder / "state.sqlite")}, "http": {"port": 0}, **QUICK}
    for section, options in sections.items():
        plain[section] = {**plain.get(section, {}), **options}
    lines = []
    for section, options in plain.items():
        tables = {key: value for key, value in options.items() if isinstance(value, dict)}
        lines += [f"[{section}]"] + [f"{k} = {json.dumps(v)}" for k, v in options.items() if k not in tables]
        for name, table in tables.items():
            lines += [f"[{section}.{name}]"] + [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    path = folder / "service.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "rules.json").write_text(json.dumps(rules or []))
    return path


def environment(folder: Path) -> dict[str, str]:
    rules = (folder / "rules.json").read_text()
    return {"ISHSMM_RULES": rules} if rules != "[]" else {}


def settings_of(folder: Path, rules: list[dict[str, Any]] | None = None, **sections: dict[str, Any]) -> Settings:
    return load(configured(folder, rules, **sections), environment(folder))


class Ready:
    """In the place of a terminal: sets an event when the service is ready."""

    def __init__(self, event: threading.Event) -> None:
        self.ready = event.set

    def planted(self, fault: object) -> None: ...

    def committed(self, cycle: object) -> None: ...

    def idle(self) -> None: ...


@contextmanager
def running(settings: Settings) -> Iterator[EmbeddedService]:
    """A worker on a thread, stopped in order at the end. Yields when it is ready."""
    ready = threading.Event()
    worker = EmbeddedService(settings, Ready(ready))
    failed: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except BaseException as error:
            failed.append(error)
        ready.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        assert ready.wait(120), "not ready"
        if failed:
            raise failed[0]
        yield worker
    finally:
        worker.stop()
        thread.join(60)
        assert not thread.is_alive(), "the worker does not stop"
    if failed:
        raise failed[0]


def run_to_end(settings: Settings) -> None:
    """A worker whose sources have an end."""
    EmbeddedService(settings).run()


class Process:
    """``ishsmm-stream serve`` with HTTP intake."""

    def __init__(self, folder: Path, **sections: Any) -> None:
        self.port = free_port()
        self.folder = folder
        source = {"kinds": ["http"], **sections.pop("source", {})}
        http = {"port": self.port, "requests_per_s": 1e6, **sections.pop("http", {})}
        self.config = configured(folder, source=source, http=http, **sections)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Process:
        command = [sys.executable, "-m", "service.cli", "serve", "--config", str(self.config)]
        self.log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            command, stderr=self.log, env={**os.environ, **environment(self.folder)}, cwd=self.folder
        )
        return self.wait_until_ready()

    def wait_until_ready(self) -> Process:
        eventually(self.is_ready, 120, "ready")
        return self

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        return is_ready(self.port)

    def accepted(self, sensor: str) -> int:
        answer = get(self.port, f"/v1/sensors/{sensor}")
        return answer.json["accepted"] if answer.status == 200 else 0

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)
