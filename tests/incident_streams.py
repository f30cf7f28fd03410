"""Streams of change events for the tests of incidents: backgrounds of false alarms, and common causes."""

from __future__ import annotations

import numpy as np

from service.wire.messages import ChangeEvent, event_id, place

SECOND = 1_000_000
HOUR = 3600 * SECOND
WEEK = 168 * HOUR
BEGIN = 1_700_000_000 * SECOND // HOUR * HOUR


def change(sensor, onset, *, number=0, revision=0, status="provisional", error=0, delay=0, labels=None):
    """An event; times in microseconds. ``error``: half the length of its interval."""
    return ChangeEvent(
        id=event_id(sensor, 0, number),
        sensor=sensor,
        labels=labels or {},
        generation=0,
        revision=revision,
        status=status,
        index=number,
        time=place(0, onset).time,
        probability=0.99,
        low=place(0, onset - error),
        high=place(0, onset + error),
        at=place(0, onset + delay),
        before=None,
        after=None,
        summary="",
    )


def names(groups, sensors):
    """Names of so many sensors in each of so many groups."""
    return [[f"g{group}/s{sensor}" for sensor in range(sensors)] for group in range(groups)]


class Stream:
    """Collects events, and numbers those of each sensor."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.events = []
        self._numbers = {}

    def add(self, sensor, onset, **more):
        number = self._numbers[sensor] = self._numbers.get(sensor, -1) + 1
        self.events.append(change(sensor, int(onset), number=number, **more))

    def background(self, sensors, per_hour, begin, end):
        """False alarms of one group, each of its sensors with this rate."""
        count = self.rng.poisson(per_hour * len(sensors) * (end - begin) / HOUR)
        for onset in np.sort(self.rng.uniform(begin, end, count)):
            self.add(str(self.rng.choice(sensors)), onset)

    def flapping(self, sensor, begin, minutes, per_minute):
        """One sensor that changes again and again."""
        for onset in np.sort(self.rng.uniform(0, minutes * 60 * SECOND, self.rng.poisson(minutes * per_minute))):
            self.add(sensor, begin + onset)

    def cause(self, sensors, begin, *, spread_s=3.0, error_s=2.0):
        """One cause that moves these sensors within seconds, found with errors and after delays of their own."""
        for sensor in sensors:
            error = self.rng.normal(0.0, error_s)
            onset = begin + self.rng.uniform(0.0, spread_s) * SECOND + error * SECOND
            delay = int(self.rng.exponential(20.0) * SECOND)
            self.add(sensor, onset, error=int(2.0 * error_s * SECOND), delay=delay)

    @property
    def in_time(self):
        """The events in the order in which they are said."""
        return sorted(self.events, key=lambda event: (event.at.time, event.id))
