"""Files and scores of the Numenta Anomaly Benchmark (NAB).

A folder of NAB data holds ``windows.json`` (file name to labelled windows, each a first and last time) and one CSV file
per series in a subfolder per group. ``peers.json`` is optional: published scores on the same files.

Scoring rules. Rows of the probation (15 % of the file, at most 750 rows) do not count. The first alarm in a window
earns between 1 (first row of the window) and almost 0 (last row); further alarms in the window are free. A window
without an alarm costs 1. An alarm outside every window costs up to one false-alarm weight, less if it comes shortly
after a window. The sum is scaled so that silence scores 0 and an alarm on the first row of every window scores 100.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from csv_files import find, read_rows

FALSE_WEIGHTS = {"standard": 0.11, "low_fp": 0.22}  # cost of a false alarm; a hit earns 1, a missed window costs 1
STEEPNESS = 5.0  # of the sigmoid that rewards early alarms
FAR = 3.0  # window lengths after which a false alarm costs its full weight


class Window(NamedTuple):
    first: int
    last: int  # inclusive

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class File(NamedTuple):
    name: str
    values: np.ndarray
    windows: list[Window]

    @property
    def group(self) -> str:
        return self.name.split("/")[0]

    @property
    def is_real(self) -> bool:
        return self.group.startswith("real")

    @property
    def probation(self) -> int:
        """Number of first rows in which alarms are ignored."""
        return min(int(0.15 * len(self.values)), 750)

    @property
    def scored_windows(self) -> list[Window]:
        """Windows with at least one row after the probation."""
        return [window for window in self.windows if window.last >= self.probation]


def load(folder: Path) -> list[File]:
    """Return all files of ``windows.json`` that exist in the folder, plain or gzipped, sorted by name."""
    found = []
    for name, limits in sorted(json.loads((folder / "windows.json").read_text()).items()):
        path = find(folder, name)
        if path is None:
            continue
        header, rows = read_rows(path)
        time, value = header.index("timestamp"), header.index("value")
        times = [datetime.fromisoformat(row[time]) for row in rows]
        values = np.array([float(row[value] or "nan") for row in rows])
        found.append(File(name, values, [_window(times, *map(datetime.fromisoformat, limit)) for limit in limits]))
    return found


def _window(times: Sequence[datetime], begin: datetime, end: datetime) -> Window:
    """Return the rows of a window. Clocks that were set back repeat some times: the first row of a time counts."""
    first = next(row for row, time in enumerate(times) if time >= begin)
    last = next((row for row in range(first, len(times)) if times[row] >= end), len(times) - 1)
    return Window(first, last if times[last] <= end else last - 1)


def _sigmoid(position: np.ndarray | float) -> np.ndarray | float:
    return 2.0 / (1.0 + np.exp(STEEPNESS * np.minimum(position, FAR))) - 1.0


def row_values(file: File) -> tuple[np.ndarray, np.ndarray]:
    """Return what an alarm on each row is worth, and the number of the row's window (-1: outside every window).

    Inside a window the value is the reward in (0, 1]. Outside it is the fraction of the false-alarm weight in [-1, 0).
    """
    rows = np.arange(len(file.values))
    values = np.full(len(rows), -1.0)
    owner = np.full(len(rows), -1)
    for window in file.windows:
        after = rows > window.last
        past = (rows[after] - window.last) / max(window.length - 1, 1)
        values[after] = np.where(past >= FAR, -1.0, _sigmoid(past))
    for number, window in enumerate(file.windows):
        inside = slice(window.first, window.last + 1)
        position = -(window.last - rows[inside] + 1) / window.length
        values[inside] = _sigmoid(position) / _sigmoid(-1.0)
        owner[inside] = number
    return values, owner


class Tally(NamedTuple):
    """Sums over files from which scores follow."""

    reward: float  # of the windows hit
    hits: int
    windows: int
    cost: float  # of false alarms, before weighting
    false_alarms: int
    rows: int  # after the probation

    def score(self, profile: str) -> float:
        """Return the normalised score of a profile: 0 for silence, 100 for perfection, NaN without windows."""
        if not self.windows:
            return float("nan")
        raw = self.reward - (self.windows - self.hits) - FALSE_WEIGHTS[profile] * self.cost
        return 100.0 * (raw + self.windows) / (2.0 * self.windows)

    @property
    def false_per_1000(self) -> float:
        return 1_000 * self.false_alarms / self.rows


def tally(file: File, alarms: Iterable[int]) -> Tally:
    """Score the rows on which alarms were raised."""
    values, owner = row_values(file)
    rows = np.unique(np.fromiter((row for row in alarms if row >= file.probation), dtype=np.int64))
    rewards: dict[int, float] = {}
    for row in rows[owner[rows] >= 0]:
        rewards.setdefault(int(owner[row]), float(values[row]))  # the first alarm is worth most
    false = rows[owner[rows] < 0]
    return Tally(
        sum(rewards.values()),
        len(rewards),
        len(file.scored_windows),
        float(-values[false].sum()),
        len(false),
        len(file.values) - file.probation,
    )


def total(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up."""
    return Tally(*(sum(column) for column in zip(*tallies, strict=True)))  # type: ignore[arg-type]


def by_group(files: Sequence[File], tallies: Sequence[Tally]) -> dict[str, Tally]:
    """Add tallies up for each group of files."""
    groups: dict[str, list[Tally]] = defaultdict(list)
    for file, one in zip(files, tallies, strict=True):
        groups[file.group].append(one)
    return {group: total(ones) for group, ones in groups.items()}


def best_threshold(files: Sequence[File], scores: Sequence[np.ndarray], profile: str) -> tuple[float, Tally]:
    """Return the threshold with the best score, and its tally, if a row with a score at or above it is an alarm.

    All thresholds are tried in one pass: rows enter in the order of falling scores.
    """
    weight = FALSE_WEIGHTS[profile]
    entries: list[tuple[float, int, int]] = []
    worth = []
    for number, (file, score) in enumerate(zip(files, scores, strict=True)):
        values, owner = row_values(file)
        worth.append((values, owner))
        entries += [(-float(score[row]), number, row) for row in range(file.probation, len(score))]
    entries.sort()
    rewards: dict[tuple[int, int], float] = {}
    gain, best, chosen = 0.0, 0.0, float("inf")
    for position, (negative, number, row) in enumerate(entries):
        values, owner = worth[number]
        if owner[row] < 0:
            gain += weight * values[row]
        else:
            key = number, int(owner[row])
            before = rewards.get(key, -1.0)
            if values[row] > before:
                gain += values[row] - before
                rewards[key] = values[row]
        is_last_of_score = position + 1 == len(entries) or entries[position + 1][0] != negative
        if is_last_of_score and gain > best:
            best, chosen = gain, -negative
    return chosen, total(
        tally(file, np.flatnonzero(score >= chosen)) for file, score in zip(files, scores, strict=True)
    )


def published(folder: Path) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """Return the contents of ``peers.json``: detector, profile, then score, windows hit and false rows per 1,000."""
    file = folder / "peers.json"
    return json.loads(file.read_text()) if file.exists() else {}
