"""A service as a black box, for ``compare.py``: run on an input by the command line, and read from outside.

Nothing here imports the service: its modules may have other names in the other tree.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import local_broker
from compare_inputs import PARTITIONS, Command, Forget, Input, Restart, Send
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

# So long that only stops, new generations and the first readings of a few names (by a hash) save a state.
SNAPSHOT_WITHIN = 300_000.0
# Commands run with a clock that stands still: what they write down is then the same in every run.
COMMAND = (
    "import sys, time; now = int(sys.argv.pop(1)); time.time = lambda: now; time.time_ns = lambda: now * 10**9; "
    "from service.cli import main; sys.exit(main())"
)
FIRST_COMMAND = 1_767_225_660  # 2026-01-01T00:01:00Z
TOPICS = ("events", "states", "dead_letters", "changelog", "control", "readings")
OTHER_TOPICS = ("incidents", "state_names", "sink_records")

Found = dict[str, list[str]]  # by place: what is there, in its order


def eventually(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
    """Wait for a condition and return what it returned."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)
    return found


class Run:
    """A service of the tree ``tree`` on an input, in a folder of its own."""

    def __init__(self, tree: Path, made: Input, folder: Path) -> None:
        self.input, self.folder, self.tree = made, folder, tree
        self.rules = made.rules
        self.port = local_broker.free_ports(1)[0]
        self.found: Found = defaultdict(list)
        self.process: subprocess.Popen[bytes] | None = None
        self.commands = 0
        folder.mkdir(parents=True)

    def result(self) -> Found:
        """Take every step, and return everything that can be seen from outside."""
        try:
            self.prepare()
            self.start()
            for number, step in enumerate(self.input.steps):
                self.take(step)
                self.look(f"after step {number}")
            self.look_at_api()
            self.stop()
            self.look("at the end")
            self.look_at_all()
        except Exception as error:
            log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"{self.input.name} with {self.tree}: {error!r}\n{log}") from error
        finally:
            self.kill()
            self.close()
        return self.found

    def take(self, step: Any) -> None:
        """Let one thing happen, and wait until the service has done all of its work."""
        match step:
            case Send():
                self.send(step)
            case Command():
                code = self.command(*step.arguments)
                if (code != 0) != step.fails:
                    raise RuntimeError(f"{step.arguments} ended with {code}")
            case Forget():
                if self.command("forget", step.sensor, "--yes"):
                    raise RuntimeError(f"{step.sensor} cannot be forgotten")
                eventually(lambda: self.is_forgotten(step.sensor), f"{step.sensor} is forgotten")
            case Restart():
                self.end(step.kill)
                self.rules = self.rules if step.rules is None else step.rules
                self.start()

    # Processes

    @property
    def environment(self) -> dict[str, str]:
        mine = {"PYTHONPATH": str(self.tree), "PYTHONSAFEPATH": "1", "ISHSMM_RULES": json.dumps(self.rules)}
        return {**os.environ, **mine}

    def configure(self, sections: dict[str, dict[str, Any]]) -> None:
        """Write the configuration; JSON's plain values are TOML's as well."""
        worker = {"cycle_s": 0.02, "snapshot_within_s": SNAPSHOT_WITHIN, "store": str(self.folder / "store")}
        common = {"worker": worker, "http": {"port": self.port, "requests_per_s": 1e6}, "mapping": self.input.mapping}
        lines = []
        for section, options in {**common, **sections, **self.input.sections}.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in options.items())]
        self.config = self.folder / "service.toml"
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def start(self) -> None:
        """Start the service and wait until it is ready."""
        self.spawn()
        eventually(self.is_ready, "ready", 1200.0)  # it may have kernels to compile

    def spawn(self) -> None:
        line = [sys.executable, "-m", "service.cli", "serve", "--config", str(self.config)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                line, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def is_ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"the service ended with {self.process.returncode}")
        with contextlib.suppress(OSError):
            return self.get("/readyz") is not None
        return False

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def stop(self) -> None:
        """End the service in order, which saves every sensor."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60):
            raise RuntimeError(f"the service ended with {self.process.returncode}")

    def end(self, kill: bool) -> None:
        """End the service, in order or not."""
        if kill:
            self.kill()
        else:
            self.stop()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def command(self, *arguments: str) -> int:
        """Run a command to its end, a minute later than the one before; returns its exit code."""
        line = [sys.executable, "-c", COMMAND, str(FIRST_COMMAND + 60 * self.commands), *arguments]
        if arguments[0] != "topics":
            self.commands += 1
            line += ["--by", "ann"]
        with (self.folder / "log").open("ab") as log:
            done = subprocess.run(
                [*line, "--config", str(self.config)], env=self.environment, cwd=self.folder, stdout=log, stderr=log,
                check=False, timeout=60,
            )  # fmt: skip
        return done.returncode

    # Differ between the logs

    def prepare(self) -> None: ...

    def send(self, batch: Send) -> None: ...

    def is_forgotten(self, sensor: str) -> bool: ...

    def look(self, when: str) -> None: ...

    def look_at_api(self) -> None: ...

    def look_at_all(self) -> None: ...

    def close(self) -> None: ...


class KafkaRun(Run):
    """With topics on a broker of the tree's own, so that names can be the same."""

    def __init__(self, tree: Path, made: Input, folder: Path, bootstrap: list[str]) -> None:
        super().__init__(tree, made, folder)
        self.bootstrap = bootstrap
        self.group = made.name
        self.topics = {kind: f"{made.name}.{kind}" for kind in (*TOPICS, *OTHER_TOPICS)}
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        # One batch until it is flushed
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=60_000, batch_size=2**20)
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest",
            enable_auto_commit=False,
        )  # fmt: skip
        self.sent = [0] * PARTITIONS

    def prepare(self) -> None:
        kafka = {
            "bootstrap": self.bootstrap, "group": self.group, "topics": [self.input.name], "start_from": "earliest",
            "member": "only",  # so that the next one need not wait until a dead one's session is over
        }  # fmt: skip
        self.configure({"kafka": kafka, "topics": {**self.topics, "partitions": PARTITIONS}})
        config = {"retention.ms": "-1"}
        topic = {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": config}
        self.admin.create_topics({self.input.name: topic})
        self.admin.wait_for_topics([self.input.name])
        if self.command("topics", "create"):
            raise RuntimeError("topics cannot be created")
        there = set(self.admin.list_topics())  # that of readings which are sent on is not always needed
        self.topics = {kind: name for kind, name in self.topics.items() if name in there}

    def start(self) -> None:
        super().start()
        eventually(lambda: len(self.committed()) >= PARTITIONS, "the partitions are begun")

    def committed(self) -> dict[tuple[str, int], tuple[int, str]]:
        """Return what the group has committed: offsets with their metadata."""
        found = self.admin.list_group_offsets([self.group])[self.group]
        return {
            (place.topic, place.partition): (one.offset, one.metadata)
            for place, one in found.items()
            if one.offset >= 0
        }

    def send(self, batch: Send) -> None:
        for record in batch.records:
            self.producer.send(
                self.input.name, record.value, record.key, partition=batch.partition,
                timestamp_ms=int(record.time * 1000),
            )  # fmt: skip
        self.producer.flush()
        self.sent[batch.partition] += len(batch.records)
        ends = {(self.input.name, number): count for number, count in enumerate(self.sent) if count}
        eventually(lambda: self.has_reached(ends), "the batch is committed")
        if "readings" in self.topics:
            # only records count: a transaction's end has an offset, too
            inner = {(record.topic, record.partition): record.offset + 1 for record in self.read("readings")}
            eventually(lambda: self.has_reached(inner), "what was sent on is committed")

    def has_reached(self, ends: dict[tuple[str, int], int]) -> bool:
        self.is_ready()  # or it has ended
        committed = self.committed()
        return all(committed.get(place, (0, ""))[0] >= end for place, end in ends.items())

    def read(self, kind: str) -> list[Any]:
        """Return all committed records of a topic, by partition and offset."""
        name, records = self.topics[kind], []
        places = [TopicPartition(name, number) for number in sorted(self.consumer.partitions_for_topic(name) or ())]
        self.consumer.assign(places)
        self.consumer.seek_to_beginning(*places)
        ends = self.consumer.end_offsets(places)
        while any(self.consumer.position(place) < ends[place] for place in places):
            for found in self.consumer.poll(timeout_ms=100).values():
                records += found
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def is_forgotten(self, sensor: str) -> bool:
        newest = {record.key: record.value for record in self.read("changelog")}
        return newest.get(sensor.encode(), b"") is None

    def look(self, when: str) -> None:
        for (topic, number), (offset, metadata) in sorted(self.committed().items()):
            self.found[f"committed of {topic}[{number}]"].append(f"{when}: {offset} {metadata}")

    def look_at_all(self) -> None:
        for kind in self.topics:
            for record in self.read(kind):
                value = shown(record.value)
                if kind == "changelog" and record.value is not None:
                    value = without_topic_id(record.partition, record.key, record.value)
                self.found[f"{kind}[{record.partition}]"].append(f"{shown(record.key)} {value}")

    def close(self) -> None:
        for client in (self.admin, self.producer, self.consumer):
            client.close()


class EmbeddedRun(Run):
    """Without a broker. Posts are worked off one by one; a file grows, and is read to its end before each restart.

    The service reads 2,000 lines of a file at once, so there are fewer of them between two restarts.
    """

    def prepare(self) -> None:
        source: dict[str, Any] = {"kinds": [self.input.source], "state": str(self.state)}
        sections = {"source": source}
        if self.input.source == "file":
            source["until_end"] = True
            sections["source.file"] = {"path": str(self.folder / "input"), **self.input.file}
        self.configure(sections)
        sink = {"kind": "lines", "name": "all", "path": str(self.folder / "sink"), "max_age_s": 1e9,
                "age": "publication", "only": ["raised", "cleared", "provisional", "confirmed", "back"]}  # fmt: skip
        self.config.write_text(self.config.read_text() + "[[sinks]]\n" + "\n".join(
            f"{key} = {json.dumps(value)}" for key, value in sink.items()) + "\n")  # fmt: skip

    @property
    def state(self) -> Path:
        return self.folder / "state.sqlite"

    @property
    def is_file(self) -> bool:
        return self.input.source == "file"

    def start(self) -> None:
        if not self.is_file:
            super().start()

    def stop(self) -> None:
        if not self.is_file:
            super().stop()
            return
        self.spawn()
        assert self.process is not None
        if self.process.wait(1200):
            raise RuntimeError(f"the service ended with {self.process.returncode}")

    def end(self, kill: bool) -> None:
        super().end(kill and not self.is_file)

    @contextlib.contextmanager
    def tables(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(f"file:{self.state}?mode=ro", uri=True, timeout=30)) as connection:
            yield connection

    def send(self, batch: Send) -> None:
        values = [record.value for record in batch.records if record.value]
        if self.is_file:
            with (self.folder / "input").open("ab") as file:
                file.write(b"".join(value + b"\n" for value in values))
            return
        headers = {"Content-Type": "application/x-ndjson"}
        url = f"http://127.0.0.1:{self.port}/v1/readings"
        with urllib.request.urlopen(urllib.request.Request(url, b"\n".join(values), headers), timeout=60) as answer:
            last = json.load(answer)["offset"]
        eventually(lambda: self.next_offset() > last, "the post is worked off")

    def next_offset(self) -> int:
        with self.tables() as tables:
            return int(tables.execute("SELECT next_offset FROM position").fetchone()[0])

    def is_forgotten(self, sensor: str) -> bool:
        with self.tables() as tables:
            return not any(
                tables.execute(f"SELECT 1 FROM {table} WHERE sensor = ?", (sensor,)).fetchone()
                for table in ("sensors", "states")
            )

    def look(self, when: str) -> None:
        """The place that was reached, and how much waits to be saved."""
        if not self.state.exists():
            return
        with self.tables() as tables:
            for table in ("position", "intake"):
                what = "count(*), min(offset), max(offset)" if table == "intake" else "*"
                row = tables.execute(f"SELECT {what} FROM {table}").fetchone()
                self.found[table].append(f"{when}: {row}")

    def look_at_api(self) -> None:
        if self.is_file:
            return
        names = [one["sensor"] for one in json.loads(self.get("/v1/sensors?limit=1000"))["sensors"]]
        for name in names:
            self.found["GET /v1/sensors"].append(self.get(f"/v1/sensors/{urllib.parse.quote(name)}"))

    def look_at_all(self) -> None:
        with self.tables() as tables:
            made = tables.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
            self.found["schema"] = [f"{name}: {sql}" for name, sql in made]
            names = [name for name, sql in made if sql and sql.startswith("CREATE TABLE")]
            for name in names:
                for row in tables.execute(f"SELECT * FROM {name}").fetchall():
                    columns = [one[1] for one in tables.execute(f"PRAGMA table_info({name})")]
                    self.found[f"table {name}"].append(_row(name, dict(zip(columns, row, strict=True))))
        sink = self.folder / "sink"
        lines = sink.read_text(encoding="utf-8").splitlines() if sink.exists() else []
        self.found["sink"] = list(dict.fromkeys(lines))  # after a kill some may be sent again


def _row(table: str, row: dict[str, Any]) -> str:
    """Return a row as text, without the times of the clock on the wall: when a record came, and when it was committed.

    A dead letter of the service without a broker has the former as its ``timestamp``.
    """
    row = {name: value for name, value in row.items() if name not in ("committed", "received")}
    if table == "dead_letters":
        letter = json.loads(row["value"])
        assert letter["timestamp"] > 1_500_000_000_000
        row["value"] = row["value"].replace(b'"timestamp":%d' % letter["timestamp"], b'"timestamp":0')
    return json.dumps({name: shown(value) if isinstance(value, bytes) else value for name, value in row.items()})


def shown(value: bytes | None) -> str:
    """Return bytes as text that is the same only for the same bytes."""
    if value is None:
        return "none"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()
    return text if text.isprintable() else repr(text)


def without_topic_id(partition: int, key: bytes, value: bytes) -> str:
    """Return a saved state without what brokers choose at random: the input topic's id, and the checksum over it.

    The checksum must be right. Both stand at the end: the id and a hash of the group, the checksum, each after two
    bytes of MessagePack.
    """
    head, state, checksum = value[:20], value[20:-10], value[-8:]
    digest = hashlib.blake2b(struct.pack(">qi", partition, len(key)) + key + head + state, digest_size=8)
    if digest.digest() != checksum:
        return f"wrong checksum: {shown(value)}"
    return "base64:" + base64.b64encode(value[:-34] + bytes(16) + value[-18:-8]).decode()
