"""The detectors that the benchmarks set side by side: ours, and others' behind one ``update(value)``.

A peer takes one value and returns None, or, when it raises an alarm, the first observation of the new segment as it
believes it to be; the current observation where it does not locate changes. All count observations from 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import changepoint  # type: ignore[import-untyped]
import changepoint_online  # type: ignore[import-untyped]
import numpy as np
from river import drift

import ishsmm_stream as hs

MIN_SEGMENT = 10  # a Bayesian peer speaks of starts at least this far behind the last one announced, as ours does


class Peer(Protocol):
    def update(self, value: float) -> int | None: ...


class Focus:
    """FOCuS for a change in the mean of N(., 1), mean before unknown; starts afresh after every alarm.

    The package has no default threshold; 13 is the one of its README.
    """

    def __init__(self, threshold: float = 13.0) -> None:
        self.threshold = threshold
        self.seen = 0
        self.score = 0.0
        self._restart()

    def _restart(self) -> None:
        self._begin = self.seen
        self._focus = changepoint_online.Focus(changepoint_online.Gaussian())

    def update(self, value: float) -> int | None:
        self.seen += 1
        self._focus.update(value)
        self.score = self._focus.statistic()
        if self.score < self.threshold:
            return None
        start = self._begin + self._focus.changepoint()["changepoint"]
        self._restart()
        return start


class River:
    """A drift detector of river's: these do not locate, so an alarm's place is its time."""

    def __init__(self, detector: Any) -> None:
        self.seen = 0
        self._detector = detector

    def update(self, value: float) -> int | None:
        self._detector.update(value)
        self.seen += 1
        return self.seen - 1 if self._detector.drift_detected else None


def adwin(**settings: Any) -> River:
    return River(drift.ADWIN(**settings))


def page_hinkley(**settings: Any) -> River:
    return River(drift.PageHinkley(**settings))


def kswin(**settings: Any) -> River:
    return River(drift.KSWIN(seed=0, **settings))


class Bocpd:
    """Bayesian online change-point detection of the package ``changepoint`` (Rust), under the alarm rule of ours.

    The package gives the distribution of the run length and leaves alarms to its user. An alarm is raised when the
    probability of a start at least MIN_SEGMENT after the last announced one exceeds ``threshold``; it names the
    heaviest such start, from which the filter then runs again. The package never drops a run length, so an observation
    costs more and more: after ``longest`` observations without an alarm the filter runs again over the last half.

    ``mean_run`` 12 and the prior of ones are those of its README. ``spread`` is the prior variance of a level in units
    of the noise variance.
    """

    def __init__(
        self, threshold: float = 0.5, mean_run: float = 12.0, spread: float = 1.0, longest: int = 1_000
    ) -> None:
        self.threshold, self.longest = threshold, longest
        self.seen = 0
        self.score = 0.0
        self._filter = changepoint.Bocpd(changepoint.NormalInvGamma(v=spread), mean_run)
        self._segment: list[float] = []  # what the filter has seen since it last began

    def _restart(self, keep: int) -> list[float]:
        self._segment = self._segment[-keep:]
        self._filter.reset()
        return [self._filter.step(value) for value in self._segment][-1]

    def update(self, value: float) -> int | None:
        self.seen += 1
        self._segment.append(value)
        run_length = self._filter.step(value)  # entry k: k observations so far, 0 a change after this one
        if len(self._segment) > self.longest:
            run_length = self._restart(self.longest // 2)
        shortest_old = max(len(self._segment) - MIN_SEGMENT, 1)
        self.score = 1.0 - run_length[0] - sum(run_length[shortest_old:])
        if self.score <= self.threshold:
            return None
        run = max(range(1, shortest_old), key=run_length.__getitem__)
        self._restart(run)
        return self.seen - run


class Standardised:
    """A peer fed with values in units of the median and spread of the first 30, which it is then given first.

    What a user must do with detectors whose settings are in units of the data.
    """

    def __init__(self, peer: Peer, values: int = 30) -> None:
        self._peer, self._values = peer, values
        self._first: list[float] = []
        self._middle, self._spread = 0.0, 1.0

    def update(self, value: float) -> int | None:
        if len(self._first) == self._values:
            return self._peer.update((value - self._middle) / self._spread)
        self._first.append(value)
        if len(self._first) == self._values:
            self._middle = float(np.median(self._first))
            deviation = 1.4826 * float(np.median(np.abs(np.array(self._first) - self._middle)))
            self._spread = deviation or float(np.std(self._first)) or 1.0
            for early in self._first:
                self._peer.update((early - self._middle) / self._spread)
        return None


def windowed_gaussian(values: np.ndarray, window: int = 6_400, step: int = 100) -> np.ndarray:
    """Return the anomaly scores of the Numenta Anomaly Benchmark's windowedGaussian, one per value.

    A score is one less the upper tail probability of the value's distance from the mean of the values before it, under
    a normal law with their mean and standard deviation. The sample grows up to ``window`` values; then it moves on by
    ``step`` values at a time. NaN scores 0 and is left out of the sample. Scores are rounded to 12 digits, as in the
    published result files: many values then share the score 1.
    """
    scores = np.zeros(len(values))
    known = np.flatnonzero(~np.isnan(values))
    mean = squares = 0.0
    deviation = 1.0
    for count, row in enumerate(known):
        value = float(values[row])
        if count:
            scores[row] = 1.0 - 0.5 * math.erfc(abs(value - mean) / deviation / math.sqrt(2.0))
        if count < window:
            before = mean
            mean += (value - mean) / (count + 1)
            squares += (value - before) * (value - mean)
            deviation = math.sqrt(squares / (count + 1)) or 1e-6
        elif (count + 1 - window) % step == 0:
            sample = values[known[count + 1 - window : count + 1]]
            mean, deviation = float(sample.mean()), float(sample.std()) or 1e-6
    return np.round(scores, 12)


class Kind(NamedTuple):
    """A peer, its setting as documented (what is not named is the package's default), and a small grid to search."""

    make: Callable[..., Peer]
    default: dict[str, Any]
    grid: dict[str, tuple[Any, ...]]

    def settings(self) -> Iterator[dict[str, Any]]:
        for choice in itertools.product(*self.grid.values()):
            yield dict(zip(self.grid, choice, strict=True))


KINDS = {
    "focus": Kind(Focus, {}, {"threshold": (8.0, 10.0, 12.0, 14.0, 16.0, 20.0)}),
    "pagehinkley": Kind(
        page_hinkley, {}, {"threshold": (6.0, 8.0, 10.0), "delta": (0.25, 0.5, 1.0), "alpha": (0.9999, 1.0)}
    ),
    "adwin": Kind(adwin, {}, {"delta": (0.9, 0.5, 0.1, 0.01), "clock": (1, 8)}),
    "bocpd": Kind(Bocpd, {}, {"threshold": (0.9, 0.98), "mean_run": (100.0, 275.0, 1_000.0), "spread": (30.0, 500.0)}),
    "kswin": Kind(kswin, {}, {"alpha": (1e-3, 1e-4, 1e-5), "stat_size": (20, 30)}),
}
USUAL = ("focus", "pagehinkley", "adwin", "bocpd")  # kswin takes half a millisecond an observation


def chosen(names: str) -> list[str]:
    """The peers of a comma-separated option; "none" for none."""
    names = "" if names == "none" else names
    asked = [name for name in names.split(",") if name]
    unknown = sorted(set(asked) - set(KINDS))
    if unknown:
        raise SystemExit(f"unknown peers {', '.join(unknown)}: choose from {', '.join(KINDS)}")
    return asked


class Alarm(NamedTuple):
    at: int  # the observation at which it was raised
    place: int  # first observation of the new segment, as believed then
    refined: int | None  # and as believed at the end; None: withdrawn


def alarms_of_peer(peer: Peer, values: Sequence[float] | np.ndarray) -> list[Alarm]:
    """Feed the values one by one; peers do not come back to an alarm."""
    found = []
    for at, value in enumerate(values):
        start = peer.update(float(value))
        if start is not None:
            found.append(Alarm(at, start, start))
    return found


def first_alarm(peer: Peer, values: Sequence[float] | np.ndarray) -> int | None:
    for at, value in enumerate(values):
        if peer.update(float(value)) is not None:
            return at
    return None


def ours(*arguments: Any, **options: Any) -> Any:
    """An hs.OnlineDetector; "auto" with the default alarm threshold unless told otherwise."""
    return hs.OnlineDetector(*arguments, **options)


def alarms_of_ours(detector: Any, values: np.ndarray, piece: int = 10_000) -> list[Alarm]:
    """Alarms in the order of their raising, followed through the detector's events to the end."""
    found: dict[int, Alarm] = {}
    for begin in range(0, len(values), piece):
        for event in detector.update_many(values[begin : begin + piece]):
            if event.kind == "raised":
                found[event.alarm] = Alarm(event.at, event.index, event.index)
            else:
                refined = None if event.kind == "retracted" else event.index
                found[event.alarm] = found[event.alarm]._replace(refined=refined)
    return list(found.values())


def first_alarm_of_ours(detector: Any, values: np.ndarray, piece: int = 250) -> int | None:
    for begin in range(0, len(values), piece):
        for event in detector.update_many(values[begin : begin + piece]):
            if event.kind == "raised":
                return event.at
    return None
