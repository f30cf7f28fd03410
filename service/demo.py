"""A dozen sensors of a small plant with changes planted in them, for ``make run-kafka``.

Levels, noises and the times between changes are random but for the seed. One sensor has modes that return, one falls
silent now and then, and now and then a record comes that is none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from kafka import KafkaProducer

from service.kafka.connection import Connection


class Kind(NamedTuple):
    """What a sensor measures: where its levels lie, and its noise."""

    name: str
    low: float
    high: float
    noise: float
    modes: tuple[float, ...] = ()  # levels that return, in place of new ones


PLANT = (
    *(Kind(f"north/boiler-{i}/temperature", 60.0, 90.0, 0.8) for i in (1, 2, 3)),
    *(Kind(f"north/boiler-{i}/pressure", 4.0, 9.0, 0.15) for i in (1, 2)),
    *(Kind(f"south/pump-{i}/flow", 20.0, 60.0, 1.5) for i in (1, 2, 3)),
    *(Kind(f"south/pump-{i}/vibration", 0.5, 4.0, 0.1) for i in (1, 2)),
    Kind("south/mixer/power", 0.0, 0.0, 1.2, modes=(5.0, 18.0, 31.0)),
    Kind("south/tank/level", 100.0, 200.0, 2.0),
)
FALLS_SILENT = "south/tank/level"
# readings between two changes
_SHORTEST, _LONGEST = 100, 320
# least and greatest jump, in standard deviations of the noise
_JUMPS = (4.0, 12.0)
_SILENT_AFTER, _SILENT_FOR = 160, 60
_NOT_A_READING_EVERY = 600


class Planted(NamedTuple):
    """A change, at the time it was made."""

    sensor: str
    words: str


class Sensor:
    """A stream of values with changes in it."""

    def __init__(self, kind: Kind, rng: np.random.Generator) -> None:
        self.kind = kind
        self._rng = rng
        self._level = kind.modes[0] if kind.modes else float(rng.uniform(kind.low, kind.high))
        self._noise = kind.noise
        # the first one comes soon, so that a reader need not wait
        self._until_change = int(rng.integers(30, 200))

    def read(self) -> tuple[float, Planted | None]:
        """The next value, and the change that it is the first value after."""
        planted = None
        if self._until_change == 0:
            planted = Planted(self.kind.name, self._change())
            self._until_change = int(self._rng.integers(_SHORTEST, _LONGEST))
        self._until_change -= 1
        return round(float(self._rng.normal(self._level, self._noise)), 4), planted

    def _change(self) -> str:
        kind, rng, old = self.kind, self._rng, self._level
        if kind.modes:
            self._level = float(rng.choice([mode for mode in kind.modes if mode != old]))
            return f"mode of {old:g} -> {self._level:g}"
        if rng.random() < 0.2:
            factor = float(rng.choice([1.0 / 3.0, 3.0])) if self._noise == kind.noise else kind.noise / self._noise
            self._noise *= factor
            return f"noise x{factor:.2g}"
        jump = float(rng.uniform(*_JUMPS)) * kind.noise
        up = old < kind.low or (old <= kind.high and rng.random() < 0.5)
        self._level = old + (jump if up else -jump)
        return f"level {old:.2f} -> {self._level:.2f}"


def ticks(seed: int) -> Iterator[list[tuple[str, float | None, Planted | None]]]:
    """Step by step what each sensor sends; None: no record of ours."""
    sensors = [Sensor(kind, np.random.default_rng([seed, i])) for i, kind in enumerate(PLANT)]
    tick = 0
    while True:
        step: list[tuple[str, float | None, Planted | None]] = []
        for sensor in sensors:
            is_silent = sensor.kind.name == FALLS_SILENT and tick % (_SILENT_AFTER + _SILENT_FOR) >= _SILENT_AFTER
            if not is_silent:
                step.append((sensor.kind.name, *sensor.read()))
        if tick % _NOT_A_READING_EVERY == _NOT_A_READING_EVERY - 1:
            step.append((PLANT[0].name, None, None))
        yield step
        tick += 1


def produce(
    connection: Connection, topic: str, rate: float, seed: int,
    planted: Callable[[str, str], None], is_over: Callable[[], bool] = lambda: False,
) -> None:  # fmt: skip
    """Send readings, ``rate`` a second from each sensor, until it is over; tells of the changes in them."""
    producer = connection.build(KafkaProducer, metrics_enabled=False, linger_ms=5)
    due = time.monotonic()
    try:
        for step in ticks(seed):
            now = round(time.time(), 3)
            for sensor, value, change in step:
                reading = b"no reading" if value is None else _encode({"sensor": sensor, "time": now, "value": value})
                producer.send(topic, reading, sensor.encode())
                if change is not None:
                    planted(change.sensor, change.words)
            due += 1.0 / rate
            while (wait := due - time.monotonic()) > 0:
                if is_over():
                    return
                time.sleep(min(wait, 0.1))
            if is_over():
                return
    finally:
        producer.flush(timeout=5)
        producer.close(timeout=5)


_encode = msgspec.json.encode
