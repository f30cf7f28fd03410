"""Alarm budgets: texts such as "1 per week" or "20 per day"."""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r"(\d+(?:\.\d+)?) per (minute|hour|day|week|month|year)")
_SECONDS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0, "month": 2629800.0, "year": 31557600.0}
WEEK = _SECONDS["week"]
LEAST_READINGS = 1000.0  # return periods of fewer readings are too coarse to keep a promise with


class Budget(NamedTuple):
    """So many alarms in so many seconds, on average."""

    alarms: float
    seconds: float

    @property
    def apart_s(self) -> float:
        """Seconds from one alarm to the next, on average."""
        return self.seconds / self.alarms

    @property
    def per_week(self) -> float:
        """Alarms in a week, on average."""
        return WEEK / self.apart_s

    def readings(self, interval_s: float) -> float:
        """Return the readings from one alarm to the next for a sensor with this mean interval, at least 1,000.

        >>> parse("1 per week").readings(1.0), parse("1 per day").readings(3600.0)
        (604800.0, 1000.0)
        """
        return max(LEAST_READINGS, self.apart_s / interval_s)


def check(text: str | None, key: str = "per_sensor") -> None:
    """Raise ValueError, with the key in it, if a text is given and not a budget."""
    if text is not None:
        try:
            parse(text)
        except ValueError as error:
            raise ValueError(f"{key} {error}") from None


def parse(text: str) -> Budget:
    """Read a budget; ValueError says what it takes.

    >>> parse("20 per day")
    Budget(alarms=20.0, seconds=86400.0)
    """
    found = _TEXT.fullmatch(text)
    if found is None or not float(found[1]) > 0.0:
        raise ValueError(f"takes a text such as '1 per week' (minute, hour, day, week, month, year), got {text!r}")
    return Budget(float(found[1]), _SECONDS[found[2]])
