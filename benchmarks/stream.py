"""Change points found, placed and falsely announced on long streams, with peers in the same run.

    python benchmarks/stream.py [--quick] [--seeds N] [--peers focus,adwin,...]

Streams of 20,000 points with unit noise, levels that jump by 1, 2 or 4 and hold for 50 to 500 points; the same in other
units; the same with Student-t noise; and long streams without any change. Peers run as documented and at the setting of
a small grid that has the best F1 on unit-scale Gaussian streams of other seeds. They keep that setting on all streams;
in other units they are also shown with values standardised by the first 30. Ours runs on its defaults throughout.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from metrics import Mean, detections, f1_located, mean
from peers import KINDS, USUAL, Alarm, Kind, Standardised, alarms_of_ours, alarms_of_peer, chosen, ours
from streams import Stream, most_likely_places, piecewise_constant, quiet
from table import Table

TOLERANCE = 10
TUNING_SEEDS = 1_000  # and up; the measured streams have seeds 0 and up

Run = Callable[[np.ndarray], list[Alarm]]


class Contender(NamedTuple):
    name: str
    run: Run
    only_scaled: bool = False  # standardising is pointless where the units are those of the setting


class Score(NamedTuple):
    f1: float
    f1_raised: float
    found: float
    delay: float
    false_alarms: float


def score(run: Run, stream: Stream, per: int) -> Score:
    alarms, length = run(stream.values), len(stream.values)
    truth = stream.change_points
    found = detections(truth, [alarm.at for alarm in alarms], length)
    return Score(
        f1_located(truth, [alarm.refined for alarm in alarms if alarm.refined is not None], TOLERANCE),
        f1_located(truth, [alarm.place for alarm in alarms], TOLERANCE),
        len(found.delays) / len(truth) if truth else np.nan,
        float(np.mean(found.delays)) if found.delays else np.nan,
        found.false_alarms * per / length,
    )


def over_seeds(run: Run, streams: list[Stream], per: int = 1_000) -> list[Mean]:
    return [mean(column) for column in zip(*(score(run, stream, per) for stream in streams), strict=True)]


def of_peer(kind: Kind, settings: dict[str, Any], standardise: bool = False) -> Run:
    def run(values: np.ndarray) -> list[Alarm]:
        peer = kind.make(**settings)
        return alarms_of_peer(Standardised(peer) if standardise else peer, values)

    return run


def best_settings(kind: Kind, streams: list[Stream]) -> dict[str, Any]:
    """The grid's setting with the highest mean F1."""
    return max(kind.settings(), key=lambda settings: over_seeds(of_peer(kind, settings), streams)[0].value)


def written(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in settings.items()) or "default"


def contenders(names: list[str], tuning: list[Stream]) -> Iterator[Contender]:
    yield Contender("ours, auto", lambda values: alarms_of_ours(ours(), values))
    for name in names:
        kind = KINDS[name]
        yield Contender(f"{name}, default", of_peer(kind, kind.default))
        best = best_settings(kind, tuning)
        yield Contender(f"{name}, {written(best)}", of_peer(kind, best))
        yield Contender(f"{name}, standardised", of_peer(kind, best, standardise=True), only_scaled=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="streams of each sort (default 20)")
    parser.add_argument("--peers", default=",".join(USUAL), help=f"of {', '.join(KINDS)}, or none")
    parser.add_argument("--quick", action="store_true", help="2 streams of each sort, a quarter as long")
    options = parser.parse_args()
    seeds, length, silence = (2, 5_000, 20_000) if options.quick else (options.seeds, 20_000, 100_000)

    draw = partial(piecewise_constant, length=length)
    table = Table(
        f"Means over {seeds} streams ± standard error. F1: changes placed within {TOLERANCE} points, by the alarms' "
        "last word and as raised; found: share of changes with an alarm before the next; delay: from 0 at the first "
        "new point; false: other alarms per 1000 points, without a change per 100k. t(4): Student noise, variance 1.",
        streams=-10, detector=-50, F1=13, F1_raised=13, found=13, delay=12, false=15,
    )  # fmt: skip
    entered = list(contenders(chosen(options.peers), [draw(TUNING_SEEDS + seed) for seed in range(min(seeds, 3))]))
    sorts: dict[str, Callable[[int], Stream]] = {
        "unit": draw,
        "x 0.1": partial(draw, scale=0.1),
        "x 2": partial(draw, scale=2.0),
        "t(4)": partial(draw, kind="t4"),
    }
    for sort, make in sorts.items():
        streams = [make(seed) for seed in range(seeds)]
        if sort == "unit":
            bound = mean(f1_located(one.change_points, most_likely_places(one), TOLERANCE) for one in streams)
            table.row(sort, "one who knows all levels, noise and neighbours", f"{bound:.3f}", *[""] * 4)
        for contender in entered:
            if contender.only_scaled and not sort.startswith("x"):
                continue
            f1, f1_raised, found, delay, false = over_seeds(contender.run, streams)
            table.row(
                sort, contender.name, f"{f1:.3f}", f"{f1_raised:.3f}", f"{found:.3f}", f"{delay:.1f}", f"{false:.3f}"
            )
    streams = [quiet(seed, silence) for seed in range(seeds)]
    for contender in entered:
        if not contender.only_scaled:
            false = over_seeds(contender.run, streams, per=100_000)[-1]
            table.row("no change", contender.name, "", "", "", "", f"{false:.2f}")


if __name__ == "__main__":
    main()
