"""The usual course of a stream over the week, where the times of its readings are given.

What is usual at an hour is the sum of two profiles, by hour of the day and by stretch of four hours of the week, both
as deviations from a slow mean. They learn the mean of every hour once that hour has ended, so that an unusual hour
does not explain itself, and are used as far as they have foreseen the steps from hour to hour so far: a share of 0
where a stream has no such course, of 1 where it keeps to it. Steps, and not levels: a stream that wanders slowly is at
every hour much as it was at the same hour of yesterday, and has no course.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.online.validation import FLOAT, LARGEST_COUNT, SINGLE, Field, columns

# 24 hours of the day, then stretches of four hours from Monday on.
PROFILE = 24 + 42
_WEEK = 168
_MONDAY = 72  # the first hour of 1970 was the 73rd of its week
_MEMORY = 336.0  # hours over which the slow mean and the share fade
_DAYS, _STRETCH_HOURS = 30.0, 24.0  # days, and hours in a stretch, over which the profiles fade
_STRETCH_PRIOR = 2.0  # hours with which a stretch starts from no deviation
# Numbers beside the profiles: the present hour plus 1 (0: none yet), its readings, their mean, and what is usual at it;
# hours so far, the slow mean, the last hour's deviation from it and what was foreseen of that; and two sums that
# compare steps from hour to hour with those foreseen.
_HOUR, _COUNT, _MEAN, _USUAL, _HOURS, _BASELINE, _DEVIATION, _FORESEEN, _AGREED, _SQUARES = range(10)
NUMBERS = 10
NO_HOUR = -1
_QUARTER = 900  # seconds: offsets from UTC change at quarters of an hour


# What is valid in a snapshot. A stream of counts has no limit of its values, so that sums of squares may be infinite.
_VALID = columns(
    [0.0 if place in (_HOUR, _COUNT, _HOURS) else -np.inf for place in range(NUMBERS)],
    [{_HOUR: _WEEK, _COUNT: LARGEST_COUNT, _HOURS: LARGEST_COUNT}.get(place, np.inf) for place in range(NUMBERS)],
    nan=[_MEAN, _USUAL, *range(_BASELINE, NUMBERS)],
    whole=[_HOUR],
)


@lru_cache(maxsize=16)
def fields(channels: int) -> dict[str, Field]:
    """Return what the usual week in a snapshot must be."""
    return {
        "profile": Field(SINGLE, (channels, PROFILE), nan=True),
        "hours": Field(FLOAT, (channels, NUMBERS), columns=_VALID),
    }


def hours_of_week(times: Any, zone: str = "UTC") -> np.ndarray:
    """Return the hour of the week of each time, counted from 0 on Monday at midnight in a time zone.

    ``times``: seconds since the epoch, or numpy datetimes (UTC). Missing ones have hour -1.

    >>> hours_of_week([0.0, 1_767_258_000.0], "Europe/Berlin").tolist()  # Thursday 01:00, Thursday 10:00
    [73, 82]
    """
    times = np.asarray(times)
    if times.dtype.kind == "M":
        seconds = np.where(np.isnat(times), np.nan, times.astype("datetime64[us]").astype(np.int64) / 1e6)
    else:
        seconds = times.astype(np.float64)
    known = np.isfinite(seconds)
    quarters = np.floor(np.where(known, seconds, 0.0) / _QUARTER).astype(np.int64)
    distinct, place = np.unique(quarters, return_inverse=True)
    offsets = np.array([_offset(zone, int(quarter)) for quarter in distinct], dtype=np.int64)
    hours = ((quarters * _QUARTER + offsets[place.reshape(quarters.shape)]) // 3600 + _MONDAY) % _WEEK
    return np.where(known, hours, NO_HOUR)


def stretches(hours: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield where each run of equal hours begins and ends."""
    ends = [*(np.flatnonzero(np.diff(hours)) + 1).tolist(), len(hours)]
    yield from zip([0, *ends], ends, strict=False)


@lru_cache(maxsize=65_536)
def _offset(zone: str, quarter: int) -> int:
    """Return how many seconds a zone is ahead of UTC in a quarter of an hour."""
    if zone == "UTC":
        return 0
    try:
        offset = datetime.fromtimestamp(quarter * _QUARTER, ZoneInfo(zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError, OverflowError) as error:
        raise ValueError(f"a time zone takes a name such as 'Europe/Berlin', got {zone!r}: {error}") from None
    return 0 if offset is None else math.floor(offset.total_seconds())


@kernel
def _foreseen(profile, hour):
    return float(profile[hour % 24]) + float(profile[24 + hour // 4])


@kernel
def _end_hour(hours, profile):
    """Learn from the hour that has ended."""
    hour, so_far, foreseen = int(hours[_HOUR]) - 1, hours[_HOURS], _foreseen(profile, int(hours[_HOUR]) - 1)
    if so_far == 0.0:
        hours[_BASELINE] = hours[_MEAN]
    deviation = hours[_MEAN] - hours[_BASELINE]
    if so_far > 0.0:
        step, foreseen_step = deviation - hours[_DEVIATION], foreseen - hours[_FORESEEN]
        hours[_AGREED] += step * foreseen_step - hours[_AGREED] / _MEMORY
        hours[_SQUARES] += foreseen_step * foreseen_step - hours[_SQUARES] / _MEMORY
    hours[_DEVIATION] = deviation
    hours[_FORESEEN] = foreseen
    hours[_HOURS] += 1.0
    hours[_BASELINE] += max(1.0 / (so_far + 1.0), 1.0 / _MEMORY) * deviation

    of_day, stretch = hour % 24, 24 + hour // 4
    days = float(int(so_far) // 24 + 1)
    profile[of_day] += max(1.0 / days, 1.0 / _DAYS) * (deviation - float(profile[of_day]))
    in_stretch = float(4 * (int(so_far) // _WEEK) + hour % 4 + 1)
    rate = max(1.0 / (in_stretch + _STRETCH_PRIOR), 1.0 / _STRETCH_HOURS)
    profile[stretch] += rate * (deviation - float(profile[of_day]) - float(profile[stretch]))


@kernel
def usual(hours, profile, hour):
    """Return what is usual at this hour of the week; 0 if no hour is given."""
    if hour < 0.0:
        return 0.0
    if hours[_HOUR] != hour + 1.0:
        if hours[_HOUR] > 0.0:
            _end_hour(hours, profile)
        hours[_HOUR] = hour + 1.0
        hours[_COUNT] = 0.0
        hours[_MEAN] = 0.0
        share = hours[_AGREED] / hours[_SQUARES] if hours[_SQUARES] > 0.0 else 0.0
        hours[_USUAL] = min(max(share, 0.0), 1.0) * _foreseen(profile, int(hour))
    return hours[_USUAL]


@kernel
def learn(hours, value, hour):
    """Take in a value that was read in this hour."""
    if hour >= 0.0:
        hours[_COUNT] += 1.0
        hours[_MEAN] += (value - hours[_MEAN]) / hours[_COUNT]
