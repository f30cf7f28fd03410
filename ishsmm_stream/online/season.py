"""A cycle of a known period, such as a day, learned as it goes and taken away from the readings.

The period is cut into ``bins``. A bin's deviation is the mean of its readings minus the level around it: over one whole
period with the bin in the middle, so that a cycle does not count as level and a drift does not count as cycle. While a
profile is known the level is the median of what it leaves, which moves where a real change is and not before or after.
The profile follows, bin by bin, the median of the last three deviations, a quarter of the way each period: one that
was unlike the others has no say, and noise averages out.

It is causal. A deviation is known half a period after its bin; only in the first period is it taken earlier, from that
period alone, so that readings have a profile from the second one on. Until then the answer is missing (NaN). It also is
where the profile is too steep for its bins, as at the flanks of a pump's daily schedule: there the readings of a bin
scatter more than twice as much as those of the bins around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream.online import snapshot
from ishsmm_stream.online.validation import (
    FLOAT,
    LARGEST_COUNT,
    SINGLE,
    Field,
    check,
    is_number,
    is_whole,
    refuse_others,
    require,
)

REMEMBERED = 3  # deviations a bin
_GAIN = 0.25
_AROUND = 6  # bins on each side that a bin's scatter is compared with
_STEEP = 2.0
_LEAST_READINGS = 5  # of a bin whose scatter is looked at
_KIND = "seasonal profile"

Line = tuple[float, float]  # the profile at the centre of a bin's readings, and its slope a bin


class SeasonalProfile:
    """Takes a cycle of ``period`` away from readings of one or several ``channels``.

    Times and period are in the same unit; with whole numbers phases are exact.

    >>> profile = SeasonalProfile(period=24)
    >>> left = [profile.update(hour, [math.sin(hour * math.tau / 24)])[0] for hour in range(72)]
    >>> left[23], abs(round(left[24], 4)), abs(round(left[71], 4))
    (nan, 0.0, 0.0)
    """

    def __init__(self, period: float, bins: int = 96, channels: int = 1) -> None:
        _checks.positive("period", period)
        self.period = period
        self.bins = _checks.whole("bins", bins, 4)
        self.channels = _checks.whole("channels", channels, 1)
        self._first: int | None = None  # bins are numbered from the epoch; this was the first one,
        self._current = 0  # and this is the one being filled
        self._count = 0  # its readings,
        self._places = 0.0  # and where they are in it, from 0 to 1, added up
        self._centre = [0.5] * self.bins  # the mean place of each bin's readings
        self._profiles = [_Channel(self.bins) for _ in range(self.channels)]
        self._lines: list[Line] = []  # of the current bin, one a channel

    def update(self, time: float, values: Sequence[float]) -> tuple[float, ...]:
        """What is left of a reading without its cycle; NaN where that is not known. A reading that is older than the
        newest bin is not learned from, nor is one with a value that is NaN."""
        number, rest = divmod(time * self.bins, self.period)
        index, place = int(number), rest / self.period
        if self._first is None:
            self._first = self._current = index
            self._lines = self._lines_of(index % self.bins)
        if index > self._current:
            self._move_to(index)
        phase = index % self.bins
        lines = self._lines if index == self._current else self._lines_of(phase)
        away = place - self._centre[phase]
        left = tuple(value - (level + slope * away) for value, (level, slope) in zip(values, lines, strict=True))
        if index == self._current and not any(map(math.isnan, values)):
            self._count += 1
            self._places += place
            for channel, value, remains in zip(self._profiles, values, left, strict=True):
                channel.add(self._count, value, remains)
        return left

    @property
    def is_known(self) -> bool:
        """Whether the first period is over."""
        return self._first is not None and self._current - self._first >= self.bins

    def _lines_of(self, phase: int) -> list[Line]:
        return [channel.line(phase, self._centre) for channel in self._profiles]

    def _move_to(self, index: int) -> None:
        """Close the current bin and those that were passed over, and enter another."""
        assert self._first is not None
        bins, half = self.bins, self.bins // 2
        if self._count:
            self._centre[self._current % bins] = _rounded(self._places / self._count, 8)
        for channel in self._profiles:
            channel.close(self._current % bins, self._count)
        for closed in range(self._current, min(index, self._current + bins)):
            periods_end = closed - self._first - (bins - 1)  # 0 when the first period is over
            for channel in self._profiles:
                if closed > self._current:
                    channel.window[closed % bins] = math.nan
                if periods_end == 0:
                    for number in range(self._first, closed - half):
                        channel.learn(number % bins)
                if periods_end >= 0:
                    channel.learn((closed - half) % bins)
        self._current, self._count, self._places = index, 0, 0.0
        self._lines = self._lines_of(index % bins)

    def snapshot(self) -> bytes:
        """Everything as bytes: about 20 a bin and channel."""
        header = {
            "kind": _KIND, "period": self.period, "bins": self.bins, "channels": self.channels,
            "first": self._first, "current": self._current, "count": self._count, "places": self._places,
            "sums": [channel.sums for channel in self._profiles],
        }  # fmt: skip
        arrays = {
            "centre": np.array(self._centre, dtype=np.float32),
            "window": np.array([channel.window for channel in self._profiles]),
            "scatter": np.array([channel.scatter for channel in self._profiles], dtype=np.float32),
            "profile": np.array([channel.profile for channel in self._profiles], dtype=np.float32),
            "deviations": np.array([channel.deviations for channel in self._profiles], dtype=np.float32),
        }
        return snapshot.write(header, arrays)

    @classmethod
    def restore(cls, data: bytes) -> SeasonalProfile:
        """Return the profile that a snapshot was taken of. Raises SnapshotError if the bytes are anything else."""
        header, arrays = snapshot.read(data)
        if header.get("kind") != _KIND:
            raise snapshot.SnapshotError("the snapshot is not one of a seasonal profile")
        try:
            _check(header, arrays)
            profile = cls(header["period"], header["bins"], header["channels"])
        except snapshot.SnapshotError:
            raise
        except (LookupError, TypeError, ValueError) as error:
            raise snapshot.SnapshotError(f"the snapshot is not one of a seasonal profile: {error!r}") from error
        profile._first, profile._current = header["first"], header["current"]
        profile._count, profile._places = header["count"], header["places"]
        profile._centre = arrays["centre"].tolist()
        for i, channel in enumerate(profile._profiles):
            channel.sums = header["sums"][i]
            channel.window, channel.scatter = arrays["window"][i].tolist(), arrays["scatter"][i].tolist()
            channel.deviations = arrays["deviations"][i].tolist()
            channel.profile = arrays["profile"][i].tolist()
        profile._lines = profile._lines_of(profile._current % profile.bins)
        return profile


_LARGEST, _LARGEST_SINGLE = 1e300, 1e37
_MOST_BINS = 1 << 20  # of all channels


def _check(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Raise SnapshotError unless header and arrays can be those of a profile."""
    bins, channels, first, count = header["bins"], header["channels"], header["first"], header["count"]
    require(is_whole(bins, 4) and is_whole(channels, 1) and bins * channels <= _MOST_BINS, "it has bins and channels")
    require(is_number(header["period"]) and 1e-12 <= header["period"] <= 1e18, "it has a period")
    require(is_whole(header["current"], -LARGEST_COUNT) and is_whole(count), "its bins are counted")
    require(first is None or (is_whole(first, -LARGEST_COUNT) and first <= header["current"]), "it has a first bin")
    require(is_number(header["places"]) and 0.0 <= header["places"] <= count, "readings lie in their bins")
    sums = header["sums"]
    require(type(sums) is list and len(sums) == channels, "every channel has sums")
    require(all(type(own) is list and len(own) == 3 and all(map(is_number, own)) for own in sums), "sums are numbers")
    require(
        all(abs(own[0]) <= _LARGEST and abs(own[1]) <= _LARGEST and own[2] >= 0.0 for own in sums), "sums are finite"
    )
    unknown = Field(SINGLE, (channels, bins), -_LARGEST_SINGLE, _LARGEST_SINGLE, nan=True)
    fields = {
        "centre": Field(SINGLE, (bins,), 0.0, 1.0),
        "window": Field(FLOAT, (channels, bins), -_LARGEST, _LARGEST, nan=True),
        "scatter": unknown._replace(low=0.0, high=math.inf),
        "profile": unknown,
        "deviations": unknown._replace(shape=(channels, bins, REMEMBERED)),
    }
    check(arrays, fields)
    refuse_others(arrays, set(fields))


class _Channel:
    """The bins of one channel, by phase; what is not known is NaN. Plain lists: numpy is slow with short ones."""

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.window = [math.nan] * bins  # mean values of the last period's bins
        self.scatter = [math.nan] * bins  # standard deviation of what the profile left in each
        self.deviations = [[math.nan] * REMEMBERED for _ in range(bins)]  # the newest first
        self.profile = [math.nan] * bins
        self.sums = [0.0, 0.0, 0.0]  # of the current bin: the mean value, and Welford's sums of what the profile leaves

    def add(self, count: int, value: float, left: float) -> None:
        sums = self.sums
        sums[0] += (value - sums[0]) / count
        if left != left:  # no profile is known
            left = value
        step = left - sums[1]
        sums[1] += step / count
        sums[2] += step * (left - sums[1])

    def close(self, phase: int, count: int) -> None:
        self.window[phase] = self.sums[0] if count else math.nan
        if count >= _LEAST_READINGS:
            self.scatter[phase] = _rounded(math.sqrt(self.sums[2] / (count - 1)), 8)
        self.sums = [0.0, 0.0, 0.0]

    def learn(self, phase: int) -> None:
        """Take the deviation of the bin in the middle of the window."""
        mean = self.window[phase]
        if math.isnan(mean):
            return
        pairs = [pair for pair in zip(self.window, self.profile, strict=True) if pair[0] == pair[0]]
        residuals = [value - known for value, known in pairs]
        if any(map(math.isnan, residuals)):
            level = fmean(value for value, _ in pairs)
        else:
            # of the centred profile, so that the level stays where it is whatever the shape of the cycle
            level = median(residuals) + fmean(known for _, known in pairs)
        deviation = _rounded(mean - level, 16)
        if math.isfinite(deviation):
            known = self.deviations[phase]
            self.deviations[phase] = [deviation, *known[:-1]]
            middle = median(number for number in self.deviations[phase] if number == number)
            if not math.isnan(known[-1]):  # three were known before: what is there is worth keeping
                middle = self.profile[phase] + _GAIN * (middle - self.profile[phase])
            self.profile[phase] = _rounded(middle, 16)

    def line(self, phase: int, centre: Sequence[float]) -> Line:
        here = self.profile[phase]
        if math.isnan(here) or self._is_steep(phase):
            return math.nan, 0.0
        before, after = phase - 1, (phase + 1) % self.bins
        falls = (here - self.profile[before]) / max(centre[phase] + 1.0 - centre[before], 0.1)
        rises = (self.profile[after] - here) / max(centre[after] + 1.0 - centre[phase], 0.1)
        if not falls * rises > 0.0:  # a peak, or a neighbour that is not known
            return here, 0.0
        return here, math.copysign(min(abs(falls), abs(rises)), rises)

    def _is_steep(self, phase: int) -> bool:
        scatter = self.scatter[phase]
        if math.isnan(scatter):
            return False
        around = [self.scatter[(phase + i) % self.bins] for i in range(-_AROUND, _AROUND + 1)]
        around = [number for number in around if number == number]
        return len(around) > _AROUND and scatter > _STEEP * median(around)


def _rounded(number: float, bits: int) -> float:
    """``number`` to so many bits, all in a float of 32: what is remembered of every bin need not be more exact, and
    snapshots stay small. Infinite where it is too large."""
    if not math.isfinite(number):
        return number
    fraction, exponent = math.frexp(number)
    if not -120 < exponent < 120:
        return 0.0 if exponent <= -120 else math.copysign(math.inf, number)
    return math.ldexp(round(math.ldexp(fraction, bits)), exponent - bits)
