"""How good changes and alarms are if somebody has written down when the changes really were.

A label is found by a change that lies within the margin of it, and by an alarm that began at most the margin before or
``late`` after it. Every change or alarm finds at most one label, and every label is found at most once. Those that find
none are false, retracted changes included: people were told.
"""

from __future__ import annotations

import bisect
import csv
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from service.wire.readings import from_rfc3339

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MARGIN = re.compile(r"(\d+(?:\.\d+)?) ?(s|min|h|d)?")


class Margin(NamedTuple):
    """How far from a label something may be: so many readings, or so many seconds."""

    size: float = 10.0
    in_seconds: bool = False

    def __str__(self) -> str:
        return f"{self.size:g} {'s' if self.in_seconds else 'readings'}"

    def of(self, place: int, index: int, times: Sequence[int]) -> float:
        """Return how far an observation is behind another one, in the margin's unit."""
        return (times[index] - times[place]) / 1e6 if self.in_seconds else index - place


def read_margin(text: str, option: str = "--margin") -> Margin:
    """Read a margin as people write it; ``option``: for the error.

    >>> read_margin("10"), read_margin("2min")
    (Margin(size=10.0, in_seconds=False), Margin(size=120.0, in_seconds=True))
    """
    found = _MARGIN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{option} takes readings, such as 10, or a time, such as 30s, 5min or 2h, got {text!r}")
    return Margin(float(found[1]) * _UNITS.get(found[2] or "s", 1.0), found[2] is not None)


class Label(NamedTuple):
    """A true change of a sensor: its index, or its time in microseconds since the epoch."""

    index: int | None  # type: ignore[assignment]
    time: int | None


Labels = dict[str, list[Label]]


def read_labels(path: Path) -> Labels:
    """Labels from a CSV file with a header: sensor, and time or index."""
    labels: Labels = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        names = [name.strip() for name in rows.fieldnames or []]
        kind = next((name for name in ("time", "index") if name in names), None)
        if "sensor" not in names or kind is None:
            raise ValueError(f"{path} takes a header with sensor, and time or index, got {', '.join(names) or 'none'}")
        rows.fieldnames = names
        for row in rows:
            where = f"{path} line {rows.line_num}"
            sensor, text = (row["sensor"] or "").strip(), (row[kind] or "").strip()
            if not sensor:
                raise ValueError(f"{where}: the sensor is empty")
            labels.setdefault(sensor, []).append(_label(kind, text, where))
    if not labels:
        raise ValueError(f"{path} has no labels in it")
    return labels


def _label(kind: str, text: str, where: str) -> Label:
    if kind == "index":
        if not text.isascii() or not text.isdecimal():
            raise ValueError(f"{where}: an index is a whole number from 0, got {text!r}")
        return Label(int(text), None)
    return Label(None, read_time(text, where))


def read_time(text: str, where: str) -> int:
    """Seconds since the epoch or a date, as microseconds. A date without a zone is in UTC."""
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(number) and abs(number) < 1e11:
            return round(number * 1e6)
    try:
        return from_rfc3339(text, "utc")
    except ValueError:
        raise ValueError(
            f"{where}: a time is seconds since 1970 or RFC 3339 such as 2026-01-31T08:00:00Z, got {text!r}"
        ) from None


class Finding(Protocol):
    """A change or an alarm, as far as it is scored."""

    index: int
    raised_at: int
    raised_time: int


class Score(msgspec.Struct, kw_only=True):
    """What changes, or alarms, are worth. Numbers that do not exist are None."""

    labels: int
    found: int  # changes, or alarms
    hits: int
    left_out: int = 0  # labels of sensors or times that were not replayed
    median_delay: float | None  # of the hits, in readings
    median_delay_s: float | None
    false_a_day: float | None

    @property
    def false(self) -> int:
        """Changes or alarms that find no label."""
        return self.found - self.hits

    @property
    def missed(self) -> int:
        """Labels that are not found."""
        return self.labels - self.hits

    @property
    def precision(self) -> float | None:
        """Share of the changes or alarms that are right."""
        return self.hits / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """Share of the labels that are found."""
        return self.hits / self.labels if self.labels else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of both."""
        return 2 * self.hits / (self.found + self.labels) if self.found + self.labels else None


def score(
    found: Mapping[str, Sequence[Finding]],
    times: Mapping[str, Sequence[int]],
    labels: Labels,
    margin: Margin,
    days: float,
    late: Margin | None = None,
) -> Score:
    """Score changes or alarms by sensor. ``times``: of each sensor's observations, in microseconds; ``days``: what they
    span; ``late``: how far after a label, if that is not the margin."""
    delays: list[tuple[int, float]] = []
    counted = 0
    for sensor, known in places(labels, times).items():
        counted += len(known)
        clock = times.get(sensor, ())
        for place, one in matched(known, found.get(sensor, ()), clock, margin, late):
            delays.append((one.raised_at - place, (one.raised_time - clock[place]) / 1e6))
    n_found = sum(map(len, found.values()))
    return Score(
        labels=counted,
        found=n_found,
        hits=len(delays),
        left_out=sum(map(len, labels.values())) - counted,
        median_delay=statistics.median(delay for delay, _ in delays) if delays else None,
        median_delay_s=statistics.median(delay for _, delay in delays) if delays else None,
        false_a_day=(n_found - len(delays)) / days if days > 0 else None,
    )


def places(labels: Labels, times: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """The observations that the labels are about, by sensor; labels that are about none are left out."""
    found = {sensor: [_place(mark, times.get(sensor, ())) for mark in marks] for sensor, marks in labels.items()}
    return {sensor: [place for place in marks if place is not None] for sensor, marks in found.items()}


def _place(label: Label, times: Sequence[int]) -> int | None:
    """The label's observation; None where it is not among them."""
    if label.index is not None:
        return label.index if label.index < len(times) else None
    assert label.time is not None
    if not times or label.time < times[0]:
        return None
    place = bisect.bisect_left(times, label.time)
    return place if place < len(times) else None


def matched(
    labelled: Iterable[int],
    found: Sequence[Finding],
    times: Sequence[int],
    margin: Margin,
    late: Margin | None = None,
) -> list[tuple[int, Finding]]:
    """Return labels' places with the changes or alarms that find them, as many as can be.

    All windows are equally wide, so giving each label, in order, the first free one in its window is optimal.
    """
    late = late or margin
    free = sorted(found, key=lambda one: one.index)
    pairs = []
    for place in sorted(labelled):
        while free and margin.of(place, free[0].index, times) < -margin.size:
            del free[0]
        if free and late.of(place, free[0].index, times) <= late.size:
            pairs.append((place, free.pop(0)))
    return pairs
