"""A real Apache Kafka on this machine: for ``make kafka``, for tests, and for tests that harm it.

    python deploy/kafka/local_broker.py               # a broker on 127.0.0.1:9092 until Ctrl-C
    python deploy/kafka/local_broker.py --prepare     # only fetch what it needs

Java 17 or newer runs it; Maven fetches its jars once into a cache folder of the user.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import functools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

KAFKA_VERSION = "4.3.1"
HERE = Path(__file__).parent
HOST = "127.0.0.1"
CLUSTER_ID = "aXNoc21tLXN0cmVhbS0wMQ"  # any 16 bytes in base64url

ADMIN = ("admin", "admin-secret")  # of the secured broker: may do everything
APP = ("app", "app-secret")  # of the secured broker: may do what ACLs allow

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]


class BrokerUnavailable(RuntimeError):
    """This machine cannot run a broker; the message says what is missing."""


# --- what a broker needs -----------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Where the jars and the class archive are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ishsmm-stream" / f"kafka-{KAFKA_VERSION}"


@functools.cache
def prepare(say: Say = lambda line: None) -> None:
    """Make sure of Java, the jars and the class archive; several processes may do so at once."""
    _require_java()
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _locked(cache_folder() / "lock"):
        if not _jars().exists():
            _fetch_jars(say)
        if not _archive().exists():
            _make_archive(say)


def _jars() -> Path:
    return cache_folder() / "jars"


def _archive() -> Path:
    return cache_folder() / "classes.jsa"


def _require_java() -> None:
    java = shutil.which("java")
    if java is None:
        raise BrokerUnavailable(
            "no java on the PATH: install Java 17 (Debian: apt-get install openjdk-17-jre-headless)"
        )
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found.group(1)) < 17:
        raise BrokerUnavailable(f"Kafka {KAFKA_VERSION} needs Java 17 or newer, {java} is {told.splitlines()[:1]}")


def _fetch_jars(say: Say) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerUnavailable(
            "no mvn on the PATH to fetch Kafka's jars: install Maven (Debian: apt-get install maven)"
        )
    say(f"fetching Apache Kafka {KAFKA_VERSION} into {_jars()} (44 MB, about 20 s, once)")
    partial = cache_folder() / "jars.partial"
    shutil.rmtree(partial, ignore_errors=True)
    command = [
        maven,
        "-q",
        "-B",
        "-f",
        HERE / "pom.xml",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={partial}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line] or ["no reason given"]
        raise BrokerUnavailable(f"Maven could not fetch Kafka's jars: {errors[0]}")
    partial.rename(_jars())


def _make_archive(say: Say) -> None:
    """Run a broker once and keep its loaded classes: every later start takes half the time."""
    say("preparing the broker for quick starts (about 10 s, once)")
    partial = _archive().with_suffix(".partial")
    with tempfile.TemporaryDirectory() as folder:
        broker = _single(Path(folder), port=None)
        broker.nodes[0].java_options = [f"-XX:ArchiveClassesAtExit={partial}"]
        broker.start()
        broker.stop(patience=60)  # the archive is written on the way out
    if partial.exists():  # without one brokers start as well, only slower
        partial.rename(_archive())


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- processes ---------------------------------------------------------------------------------------------------

# The kernel sends the parent-death signal when the *thread* that started the process ends: start from one that lasts.
_spawner = ThreadPoolExecutor(1, "broker-spawner")
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent(parent: int) -> None:
    """Runs in the child before Java does: a killed test run leaves no broker behind."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


@dataclass
class Node:
    """One broker process; ``log`` holds what it says."""

    properties: Path
    heap_mb: int = 384
    java_options: list[str] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.properties.with_suffix(".log")

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def format(self, *options: str) -> None:
        """Prepare the data folder, which has to be empty."""
        arguments = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.properties), *options]
        done = subprocess.run([*self._java(), *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerUnavailable(f"could not format {self.properties}: {done.stdout[-500:]}{done.stderr[-500:]}")

    def start(self) -> None:
        """Start without waiting until it answers."""
        parent = os.getpid()
        with self.log.open("ab") as log:
            starting = _spawner.submit(
                subprocess.Popen,
                [*self._java(), "kafka.Kafka", str(self.properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: we stop it in order
                preexec_fn=lambda: _die_with_parent(parent),
            )
            self._process = starting.result()

    def terminate(self) -> None:
        """Ask for an orderly end, without waiting for it."""
        if self.running:
            self.resume()  # a stopped process would not hear
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, patience: float) -> None:
        """Wait for the end, and force it after ``patience`` seconds."""
        if self._process is not None:
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self.kill()

    def stop(self, patience: float = STOP_SECONDS) -> None:
        """An orderly end, as of a rolling restart."""
        self.terminate()
        self.wait(patience)

    def kill(self) -> None:
        """SIGKILL: its port refuses connections from now on."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
            assert self._process is not None
            self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: it accepts connections and bytes, and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on, with all that has arrived meanwhile."""
        os.kill(self.pid, signal.SIGCONT)

    def _java(self) -> list[str]:
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Xmx{self.heap_mb}m", *self.java_options]
        if _archive().exists():
            options.append(f"-XX:SharedArchiveFile={_archive()}")
        return ["java", *options, f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}", "-cp", f"{_jars()}/*"]


@dataclass
class Broker:
    """One node or several, with the client settings that reach them."""

    nodes: list[Node]
    bootstrap: list[str]
    admin_settings: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start and wait until every node serves."""
        for node in self.nodes:
            if not node.running:
                node.start()
        self.wait_until_ready()

    def stop(self, patience: float = STOP_SECONDS) -> None:
        """An orderly end. The last of several nodes cannot finish without a majority: it is forced."""
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            node.wait(patience if len(self.nodes) == 1 else 5.0)

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def pause(self) -> None:
        for node in self.nodes:
            node.pause()

    def resume(self) -> None:
        for node in self.nodes:
            node.resume()

    def restart(self) -> None:
        self.stop()
        self.start()

    def wait_until_ready(self) -> None:
        """A TCP connect succeeds earlier than requests do: ask for the cluster until all nodes are unfenced."""
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            for node in self.nodes:
                if not node.running:
                    raise BrokerUnavailable(f"the broker ended at its start: {_last_lines(node.log)}")
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"the broker does not answer: {_last_lines(self.nodes[0].log)}")
            time.sleep(0.05)

    def _ready(self) -> bool:
        # The client comes with the service's extra; --prepare and the folders above do without.
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        if not all(connects(address) for address in self.bootstrap):
            return False
        try:
            with KafkaAdminClient(
                bootstrap_servers=self.bootstrap,
                bootstrap_timeout_ms=2000,
                request_timeout_ms=2000,
                **self.admin_settings,
            ) as admin:
                serving = [one for one in admin.describe_cluster()["brokers"] if not one.get("is_fenced")]
        except KafkaError:
            return False
        return len(serving) == len(self.nodes)

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        for node in self.nodes:
            node.kill()  # its data goes with it; an orderly end would only take longer


@dataclass
class SecuredBroker(Broker):
    """TLS everywhere, ACLs on: ``bootstrap`` wants a SCRAM password, ``mutual_bootstrap`` a client certificate."""

    mutual_bootstrap: list[str] = field(default_factory=list)
    ca_file: Path = Path()
    certificate_file: Path = Path()
    key_file: Path = Path()


# --- kinds of brokers --------------------------------------------------------------------------------------------


def single(folder: Path, port: int | None = None) -> Broker:
    """One node with its data in ``folder``; formatted when new, not started."""
    prepare()
    return _single(folder, port)


def _single(folder: Path, port: int | None) -> Broker:
    own, controller = free_ports(2)
    port = own if port is None else port
    node = _render("single.properties", folder, PORT=port, CPORT=controller)
    if not (folder / "data" / "meta.properties").exists():
        node.format()
    return Broker([node], [f"{HOST}:{port}"])


def three_nodes(folder: Path) -> Broker:
    """Three nodes that replicate everything; one may die."""
    prepare()
    ports = free_ports(6)
    voters = ",".join(f"{number}@{HOST}:{ports[2 + number]}" for number in (1, 2, 3))
    nodes = []
    for number in (1, 2, 3):
        place = {"ID": number, "PORT": ports[number - 1], "CPORT": ports[2 + number], "VOTERS": voters}
        nodes.append(_render("cluster.properties", folder / f"node{number}", **place))
        nodes[-1].format()
    return Broker(nodes, [f"{HOST}:{port}" for port in ports[:3]])


def secured(folder: Path) -> SecuredBroker:
    """One node with TLS, SCRAM users ``ADMIN`` and ``APP``, mutual TLS (CN=app) and ACLs."""
    prepare()
    if shutil.which("openssl") is None:
        raise BrokerUnavailable("no openssl on the PATH to make certificates with")
    port, mutual, controller = free_ports(3)
    tls = folder / "tls"
    tls.mkdir(parents=True)
    subprocess.run(["sh", HERE / "tls.sh", tls], check=True)
    node = _render("secure.properties", folder, PORT=port, MPORT=mutual, CPORT=controller, TLS=tls)
    users = [f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in (ADMIN, APP)]
    node.format("--add-scram", users[0], "--add-scram", users[1])
    return SecuredBroker(
        [node],
        [f"{HOST}:{port}"],
        admin_settings={
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": ADMIN[0],
            "sasl_plain_password": ADMIN[1],
            "ssl_cafile": str(tls / "ca.pem"),
        },
        mutual_bootstrap=[f"{HOST}:{mutual}"],
        ca_file=tls / "ca.pem",
        certificate_file=tls / "app.crt",
        key_file=tls / "app.key",
    )


def _render(template: str, folder: Path, **values: object) -> Node:
    folder.mkdir(parents=True, exist_ok=True)
    text = (HERE / template).read_text(encoding="utf-8")
    for name, value in {**values, "DATA": folder / "data"}.items():
        text = text.replace(f"@{name}@", str(value))
    properties = folder / "node.properties"
    properties.write_text(text, encoding="utf-8")
    return Node(properties)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that the kernel gives to clients.

    A client that keeps knocking at a broker that is down would otherwise be given that very port one day, connect to
    itself, and keep the broker from coming back.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.bind((HOST, port))
            if port not in ports:
                ports.append(port)
    return ports


def connects(address: str) -> bool:
    """Whether somebody listens there."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except OSError:
        return False


def _last_lines(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return " | ".join(lines[-5:]) or "it said nothing"


# --- make kafka --------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run a local Apache Kafka broker until Ctrl-C.")
    parser.add_argument("--prepare", action="store_true", help="fetch what it needs, and end")
    parser.add_argument("--port", type=int, default=9092, help="port on 127.0.0.1 (default 9092)")
    parser.add_argument("--data", type=Path, help="folder that keeps the data (default: a temporary one)")
    arguments = parser.parse_args(argv)

    def say(line: str) -> None:
        print(f"== {line}", flush=True)

    try:
        prepare(say)
    except BrokerUnavailable as reason:
        say(f"no local Kafka broker: {reason}")
        # Preparing is a convenience: tests that need a broker skip themselves and say why.
        return 0 if arguments.prepare else 1
    if arguments.prepare:
        return 0
    if connects(f"{HOST}:{arguments.port}"):
        say(f"port {arguments.port} is taken, perhaps by a broker that runs already; choose another: --port 9093")
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        return _serve(arguments.data or Path(temporary), arguments.port, say)


def _serve(folder: Path, port: int, say: Say) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    broker = single(folder.absolute(), port)
    try:
        broker.start()
        say(f"Kafka {KAFKA_VERSION} serves on {broker.bootstrap[0]}, data in {folder}; Ctrl-C ends it")
        while broker.nodes[0].running:
            time.sleep(0.2)
        say(f"the broker ended by itself: {_last_lines(broker.nodes[0].log)}")
        return 1
    except KeyboardInterrupt:
        say("stopping")
        return 0
    except BrokerUnavailable as reason:
        say(str(reason))
        return 1
    finally:
        broker.stop()


if __name__ == "__main__":
    sys.exit(main())
