"""A real Prometheus on this machine: for ``make prometheus`` and for tests.

    python deploy/prometheus/local_prometheus.py               # on 127.0.0.1:9090 until Ctrl-C; scrapes `make run`
    python deploy/prometheus/local_prometheus.py --prepare     # only fetch what it needs

The one on the PATH is taken, or else Debian's package: its files are unpacked into a cache folder of the user and not
installed, so that no service of the system is started or left behind.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
HOST = "127.0.0.1"
# In our configuration: the target, and lengths of time (intervals, ranges, how long alerts wait)
TARGET = "127.0.0.1:9108"
_DURATION = re.compile(r"((?:_interval|for): |\[)(\d+)([smh])(?=\]|$)", re.MULTILINE)
_MILLISECONDS = {"s": 1_000, "m": 60_000, "h": 3_600_000}

Say = Callable[[str], None]


class PrometheusUnavailable(RuntimeError):
    """This machine has no Prometheus; the message says what is missing."""


def cache_folder() -> Path:
    """Where the package's files are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ishsmm-stream" / "prometheus"


@functools.cache
def programs(say: Say = lambda line: None) -> tuple[str, str]:
    """The paths of prometheus and promtool; several processes may ask at once."""
    on_path = shutil.which("prometheus"), shutil.which("promtool")
    if on_path[0] and on_path[1]:
        return on_path[0], on_path[1]
    cache_folder().mkdir(parents=True, exist_ok=True)
    unpacked = cache_folder() / "unpacked"
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not unpacked.exists():
            _unpack(unpacked, say)
    return str(unpacked / "usr/bin/prometheus"), str(unpacked / "usr/bin/promtool")


def _unpack(target: Path, say: Say) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PrometheusUnavailable("no prometheus and promtool on the PATH, and no apt-get to fetch them with")
    say(f"fetching Debian's Prometheus into {target} (19 MB, once)")
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        fetch = ["apt-get", "download", "-qq", "prometheus"]
        done = _run(fetch, folder)
        if done.returncode and os.geteuid() == 0:  # without lists of packages, perhaps
            _run(["apt-get", "update", "-qq"], folder)
            done = _run(fetch, folder)
        found = list(Path(folder).glob("*.deb"))
        if not found:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise PrometheusUnavailable(f"apt-get could not fetch the package prometheus: {reason}")
        partial = Path(folder) / "files"
        subprocess.run(["dpkg-deb", "-x", found[0], partial], check=True)
        partial.rename(target)


def _run(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def render(folder: Path, *targets: str, faster: int = 1) -> Path:
    """A copy of our configuration and rules that scrapes these, with all lengths of time divided by ``faster``."""

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}{int(found[2]) * _MILLISECONDS[found[3]] // faster}ms"

    (folder / "rules").mkdir(parents=True)
    for path in (HERE / "prometheus.yml", *sorted(HERE.glob("rules/*.yml"))):
        text = path.read_text(encoding="utf-8").replace(TARGET, "\n          - ".join(targets))
        (folder / path.relative_to(HERE)).write_text(_DURATION.sub(shorter, text), encoding="utf-8")
    return folder / "prometheus.yml"


def start(config: Path, data: Path, port: int, log: Path | None = None) -> subprocess.Popen[bytes]:
    """A server with its data in ``data``."""
    command = [programs()[0], f"--config.file={config}", f"--storage.tsdb.path={data}"]
    command += [f"--web.listen-address={HOST}:{port}", "--log.level=warn"]
    with contextlib.ExitStack() as opened:
        written = None if log is None else opened.enter_context(log.open("ab"))
        return subprocess.Popen(command, stderr=written)


def main() -> int:
    parser = argparse.ArgumentParser(description="A real Prometheus on this machine.")
    parser.add_argument("--prepare", action="store_true", help="only fetch what it needs")
    parser.add_argument("--port", type=int, default=9090)
    parser.add_argument("--target", default=f"{HOST}:8000", help="what is scraped (default: that of `make run`)")
    arguments = parser.parse_args()
    try:
        programs(lambda line: print(f"== {line}", flush=True))
    except PrometheusUnavailable as reason:
        print(f"== no Prometheus: {reason}", file=sys.stderr)
        return 0 if arguments.prepare else 2
    if arguments.prepare:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        config = render(Path(folder), arguments.target)
        server = start(config, Path(folder) / "data", arguments.port)
        where = f"http://{HOST}:{arguments.port}/alerts and /graph"
        print(f"== Prometheus scrapes {arguments.target}: {where}, until Ctrl-C", flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: server.terminate())
        return 0 if server.wait() in (0, -signal.SIGTERM, -signal.SIGINT) else 1


if __name__ == "__main__":
    sys.exit(main())
