"""The demo plant: four dozen sensors that behave like real ones, with a few planted faults. The same seed gives the
same plant.

In ordinary life sensors wander, follow a daily cycle (a day is compressed into ``DAY`` ticks), switch between modes,
burst, or are rounded to whole numbers. None of that is a fault. The first ``HISTORY`` ticks have no fault, so that
the detectors can learn the habits. After them a fault begins every ``_APART`` ticks, each in another sensor, and
ends by itself. One tank falls silent now and then, and now and then a record comes that is not a reading.

The output of a sensor depends on the seed and the number of the tick alone, so a plant that was stopped continues at
the same point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec
import numpy as np


class Kind(NamedTuple):
    """A kind of sensor: its middle value, how far it moves in ordinary life, its noise, and how it moves."""

    name: str
    middle: float
    reach: float
    noise: float
    does: Literal["wander", "cycle", "switch", "burst", "fill"] = "wander"


PLANT = (
    *(Kind(f"north/boiler-{i}/temperature", 75.0, 4.0, 0.8) for i in range(1, 9)),
    *(Kind(f"north/boiler-{i}/pressure", 6.5, 0.4, 0.1) for i in range(1, 9)),
    *(Kind(f"south/pump-{i}/flow", 40.0, 12.0, 1.5, "cycle") for i in range(1, 9)),
    *(Kind(f"south/pump-{i}/vibration", 2.0, 0.2, 0.1, "burst") for i in range(1, 9)),
    *(Kind(f"south/pump-{i}/bearing", 55.0, 3.0, 0.5, "cycle") for i in range(1, 7)),
    *(Kind(f"south/mixer-{i}/power", 18.0, 13.0, 1.2, "switch") for i in range(1, 5)),
    *(Kind(f"south/tank-{i}/level", 150.0, 40.0, 1.0, "fill") for i in range(1, 5)),
    Kind("north/valve-1/position", 50.0, 20.0, 0.6, "switch"),
    Kind("north/valve-2/position", 50.0, 20.0, 0.6, "switch"),
)
FALLS_SILENT = "south/tank-1/level"
DAY = 720  # ticks of a compressed day
HISTORY = 4 * DAY
_SILENT_AFTER, _SILENT_FOR = 4 * HISTORY, 60
_NOT_A_READING_EVERY = 600
_BLOCK = 64
# Faults: the first begins this many ticks after the history, the others this many ticks apart. Each lasts this long.
_FIRST, _APART = 40, 140
_LASTS = (160, 320)
_WAVES = 5


class Planted(NamedTuple):
    """A fault, at the tick at which it begins or ends."""

    sensor: str
    words: str
    lasts: int  # ticks; 0: it ends


class Fault(NamedTuple):
    """A fault of a sensor for some ticks."""

    kind: Literal["shift", "spikes", "noise", "stuck", "drift"]
    begins: int
    ends: int
    sign: float

    def covers(self, tick: int) -> bool:
        return self.begins <= tick < self.ends


def fault_at(seed: int, number: int) -> tuple[int, Fault]:
    """Return the sensor, by its index in ``PLANT``, and the fault of this number, from 0."""
    # Sensors in shuffled order, so that none has two faults soon after one another.
    order = np.random.default_rng([seed, 2]).permutation(len(PLANT))
    sensor = 0 if number == 0 else int(order[number % len(order)])
    rng = np.random.default_rng([seed, 3, number])
    kinds = ("shift", "noise", "shift", "stuck", "spikes", "drift")
    kind = kinds[number % len(kinds)]
    if kind == "stuck" and PLANT[sensor].does == "fill":
        kind = "shift"  # a rounded level repeats itself in ordinary life
    begins = HISTORY + _FIRST + number * _APART
    return sensor, Fault(kind, begins, begins + int(rng.integers(*_LASTS)), float(rng.choice([-1.0, 1.0])))  # type: ignore[arg-type]


class PlantSensor:
    """A sensor's stream of values: ordinary life, and now and then a fault."""

    def __init__(self, kind: Kind, seed: int, number: int) -> None:
        self.kind = kind
        self._seed = seed, number
        rng = np.random.default_rng([seed, number])
        self._periods = np.exp(rng.uniform(math.log(60.0), math.log(DAY), _WAVES))
        self._phases = rng.uniform(0.0, 2.0 * math.pi, _WAVES)
        self._sizes = np.sqrt(self._periods / self._periods.sum())
        self._phase = float(rng.uniform(0.0, DAY))
        self._switches: list[int] = [0]
        self._modes: list[int] = [1]
        self._switching = np.random.default_rng([seed, number, 4])
        self._block = -1
        self._deviations = np.empty(_BLOCK)

    def at(self, tick: int, fault: Fault | None) -> float:
        """Return the value at a tick. Ticks have to ascend."""
        kind, noise = self.kind, self.kind.noise
        if fault is not None and fault.kind == "stuck":
            tick = fault.begins  # repeats the value of that tick
        value = kind.middle + kind.reach * self._ordinary(tick)
        if kind.does == "burst" and self._random(tick // 40, 5) < 0.12:
            noise *= 3.0
        if fault is not None:
            usual = kind.reach + 3.0 * noise
            elapsed = tick - fault.begins
            if fault.kind == "shift":
                value += fault.sign * 3.0 * usual
            elif fault.kind == "noise":
                noise *= 12.0
            elif fault.kind == "spikes" and elapsed % 12 == 0:
                value += fault.sign * 6.0 * usual
            elif fault.kind == "drift":
                value += fault.sign * 5.0 * usual * elapsed / 120.0
        value += noise * self._deviation(tick)
        return round(value) if kind.does == "fill" else round(value, 4)

    def _ordinary(self, tick: int) -> float:
        """Return the effect of the sensor's surroundings, mostly between -1 and 1."""
        kind = self.kind.does
        if kind == "switch":
            return float(self._mode(tick) - 1)
        if kind == "fill":
            place = ((tick + self._phase) % (DAY / 3)) / (DAY / 3)
            return 2.0 * min(place / 0.8, (1.0 - place) / 0.2) - 1.0
        waves = float(np.dot(self._sizes, np.sin(2.0 * math.pi * tick / self._periods + self._phases)))
        if kind == "cycle":
            return 0.8 * math.sin(2.0 * math.pi * (tick + self._phase) / DAY) + 0.2 * waves
        return waves

    def _mode(self, tick: int) -> int:
        """Return the sensor's mode: 0, 1 or 2."""
        while self._switches[-1] <= tick:
            self._switches.append(self._switches[-1] + int(self._switching.integers(40, 200)))
            self._modes.append((self._modes[-1] + int(self._switching.integers(1, 3))) % 3)
        while len(self._switches) > 2 and self._switches[1] <= tick - DAY:  # a stuck sensor looks back
            del self._switches[0], self._modes[0]
        i = len(self._switches) - 1
        while i > 0 and self._switches[i] > tick:
            i -= 1
        return self._modes[i]

    def _random(self, number: int, purpose: int) -> float:
        return float(np.random.default_rng([*self._seed, purpose, number]).random())

    def _deviation(self, tick: int) -> float:
        block, place = divmod(tick, _BLOCK)
        if block != self._block:
            self._block = block
            self._deviations = np.random.default_rng([*self._seed, 1, block]).standard_normal(_BLOCK)
        return float(self._deviations[place])


_WORDS = {
    "shift": "level far off", "spikes": "spikes", "noise": "noise x12", "stuck": "stuck at one value",
    "drift": "drifts away",
}  # fmt: skip


def ticks(seed: int, first: int = 0) -> Iterator[list[tuple[str, float | None, Planted | None]]]:
    """Yield the output of all sensors, tick by tick from ``first`` on. A value of None is a record that is not a
    reading."""
    sensors = [PlantSensor(kind, seed, number) for number, kind in enumerate(PLANT)]
    next_fault = 0
    active: dict[int, Fault] = {}
    tick = first
    while True:
        while True:
            which, fault = fault_at(seed, next_fault)
            if fault.begins > tick:
                break
            active[which] = fault
            next_fault += 1
        step: list[tuple[str, float | None, Planted | None]] = []
        for number, sensor in enumerate(sensors):
            fault_now = active.get(number)
            planted = None
            if fault_now is not None and tick == fault_now.begins:
                planted = Planted(sensor.kind.name, _WORDS[fault_now.kind], fault_now.ends - fault_now.begins)
            if fault_now is not None and not fault_now.covers(tick):
                if tick == fault_now.ends:
                    planted = Planted(sensor.kind.name, "repaired", 0)
                del active[number]
                fault_now = None
            is_silent = sensor.kind.name == FALLS_SILENT and tick % (_SILENT_AFTER + _SILENT_FOR) >= _SILENT_AFTER
            value = sensor.at(tick, fault_now)
            if not is_silent:
                step.append((sensor.kind.name, value, planted))
        if tick > HISTORY and (tick - HISTORY) % _NOT_A_READING_EVERY == 0:
            step.append((PLANT[0].name, None, None))
        yield step
        tick += 1


def record(sensor: str, now: float, value: float | None) -> bytes:
    """Return a sensor's record in the service's own format. If the value is None, return a record that is not a
    reading."""
    return b"no reading" if value is None else msgspec.json.encode({"sensor": sensor, "time": now, "value": value})
