"""Readings that wait until none that is older is expected, so that a sensor's detector takes them in the order of time.

The records of a sensor whose readings lie in several partitions come in no order: partitions are read one after the
other. How long a reading waits is counted in the sensor's own time, so the order of its detector's readings depends on
the order in which they came, never on the clock of a worker or on other sensors.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from service.wire.readings import Reading

MOST_WAITING = 1000  # per sensor; beyond it the oldest is released


def _time(reading: Reading) -> int:
    return reading.time


class ReorderBuffer:
    """The readings of a sensor that wait, by time; of equal times in the order of their arrival."""

    def __init__(self) -> None:
        self._readings: list[Reading] = []

    def __len__(self) -> int:
        return len(self._readings)

    @property
    def channels(self) -> int:
        """Values of a reading; 0 if none waits."""
        return len(self._readings[0].values) if self._readings else 0

    def at(self, time: int) -> list[Reading]:
        """The readings of this time."""
        return [reading for reading in self._readings if reading.time == time]

    def add(self, reading: Reading, within: int) -> list[Reading]:
        """Take a reading in. Returns those that are older than the newest one by ``within`` microseconds or more, and
        the oldest ones beyond ``MOST_WAITING``."""
        insort(self._readings, reading, key=_time)
        released = bisect_right(self._readings, self._readings[-1].time - within, key=_time)
        released = max(released, len(self._readings) - MOST_WAITING)
        taken, self._readings = self._readings[:released], self._readings[released:]
        return taken

    @property
    def saved(self) -> list[tuple[int, tuple[float, ...]]]:
        """Times and values, for a snapshot."""
        return [(reading.time, reading.values) for reading in self._readings]

    @classmethod
    def load(cls, sensor: str, saved: list[tuple[int, tuple[float, ...]]]) -> ReorderBuffer:
        """The buffer of a snapshot; ValueError if it cannot be one."""
        if len(saved) > MOST_WAITING or len({len(values) for _, values in saved}) > 1:
            raise ValueError(f"{len(saved)} readings wait, at most {MOST_WAITING} with equally many values can")
        buffer = cls()
        buffer._readings = sorted((Reading(sensor, *one) for one in saved), key=_time)
        return buffer
