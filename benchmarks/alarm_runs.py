"""Run detectors over series and note the readings at which alarms are raised.

An alarm of ours is an event of kind "alarm": the sensor did something that it does at most once in ``every`` readings.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from peers import Peer, Standardised, adwin, page_hinkley
from recordings import Series
from scipy.stats import poisson

import ishsmm_stream as hs

WARM_UP = 300  # readings at the start of a series that rates leave out
APART = 100  # readings; exceedances of a return period that are closer belong to one episode
PIECE = 1 << 16  # readings per call


class Runner(Protocol):
    """A detector that takes readings in and can be copied in mid-stream."""

    def feed(self, values: np.ndarray) -> list[int]:
        """Take readings in; return the positions of alarms, counted from the first reading of the stream."""
        ...

    def forks(self) -> Callable[[], Runner]:
        """Return a function that makes independent copies of the detector as it is now."""
        ...


class Ours:
    """One OnlineDetector with a budget of one alarm in ``every`` readings."""

    def __init__(self, every: float, detector: Any = None) -> None:
        self.every = every
        self._detector = detector or hs.OnlineDetector(alarm_policy=hs.AlarmPolicy(every=every))

    def feed(self, values: np.ndarray) -> list[int]:
        found = []
        for begin in range(0, len(values), PIECE):
            events = self._detector.update_many(np.ascontiguousarray(values[begin : begin + PIECE]))
            found += [event.at for event in events if event.kind == "alarm"]
        return found

    def forks(self) -> Callable[[], Ours]:
        saved = self._detector.snapshot()
        return lambda: Ours(self.every, hs.OnlineDetector.restore(saved))


def alarms_of(values: np.ndarray, every: float) -> list[int]:
    """Return the readings at which a fresh detector raises alarms."""
    return Ours(every).feed(values)


def count_alarms(blocks: Iterable[np.ndarray], every: float, skip: int = WARM_UP) -> int:
    """Return the number of alarms after the first ``skip`` readings of a stream that comes in blocks."""
    detector = Ours(every)
    return sum(at >= skip for block in blocks for at in detector.feed(block))


def return_periods(values: np.ndarray) -> np.ndarray:
    """Return the return period, in readings, that a fresh detector reports after each reading."""
    detector = hs.OnlineDetector()
    found = np.zeros(len(values))
    for row, value in enumerate(values):
        detector.update(value)
        found[row] = detector.rarity.return_period
    return found


def episodes(periods: np.ndarray, level: float) -> int:
    """Return the number of groups of readings with a return period of at least ``level``, APART readings apart."""
    rows = np.flatnonzero(periods >= level)
    return int(len(rows) > 0) + int((np.diff(rows) >= APART).sum())


def tail_probability(alarms: int, expected: float) -> float:
    """Return the Poisson probability of at least so many alarms."""
    return float(poisson.sf(alarms - 1, expected)) if alarms else 1.0


class PeerRunner:
    """A peer, fed in units of its first WARM_UP readings. Missing readings are left out."""

    def __init__(self, peer: Peer) -> None:
        self._peer: Peer = Standardised(peer, WARM_UP)
        self._seen = 0

    def feed(self, values: np.ndarray) -> list[int]:
        found = []
        for value in values.tolist():
            if value == value and self._peer.update(value) is not None:
                found.append(self._seen)
            self._seen += 1
        return found

    def forks(self) -> Callable[[], PeerRunner]:
        return lambda: copy.deepcopy(self)


# One parameter each, on a scale on which larger means fewer alarms. Page-Hinkley's delta is the best of .005 to 4.
PEERS: dict[str, tuple[Callable[[float], Peer], float, float]] = {
    "ADWIN": (lambda strictness: adwin(delta=10.0**-strictness), 0.0, 200.0),
    "PageHinkley": (lambda strictness: page_hinkley(threshold=10.0**strictness, delta=2.0), 0.0, 5.0),
}


def pooled_rate(run: Callable[[np.ndarray], Sequence[int]], series: Iterable[Series]) -> float:
    """Return alarms per reading after the warm-up, over all series."""
    alarms = readings = 0
    for one in series:
        alarms += sum(at >= WARM_UP for at in run(one.values))
        readings += len(one.values) - WARM_UP
    return alarms / readings


def tune(name: str, series: Sequence[Series], rate: float, steps: int = 12) -> tuple[Callable[[], PeerRunner], float]:
    """Bisect a peer's parameter until its pooled rate equals ``rate``; return a maker of such peers and their rate."""
    make, low, high = PEERS[name]
    best, reached = high, float("inf")
    for _ in range(steps):
        middle = (low + high) / 2.0
        found = pooled_rate(lambda values, middle=middle: PeerRunner(make(middle)).feed(values), series)  # type: ignore[misc]
        if abs(found - rate) < abs(reached - rate):
            best, reached = middle, found
        low, high = (middle, high) if found > rate else (low, middle)
    return lambda: PeerRunner(make(best)), reached
