"""``transform`` and ``season`` of a rule: what is made of values before the detector sees them."""

from __future__ import annotations

import itertools
import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from service.settings.times import Seconds

TransformName = Literal["none", "log", "log1p", "sqrt", "difference", "counter_rate"]
Transforms = TransformName | Annotated[tuple[TransformName, ...], Meta(max_length=8)]

WITH_MEMORY = ("difference", "counter_rate")
_PERIOD = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


class Season(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A cycle that readings have, by their own times."""

    period_s: Seconds
    # parts of the period whose levels are learned; their state takes about 20 bytes each
    bins: Annotated[int, Meta(ge=4, le=288)] = 96


def season_of(given: str | Season | None) -> Season | None:
    """A season as it is written: a table, or its period alone, such as "1d"."""
    if not isinstance(given, str):
        return given
    found = _PERIOD.fullmatch(given)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0.0 < seconds <= 1e9:
        raise ValueError(f"season takes a period such as '1d', '12h', '90m' or '30s', or a table, got {given!r}")
    return Season(period_s=seconds)


def steps_of(given: str | tuple[str, ...]) -> tuple[str, ...]:
    """The transforms in their order, without "none". ValueError where one cannot take what the one before it makes."""
    names = tuple(name for name in ((given,) if isinstance(given, str) else given) if name != "none")
    for before, name in itertools.pairwise(names):
        if name == "counter_rate":
            raise ValueError(
                "transform takes 'counter_rate' in the first place only: counters are counted as they come"
            )
        if before == "difference" and name != "difference":
            raise ValueError(f"transform takes {name!r} before 'difference', not after it: differences can be negative")
    if "counter_rate" in names and "log" in names:
        raise ValueError("transform takes 'log1p' after 'counter_rate', not 'log': a rate can be 0")
    return names
