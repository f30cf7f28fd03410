"""The piece of recent readings that a state record holds, for people to look at."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from service.messages import MOST_RECENT, SHORT


@functools.lru_cache(maxsize=256)
def _stretches(length: int, count: int) -> np.ndarray:
    """The places of so many readings in stretches of equal length, one a row; a shorter row repeats its first place."""
    edges = [length * i // count for i in range(count + 1)]
    stretches = [range(first, end) for first, end in itertools.pairwise(edges)]
    width = max(map(len, stretches))
    rows = [[*stretch, *stretch[:1] * (width - len(stretch))] for stretch in map(list, stretches)]
    return np.array(rows)


def _rounded(numbers: list[float]) -> list[float]:
    """As ``messages.rounded`` does it, for numbers that are all finite."""
    return list(map(float, (f"{SHORT} " * len(numbers) % tuple(numbers)).split()))


def downsample(times: np.ndarray, rows: np.ndarray, most: int = MOST_RECENT) -> list[list[float | None]]:
    """At most ``most`` of a sensor's readings, all finite, as a state record holds them: [milliseconds, values ...].

    ``times`` in microseconds, ``rows`` (length, channels). Where there are more, they are cut into equal stretches and
    the lowest and the highest of each stay: peaks are what people look for. Depends on nothing but the readings. The
    first channel decides.
    """
    if len(rows) > most:
        places = _stretches(len(rows), most // 2)
        inside, first = rows[:, 0][places], places[:, 0]
        lowest, highest = first + inside.argmin(axis=1), first + inside.argmax(axis=1)
        kept = np.stack((np.minimum(lowest, highest), np.maximum(lowest, highest)), axis=1).ravel()
        kept = kept[np.append([True], kept[1:] != kept[:-1])]  # once where the lowest is the highest
        times, rows = times[kept], rows[kept]
    columns = [_rounded(column) for column in rows.T.tolist()]
    return [list(reading) for reading in zip((times // 1000).tolist(), *columns, strict=True)]
