"""Scores on series of the Turing Change Point Dataset, each value seen once and in order.

    python benchmarks/tcpd.py --data FOLDER [--multivariate] [--quick]

The folder holds the dataset's series, a JSON file each, and its annotations.json. Published scores are not comparable
as they stand: those runs standardise a series by its whole mean and standard deviation and answer in hindsight.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from metrics import covering, f1_annotated, mean
from peers import ours
from table import Table


class Series(NamedTuple):
    name: str
    values: np.ndarray  # (observations, channels)
    annotations: dict[str, list[int]]


class Score(NamedTuple):
    f1: float
    cover: float


def load(folder: Path) -> list[Series]:
    """All annotated series of the folder by name; missing values are NaN."""
    annotations = json.loads((folder / "annotations.json").read_text())
    found = []
    for name in sorted(annotations):
        file = folder / f"{name}.json"
        if file.exists():
            channels = [channel["raw"] for channel in json.loads(file.read_text())["series"]]
            found.append(Series(name, np.array(channels, dtype=float).T.copy(), annotations[name]))
    return found


def score(series: Series, answer: Iterable[int]) -> Score:
    """Without what the benchmark drops before it scores: indices below 1 and the last one."""
    length = len(series.values)
    kept = [index for index in answer if 1 <= index <= length - 2]
    return Score(f1_annotated(series.annotations, kept), covering(series.annotations, kept, length))


def scores_of_ours(series: Series) -> tuple[Score, Score]:
    """Of the change points held at the end, and of the alarms as they were raised."""
    detector = ours()
    values = series.values[:, 0] if series.values.shape[1] == 1 else series.values
    raised = [event.index for event in detector.update_many(values.copy()) if event.kind == "raised"]
    return score(series, [point.index for point in detector.change_points]), score(series, raised)


def written(scores: Iterable[Score]) -> list[str]:
    return [f"{value:.3f}" for one in scores for value in one]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the series and annotations.json")
    parser.add_argument("--multivariate", action="store_true", help="also series of several channels, fed as vectors")
    parser.add_argument("--quick", action="store_true", help="the first five series only")
    options = parser.parse_args()
    series = [one for one in load(options.data) if options.multivariate or one.values.shape[1] == 1]
    series = series[:5] if options.quick else series
    table = Table(
        "F1 (margin 5) and covering against all annotators: of the change points held at the end, of the alarms "
        "where they were when raised, and of no change at all. Last row: mean ± standard error over series.",
        series=-22, length=6, list_F1=15, cover=15, alarms_F1=15, cover_=15, none_F1=15, cover__=15,
    )  # fmt: skip
    rows = []
    for one in series:
        try:
            mine = scores_of_ours(one)
        except (TypeError, ValueError) as error:
            if one.values.shape[1] == 1:
                raise
            print(f"{one.name}: left out, several channels are not taken: {error}")
            continue
        rows.append((*mine, score(one, [])))
        table.row(one.name, str(len(one.values)), *written(rows[-1]))
    columns = np.array(rows).reshape(len(rows), -1).T
    table.row("mean", "", *(f"{mean(column):.3f}" for column in columns))


if __name__ == "__main__":
    main()
