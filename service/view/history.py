"""A sensor's past as its state records tell it: readings, the states it was in, and how probable a change was.

Every record repeats the last readings, thinned out. A later record knows better, so what it tells takes the place of
what was told of the same time. All of it is bounded.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from service.wire.messages import StateRecord
from service.wire.readings import from_rfc3339

MOST_SEGMENTS = 200
MOST_PROBABILITIES = 500
# A segment whose beginning moves by less than this is the same one, seen better.
_MOVES_BY = 10


def milliseconds(time: str) -> int:
    """Return an RFC 3339 time as milliseconds since the epoch."""
    return from_rfc3339(time) // 1000


@dataclass
class SeenSegment:
    """A stretch in one state. Times in milliseconds; ``since`` is None where the record did not know it any more."""

    generation: int
    state: int
    visits: int
    name: str | None
    first: int  # index of its first observation
    since: int | None
    until: int
    levels: list[float | None]
    noises: list[float | None]


class SegmentHistory:
    """Bounded to so many ``numbers`` over all channels."""

    def __init__(self, numbers: int) -> None:
        self._numbers = numbers
        self._times = array("q")
        self._channels: list[array[float]] = []
        self.probabilities: list[tuple[int, float | None, int]] = []  # time, of a change, median run length
        self.segments: list[SeenSegment] = []

    def take(self, record: StateRecord) -> None:
        """One more record, later than those before."""
        time = milliseconds(record.time)
        self._take_readings(record.recent)
        self._take_probability(time, record)
        self._take_segment(time, record)

    @property
    def readings(self) -> list[list[float | None]]:
        """[milliseconds, value of each channel], oldest first."""
        return [[time, *map(_number, values)] for time, *values in zip(self._times, *self._channels, strict=True)]

    def spark(self, most: int) -> list[float | None]:
        """The last values of the first channel."""
        return [_number(value) for value in self._channels[0][-most:]] if self._channels else []

    def _take_readings(self, recent: Sequence[Sequence[float | None]]) -> None:
        if not recent:
            return
        recent = sorted(recent, key=lambda row: row[0] or 0.0)  # late readings stand where they came
        channels = len(recent[0]) - 1
        if channels != len(self._channels):  # a new generation may have others
            self._times, self._channels = array("q"), [array("d") for _ in range(channels)]
        keep = bisect.bisect_left(self._times, int(recent[0][0] or 0))
        most = max(60, self._numbers // max(1, channels))
        drop = max(0, keep + len(recent) - most)
        self._times = self._times[drop:keep] + array("q", [int(row[0] or 0) for row in recent])
        for i, old in enumerate(self._channels):
            new = array("d", [float("nan") if row[i + 1] is None else float(row[i + 1] or 0.0) for row in recent])
            self._channels[i] = old[drop:keep] + new

    def _take_probability(self, time: int, record: StateRecord) -> None:
        while self.probabilities and self.probabilities[-1][0] >= time:
            self.probabilities.pop()
        self.probabilities.append((time, record.change_probability, record.run_length.median))
        del self.probabilities[:-MOST_PROBABILITIES]

    def _take_segment(self, time: int, record: StateRecord) -> None:
        state = record.state
        if state is None:
            return
        first = state.since.index
        since = None if state.since.time is None else milliseconds(state.since.time)
        replaced = None
        while self.segments and self._is_the_same(self.segments[-1], record):
            replaced = self.segments.pop()
        is_still = replaced is not None and (replaced.state, replaced.visits) == (state.id, state.visits)
        if replaced is not None and is_still and first > replaced.first + _MOVES_BY:
            # the same state before and after where it is now said to begin: it was there all along
            first, since = replaced.first, replaced.since
        elif since is None and replaced is not None:
            # the record no longer remembers when that was
            since = replaced.since
        if self.segments and since is not None:
            self.segments[-1].until = since
        levels, noises = levels_of(state.parameters)
        self.segments.append(
            SeenSegment(record.generation, state.id, state.visits, state.name, first, since, time, levels, noises)
        )
        del self.segments[:-MOST_SEGMENTS]

    @staticmethod
    def _is_the_same(last: SeenSegment, record: StateRecord) -> bool:
        """Whether the record speaks of the segment, or of an earlier beginning than it has: then there was none."""
        state = record.state
        assert state is not None
        if last.generation != record.generation:
            return False
        if (last.state, last.visits) == (state.id, state.visits):
            return True
        return last.first > state.since.index - _MOVES_BY


def levels_of(parameters: dict[str, float | None]) -> tuple[list[float | None], list[float | None]]:
    """Level and noise of each channel, where the model has them.

    >>> levels_of({"mean[0]": 1.0, "mean[1]": 2.0, "sd[0]": 0.5, "sd[1]": 0.25})
    ([1.0, 2.0], [0.5, 0.25])
    >>> levels_of({"rate": 4.0})
    ([4.0], [2.0])
    """
    if "mean" in parameters:
        return [parameters["mean"]], [parameters.get("sd")]
    rate = parameters.get("rate")
    if rate is not None:
        return [rate], [rate**0.5]
    channels = [name.removeprefix("mean") for name in parameters if name.startswith("mean[")]
    return [parameters[f"mean{one}"] for one in channels], [parameters.get(f"sd{one}") for one in channels]


def _number(value: float) -> float | None:
    return value if value == value else None
