"""The piece of recent readings that a state record holds, for people to look at."""

from __future__ import annotations

import numpy as np

from service.wire.messages import MOST_RECENT, SHORT


def _rounded(numbers: np.ndarray) -> list[float]:
    """As ``messages.rounded`` does it, for numbers that are all finite."""
    from service.sensors.kernels import shorten

    shortened = numbers.copy()
    if shorten(shortened):
        return list(shortened.tolist())
    return [float(SHORT % number) for number in numbers.tolist()]


def downsample(times: np.ndarray, rows: np.ndarray, most: int = MOST_RECENT) -> list[list[float | None]]:
    """At most ``most`` of a sensor's readings, all finite, as a state record holds them: [milliseconds, values ...].

    ``times`` in microseconds, ``rows`` (length, channels). Where there are more, they are cut into equal stretches and
    the lowest and the highest of each stay: peaks are what people look for. Depends on nothing but the readings. The
    first channel decides.
    """
    from service.sensors.kernels import find_extremes

    if len(rows) > most:
        kept = np.empty(most, dtype=np.int64)
        kept = kept[: find_extremes(rows[:, 0].copy(), kept)]
        times, rows = times[kept], rows[kept]
    columns = [_rounded(column) for column in rows.T]
    return [list(reading) for reading in zip((times // 1000).tolist(), *columns, strict=True)]
