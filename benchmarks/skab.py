"""Valve faults of the Skoltech Anomaly Benchmark: changes found within a minute, delay, false alarms; peers alongside.

    python benchmarks/skab.py --data FOLDER [--crops N] [--quick]

The folder holds the benchmark's CSV files, plain or gzipped: eight channels, one row a second, one file anomaly-free.
Changes sit at nearly the same rows in most files, so every file is also run from random rows before its first change.
An alarm every 60 rows is among the rows of the table: it beats the benchmark's published score.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from metrics import mean
from peers import KINDS, Kind, Peer, Standardised, alarms_of_peer, ours
from table import Table

WINDOW = 60  # seconds after a change in which an alarm finds it
MERGED = 10  # alarms of channels that follow one another within so many rows are one alarm
LABELS = ("anomaly", "changepoint")


class Recording(NamedTuple):
    values: np.ndarray  # (rows, channels)
    seconds: np.ndarray  # since the first row
    change_points: list[int]

    def from_row(self, first: int) -> Recording:
        changes = [row - first for row in self.change_points]
        return Recording(self.values[first:], self.seconds[first:], changes)


def opened(file: Path) -> TextIO:
    return gzip.open(file, "rt") if file.suffix == ".gz" else file.open()


def load(file: Path) -> Recording:
    with opened(file) as lines:
        rows = list(csv.DictReader(lines, delimiter=";"))
    channels = [name for name in rows[0] if name not in ("datetime", *LABELS)]
    values = np.array([[float(row[name] or "nan") for name in channels] for row in rows])
    times = [datetime.fromisoformat(row["datetime"]) for row in rows]
    seconds = np.array([(time - times[0]).total_seconds() for time in times])
    return Recording(values, seconds, [i for i, row in enumerate(rows) if float(row.get("changepoint") or 0)])


Run = Callable[[np.ndarray], list[int]]  # values to the rows of alarms


def merged(rows: list[int]) -> list[int]:
    """The first row of every group of alarms; a group ends MERGED rows after its first."""
    kept: list[int] = []
    for row in sorted(rows):
        if not kept or row - kept[-1] > MERGED:
            kept.append(row)
    return kept


def by_channel(make: Callable[[], Peer]) -> Run:
    def run(values: np.ndarray) -> list[int]:
        return merged([alarm.at for channel in values.T for alarm in alarms_of_peer(make(), channel)])

    return run


def standardised(kind: Kind, **settings: Any) -> Run:
    return by_channel(lambda: Standardised(kind.make(**settings)))


def raised(values: np.ndarray) -> list[int]:
    return [event.at for event in ours().update_many(values) if event.kind == "raised"]


def ours_on_vectors(values: np.ndarray) -> list[int]:
    return merged(raised(np.ascontiguousarray(values)))


def ours_by_channel(values: np.ndarray) -> list[int]:
    return merged([row for channel in values.T for row in raised(np.ascontiguousarray(channel))])


def contenders() -> Iterator[tuple[str, Run]]:
    yield "ours, auto, vectors", ours_on_vectors
    yield "ours, auto, a channel each", ours_by_channel
    yield "pagehinkley, default", standardised(KINDS["pagehinkley"])
    yield "pagehinkley, threshold 8, delta 0.5", standardised(KINDS["pagehinkley"], threshold=8.0, delta=0.5)
    yield "adwin, default", standardised(KINDS["adwin"])
    yield "adwin, delta 0.1, clock 1", standardised(KINDS["adwin"], delta=0.1, clock=1)
    yield "an alarm every 60 rows", lambda values: list(range(59, len(values), 60))


def delays(recording: Recording, alarms: list[int]) -> list[float]:
    """Seconds from each change to the first alarm before the next change and within WINDOW; NaN where there is none."""
    found = []
    for begin, end in zip(recording.change_points, [*recording.change_points[1:], len(recording.values)], strict=True):
        inside = [row for row in alarms if begin <= row < end]
        late = recording.seconds[inside[0]] - recording.seconds[begin] if inside else np.inf
        found.append(float(late) if late <= WINDOW else np.nan)
    return found


class Score(NamedTuple):
    found: float
    delays: list[float]  # of those found
    early: float  # alarms per 1000 rows before the first change


def score(runs: list[Recording], run: Run) -> Score:
    """Of the several runs of one file together: they are not independent."""
    late, early, quiet_rows = [], 0, 0
    for recording in runs:
        alarms = run(recording.values)
        late += delays(recording, alarms)
        early += sum(row < recording.change_points[0] for row in alarms)
        quiet_rows += recording.change_points[0]
    found = [delay for delay in late if not np.isnan(delay)]
    return Score(len(found) / len(late), found, 1_000 * early / quiet_rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the CSV files")
    parser.add_argument("--crops", type=int, default=2, help="random beginnings of each file (default 2)")
    parser.add_argument("--quick", action="store_true", help="four files, one crop")
    options = parser.parse_args()
    names = {file.name.split(".")[0]: file for file in sorted(options.data.glob("*.csv*"))}
    free = load(names.pop("anomaly-free"))
    files, crops = (list(names.values())[::5], 1) if options.quick else (list(names.values()), options.crops)
    rng = np.random.default_rng(0)
    recordings = []
    for recording in map(load, files):
        latest = max(recording.change_points[0] - 60, 0)
        recordings.append([recording.from_row(row) for row in [0, *rng.integers(0, latest + 1, crops).tolist()]])
    table = Table(
        f"{len(files)} files, each from its first row and from {crops} random ones. found: share of changes with an "
        f"alarm within {WINDOW} s and before the next; delay: median seconds of those found; false: alarms per 1000 "
        f"rows of the anomaly-free run ({len(free.values)} rows), and of the rows before the first change. ± standard "
        f"error over files. Peers: a channel each, in units of its first 30 rows. Alarms within {MERGED} rows are one.",
        detector=-38, found=14, delay=6, false_in_free_run=18, before_change=15,
    )  # fmt: skip
    for name, run in contenders():
        try:
            scores = [score(runs, run) for runs in recordings]
        except (TypeError, ValueError) as error:
            table.row(name, f"does not run: {error}", "", "", "")
            continue
        found, early = mean(one.found for one in scores), mean(one.early for one in scores)
        late = [delay for one in scores for delay in one.delays]
        middle = f"{np.median(late):.0f}" if late else ""
        in_free_run = 1_000 * len(run(free.values)) / len(free.values)
        table.row(name, f"{found:.3f}", middle, f"{in_free_run:.2f}", f"{early:.2f}")


if __name__ == "__main__":
    main()
