"""Transforms that remember: difference, counter_rate and season, applied to the readings that were accepted.

Readings that are refused never come here, and nothing here refuses one: what a transform has no answer for is missing
(NaN), so that indices still count readings. That is the first reading, one that is older than the newest before it
(``difference`` and ``counter_rate`` leave it out and go on from the newest), and the season's first period.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import ishsmm_stream as hs
from service.sensors.transforms import Values
from service.settings.rules import Rule
from service.settings.transforms import WITH_MEMORY, Season

Previous = tuple[int, Values]  # time in microseconds, values

_LARGEST = sys.float_info.max
_WITHOUT_MEMORY: dict[str, Callable[[float], float]] = {"log1p": math.log1p, "sqrt": math.sqrt}


class History:
    """What a sensor's transforms remember."""

    def __init__(self, rule: Rule) -> None:
        names = rule.transforms
        first = next((i for i, name in enumerate(names) if name in WITH_MEMORY), len(names))
        self._steps = names[first:]  # those before it are applied before a reading is accepted
        self.previous: list[Previous | None] = [None] * len(self._steps)
        self._season = rule.season_settings
        self._profile: hs.SeasonalProfile | None = None

    def take(self, time: int, values: Values) -> Values:
        """The values of an accepted reading as the detector takes them."""
        for i, name in enumerate(self._steps):
            if math.isnan(values[0]):
                return values
            if name in WITH_MEMORY:
                values = self._since_previous(i, name, time, values)
            else:
                values = tuple(map(_WITHOUT_MEMORY[name], values))
        if self._season is None:
            return values
        if self._profile is None:
            self._profile = _profile(self._season, len(values))
        left = self._profile.update(time, values)
        # a row with one missing value is missing as a whole
        return _missing(values) if any(map(math.isnan, left)) else left

    def _since_previous(self, i: int, name: str, time: int, values: Values) -> Values:
        previous = self.previous[i]
        if previous is not None and time < previous[0]:
            return _missing(values)
        if name == "difference":
            self.previous[i] = (time, values)
            if previous is None:
                return _missing(values)
            return tuple(_finite(new - old) for new, old in zip(values, previous[1], strict=True))
        if previous is not None and time == previous[0]:
            return _missing(values)
        self.previous[i] = (time, values)
        if previous is None:
            return _missing(values)
        seconds = (time - previous[0]) / 1e6
        # a counter that fell has begun again from 0
        return tuple(
            _finite((new - old if new >= old else new) / seconds) for new, old in zip(values, previous[1], strict=True)
        )

    @property
    def is_learning(self) -> bool:
        """Whether the season's first period is not over."""
        return self._season is not None and (self._profile is None or not self._profile.is_known)

    # As bytes, beside the rest of the track

    def dump_season(self) -> bytes:
        return b"" if self._profile is None else self._profile.snapshot()

    def load(self, previous: list[Previous | None], season: bytes) -> None:
        """Become what was dumped under the same rule."""
        if len(previous) == len(self._steps):
            self.previous = previous
        if season:
            self._profile = hs.SeasonalProfile.restore(season)


def _profile(season: Season, channels: int) -> hs.SeasonalProfile:
    # whole numbers: phases are exact
    return hs.SeasonalProfile(max(1, round(season.period_s * 1e6)), season.bins, channels)


def _missing(values: Values) -> Values:
    return (math.nan,) * len(values)


def _finite(number: float) -> float:
    return min(max(number, -_LARGEST), _LARGEST)


def remembers(rule: Rule) -> bool:
    """Whether a rule has transforms that remember."""
    return rule.season_settings is not None or any(name in WITH_MEMORY for name in rule.transforms)
