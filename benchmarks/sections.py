"""What the sections of real.py have in common: the data, the sizes, and lines of the summary."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from alarm_runs import alarms_of
from recordings import Series


class Line(NamedTuple):
    """A line of the summary."""

    name: str
    figure: str
    goal: str


@dataclass
class Setup:
    data: Path | None  # folder of recordings
    quick: bool
    readings: float  # most readings per kind and budget in the section "synthetic"
    series: list[Series]  # real ones
    _alarms: dict[tuple[str, float], list[int]] = field(default_factory=dict)

    def folder(self, name: str) -> Path | None:
        """Return a subfolder of the data; None if it does not exist."""
        return self.data / name if self.data is not None and (self.data / name).is_dir() else None

    def alarms(self, series: Series, every: float) -> list[int]:
        """Return the alarms on a series; run the detector only once for all sections."""
        key = series.name, every
        if key not in self._alarms:
            self._alarms[key] = alarms_of(series.values, every)
        return self._alarms[key]
