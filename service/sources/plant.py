"""The demo plant: four dozen sensors with changes planted in them, the same for the same seed.

Most jump between levels or change their noise, some drift, mixers have modes that return, one valve sticks, one tank
falls silent now and then, and now and then a record comes that is none. What a sensor sends depends on the seed and
the number of the tick alone, so that a plant that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec
import numpy as np


class Kind(NamedTuple):
    """What a sensor measures: where its levels lie, its noise, and what happens to it."""

    name: str
    low: float
    high: float
    noise: float
    does: Literal["jump", "drift", "stick", "return"] = "jump"
    modes: tuple[float, ...] = ()  # levels that return


PLANT = (
    *(Kind(f"north/boiler-{i}/temperature", 60.0, 90.0, 0.8) for i in range(1, 9)),
    *(Kind(f"north/boiler-{i}/pressure", 4.0, 9.0, 0.15) for i in range(1, 9)),
    *(Kind(f"south/pump-{i}/flow", 20.0, 60.0, 1.5) for i in range(1, 9)),
    *(Kind(f"south/pump-{i}/vibration", 0.5, 4.0, 0.1) for i in range(1, 9)),
    *(Kind(f"south/pump-{i}/bearing", 40.0, 70.0, 0.5, "drift") for i in range(1, 7)),
    *(Kind(f"south/mixer-{i}/power", 5.0, 31.0, 1.2, "return", (5.0, 18.0, 31.0)) for i in range(1, 5)),
    *(Kind(f"south/tank-{i}/level", 100.0, 200.0, 2.0) for i in range(1, 5)),
    Kind("north/valve-1/position", 20.0, 80.0, 0.6, "stick"),
    Kind("north/valve-2/position", 20.0, 80.0, 0.6),
)
FALLS_SILENT = "south/tank-1/level"
# Ticks between two changes of a sensor, and before its first.
_SHORTEST, _LONGEST = 240, 900
_FIRST = (30, 400)
# The first sensor's first change: soon, so that a reader need not wait, and after the detector has seen a little.
_VERY_FIRST = 16
# Least and greatest jump, in standard deviations of the noise; the share of changes that are the noise's.
_JUMPS = (4.0, 12.0)
_NOISE_CHANGES = 0.2
# Of a drift, in standard deviations of the noise a tick.
_SLOPES = (0.04, 0.12)
_SILENT_AFTER, _SILENT_FOR = 240, 60
_NOT_A_READING_EVERY = 600
_BLOCK = 64


class Planted(NamedTuple):
    """A change, at the tick at which it was made."""

    sensor: str
    words: str


class Sensor:
    """A stream of values with changes in it."""

    def __init__(self, kind: Kind, seed: int, number: int) -> None:
        self.kind = kind
        self._seed = seed, number
        self._rng = np.random.default_rng([seed, number])
        self._level = kind.modes[0] if kind.modes else float(self._rng.uniform(kind.low, kind.high))
        self._noise = kind.noise
        self._slope = 0.0
        self._is_stuck = False
        self._changed = 0
        self._next_change = _VERY_FIRST if number == 0 else int(self._rng.integers(*_FIRST))
        self._block = -1
        self._deviations = np.empty(_BLOCK)

    def at(self, tick: int) -> tuple[float, Planted | None]:
        """The value at a tick, later ones after earlier ones, and the change that it is the first value after."""
        planted = None
        while tick >= self._next_change:
            words = self._change(self._next_change)
            if tick == self._next_change:
                planted = Planted(self.kind.name, words)
            self._changed = self._next_change
            self._next_change += int(self._rng.integers(_SHORTEST, _LONGEST))
        return self._value(tick), planted

    def _value(self, tick: int) -> float:
        if self._is_stuck:
            return round(self._level, 4)
        block, place = divmod(tick, _BLOCK)
        if block != self._block:
            self._block = block
            self._deviations = np.random.default_rng([*self._seed, 1, block]).standard_normal(_BLOCK)
        return round(self._mean(tick) + self._noise * float(self._deviations[place]), 4)

    def _mean(self, tick: int) -> float:
        return self._level + self._slope * (tick - self._changed)

    def _change(self, tick: int) -> str:
        kind, rng, old = self.kind, self._rng, self._mean(tick)
        if kind.does == "return":
            self._level = float(rng.choice([mode for mode in kind.modes if mode != old]))
            return f"mode of {old:g} -> {self._level:g}"
        if kind.does == "stick":
            self._level = self._value(tick - 1)
            self._is_stuck = not self._is_stuck
            return f"sticks at {self._level:.2f}" if self._is_stuck else "moves again"
        if kind.does == "drift":
            return self._drift(old)
        if rng.random() < _NOISE_CHANGES and tick != _VERY_FIRST:
            factor = float(rng.choice([1.0 / 3.0, 3.0])) if self._noise == kind.noise else kind.noise / self._noise
            self._noise *= factor
            return f"noise x{factor:.2g}"
        jump = float(rng.uniform(*_JUMPS)) * kind.noise
        self._level = old + (jump if self._goes_up(old) else -jump)
        return f"level {old:.2f} -> {self._level:.2f}"

    def _drift(self, old: float) -> str:
        self._level = old
        if self._slope:
            self._slope = 0.0
            return f"holds at {old:.2f}"
        slope = float(self._rng.uniform(*_SLOPES)) * self.kind.noise
        self._slope = slope if self._goes_up(old) else -slope
        return f"drifts by {self._slope:+.3f} a reading"

    def _goes_up(self, level: float) -> bool:
        kind = self.kind
        return level < kind.low or (level <= kind.high and self._rng.random() < 0.5)


def ticks(seed: int, first: int = 0) -> Iterator[list[tuple[str, float | None, Planted | None]]]:
    """Tick by tick from ``first`` on what each sensor sends; None: a record that is no reading."""
    sensors = [Sensor(kind, seed, number) for number, kind in enumerate(PLANT)]
    tick = first
    while True:
        step: list[tuple[str, float | None, Planted | None]] = []
        for sensor in sensors:
            value, planted = sensor.at(tick)
            is_silent = sensor.kind.name == FALLS_SILENT and tick % (_SILENT_AFTER + _SILENT_FOR) >= _SILENT_AFTER
            if not is_silent:
                step.append((sensor.kind.name, value, planted))
        if tick % _NOT_A_READING_EVERY == _NOT_A_READING_EVERY - 1:
            step.append((PLANT[0].name, None, None))
        yield step
        tick += 1


def record(sensor: str, now: float, value: float | None) -> bytes:
    """What a sensor sends, in our own format; None: something that is no reading."""
    return b"no reading" if value is None else msgspec.json.encode({"sensor": sensor, "time": now, "value": value})
