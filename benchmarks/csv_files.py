"""CSV files, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import TextIO


def find(folder: Path, name: str) -> Path | None:
    """Return the file of a name in the folder, with or without the endings .csv and .gz; None if there is none."""
    return next(
        (path for ending in ("", ".gz", ".csv", ".csv.gz") if (path := folder / f"{name}{ending}").exists()), None
    )


def open_text(path: Path) -> TextIO:
    return gzip.open(path, "rt") if path.suffix == ".gz" else path.open()


def read_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a CSV file, separated by comma or semicolon.

    If rows have one cell more than the header, their first cell is a row name and is dropped.
    """
    with open_text(path) as lines:
        text = lines.read().splitlines()
    separator = ";" if text and ";" in text[0] else ","
    header, *rows = csv.reader(text, delimiter=separator)
    rows = [row for row in rows if row]
    if rows and len(rows[0]) == len(header) + 1:
        rows = [row[1:] for row in rows]
    return header, rows
