"""A series read from a CSV file."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

MISSING = frozenset({"", "nan", "na"})  # in any case


class Series(NamedTuple):
    """Chosen columns of a file."""

    source: str
    columns: tuple[str, ...]
    values: np.ndarray  # (length, columns), NaN where missing
    lines: tuple[int, ...]  # the line of the file that each row stands on


def read_series(path: str, columns: Sequence[str] = ()) -> Series:
    """Read ``columns`` of a CSV file with a header; ``-`` is stdin. Without names: its only numeric column."""
    if path == "-":
        return parse_series("stdin", sys.stdin, columns)
    with open(path, encoding="utf-8-sig", newline="") as file:
        return parse_series(path, file, columns)


def parse_series(source: str, text: Iterable[str], columns: Sequence[str] = ()) -> Series:
    """As ``read_series`` from lines of text; ``source`` is what error messages call them."""
    import numpy as np

    header, rows, lines = _cells(source, text)
    chosen = choose_columns(source, header, columns) if columns else [_only_numeric(source, header, rows)]
    values = np.empty((len(rows), len(chosen)))
    for i, row in enumerate(rows):
        for j, column in enumerate(chosen):
            number = parse_number(row[column])
            if number is None:
                raise ValueError(
                    f"{source}, line {lines[i]}: {row[column]!r} in column {header[column]!r} is no number"
                )
            values[i, j] = number
    for j, column in enumerate(chosen):
        if np.isnan(values[:, j]).all():
            raise ValueError(f"{source}: column {header[column]!r} has no values")
    return Series(source, tuple(header[column] for column in chosen), values, tuple(lines))


def require_whole_numbers(series: Series, family: str) -> None:
    """Raise ValueError at the first cell that is no whole number from 0."""
    import numpy as np

    values = series.values
    wrong = ~np.isnan(values) & ((values < 0.0) | (values != np.floor(values)))
    if wrong.any():
        i, j = (int(index) for index in np.argwhere(wrong)[0])
        raise ValueError(
            f"{series.source}, line {series.lines[i]}: {values[i, j]:g} in column {series.columns[j]!r}, "
            f"but {family} emissions take whole numbers from 0"
        )


def _cells(source: str, text: Iterable[str]) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, rows and their lines. A blank line is a missing value where there is one column only."""
    reader = csv.reader(text)
    try:
        header = read_header(source, next(reader, []))
        rows, lines = [], []
        for row in reader:
            if not row and len(header) > 1:
                continue
            cells = [cell.strip() for cell in row] or [""]
            if len(cells) != len(header):
                raise ValueError(
                    f"{source}, line {reader.line_num}: {len(cells)} cells, but the header has {len(header)} columns"
                )
            rows.append(cells)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{source}, line {reader.line_num}: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{source} is not a text file in UTF-8") from None
    while len(header) == 1 and rows and rows[-1] == [""]:  # blank lines at the end
        del rows[-1], lines[-1]
    if not rows:
        raise ValueError(f"{source} has a header but no data")
    return header, rows, lines


def read_header(source: str, cells: Sequence[str]) -> list[str]:
    """The names in the first line of a file; ValueError where it holds none."""
    header = [name.strip().lstrip("\ufeff") for name in cells]
    if not any(header):
        raise ValueError(f"{source} is empty: a line with column names is needed, and data below it")
    if any(name.lower() not in MISSING and parse_number(name) is not None for name in header):
        raise ValueError(f"{source}, line 1: a header with column names is needed, got {','.join(header)}")
    return header


def choose_columns(source: str, header: list[str], columns: Sequence[str]) -> list[int]:
    """Where the columns stand; ValueError where one is not there, or not clear."""
    found = []
    for name in columns:
        if header.count(name) != 1:
            problem = "has no column" if name not in header else "has more than one column"
            raise ValueError(f"{source} {problem} {name!r}; its columns are {', '.join(header)}")
        if header.index(name) in found:
            raise ValueError(f"--column {name} is given twice")
        found.append(header.index(name))
    return found


def _only_numeric(source: str, header: list[str], rows: list[list[str]]) -> int:
    if len(header) == 1:
        return 0  # a bad cell is then reported as such
    numeric = []
    for column in range(len(header)):
        numbers = [parse_number(row[column]) for row in rows]
        if None not in numbers and not all(math.isnan(number) for number in numbers if number is not None):
            numeric.append(column)
    if len(numeric) != 1:
        count = "no" if not numeric else str(len(numeric))
        raise ValueError(
            f"{source} has {count} numeric columns; choose with --column, its columns are {', '.join(header)}"
        )
    return numeric[0]


def parse_number(cell: str) -> float | None:
    """The number in a cell, NaN where it is missing, None where it is neither."""
    if cell.lower() in MISSING:
        return math.nan
    try:
        number = float(cell) if "_" not in cell else math.inf
    except ValueError:
        return None
    return number if math.isfinite(number) else None
