"""Wrong and forged input at the doors of the service: saved states, records, control records and configurations.

    python tests/fuzz_service.py --minutes 5 --seed 1
    python tests/fuzz_service.py --door states --seed 1 --only 4711       # one trial, in this process

Whatever comes in, a worker goes on: a state becomes a new generation of its sensor, a record a dead letter, a control
record is ignored, and a configuration is an error of one line. Trials run in another process, which reports each of
them: if it dies or stops, the trial that it was at is the culprit. A trial depends on the seed and on its number only.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import json
import math
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import records

from service.operations import control
from service.operations.control import ControlBook
from service.operations.names import NameBook
from service.runtime.snapshot_store import SnapshotStore
from service.sensors import envelope
from service.sensors.partition import Partition
from service.sensors.records import Outbound, decode_with
from service.sensors.rules import Rules
from service.sensors.saved import Saved
from service.settings import RecordMapping, Rule, Settings, load
from service.settings.models import ModelTable
from service.settings.rules import DetectorSettings, Window
from service.settings.times import TimePolicy
from service.wire import messages
from service.wire.decoding import decoder
from service.wire.readings import BadRecord

TIMEOUT, START_UP = 20.0, 600.0  # seconds that a trial may take, and the first one of a process
LIMIT = 10_000  # bytes of a record
NUMBER = 3  # of the partition
EXAMPLE = Path(__file__).parents[1] / "deploy" / "service.example.toml"

ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 0.5, -1.5, 1e300, -1e300, "", "x",
    "\u0000", "\ud7ff\ue000", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "NaN",
    "x" * 5000, [], {}, [[]], [0] * 100, {"a": {"b": []}},
)  # fmt: skip


def odd(draw: random.Random) -> Any:
    return copy.deepcopy(draw.choice(ODD))


def flipped(draw: random.Random, data: bytes) -> bytes:
    """The bytes with something wrong in them."""
    damaged = bytearray(data or b"\x00")
    kind = draw.randrange(4)
    if kind == 0:
        for _ in range(draw.randrange(1, 6)):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del damaged[draw.randrange(len(damaged)) :]
    elif kind == 2:
        at = draw.randrange(len(damaged))
        damaged[at:at] = draw.randbytes(draw.randrange(1, 40))
    else:
        at = draw.randrange(len(damaged))
        damaged[at : at + draw.randrange(1, 40)] = b""
    return bytes(damaged)


def changed(draw: random.Random, value: Any) -> Any:
    """A JSON value with one of its parts replaced, removed, repeated or nested."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(sorted(value))
        if draw.random() < 0.15:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: changed(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.8:
        at = draw.randrange(len(value))
        if draw.random() < 0.15:
            return [*value[:at], *value[at + 1 :]]
        return [*value[:at], changed(draw, value[at]), *value[at + 1 :]]
    if draw.random() < 0.05:
        nested: Any = value
        for _ in range(draw.randrange(1, 300)):
            nested = [nested]
        return nested
    if isinstance(value, int | float) and not isinstance(value, bool) and draw.random() < 0.4:
        return draw.choice((value + 1, value - 1, -value, value * 2, value * 1e15))
    return odd(draw)


def encoded(draw: random.Random, value: Any) -> bytes:
    """JSON, mostly well-formed."""
    text = json.dumps(value).replace('"NaN"', draw.choice(("NaN", "1e999", "-Infinity", '"NaN"', "\\ud800")))
    data = text.encode("utf-8", errors="surrogatepass")
    return flipped(draw, data) if draw.random() < 0.3 else data


def check_outputs(outputs: list[Outbound]) -> None:
    for output in outputs:
        messages.decode(output.encoded())


# Saved states

RULES = (
    Rule(match="plain*", window=Window(readings=10)),
    Rule(
        match="waits*",
        window=Window(readings=10),
        time=TimePolicy(reorder_within_s=5.0, interval_s=1.0, gap="insert", silent_after_s=30.0),
    ),
    Rule(match="cycle*", transform=("log1p", "difference"), season="1h", window=Window(readings=10)),
    Rule(
        match="returns*",
        model=ModelTable(kind="ied", emission={"family": "normal"}, duration={"family": "poisson"}),
        detector_settings=DetectorSettings(chains=4, lag=16),
        window=Window(readings=10),
    ),
)


def input_record(offset: int, sensor: str, value: float) -> records.Record:
    text = json.dumps({"sensor": sensor, "time": 1_700_000_000 + offset // 4, "value": value}).encode()
    return records.Record(offset, 1_700_000_000_000 + 250 * offset, sensor.encode(), text)


def new_partition(store: SnapshotStore, book: ControlBook | None = None) -> Partition:
    decode = decode_with(decoder(RecordMapping(partitioned_by_sensor=True), LIMIT))
    return Partition(NUMBER, Rules(Settings(rules=RULES)), decode, store, lambda: True, 60.0, book)


def stream(first: int, count: int) -> list[records.Record]:
    draw = random.Random(first)
    names = ("plain", "waits", "cycle", "returns")
    return [input_record(i, names[i % 4], abs(draw.gauss(5.0 + i // 300, 1.0))) for i in range(first, first + count)]


@functools.cache
def saved_states() -> dict[str, Saved]:
    """A real state of each rule, as it is before it is sealed."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(SnapshotStore(Path(folder) / "s.sqlite")) as store:
        part = new_partition(store)
        part.begin(0, 0)
        part.take(stream(0, 800))
        found = dict(part.snapshots(math.inf, 100))
    return {
        sensor: saved._replace(state=msgspec.msgpack.encode([*msgspec.msgpack.decode(saved.state)[:-2], b"", b""]))
        for sensor, saved in found.items()
    }


def state_trial(draw: random.Random) -> str:
    """One sensor's state is forged, with a valid checksum or damaged; the others have to go on as if nothing were."""
    states = dict(saved_states())
    victim = draw.choice(sorted(states))
    saved = states[victim]
    chosen = draw.random()
    field = "bytes"
    if chosen < 0.8:
        fields = msgspec.msgpack.decode(saved.state)
        at = draw.randrange(len(fields) - 2)
        field = f"field {at}"
        old = fields[at]
        fields[at] = flipped(draw, old) if isinstance(old, bytes) and draw.random() < 0.7 else changed(draw, old)
        with contextlib.suppress(OverflowError):
            saved = saved._replace(state=msgspec.msgpack.encode(fields))
    elif chosen < 0.9:
        field = draw.choice(("next_offset", "newest", "generation"))
        numbers = (-1, 0, 1, 2**31 - 1, -(2**31)) if field == "generation" else (-1, 0, 1, 2**31, 2**62, -(2**62))
        saved = saved._replace(**{field: draw.choice(numbers)})
    origin = envelope.Origin.of(b"i" * 16, "g")
    sealed = {name: envelope.seal(NUMBER, name, one, origin) for name, one in {**states, victim: saved}.items()}
    if chosen >= 0.9:
        value = flipped(draw, envelope.changelog_value(sealed[victim]))
        sealed[victim] = envelope.read_changelog_value(value)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(SnapshotStore(Path(folder) / "s.sqlite")) as store:
        store.put(NUMBER, sealed.items())
        part = new_partition(store)
        part.begin(800, 1_700_000_200_000_000, end=900)
        part.look(victim)
        outputs, counts = part.take(stream(800, 80))
        check_outputs(outputs)
        assert counts.readings + counts.dead_letters >= 60, counts
        part.saved(part.snapshots(math.inf, 100))
        again = new_partition(store)
        again.begin(part.next_offset, part.clock)
        for sensor in ("plain", "waits", "cycle", "returns"):
            again.look(sensor)
        fresh = {
            output.message.sensor
            for output in outputs
            if isinstance(output.message, messages.Notice) and output.message.kind == "new_generation"
        }
    assert fresh <= {victim}, fresh
    return f"{field}: {'refused' if fresh else 'accepted'}"


# Records

MAPPINGS = (
    RecordMapping(partitioned_by_sensor=True),
    RecordMapping(format="json", sensor="id", time="at", values=("x", "y")),
    RecordMapping(format="json", sensor="a.b", time="at", time_unit="rfc3339", values=("m.x",)),
    RecordMapping(format="csv", columns=("id", "at", "x"), sensor="id", time="at", values=("x",)),
    RecordMapping(format="number", partitioned_by_sensor=True),
)
DOCUMENTS: tuple[Any, ...] = (
    {"sensor": "plain", "time": 1_700_000_300, "value": 1.5},
    {"sensor": "plain", "time": "2023-11-14T22:13:20Z", "values": [1.5, 2]},
    {"id": "plain", "at": 1_700_000_300.25, "x": 1.5, "y": -2, "a": {"b": "plain"}, "m": {"x": 3}},
    {"id": "plain", "at": "2023-11-14T22:13:20Z", "x": 1.5, "a": {"b": "plain"}, "m": {"x": 3}},
    [{"sensor": "plain", "time": 1_700_000_300, "value": 1.5}, {"sensor": "cycle", "value": 2}],
    1.5,
)
LINES = (
    b"plain,1700000300,1.5", b'"pla""in",1700000300,1e3\nplain,1700000301,2', b"1.5", b"plain;1;2", b",,", b"\xff,1,2",
)  # fmt: skip


def record_trial(draw: random.Random) -> str:
    """Twenty records, good and bad ones; each is taken or is a dead letter."""
    mapping = draw.choice(MAPPINGS)
    decode = decoder(mapping, LIMIT)
    outcomes: Counter[str] = Counter()
    batch = []
    for offset in range(20):
        if draw.random() < 0.3:
            value: bytes | None = flipped(draw, draw.choice(LINES))
        elif draw.random() < 0.03:
            value = None
        else:
            document = draw.choice(DOCUMENTS)
            value = json.dumps(document).encode() if draw.random() < 0.4 else encoded(draw, changed(draw, document))
        key = draw.choice((None, b"plain", b"waits", b"", b"\xff\xfe", b"k" * 300, draw.randbytes(8)))
        batch.append(records.Record(offset, draw.choice((-1, 0, 1_700_000_300_000, 2**62)), key, value))
    for one in batch:
        try:
            decode(one.key, one.value, one.timestamp)
            outcomes["taken"] += 1
        except BadRecord:
            outcomes["refused"] += 1
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(SnapshotStore(Path(folder) / "s.sqlite")) as store:
        part = Partition(NUMBER, Rules(Settings(rules=RULES)), decode_with(decode), store, lambda: True)
        part.begin(0, 0)
        check_outputs(part.take(batch)[0])
        snapshots = part.snapshots(math.inf, 100)
        for _, saved in snapshots:
            envelope.changelog_value(saved)
        part.saved(snapshots)
        new_partition(store).begin(part.next_offset, part.clock)
    return f"{mapping.format}: {'accepted' if outcomes['taken'] > 2 else 'refused'}"


# Control records

CONTROLS: tuple[control.ControlRecord, ...] = (
    control.Mute(pattern="pl*", since="2026-01-01T00:00:00Z", until="2027-01-01T00:00:00Z", by="me"),
    control.Acknowledgement(id="abc", sensor="plain", time="2026-01-01T00:00:00Z"),
    control.Acceptance(sensor="plain", generation=0, time="2026-01-01T00:00:00Z"),
    control.Reset(sensor="plain", generation=0, time="2026-01-01T00:00:00Z"),
    control.Forget(sensor="cycle", generation=0, time="2026-01-01T00:00:00Z"),
)


def control_trial(draw: random.Random) -> str:
    """Forged control records, under the keys where they belong and under others, and a partition that follows them."""
    book, changes = ControlBook(), {}
    for _ in range(draw.randrange(1, 6)):
        record = draw.choice(CONTROLS)
        value = changed(draw, msgspec.json.decode(msgspec.json.encode(record)))
        key = control.key_of(record)
        if isinstance(value, dict) and draw.random() < 0.7:
            with contextlib.suppress(msgspec.ValidationError, TypeError):
                key = control.key_of(msgspec.convert(value, control.ControlRecord))
        if draw.random() < 0.1:
            key = flipped(draw, key.encode()).decode(errors="replace")
        changes[key] = encoded(draw, value)
    book.apply(changes)
    NameBook().apply(changes)
    book.is_muted("plain", 1_790_000_000_000_000)
    book.outdated(1_900_000_000_000_000)
    list(book.of_sensor("plain"))
    book.mutes()
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(SnapshotStore(Path(folder) / "s.sqlite")) as store:
        origin = envelope.Origin()
        store.put(NUMBER, [(name, envelope.seal(NUMBER, name, one, origin)) for name, one in saved_states().items()])
        part = new_partition(store, book)
        part.begin(800, 1_700_000_200_000_000)
        part.forget()
        check_outputs(part.take(stream(800, 40))[0])
        snapshots = part.snapshots(math.inf, 100)
        for _, saved in snapshots:
            envelope.changelog_value(saved)
        part.saved(snapshots)
    return "accepted" if book._records else "refused"


# Configurations


@functools.cache
def example() -> dict[str, Any]:
    import tomllib

    found = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    found["rules"] = [{"match": "a*", "model": "auto", "transform": ["log"], "season": "1d"}, *found.get("rules", [])]
    found["sinks"] = [
        {"kind": "lines", "path": "/tmp/events", "name": "l"},
        {"kind": "webhook", "url": "http://a/b", "name": "w"},
    ]
    return found


def as_toml(value: Any) -> str:
    """A value in TOML's inline notation."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return '""' if value is None else json.dumps(value, default=str)


def toml_trial(draw: random.Random) -> str:
    """A configuration is understood, or refused in one line that does not repeat pages of it."""
    table = changed(draw, example())
    if not isinstance(table, dict):
        table = {"kafka": table}
    lines = [f"{json.dumps(key)} = {as_toml(part)}" for key, part in table.items()]
    text = "\n".join(lines).encode(errors="surrogatepass")
    if draw.random() < 0.3:
        text = flipped(draw, text)
    environment = {"ISHSMM_KAFKA__GROUP": str(odd(draw))} if draw.random() < 0.2 else {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "service.toml"
        path.write_bytes(text)
        try:
            load(path, environment)
        except ValueError as error:
            told = str(error)
            assert len(told) < 20_000, told[:200]
            return "refused"
    return "accepted"


DOORS: dict[str, Callable[[random.Random], str]] = {
    "states": state_trial,
    "records": record_trial,
    "control": control_trial,
    "toml": toml_trial,
}


# Running trials


def run_trial(door: str, seed: int, number: int) -> str:
    """One trial; returns what came of it, and raises what a worker would have died of."""
    return DOORS[door](random.Random(f"{door} {seed} {number}"))


def _work(door: str, seed: int, first: int) -> None:
    """The process that is watched: a line before each trial and one after it."""
    import logging

    logging.disable(logging.CRITICAL)
    number = first
    while True:
        print("begun", number, flush=True)
        try:
            print("done", number, run_trial(door, seed, number), flush=True)
        except Exception:
            print("failed", number, json.dumps(traceback.format_exc()), flush=True)
        number += 1


class Result:
    """What came of the trials at a door."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values()) + len(self.failures)


def fuzz(door: str, seed: int, seconds: float, trials: float = math.inf) -> Result:
    """Run trials at a door in another process, for so long or so many."""
    result, number, deadline = Result(), 0, math.inf
    while number < trials and time.monotonic() < deadline and len(result.failures) < 20:
        command = [sys.executable, __file__, "--door", door, "--seed", str(seed), "--work", str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            lines = _Lines(process)
            patience, begun = START_UP, number
            while (line := lines.next(patience)) is not None:
                kind, at, *rest = line.split(" ", 2)
                if deadline == math.inf and kind == "done":
                    deadline = time.monotonic() + seconds  # compiling does not count
                patience, begun = TIMEOUT, int(at)
                if kind == "done":
                    result.outcomes[rest[0].strip()] += 1
                elif kind == "failed":
                    result.failures.append(f"{door} {at}: {json.loads(rest[0])}")
                is_over = begun + 1 >= trials or time.monotonic() > deadline or len(result.failures) > 19
                if kind != "begun" and is_over:
                    process.kill()
                    return result
            process.kill()
            how = "hangs" if lines.timed_out else f"dies: {process.stderr.read()[-2000:] if process.stderr else ''}"
            result.failures.append(f"{door} {begun}: the process {how}")
            number = begun + 1
    return result


class _Lines:
    """Lines of a process, with a limit on how long the next one may take."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        import queue
        import threading

        self._queue: queue.Queue[str | None] = queue.Queue()
        self.timed_out = False
        self._empty = queue.Empty

        def read() -> None:
            assert process.stdout is not None
            with contextlib.suppress(ValueError):
                for line in process.stdout:
                    self._queue.put(line)
            self._queue.put(None)

        threading.Thread(target=read, daemon=True).start()

    def next(self, seconds: float) -> str | None:
        try:
            return self._queue.get(timeout=seconds)
        except self._empty:
            self.timed_out = True
            return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all doors together")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--door", choices=DOORS)
    parser.add_argument("--only", type=int, help="one trial, in this process")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work is not None:
        _work(arguments.door, arguments.seed, arguments.work)
    if arguments.only is not None:
        print(run_trial(arguments.door, arguments.seed, arguments.only))
        return 0
    doors = [arguments.door] if arguments.door else list(DOORS)
    failures = []
    print(f"seed {arguments.seed}")
    for door in doors:
        result = fuzz(door, arguments.seed, 60.0 * arguments.minutes / len(doors))
        print(f"{door}: {result.trials:,} trials, {len(result.failures)} failures")
        for outcome, count in sorted(result.outcomes.items()):
            print(f"{count:>9,}  {outcome}")
        failures += result.failures
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
