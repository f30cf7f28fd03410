"""Runs an input through one partition of sensors, in process. The only file of this folder that imports the service."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from compare_inputs import Command, Forget, Input, Restart, Send, Step

from service.operations.control import ControlBook
from service.sensors.partition import Partition
from service.sensors.records import decode_with
from service.sensors.rules import Rules
from service.sensors.saved import Saved
from service.settings import RecordMapping, Settings
from service.wire.decoding import decoder

EVER = 1e12  # seconds: longer than anything waits to be saved


class InputRecord(NamedTuple):
    """A record of the input topic, as a partition takes it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    topic: str = "recorded"
    partition: int = 0


class MemoryStore:
    """Sensors' saved states in memory."""

    def __init__(self, states: dict[str, Any]) -> None:
        self.states = {sensor: Saved(*saved) for sensor, saved in states.items()}

    def put(self, partition: int, sensors: Iterable[tuple[str, Any]]) -> None:
        self.states |= dict(sensors)

    def get(self, partition: int, sensor: str) -> Any:
        return self.states.get(sensor)

    def last_seen(self, partition: int) -> dict[str, int]:
        return {sensor: saved.newest for sensor, saved in self.states.items()}

    def next_offsets(self, partition: int) -> dict[str, int]:
        return {sensor: saved.next_offset for sensor, saved in self.states.items()}

    def delete(self, partition: int, sensor: str) -> None:
        self.states.pop(sensor, None)


class Driver:
    """A worker's partition that is committed after every step. ``published`` holds [kind, key, message]."""

    def __init__(self, made: Input) -> None:
        self.published: list[Any] = []
        self._input, self._rules = made, made.rules
        self._book = ControlBook()
        self._records: list[InputRecord] = []
        self._states: dict[str, Any] = {}  # what a changelog would hold
        self._committed = (0, 0, 0)  # next offset, unsaved from, clock
        self._said = self._sends = 0
        self._begin()

    def take(self, step: Step) -> None:
        """Let one thing happen."""
        match step:
            case Send():
                self._send(step)
            case Restart():
                self._restart(step)
            case Command():
                self._command(*step.arguments)
            case Forget():
                self._say("forget", step.sensor)
                self._send(Send([]))

    def _begin(self) -> None:
        """Start from what was committed."""
        settings = msgspec.convert({"rules": self._rules, **self._input.sections}, Settings)
        decode = decoder(msgspec.convert(self._input.mapping, RecordMapping), settings.limits.record_bytes)
        offset, unsaved_from, clock = self._committed
        self._partition = Partition(
            0, Rules(settings), decode_with(decode), MemoryStore(self._states),
            lambda: self._partition.sensors < settings.limits.sensors, EVER, self._book,
        )  # fmt: skip
        self._partition.begin(offset, clock, self._records[unsaved_from:offset])

    def _restart(self, step: Restart) -> None:
        if not step.kill:
            self._save(EVER)
        self._rules = self._rules if step.rules is None else step.rules
        self._begin()

    def _send(self, batch: Send) -> None:
        """A cycle. Every third one saves two sensors and drops two from memory."""
        first = len(self._records)
        self._records += [
            InputRecord(first + i, int(record.time * 1000), record.key, record.value)
            for i, record in enumerate(batch.records)
        ]
        for sensor in self._partition.forget():
            self._states.pop(sensor, None)
            self.published.append(["forgotten", sensor, None])
        taken = self._partition.take(self._records[first:])
        for output in taken if isinstance(taken, list) else taken[0]:
            value = output.encoded()
            self.published.append([output.kind, output.key.decode(errors="replace"), json.loads(value)])
        self._save(-EVER)  # what has to be saved with the commit that reports it
        self._sends += 1
        if self._sends % 3 == 0:
            self._save(EVER, 2)
            self._partition.evict(2)

    def _save(self, older_than: float, most: int = 10**9) -> None:
        """Save states and commit."""
        partition = self._partition
        snapshots = partition.snapshots(older_than, 0 if older_than < 0 else most)
        partition.saved(snapshots)
        for sensor, saved in snapshots:
            self._states[sensor] = tuple(saved)
            self.published.append(["saved", sensor, [saved.next_offset, saved.newest, saved.generation]])
        self._committed = (partition.next_offset, partition.unsaved_from(), partition.clock)

    # People

    def _command(self, name: str, about: str, *_: str) -> None:
        """What a command of people leaves on the control topic, if it concerns sensors."""
        record = {"reset": "reset", "accept": "acceptance"}.get(name)
        if record is not None and self._partition.look(about) is not None:
            self._say(record, about)

    def _say(self, record: str, sensor: str) -> None:
        track = self._partition.look(sensor)
        self._said += 1
        time = f"2026-01-01T00:{self._said:02}:00Z"
        said = {"type": record, "sensor": sensor, "generation": track.generation, "time": time, "by": "ann"}
        self._book.apply({f"{record}:{sensor}": json.dumps(said).encode()})


def published(made: Input) -> list[Any]:
    """Return everything that an input leads to, in its order. Of recent readings only the newest is kept."""
    driver = Driver(made)
    for step in made.steps:
        driver.take(step)
    driver.take(Restart())
    for kind, _, message in driver.published:
        if kind == "states":
            message["recent"] = [len(message["recent"]), *message["recent"][-1:]]
        if kind == "dead_letters":
            for name in ("key", "value"):
                message[name] = message[name] and message[name][:80]
    return driver.published
