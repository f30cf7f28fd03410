"""Real sensor series from a folder of CSV files, plain or gzipped.

Subfolders, each optional: ``nab`` (see nab.py), ``streams`` (numeric columns are series), ``skab`` (files whose names
begin with "anomaly-free"), ``telemetry`` (one channel per file in the first column, labels.json with faults).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nab
import numpy as np
from csv_files import find, open_text, read_rows

LABEL_NAMES = ("label", "anomal", "occupancy", "changepoint", "outlier", "target", "fault", "class")
MOST_TEXT = 0.1  # largest share of cells of a numeric column that are text
SHORTEST = 500  # readings of a series; shorter ones cannot say anything about rare alarms


class Series(NamedTuple):
    name: str
    values: np.ndarray  # NaN: missing


class Channel(NamedTuple):
    name: str
    values: np.ndarray
    sequences: list[tuple[int, int]]  # first and last row of each labelled fault


def _number(cell: str) -> float | None:
    """Return the number in a cell, NaN if it is empty, None if it is text."""
    try:
        return float(cell or "nan")
    except ValueError:
        return None


def _is_label(name: str, values: np.ndarray) -> bool:
    known = values[~np.isnan(values)]
    return any(word in name.lower() for word in LABEL_NAMES) and bool(np.isin(known, (0.0, 1.0)).all())


def columns(path: Path) -> Iterator[Series]:
    """Yield the numeric columns of a CSV file; skip text, row names, 0/1 labels and columns without numbers."""
    header, rows = read_rows(path)
    for position, name in enumerate(header):
        if not name or name.lower().startswith("unnamed"):
            continue
        cells = [_number(row[position]) if position < len(row) else np.nan for row in rows]
        if cells.count(None) > MOST_TEXT * len(cells):
            continue
        values = np.array([np.nan if cell is None else cell for cell in cells], dtype=float)
        if np.isnan(values).all() or _is_label(name, values):
            continue
        yield Series(f"{_stem(path)}/{name}", values)


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv")


def _csv_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.csv*") if path.name.endswith((".csv", ".csv.gz")))


def load(folder: Path) -> list[Series]:
    """Return all real series of the folder: real NAB files, columns of streams, channels of fault-free SKAB runs."""
    found = []
    if (folder / "nab" / "windows.json").exists():
        found += [Series(file.name, file.values) for file in nab.load(folder / "nab") if file.is_real]
    for path in _csv_files(folder / "streams"):
        found += columns(path)
    for path in _csv_files(folder / "skab"):
        if path.name.startswith("anomaly-free"):
            found += columns(path)
    return [series for series in found if len(series.values) >= SHORTEST]


def load_telemetry(folder: Path) -> list[Channel]:
    """Return the labelled channels of the folder; none if it has no labels.json."""
    labels = folder / "labels.json"
    if not labels.exists():
        return []
    found = []
    for name, sequences in sorted(json.loads(labels.read_text()).items()):
        path = find(folder, name)
        if path is None:
            continue
        with open_text(path) as lines:
            cells = [_number(row[0]) for row in csv.reader(lines) if row]
        if cells and cells[0] is None:
            cells = cells[1:]  # header
        values = np.array([np.nan if cell is None else cell for cell in cells], dtype=float)
        found.append(Channel(name, values, [(int(first), int(last)) for first, last in sequences]))
    return found
