"""The whole service on this machine, to be looked at: broker, topics, worker, a demo producer and a reader.

    python deploy/run_kafka.py [--seconds N]

A broker that runs on 127.0.0.1:9092 already is used; otherwise one is started. Ctrl-C ends everything in order and
then audits the topics.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE / "kafka"), str(HERE.parent)]

import local_broker  # noqa: E402

from service.kafka import groups, own_topics  # noqa: E402
from service.kafka import topics as kafka_topics  # noqa: E402
from service.kafka.following import follow  # noqa: E402
from service.kafka.input import connection_of  # noqa: E402
from service.settings import Settings, load  # noqa: E402
from service.sources.plant import PLANT, Planted  # noqa: E402
from service.tools import audit_report  # noqa: E402
from service.tools.demo import produce  # noqa: E402
from service.tools.demo_score import DemoScore  # noqa: E402
from service.tools.tail import Printer, decode, line  # noqa: E402
from service.wire import messages  # noqa: E402

CONFIG = HERE / "demo.toml"
PARTITIONS = 4
RATE = 4.0
READY_SECONDS = 120.0
STOP_SECONDS = 30.0


def say(text: str) -> None:
    print(f"== {text}", flush=True)


@contextmanager
def a_broker(settings: Settings) -> Iterator[None]:
    (address,) = settings.kafka.bootstrap
    if local_broker.connects(address):
        say(f"using the broker on {address}")
        yield
        return
    local_broker.prepare(say)
    with tempfile.TemporaryDirectory() as folder:
        say(f"starting Kafka {local_broker.KAFKA_VERSION} on {address}")
        with local_broker.single(Path(folder), int(address.rsplit(":", 1)[1])):
            yield


@contextmanager
def a_process(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of the service as a process of its own. Ctrl-C is for us: we stop it in order."""
    store = tempfile.mkdtemp()
    command = [sys.executable, "-m", "service.cli", name, "--config", str(CONFIG), "--log-level", "WARNING"]
    paths = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "ISHSMM_WORKER__STORE": store}
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for(worker: subprocess.Popen[bytes], settings: Settings) -> None:
    """Until it is a member of its group."""
    deadline = time.monotonic() + READY_SECONDS
    while groups.members(connection_of(settings), settings.kafka.group) == 0:
        if worker.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the worker did not start")
        time.sleep(0.2)


def show(settings: Settings, seconds: float | None) -> None:
    """Produce and print until Ctrl-C, or for so long."""
    over, connection, printer = threading.Event(), connection_of(settings), Printer()
    score = DemoScore(RATE, len(PLANT))

    def planted(fault: Planted) -> None:
        printer.planted(fault)
        score.plant(fault)

    def work() -> None:
        produce(connection, settings.kafka.topics[0], RATE, int(time.time()), planted, over.is_set)

    producing = threading.Thread(target=work, name="producer")
    score.begin()
    ends = None if seconds is None else time.monotonic() + seconds
    try:
        for value in follow(
            connection, settings.topics.events, ready=producing.start,
            is_over=lambda: ends is not None and time.monotonic() > ends,
        ):  # fmt: skip
            event = decode(value)
            if event is None:
                continue
            if score.take(event) and not isinstance(event, messages.ChangeEvent):
                printer(*line(event))
            if (said := score.due()) is not None:
                say(said.removeprefix("== "))
    except KeyboardInterrupt:
        print()
    finally:
        over.set()
        if producing.ident is not None:
            producing.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    arguments = parser.parse_args()
    settings = load(CONFIG, os.environ)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with a_broker(settings):
            connection = connection_of(settings)
            kafka_topics.create(connection, [kafka_topics.TopicSpec(settings.kafka.topics[0], PARTITIONS)])
            own_topics.create(settings)
            say("starting the worker: it compiles its kernels first, for a minute when it has never done so")
            with a_process("view"), a_process("serve") as worker:
                wait_for(worker, settings)
                say("four dozen sensors, 4 readings per second each; planted faults and alarms; Ctrl-C ends it")
                show(settings, arguments.seconds)
                say("stopping")
            return audit_report.show(settings)
    except KeyboardInterrupt:
        say("ended before it was running")
        return 130
    except (local_broker.BrokerUnavailable, RuntimeError, ValueError) as reason:
        say(str(reason))
        return 1


if __name__ == "__main__":
    sys.exit(main())
