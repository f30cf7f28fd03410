"""Sections of real.py that measure how well the promised rate of alarms is kept."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import numpy as np
from alarm_runs import WARM_UP, alarms_of, count_alarms, episodes, return_periods, tail_probability
from backgrounds import KINDS, blocks, stream
from recordings import Series
from sections import Line, Setup
from table import Table

BUDGETS = (1e3, 1e4, 1e5, 1e6)
LEVELS = (300.0, 1_000.0, 10_000.0)  # return periods that are checked
FRESH = 1_000  # readings of a fresh sensor


def rate(setup: Setup) -> list[Line]:
    """Alarms on real series against the budget of one in 1,000 readings."""
    every = 1_000.0
    table = Table(
        f"RATE. Alarms on {len(setup.series)} real series after the first {WARM_UP} readings, at most one in "
        f"{every:,.0f} promised. realised: as a multiple of the promise. p: Poisson probability of so many alarms or "
        "more. The series with the highest multiples, then all.",
        series=-48, readings=8, alarms=6, per_1000=8, realised=8, p=8,
    )  # fmt: skip
    rows = []
    for one in setup.series:
        alarms = sum(at >= WARM_UP for at in setup.alarms(one, every))
        readings = len(one.values) - WARM_UP
        rows.append((alarms * every / readings, tail_probability(alarms, readings / every), alarms, readings, one.name))
    rows.sort(key=lambda row: -row[0])
    for ratio, p, alarms, readings, name in rows[:5]:
        table.row(name, str(readings), str(alarms), f"{1_000 * alarms / readings:.2f}", f"{ratio:.2f}", f"{p:.1g}")
    ratios = np.array([row[0] for row in rows])
    alarms, readings = sum(row[2] for row in rows), sum(row[3] for row in rows)
    pooled = alarms * every / readings
    table.row("all", str(readings), str(alarms), f"{1_000 * alarms / readings:.2f}", f"{pooled:.2f}", "")
    flagged = [f"{name} (p {p:.0e})" for _, p, _, _, name in rows if p < 0.001 / len(rows)]
    named = ", ".join(flagged[:5]) + (f" and {len(flagged) - 5} more" if len(flagged) > 5 else "")
    print(textwrap.fill(f"Significantly too many alarms (p < .001 / {len(rows)}): {named or 'no series'}.", 120))
    return [
        Line("rate: pooled, realised / promised", f"{pooled:.2f}", "0.5 to 1.1"),
        Line("rate: median over series", f"{np.median(ratios):.2f}", "at most 1"),
        Line("rate: 90 % quantile over series", f"{np.quantile(ratios, 0.9):.2f}", "at most 1.5"),
        Line("rate: worst series", f"{ratios[0]:.2f} (p {rows[0][1]:.1g})", "p not below .001 / number of series"),
        Line("rate: series with significantly too many", str(len(flagged)), "0"),
    ]


def synthetic(setup: Setup) -> list[Line]:
    """Alarms on synthetic kinds against budgets from 1e3 to 1e6."""
    expected, least = (3, 10_000) if setup.quick else (30, 300_000)
    budgets = BUDGETS[:2] if setup.quick else BUDGETS
    sizes = {every: int(min(max(expected * every, least), setup.readings)) for every in budgets}
    table = Table(
        f"SYNTHETIC. Alarms on streams whose habits never change, realised / promised (number of alarms), after the "
        f"first {WARM_UP} readings. Readings per kind: " + ", ".join(f"{size:,}" for size in sizes.values()) + ".",
        kind=-16, **{f"1_in_{every:,.0f}": 14 for every in budgets},
    )  # fmt: skip
    ratios: dict[float, list[float]] = {every: [] for every in budgets}
    pooled = dict.fromkeys(budgets, 0)
    for number, (name, kind) in enumerate(KINDS.items()):
        cells = []
        for every, size in sizes.items():
            alarms = count_alarms(blocks(kind, number, size), every)
            ratios[every].append(alarms * every / (size - WARM_UP))
            pooled[every] += alarms
            cells.append(f"{ratios[every][-1]:.2f} ({alarms})")
        table.row(name, *cells)
    for label, statistic in (("median", np.median), ("worst", np.max)):
        table.row(label, *(f"{statistic(ratios[every]):.2f}" for every in budgets))
    table.row("pooled", *(f"{np.mean(ratios[every]):.2f} ({pooled[every]})" for every in budgets))
    lines = []
    for every, size in sizes.items():
        due = size / every
        goal = f"0.5 to 1.5 ({due:.0f} due per kind)"
        figure = f"{min(ratios[every]):.2f} to {max(ratios[every]):.2f}, median {np.median(ratios[every]):.2f}"
        lines.append(Line(f"synthetic: 1 in {every:,.0f}", figure, goal))
    return lines


def _exceedances(name: str, values: Iterable[np.ndarray]) -> tuple[str, int, list[int]]:
    """Return the readings after the warm-up, and the number of episodes at each level."""
    readings, counts = 0, [0] * len(LEVELS)
    for one in values:
        periods = return_periods(one)[WARM_UP:]
        readings += len(periods)
        counts = [count + episodes(periods, level) for count, level in zip(counts, LEVELS, strict=True)]
    return name, readings, counts


def reliability(setup: Setup) -> list[Line]:
    """How often the reported return period exceeds a level, against the level."""
    length, longest = (1_200, 1_200) if setup.quick else (40_000, 20_000)
    table = Table(
        "RELIABILITY. Episodes with a return period of at least so many readings, times that period, over the number "
        f"of readings after the first {WARM_UP} (number of episodes). 1: the period is what it claims to be.",
        stream=-16, readings=8, **{f"{level:,.0f}": 14 for level in LEVELS},
    )  # fmt: skip
    rows = []

    def show(row: tuple[str, int, list[int]]) -> None:
        name, readings, counts = row
        ratios = [count * level / readings for count, level in zip(counts, LEVELS, strict=True)]
        table.row(name, str(readings), *(f"{r:.2f} ({count})" for r, count in zip(ratios, counts, strict=True)))

    for number, (name, kind) in enumerate(KINDS.items()):
        rows.append(_exceedances(name, [stream(kind, 100 + number, length)]))
        show(rows[-1])
    pools = {"all synthetic": rows}
    if setup.series:
        real = setup.series[::8] if setup.quick else setup.series
        pools["all real"] = [_exceedances(one.name, [one.values[:longest]]) for one in real]
    lines = []
    for name, pool in pools.items():
        readings = sum(row[1] for row in pool)
        counts = [sum(row[2][i] for row in pool) for i in range(len(LEVELS))]
        show((name, readings, counts))
        figure = " / ".join(f"{count * level / readings:.2f}" for count, level in zip(counts, LEVELS, strict=True))
        lines.append(Line(f"reliability: {name}, 300 / 1,000 / 10,000", figure, "0.6 to 1.6 each"))
    return lines


def _crops(series: list[Series], count: int, rng: np.random.Generator) -> list[np.ndarray]:
    long_enough = [one for one in series if len(one.values) >= FRESH]
    picked = []
    for _ in range(count):
        values = long_enough[rng.integers(len(long_enough))].values
        first = int(rng.integers(len(values) - FRESH + 1))
        picked.append(values[first : first + FRESH])
    return picked


def cold(setup: Setup) -> list[Line]:
    """Alarms in the first readings of fresh sensors."""
    count = 40 if setup.quick else 600
    budgets = BUDGETS[:3]
    table = Table(
        f"COLD. Alarms in readings 1 to {FRESH:,} of {count} fresh sensors, as a multiple of the budget (number of "
        "alarms). Real: random crops of real series.",
        sensors=-10, **{f"1_in_{every:,.0f}": 14 for every in budgets},
    )  # fmt: skip
    kinds = list(KINDS.values())
    fleets = {"synthetic": [stream(kinds[i % len(kinds)], 10_000 + i, FRESH) for i in range(count)]}
    if setup.series:
        fleets["real"] = _crops(setup.series, count, np.random.default_rng(5))
    lines = []
    for name, fleet in fleets.items():
        alarms = [sum(len(alarms_of(values, every)) for values in fleet) for every in budgets]
        ratios = [found * every / (count * FRESH) for found, every in zip(alarms, budgets, strict=True)]
        table.row(name, *(f"{r:.2f} ({found})" for r, found in zip(ratios, alarms, strict=True)))
        figure = " / ".join(f"{ratio:.2f}" for ratio in ratios)
        lines.append(Line(f"cold: {name}, 1e3 / 1e4 / 1e5", figure, "at most 1 / 1.2 / 1.5"))
    return lines
