"""Runs docs/tutorial.md: its files are written, its commands run, what they print is compared with what is shown.

`make tutorial` writes what they print into the page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from service import cli

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
KAFKA = "## With Kafka"
_BLOCK = re.compile(r"^```(console|text|toml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_OWN_TERMINAL = "# in a terminal of its own"
_PORT, _BROKER = "8000", "127.0.0.1:9092"
# These only ask: while a service works in the background they are asked again until they say what is shown.
_ASKING = ("watch", "inspect", "tail", "audit")
_PATIENCE = 120.0


class Block(NamedTuple):
    kind: str
    text: str
    span: tuple[int, int]  # of the text in the page


def blocks(page: str, with_kafka: bool) -> list[Block]:
    """The blocks before the part on Kafka, or those of it."""
    border = page.index(KAFKA)
    found = [Block(match[1], match[2], match.span(2)) for match in _BLOCK.finditer(page)]
    return [block for block in found if (block.span[0] > border) == with_kafka]


class Tutorial:
    """Follows the page in a folder. ``bootstrap``: the broker in place of the one that the page starts."""

    def __init__(self, folder: Path, bootstrap: str | None = None) -> None:
        self._folder = folder
        self._bootstrap = bootstrap
        self._port = str(_free_port())
        self._services: list[subprocess.Popen[bytes]] = []
        (folder / "docs").symlink_to(ROOT / "docs")

    def follow(self, parts: list[Block], refresh: bool = False) -> dict[tuple[int, int], str]:
        """Run the blocks; returns what was printed where the page shows output. Without ``refresh``, AssertionError
        where that is something else."""
        printed: dict[tuple[int, int], str] = {}
        for i, part in enumerate(parts):
            if part.kind == "toml":
                name = part.text.splitlines()[0].removeprefix("# ")
                (self._folder / name).write_text(self._local(part.text), encoding="utf-8")
            elif part.kind == "console" and part.text.startswith(_OWN_TERMINAL):
                self._start(part.text.splitlines()[1])
            elif part.kind == "console":
                shown = parts[i + 1] if i + 1 < len(parts) and parts[i + 1].kind == "text" else None
                said = self._run(part.text.splitlines(), None if refresh or shown is None else shown.text)
                if shown is not None:
                    printed[shown.span] = said
        return printed

    def close(self) -> None:
        for service in self._services:
            service.send_signal(signal.SIGTERM)
        for service in self._services:
            try:
                service.wait(60)
            except subprocess.TimeoutExpired:
                service.kill()
        assert all(service.returncode == 0 for service in self._services), "a service did not end in order"

    # Commands

    def _run(self, lines: list[str], expected: str | None) -> str:
        if not (self._services and all(line.split()[1] in _ASKING for line in lines)):
            said = self._print(lines)
        else:
            said = self._ask(lines, expected)
        assert expected is None or _lasting(said) == _lasting(expected), (
            f"{lines} printed\n{said}\nbut shown is\n{expected}"
        )
        return said

    def _ask(self, lines: list[str], expected: str | None) -> str:
        """Until it says what is expected; where nothing is, until it says something and says it twice."""
        deadline = time.monotonic() + _PATIENCE
        before = ""
        while True:
            try:
                said = self._print(lines)
            except AssertionError:  # nothing there yet
                if time.monotonic() > deadline:
                    raise
                said = ""
            if time.monotonic() > deadline or (
                said.strip() and _lasting(said) == _lasting(before if expected is None else expected)
            ):
                return said
            before = said
            time.sleep(2.0)

    def _print(self, lines: list[str]) -> str:
        output = ""
        for line in lines:
            words = shlex.split(self._local(line))
            if words[0] == "ishsmm-stream":
                output += _in_process(words[1:])
            else:
                done = subprocess.run(self._local(line), shell=True, capture_output=True, text=True, check=True)
                output += done.stdout
        tidy = "\n".join(text.rstrip() for text in output.splitlines()).rstrip("\n") + "\n"
        return tidy.replace(f"127.0.0.1:{self._port}", f"127.0.0.1:{_PORT}")

    def _start(self, line: str) -> None:
        if line == "make kafka":
            return  # the broker is there
        words = shlex.split(line)
        assert words[:2] == ["ishsmm-stream", "serve"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "UTC", "ISHSMM_HTTP__PORT": self._port}
        command = [sys.executable, "-m", "service.cli", *words[1:]]
        self._services.append(subprocess.Popen(command, env=environment, cwd=self._folder, stdout=subprocess.DEVNULL))
        deadline = time.monotonic() + _PATIENCE
        while not self._is_ready():
            assert self._services[-1].poll() is None, f"{line}: it ended"
            assert time.monotonic() < deadline, f"{line}: not ready"
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def _local(self, text: str) -> str:
        text = text.replace(f"port = {_PORT}", f"port = {self._port}").replace(
            f"127.0.0.1:{_PORT}", f"127.0.0.1:{self._port}"
        )
        return text if self._bootstrap is None else text.replace(_BROKER, self._bootstrap)


def _lasting(said: str) -> list[str]:
    """Without the line that says when the state was last saved."""
    return [line for line in said.splitlines() if not line.startswith("state saved")]


def _in_process(words: list[str]) -> str:
    """A command of ours; starting Python for each would take the most of the time."""
    if words[0] == "watch":
        words = [*words, "--seconds", "1"]
    if "--speed" in words:
        words[words.index("--speed") + 1] += "0"  # ten times as fast: nobody watches
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(words)
    assert code == 0, f"{words} ended with {code}: {err.getvalue()}"
    return out.getvalue()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def refresh(bootstrap: str) -> None:
    """Write what the commands print into the page, and the picture beside it."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    page = PAGE.read_text(encoding="utf-8")
    printed: dict[tuple[int, int], str] = {}
    for with_kafka in (False, True):
        with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
            tutorial = Tutorial(Path(name), bootstrap)
            try:
                printed |= tutorial.follow(blocks(page, with_kafka), refresh=True)
            finally:
                tutorial.close()
            if not with_kafka:
                shutil.copy("backtest/vibration.png", ROOT / "docs" / "pump.png")
    for (begin, end), said in sorted(printed.items(), reverse=True):
        page = page[:begin] + said + page[end:]
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    import local_broker

    with tempfile.TemporaryDirectory() as data, local_broker.single(Path(data)) as broker:
        refresh(broker.bootstrap[0])
