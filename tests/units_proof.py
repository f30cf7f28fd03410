"""The service from its systemd units' own lines: broker, two workers, the page, Prometheus with the rules.

    make deploy-test

Commands and environments are read from deploy/systemd. Readings come in, a worker is killed among them and started
again as its unit says; what was published is compared, byte for byte, with every sensor followed alone.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import local_broker
import unit_files
from kafka import KafkaProducer
from prometheus_helpers import Server, scraping
from worker_helpers import START, Service, eventually, first_difference, partition_of

from service.runtime.warm_up import compile_kernels
from service.settings import Rule

UNITS = Path(__file__).parent.parent / "deploy" / "systemd"
PARTITIONS = 4
SENSORS = 16
STEPS, STEPS_A_SECOND = 240, 20


def say(text: str) -> None:
    print(f"== {text}", flush=True)


class Supervised:
    """A unit's process, started again when it fails, as systemd would do it."""

    def __init__(self, unit: unit_files.Unit, log: Path) -> None:
        self._unit = unit
        self._log = log
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._unit.command, env=self._unit.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """SIGKILL, and what the unit says should follow."""
        self.process.kill()
        self.process.wait()
        assert self._unit.restarts_after is not None, "the unit is not started again"
        time.sleep(self._unit.restarts_after)
        self._start()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(self._unit.stops_within)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]


def answer(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as told:
            return told.status, told.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def wait_until_ready(port: int, one: Supervised) -> None:
    def is_ready() -> bool:
        if one.process.poll() is not None:
            sys.exit(f"the process on port {port} ended with {one.process.returncode}: {one.log()}")
        return answer(port, "/readyz")[0] == 200

    eventually(is_ready, 120.0, f"port {port} is ready")


def feed(service: Service) -> None:
    """Readings of all sensors, at a pace, with levels that change."""
    draw = random.Random(1)
    producer = service.connection.build(KafkaProducer, acks="all", enable_idempotence=True, linger_ms=5)
    levels = [0.0] * SENSORS
    for step in range(STEPS):
        for k in range(SENSORS):
            if draw.random() < 0.01:
                levels[k] = draw.uniform(-30.0, 30.0)
            sensor = f"sensor-{k}"
            value = {"sensor": sensor, "time": START + step, "value": draw.gauss(levels[k], 1.0)}
            number = partition_of(sensor, PARTITIONS)
            producer.send(service.name, json.dumps(value).encode(), sensor.encode(), partition=number)
        time.sleep(1.0 / STEPS_A_SECOND)
    producer.flush()
    producer.close()


def prove(folder: Path) -> None:
    first, second, view_port = local_broker.free_ports(3)
    compile_kernels(Rule())  # into this user's cache, which the units are given
    with local_broker.single(folder / "broker") as broker:
        service = Service(broker.bootstrap, folder / "etc", "service", rules=[], view={"port": view_port})
        service.create_topics(PARTITIONS)
        service.write()
        places = {
            "/opt/ishsmm/bin": Path(sys.executable).parent,
            "/etc/ishsmm": folder / "etc",
            "/var/lib": folder / "lib",
            "/var/cache/ishsmm": Path.home() / ".cache",
        }
        say(f"broker on {broker.bootstrap[0]}; starting the units ishsmm-worker@{first} and @{second}")
        started: list[Supervised] = []

        def start(file: str, port: int) -> Supervised:
            unit = unit_files.read(UNITS / file, str(port), places)
            started.append(Supervised(unit, folder / f"{port}.log"))
            return started[-1]

        try:
            workers = [start("ishsmm-worker@.service", port) for port in (first, second)]
            start("ishsmm-view.service", view_port)
            ports = [first, second, view_port]
            for port, one in zip(ports, started, strict=True):
                wait_until_ready(port, one)
            with scraping(folder, *ports) as prometheus:
                run_through(service, workers, prometheus, len(ports))
            code, page = answer(view_port, "/")
            assert code == 200, "the page is there"
            assert "<html" in page, "the page is one"
            listed = json.loads(answer(view_port, "/v1/sensors?limit=1000")[1])
            assert len(listed["sensors"]) == SENSORS, "the view knows the whole fleet"
            say(f"the view serves the page, and knows all {SENSORS} sensors")
            for one in started:
                assert one.stop() == 0, one.log()
            say("all stopped in order")
        finally:
            for one in started:
                one.close()


def run_through(service: Service, workers: list[Supervised], prometheus: Server, targets: int) -> None:
    """Readings, a kill among them, and the comparison."""
    eventually(lambda: len(prometheus.query("up == 1")) == targets, 60.0, "Prometheus scrapes all")
    feeding = threading.Thread(target=feed, args=(service,))
    feeding.start()
    eventually(lambda: sum(service.committed().values()) > SENSORS * STEPS // 4, 60.0, "a quarter is done")
    before = workers[0].process.pid
    say(f"killing worker {before} while readings come")
    workers[0].kill()
    say(f"started again by its unit's rule: worker {workers[0].process.pid}")
    feeding.join()
    service.wait_until_done(120.0)
    found = service.outputs()
    difference = first_difference(service.expected(), found)
    if difference is not None:
        sys.exit(f"DIFFERENT from an undisturbed run: {difference}")
    events = sum(len(values) for values in found["events"].values())
    states = sum(len(values) for values in found["states"].values())
    assert events > 0, "there is something to compare"
    say(f"{SENSORS * STEPS} readings: {events} events and {states} states, the same as of an undisturbed run")
    eventually(lambda: prometheus.says("job:ishsmm_readings:rate5m"), 60.0, "the rules record")
    say("Prometheus scrapes all of them, its rules record")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        prove(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
