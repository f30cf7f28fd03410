"""``kinds = ["simulate"]``: the demo plant, at the configured rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from service.settings import Settings
from service.sources import plant
from service.sources.source import Source, SourceBatch
from service.wire.mapping import RecordMapping

_HISTORY_AT_ONCE = 60  # ticks


class SimulatedPlant:
    """A ``Source``. Its position is the number of the last tick."""

    blocks = False

    def __init__(self, settings: Settings) -> None:
        self._options = settings.source.simulate
        self.name = f"simulate:{self._options.seed}"

    def batches(self, position: bytes | None, pause: Callable[[float], object]) -> Iterator[SourceBatch]:
        """See ``Source``."""
        rate = self._options.rate
        tick = 0 if position is None else int(position) + 1
        began, due = time.time(), time.monotonic()
        waiting: list[bytes] = []
        for number, step in enumerate(plant.ticks(self._options.seed, tick), tick):
            # The days before the start come at once, with the times that they would have had.
            ahead = plant.HISTORY - number
            now = began - ahead / rate if ahead > 0 else time.time()
            waiting += [plant.record(sensor, round(now, 3), value) for sensor, value, _ in step]
            if ahead > 1 and number % _HISTORY_AT_ONCE:
                continue
            planted = [fault for _, _, fault in step if fault is not None]
            yield SourceBatch(waiting, RecordMapping(), str(number).encode(), planted)
            waiting = []
            if ahead > 1:
                continue
            # A plant that is late does not catch up: its readings have the time at which they are made.
            due = max(due + 1.0 / rate, time.monotonic())
            pause(due - time.monotonic())


def open_source(settings: Settings) -> Source:
    """Return the source for the demo plant."""
    return SimulatedPlant(settings)


def describe(settings: Settings) -> str:
    """Describe the plant's size and rate in words."""
    options = settings.source.simulate
    return f"a simulated plant of {len(plant.PLANT)} sensors, {options.rate:g} readings per second each"
