"""Mean detection delay of a single jump, all detectors tuned to the same rate of false alarms in the same run.

    python benchmarks/delay.py [--match arl|early] [--runs N] [--peers ...] [--count-from 0|1] [--quick]

Unit-variance Gaussian noise, a jump after 500 observations. Every detector's threshold is found by bisection on streams
without a change: with ``--match arl`` so that the mean time to the first alarm (average run length) is the one asked
for; with ``--match early`` so that the probability of an alarm in the first 500 observations is that of a constant rate
of one in that many, 1 - exp(-500 / ARL). A learned hazard falls for as long as nothing happens and has no average run
length, so ours with one takes part in the second comparison only.

FOCuS at ARL 10,000 is published with 78, 18.2, 5.1, 2.6 observations at jumps of 0.5, 1, 2, 3, counted from 1.
"""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import peers
from metrics import average_run_length, mean
from peers import KINDS, USUAL, chosen, first_alarm, first_alarm_of_ours, ours
from streams import single_step
from table import Table

import ishsmm_stream as hs

JUMPS = (0.5, 1.0, 2.0, 3.0)
BURN_IN = 500
HORIZON = 5_000  # a jump not found after so many observations counts as found then
CONTROL_SEEDS, JUMP_SEEDS = 0, 1_000_000


class Case(NamedTuple):
    """A stream by the numbers that draw it; a jump of 0 is a stream without a change."""

    seed: int
    jump: float
    length: int

    def values(self) -> np.ndarray:
        return single_step(self.seed, self.jump, at=BURN_IN, length=self.length).values


class Contender(NamedTuple):
    """``first_alarm`` in a case at a strictness between ``low`` and ``high``: the stricter, the later."""

    name: str
    first_alarm: Callable[[float, Case], int | None]
    low: float
    high: float
    written: Callable[[float], str]
    has_run_length: bool = True


class ScoredRun:
    """A peer that never alarms, run over a case as far as anybody asks: first alarms at every threshold at once."""

    def __init__(self, peer: peers.Focus | peers.Bocpd, case: Case) -> None:
        self.peer, self.values = peer, case.values()
        self.maxima: list[float] = []

    def first_above(self, threshold: float) -> int | None:
        while len(self.maxima) < len(self.values) and not (self.maxima and self.maxima[-1] > threshold):
            self.peer.update(float(self.values[len(self.maxima)]))
            self.maxima.append(max(self.peer.score, self.maxima[-1] if self.maxima else -np.inf))
        at = bisect_left(self.maxima, np.nextafter(threshold, np.inf))
        return at if at < len(self.maxima) else None


def scored(make: Callable[[], peers.Focus | peers.Bocpd], threshold: Callable[[float], float]) -> Any:
    run = lru_cache(maxsize=None)(lambda case: ScoredRun(make(), case))
    return lambda strictness, case: run(case).first_above(threshold(strictness))


def rerun(make: Callable[[float], Any]) -> Any:
    return lambda strictness, case: first_alarm(make(strictness), case.values())


def probability(strictness: float) -> float:
    """1 - 10^-strictness: the thresholds of interest crowd below 1."""
    return 1.0 - 10.0**-strictness


def page_hinkley(delta: float, threshold: float) -> peers.River:
    return peers.page_hinkley(threshold=threshold, delta=delta, alpha=1.0)


def written(strictness: float) -> str:
    return f"P > {probability(strictness):.6g}"


def of_ours(strictness: float, case: Case, hazard: Any) -> int | None:
    emission = hs.emissions.Normal(mean=0.0, mean_weight=0.25, shape=1.0, scale=1.0)
    model = hs.ilr(emission, hs.durations.Poisson(shape=1.0, scale=499.0))
    threshold = probability(strictness)
    # only the first alarm matters; a policy lets the threshold go below the usual retraction at a half
    policy = hs.AlarmPolicy(threshold=threshold, retract=threshold)
    detector = ours(model, hazard=hazard, outliers=None, alarm_policy=policy)
    return first_alarm_of_ours(detector, case.values())


def contenders(names: list[str]) -> Iterator[Contender]:
    fixed, learned = partial(of_ours, hazard=None), partial(of_ours, hazard=hs.priors.Beta(1.0, 500.0))
    yield Contender("ours, hazard 1/500", fixed, 0.05, 9.0, written)
    yield Contender("ours, learned hazard", learned, 0.05, 9.0, written, has_run_length=False)
    for name in names:
        if name == "focus":
            yield Contender("focus", scored(lambda: peers.Focus(np.inf), float), 3.0, 25.0, "{:.3g}".format)
        elif name == "bocpd":
            run = scored(lambda: peers.Bocpd(threshold=1.0, mean_run=500.0, spread=4.0), probability)
            yield Contender("bocpd, hazard 1/500", run, 0.05, 9.0, written)
        elif name == "pagehinkley":
            # delta is half the jump it is best at; river's default forgetting has a run length of 10,000 at most
            for delta in (0.25, 0.5):
                run = rerun(partial(page_hinkley, delta))
                yield Contender(f"pagehinkley, delta {delta}", run, 2.0, 40.0, "{:.3g}".format)
        elif name == "adwin":
            run = rerun(lambda strictness: peers.adwin(delta=10.0**-strictness, clock=1))
            yield Contender("adwin, clock 1", run, 0.0, 9.0, lambda strictness: f"delta {10.0**-strictness:.2g}")


class Match(NamedTuple):
    """What all detectors are made to share: its value at a strictness, and the value asked for."""

    value: Callable[[Callable[[Case], int | None]], float]
    target: float


def match_run_length(run_length: int, runs: int) -> Match:
    cases = [Case(CONTROL_SEEDS + seed, 0.0, 2 * run_length) for seed in range(runs)]
    return Match(lambda alarm: average_run_length(map(alarm, cases), 2 * run_length), run_length)


def match_early(run_length: int, runs: int) -> Match:
    """The run length of a constant rate that has as many alarms in the first 500 observations."""
    cases = [Case(CONTROL_SEEDS + seed, 0.0, BURN_IN) for seed in range(10 * runs)]

    def value(alarm: Callable[[Case], int | None]) -> float:
        silent = float(np.mean([alarm(case) is None for case in cases]))
        return np.inf if silent == 1.0 else 0.0 if silent == 0.0 else -BURN_IN / float(np.log(silent))

    return Match(value, run_length)


def tuned(contender: Contender, match: Match) -> tuple[float, float]:
    """The strictness whose value is nearest to the one asked for, and that value; values step, streams being few."""
    low, high = contender.low, contender.high
    tried = []
    for _ in range(12):
        middle = (low + high) / 2
        value = match.value(partial(contender.first_alarm, middle))
        tried.append((abs(np.log(max(value, 1.0) / match.target)), middle, value))
        if tried[-1][0] < 0.02:
            break
        low, high = (middle, high) if value < match.target else (low, middle)
    return min(tried)[1:]


def delays(contender: Contender, strictness: float, jump: float, runs: int) -> list[float]:
    """From 0 at the first observation after the jump; runs with an alarm before it are left out."""
    found = []
    for seed in range(runs):
        at = contender.first_alarm(strictness, Case(JUMP_SEEDS + seed, jump, BURN_IN + HORIZON))
        if at is None or at >= BURN_IN:
            found.append(float(HORIZON if at is None else at - BURN_IN))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", choices=("arl", "early"), default="arl", help="what is made equal (default arl)")
    parser.add_argument("--arl", default="1000,10000", help="average run lengths (default 1000,10000)")
    parser.add_argument("--runs", type=int, default=200, help="streams for tuning, and for each jump (default 200)")
    parser.add_argument("--peers", default=",".join(USUAL), help=f"of {', '.join(KINDS)} (not kswin), or none")
    parser.add_argument("--count-from", type=int, choices=(0, 1), default=1, help="delay at the first new observation")
    parser.add_argument("--quick", action="store_true", help="ARL 1000 only, 40 runs")
    options = parser.parse_args()
    run_lengths, runs = ([1_000], 40) if options.quick else ([int(n) for n in options.arl.split(",")], options.runs)
    make_match = match_run_length if options.match == "arl" else match_early
    shared = "mean time to a false alarm" if options.match == "arl" else "probability of an alarm in the first 500"
    table = Table(
        f"Mean observations to the alarm ± standard error over {runs} runs, for jumps of 0.5 to 3 standard deviations "
        f"after {BURN_IN} observations, counted from {options.count_from} at the first new one. Tuned to the same "
        f"{shared}; ARL: the average run length asked for, reached: the one that tuning got to.",
        ARL=6, reached=7, detector=-23, threshold=-14, **{f"{jump:g}": 13 for jump in JUMPS},
    )  # fmt: skip
    for run_length in run_lengths:
        match = make_match(run_length, runs)
        for contender in contenders(chosen(options.peers)):
            if options.match == "arl" and not contender.has_run_length:
                continue
            strictness, reached = tuned(contender, match)
            late = [mean(delays(contender, strictness, jump, runs)) for jump in JUMPS]
            cells = [f"{one._replace(value=one.value + options.count_from):.1f}" for one in late]
            table.row(str(run_length), f"{reached:.0f}", contender.name, contender.written(strictness), *cells)


if __name__ == "__main__":
    main()
