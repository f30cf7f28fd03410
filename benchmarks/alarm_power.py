"""Sections of real.py that measure which faults the alarms find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import nab as numenta
import numpy as np
from alarm_runs import PEERS, WARM_UP, Ours, Runner, alarms_of, tune
from backgrounds import WITH_HABITS, stream
from peers import windowed_gaussian
from planting import Background, Fault, describe, plant
from recordings import Series, load_telemetry
from sections import Line, Setup
from table import Table

HISTORY = 1_500  # least number of readings before a planted fault
SOON = 200  # readings after the start of a fault in which an alarm finds it
FAULTS = {
    "none": Fault("none"),
    "1 IQR": Fault("shift", 1.0),
    "2 IQR": Fault("shift", 2.0),
    "4 IQR": Fault("shift", 4.0),
    "noise x3": Fault("noise", 3.0),
    "stuck": Fault("stuck", length=200),
    "drift": Fault("drift", 4.0, 200),
    "spike": Fault("spike", 8.0),
}
WITHIN = (500, 5_000)
LONG_FAULTS = {
    "none": Fault("none"),
    "4 IQR": Fault("shift", 4.0),
    "2 IQR": Fault("shift", 2.0),
    "stuck": Fault("stuck", length=2_000),
    "noise x3": Fault("noise", 3.0),
    "drift": Fault("drift", 4.0, 5_000),
    "spike": Fault("spike", 8.0),
}


def _nab_row(table: Table, name: str, standard: numenta.Tally, low_fp: numenta.Tally) -> None:
    scores = ["" if np.isnan(s) else f"{s:.1f}" for s in (standard.score("standard"), low_fp.score("low_fp"))]
    table.row(name, *scores, f"{standard.hits}/{standard.windows}", f"{standard.false_per_1000:.2f}")


def nab(setup: Setup) -> list[Line]:
    """Scores of the Numenta Anomaly Benchmark."""
    folder = setup.folder("nab")
    assert folder is not None
    files = numenta.load(folder)
    tallies = [numenta.tally(file, setup.alarms(Series(file.name, file.values), 1_000.0)) for file in files]
    table = Table(
        f"NAB. {len(files)} files, one alarm in 1,000 readings promised. Scores: 0 is silence, 100 perfection. false: "
        "alarms outside windows per 1,000 rows after the probation. Published detectors and windowedGaussian raise an "
        "alarm on every row above the one threshold that is best on these files; hits and false at the standard one.",
        detector=-34, standard=8, low_FP=8, hits=8, false=6,
    )  # fmt: skip
    for group, one in numenta.by_group(files, tallies).items():
        _nab_row(table, f"  {group}", one, one)
    overall = numenta.total(tallies)
    _nab_row(table, "ours", overall, overall)
    scores = [windowed_gaussian(file.values) for file in files]
    best = [numenta.best_threshold(files, scores, profile)[1] for profile in numenta.FALSE_WEIGHTS]
    _nab_row(table, "windowedGaussian, our code", *best)
    published = numenta.published(folder)
    for name, one in sorted(published.items(), key=lambda item: -item[1]["standard"]["score"]):
        standard = one["standard"]
        hits = f"{standard['windows_hit']}/{standard['windows']}"
        cells = (f"{standard['score']:.1f}", f"{one['low_fp']['score']:.1f}", hits, f"{standard['false_per_1000']:.2f}")
        table.row(f"{name}, published", *cells)
    lines = [
        Line("NAB: standard score", f"{overall.score('standard'):.1f}", "at least 75"),
        Line("NAB: low-FP score", f"{overall.score('low_fp'):.1f}", "at least 68"),
    ]
    if "windowedGaussian" in published:
        theirs = published["windowedGaussian"]
        figure = f"{best[0].score('standard'):.1f} / {best[1].score('low_fp'):.1f}"
        goal = f"{theirs['standard']['score']:.1f} / {theirs['low_fp']['score']:.1f}"
        lines.append(Line("NAB: windowedGaussian, a check of the scoring", figure, f"{goal} (published)"))
    return lines


def telemetry(setup: Setup) -> list[Line]:
    """Labelled faults of telemetry channels."""
    folder = setup.folder("telemetry")
    assert folder is not None
    channels = load_telemetry(folder)
    sequences = sum(len(channel.sequences) for channel in channels)
    readings = sum(len(channel.values) for channel in channels)
    table = Table(
        f"TELEMETRY. {len(channels)} channels, {readings:,} readings. found: labelled sequences with an alarm. false: "
        "alarms outside of sequences per 1,000 readings.",
        one_alarm_in=-12, found=10, false=6,
    )  # fmt: skip
    lines = []
    for every, goal in ((1_000.0, "at least 80 % at .35"), (3_000.0, "at least 66 % at .10")):
        found = false = 0
        for channel in channels:
            alarms = np.array(alarms_of(channel.values, every), dtype=int)
            inside = np.zeros(len(alarms), dtype=bool)
            for first, last in channel.sequences:
                hits = (alarms >= first) & (alarms <= last)
                found += bool(hits.any())
                inside |= hits
            false += int((~inside).sum())
        cells = f"{found}/{sequences}", f"{1_000 * false / readings:.2f}"
        table.row(f"{every:,.0f}", *cells)
        lines.append(Line(f"telemetry: found, false per 1,000, 1 in {every:,.0f}", ", ".join(cells), goal))
    return lines


class Place(NamedTuple):
    """Where faults are planted."""

    series: Series
    at: int
    background: Background
    seed: int


def _places(series: Sequence[Series], count: int) -> list[Place]:
    """Choose places at random in every series that is long enough, in order."""
    rng = np.random.default_rng(6)
    found = []
    for one in series:
        latest = len(one.values) - SOON
        if latest < HISTORY:
            continue
        for at in sorted(rng.integers(HISTORY, latest + 1, count).tolist()):
            background = describe(one.values[:at])
            if background is not None:
                found.append(Place(one, at, background, len(found)))
    return found


def _found(make: Callable[[], Runner], places: Sequence[Place]) -> dict[str, float]:
    """Return the share of places at which each fault is found within SOON readings."""
    hits = dict.fromkeys(FAULTS, 0)
    series, runner, seen = None, make(), 0
    for place in places:
        if place.series is not series:
            series, runner, seen = place.series, make(), 0
        runner.feed(place.series.values[seen : place.at])
        seen = place.at
        fork = runner.forks()
        after = place.series.values[place.at : place.at + SOON]
        for number, (name, fault) in enumerate(FAULTS.items()):
            rng = np.random.default_rng((place.seed, number))
            hits[name] += bool(fork().feed(plant(after, place.background, fault, rng)))
    return {name: count / len(places) for name, count in hits.items()}


def planted(setup: Setup) -> list[Line]:
    """Faults planted in real series, with peers tuned to the same rate of alarms."""
    every = 1_000.0
    series = setup.series[::10] if setup.quick else setup.series
    places = _places(series, 1 if setup.quick else 6)
    if not places:
        print(f"PLANTED: no series of {HISTORY + SOON:,} readings, skipped.")
        return []
    rate = sum(at >= WARM_UP for one in series for at in setup.alarms(one, every))
    rate /= sum(len(one.values) - WARM_UP for one in series)
    table = Table(
        f"PLANTED. Faults at {len(places)} places in real series: % found within {SOON} readings, less the % of the "
        "same places with an alarm if nothing is planted (column none). One alarm in 1,000 readings promised; peers "
        "have one parameter tuned to our rate. rate: alarms per 1,000 readings with nothing planted.",
        detector=-12, rate=5, **{name.replace(" ", "_"): 8 for name in FAULTS},
    )  # fmt: skip

    def show(name: str, found: dict[str, float], rate: float) -> list[str]:
        gains = [f"{100 * (share - found['none']):.0f}" for name, share in found.items() if name != "none"]
        table.row(name, f"{1_000 * rate:.2f}", f"{100 * found['none']:.0f}", *gains)
        return gains

    gains = show("ours", _found(lambda: Ours(every), places), rate)
    for name in PEERS:
        make, reached = tune(name, series, rate, 6 if setup.quick else 12)
        show(name, _found(make, places), reached)
    goal = "40 / 65 / 75, 60, 70, 65, 45"
    figure = f"{' / '.join(gains[:3])}, {', '.join(gains[3:])}"
    return [Line("planted: 1 / 2 / 4 IQR, noise, stuck, drift, spike", figure, goal)]


def planted_long(setup: Setup) -> list[Line]:
    """Faults planted late in long synthetic streams, with a budget of one alarm in a week at 1 Hz."""
    length, every, count = (100_000, 3e4, 2) if setup.quick else (2_000_000, 6e5, 20)
    ahead = WITHIN[-1]
    positions = np.linspace(length // 2, length - ahead, count).astype(int).tolist()
    table = Table(
        f"PLANTED-LONG. Faults at {count} places in the second half of {length:,} synthetic readings, one alarm in "
        f"{every:,.0f} promised: % found within {WITHIN[0]} / {WITHIN[1]:,} readings, less the % with an alarm if "
        "nothing is planted (column none).",
        background=-16, **{name.replace(" ", "_"): 9 for name in LONG_FAULTS},
    )  # fmt: skip

    def show(name: str, shares: np.ndarray) -> list[str]:
        gains = np.vstack((shares[:1], shares[1:] - shares[:1]))
        cells = ["/".join(f"{100 * share:.0f}" for share in row) for row in gains]
        table.row(name, *cells)
        return cells

    every_share = []
    for number, (name, kind) in enumerate(WITH_HABITS.items()):
        values = stream(kind, 700 + number, length)
        hits = np.zeros((len(LONG_FAULTS), len(WITHIN)))
        runner, seen = Ours(every), 0
        for at in positions:
            runner.feed(values[seen:at])
            seen = at
            fork = runner.forks()
            background = describe(values[:at])
            assert background is not None
            for i, fault in enumerate(LONG_FAULTS.values()):
                rng = np.random.default_rng((number, at, i))
                alarms = fork().feed(plant(values[at : at + ahead], background, fault, rng))
                first = alarms[0] - at if alarms else ahead
                hits[i] += [first < within for within in WITHIN]
        every_share.append(hits / count)
        show(name, every_share[-1])
    cells = show("all", np.mean(every_share, axis=0))
    goals = ["0/0", "90/95", "80/90", "85/90", "100/100", "10/60", "75/75"]
    lines = []
    for name, cell, goal in zip(LONG_FAULTS, cells, goals, strict=True):
        lines.append(Line(f"planted-long: {name}, % within 500/5,000", cell, goal))
    return lines
