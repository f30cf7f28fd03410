"""The image, built and run for real: it starts without rights on a read-only filesystem, and finds a change.

    make image-test

Built by buildah over a base that is made here from Debian's packages, in a storage of its own, and run by podman beside
a broker on this machine. Prints how long the start took and how large the image is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import local_broker
from worker_helpers import Service, eventually, produce_readings, reading

ROOT = Path(__file__).parent.parent
BASE = "docker.io/library/python:3.11-slim-bookworm"
IMAGE = "localhost/ishsmm-stream:proof"
NEEDED = ("buildah", "podman", "runc", "debootstrap")
PARTITIONS = 2
CHANGE_AT, READINGS = 200, 300


def storage() -> Path:
    """Where images are kept: not among the user's own, for the base has a public one's name."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "ishsmm-stream" / "image"


def engine(program: str, *arguments: object) -> list[str]:
    """The command line of buildah or podman on that storage."""
    root = storage()
    line = [program, "--root", root / "images", "--runroot", root / "run", "--storage-driver", "overlay"]
    if program == "podman":  # neither crun nor systemd can be counted on
        line += ["--runtime", "runc", "--cgroup-manager", "cgroupfs"]
    return [str(part) for part in (*line, *arguments)]


def said(*line: object, **options: Any) -> str:
    return subprocess.run([str(part) for part in line], capture_output=True, text=True, check=True, **options).stdout


def build() -> float:
    """Build the image; seconds that it took without the base."""
    subprocess.run([ROOT / "deploy/image/local_base.sh", BASE, storage()], check=True)
    began = time.monotonic()
    done = subprocess.run(
        engine(
            "buildah", "bud", "--isolation", "chroot", "--pull-never", "--format", "docker", "--layers",
            "--volume", "/etc/ssl/certs:/etc/ssl/certs:ro",  # where a company's own authority may be
            "--file", ROOT / "deploy/Dockerfile", "--tag", IMAGE, ROOT,
        ),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"the image does not build:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return time.monotonic() - began


class Container:
    """The image at work, as compose and Helm run it: no capabilities, nothing to write to but /tmp."""

    def __init__(self, config: Path, environment: dict[str, str]) -> None:
        self.name = f"ishsmm-proof-{os.getpid()}"
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        self._process = subprocess.Popen(
            engine(
                "podman", "run", "--rm", "--name", self.name, "--network", "host", "--no-healthcheck",
                "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges",
                "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096",
                "--volume", f"{config}:/etc/ishsmm/service.toml:ro", *variables, IMAGE,
            ),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def inside(self, *line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(engine("podman", "exec", self.name, *line), capture_output=True, text=True, check=False)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> tuple[int, str]:
        """Ask it to stop; its exit code, and what it said."""
        subprocess.run(engine("podman", "kill", "--signal", "TERM", self.name), capture_output=True, check=False)
        output, _ = self._process.communicate(timeout=60)
        return self._process.returncode, output

    def remove(self) -> None:
        if self.is_running():
            subprocess.run(engine("podman", "rm", "--force", self.name), capture_output=True, check=False)
            self._process.wait(60)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def changes(service: Service) -> list[dict[str, Any]]:
    found = [json.loads(value) for values in service.outputs()["events"].values() for value in values]
    return [event for event in found if event["type"] == "change"]


def prove(folder: Path) -> None:
    took = build()
    size = int(said(*engine("podman", "image", "inspect", "--format", "{{.Size}}", IMAGE))) / 1e6
    base = int(said(*engine("podman", "image", "inspect", "--format", "{{.Size}}", BASE))) / 1e6
    print(f"== built in {took:.0f} s: {size:.0f} MB, of which the base is {base:.0f} MB", flush=True)
    (port,) = local_broker.free_ports(1)
    with local_broker.single(folder / "broker") as broker:
        service = Service(broker.bootstrap, folder, "image", http={"port": port}, worker={"store": "/tmp/store"})
        service.create_topics(PARTITIONS)
        began = time.monotonic()
        container = Container(service.write(), {"HEALTH_URL": f"http://127.0.0.1:{port}/healthz"})
        try:
            eventually(lambda: answers(f"http://127.0.0.1:{port}/readyz") or not container.is_running(), 120.0, "ready")
            if not container.is_running():
                sys.exit(f"the container ended: {container.stop()[1][-3000:]}")
            print(f"== ready {time.monotonic() - began:.1f} s after `podman run`", flush=True)
            assert container.inside("id", "-u").stdout.strip() == "10001", "it runs as its own user"
            assert container.inside("touch", "/opt/here").returncode != 0, "its root filesystem is read-only"
            assert container.inside("python", "/usr/local/bin/healthcheck.py").returncode == 0, "it is healthy"

            levels = [20.0] * CHANGE_AT + [26.0] * (READINGS - CHANGE_AT)
            noise = [((7 * i) % 11 - 5) / 5.0 for i in range(READINGS)]
            readings = [("boiler", reading("boiler", i, levels[i] + noise[i])) for i in range(READINGS)]
            produce_readings(service.connection, service.name, readings, PARTITIONS)
            service.wait_until_done()
            found = changes(service)
            assert [event["index"] for event in found if event["status"] == "confirmed"] == [CHANGE_AT], found
            assert service.outputs() == service.expected(), "what it says is what a detector says outside of it"
            print(f"== {READINGS} readings in, a change found at reading {CHANGE_AT}: {found[-1]['summary']}")

            began = time.monotonic()
            code, output = container.stop()
            assert code == 0, output[-3000:]
            assert "kernels of 1 models ready" in output, output[-3000:]
            print(f"== stopped in order {time.monotonic() - began:.1f} s after SIGTERM")
        finally:
            container.remove()


def main() -> int:
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        print(f"== no image-test: it needs root and {', '.join(NEEDED)} (apt-get install)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        prove(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
