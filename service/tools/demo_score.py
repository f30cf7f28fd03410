"""The demo's running score: planted faults that were alarmed, other alarms, and how many the budget allows.

A fault counts as found if its sensor raises an alarm while it lasts, or within ``_GRACE`` seconds after.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from service.sources.plant import Planted
from service.tools.terminal import several
from service.wire import messages
from service.wire.readings import from_rfc3339

_GRACE = 15.0
_EVERY = 30.0  # seconds between two lines


@dataclass
class _PlantedFault:
    sensor: str
    begins: float
    ends: float
    is_found: bool = False


class DemoScore:
    """Compares alarms with planted faults. May be called from any thread."""

    def __init__(self, rate: float, sensors: int, clock: Callable[[], float] = time.time) -> None:
        self._rate = rate  # readings per second of a sensor
        self._sensors = sensors
        self._clock = clock
        self._lock = threading.Lock()
        self._faults: list[_PlantedFault] = []
        self._began: float | None = None
        self._said = 0.0
        self._budget_s: float | None = None
        self.others = 0
        self.changes = 0

    def begin(self) -> None:
        """Count from now on; events of readings before do not count."""
        self._began = self._said = self._clock()

    def plant(self, fault: Planted) -> None:
        """Take note of a fault that begins."""
        if fault.lasts:
            now = self._clock()
            with self._lock:
                self._faults.append(_PlantedFault(fault.sensor, now, now + fault.lasts / self._rate + _GRACE))

    def take(self, event: messages.Event) -> bool:
        """Take a committed event. Returns whether it belongs to the time that counts."""
        at = messages.time_of(event)
        if self._began is None or at is None or from_rfc3339(at) / 1e6 < self._began:
            return False
        with self._lock:
            if isinstance(event, messages.ChangeEvent):
                self.changes += event.revision == 0
            elif isinstance(event, messages.AlarmEvent) and event.status == "raised":
                self._budget_s = event.budget_s or self._budget_s
                self._alarm(event.sensor, from_rfc3339(at) / 1e6)
        return True

    def _alarm(self, sensor: str, at: float) -> None:
        # a reading may be stamped a moment before its fault is noted
        covering = [one for one in self._faults if one.sensor == sensor and one.begins - 1.0 <= at <= one.ends]
        if covering:
            covering[-1].is_found = True
        else:
            self.others += 1

    @property
    def found(self) -> tuple[int, int]:
        """Planted faults that were alarmed, and all of them."""
        with self._lock:
            return sum(one.is_found for one in self._faults), len(self._faults)

    def due(self) -> str | None:
        """Return the score as a line if it is time for one."""
        if self._began is None or self._clock() - self._said < _EVERY:
            return None
        self._said = self._clock()
        return self.line()

    def line(self) -> str:
        """Return the score as a line."""
        found, planted = self.found
        minutes = (self._clock() - (self._began or self._clock())) / 60.0
        text = (
            f"== score after {minutes:.1f} min: {found} of {several(planted, 'planted fault')} alarmed, "
            f"{several(self.others, 'other alarm')}"
        )
        if self._budget_s:
            allowed = self._sensors * minutes * 60.0 / self._budget_s
            text += f" (the budget allows {allowed:.1f})"
        return f"{text}; {several(self.changes, 'ordinary change')} published quietly"
