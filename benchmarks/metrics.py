"""Scores of change-point detectors, as the benchmarks of this folder print them.

Everywhere a change point is the index of the first observation of its new segment, counted from 0. Covering and the F1
of several annotators are those of the Turing Change Point Dataset (van den Burg and Williams, arXiv 2003.06222).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np


def matched(truth: Iterable[int], found: Iterable[int], margin: int) -> int:
    """How many members of ``truth`` get a member of ``found`` of their own within ``margin``.

    The largest number that any one-to-one matching reaches: all windows are equally wide, so giving each true point, in
    order, the first free one in its window is optimal.
    """
    free = sorted(set(found))
    hits = position = 0
    for point in sorted(set(truth)):
        while position < len(free) and free[position] < point - margin:
            position += 1
        if position < len(free) and free[position] <= point + margin:
            hits += 1
            position += 1
    return hits


def harmonic_mean(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def matched_in_turn(truth: set[int], found: set[int], margin: int) -> int:
    """As ``matched``, but each true point in turn takes the nearest free one: at most as many, and it can be fewer.

    The benchmark's own program does so, in the order in which Python walks a set, and published scores come from it.
    The two differ only where points lie within two margins of each other.
    """
    free = set(found)
    for point in truth:
        near = [(abs(point - other), other) for other in free if abs(point - other) <= margin]
        if near:
            free.remove(min(near)[1])
    return len(found) - len(free)


def f1_annotated(annotations: Mapping[str, Iterable[int]], found: Iterable[int], margin: int = 5) -> float:
    """F1 against several annotators: precision against all of their points together, recall averaged over annotators.

    Index 0 is a change point of everybody's, the detector's too. It keeps precision and recall defined where nobody
    marked anything, and it is why finding nothing still scores well on a series with few marks.
    """
    answer = {0, *found}
    truths = [{*points, 0} for points in annotations.values()]
    together = {point for truth in truths for point in truth}
    precision = matched_in_turn(together, answer, margin) / len(answer)
    recall = sum(matched_in_turn(truth, answer, margin) / len(truth) for truth in truths) / len(truths)
    return harmonic_mean(precision, recall)


def segments(change_points: Iterable[int], length: int) -> list[range]:
    cuts = [0, *sorted({point for point in change_points if 0 < point < length}), length]
    return [range(begin, end) for begin, end in itertools.pairwise(cuts)]


def jaccard(one: range, other: range) -> float:
    both = max(0, min(one.stop, other.stop) - max(one.start, other.start))
    return both / (len(one) + len(other) - both)


def covering(annotations: Mapping[str, Iterable[int]], found: Iterable[int], length: int) -> float:
    """How well each annotated segment is covered by the best answered one, weighted by length, mean over annotators."""
    answer = segments(found, length)
    scores = [
        sum(len(true) * max(jaccard(true, candidate) for candidate in answer) for true in segments(points, length))
        for points in annotations.values()
    ]
    return sum(scores) / len(scores) / length


def f1_located(truth: Sequence[int], found: Sequence[int], tolerance: int) -> float:
    """F1 against one truth. Nothing to find and nothing found is 1; two answers at one place are two answers."""
    if not truth and not found:
        return 1.0
    hits = matched(truth, found, tolerance)
    return 2 * hits / (len(truth) + len(found))


class Detections(NamedTuple):
    """What alarms raised at given times are worth: ``delays`` of the changes found, and alarms that are false."""

    delays: list[int]  # from 0: an alarm at the very first observation of the new segment
    missed: int
    false_alarms: int


def detections(truth: Sequence[int], raised: Iterable[int], length: int) -> Detections:
    """The first alarm raised between a change and the next finds that change; every other alarm is false.

    Only the time of the alarm counts, not where it puts the change, so that detectors that do not locate are judged by
    the same rule.
    """
    alarms = np.sort(np.fromiter(raised, dtype=np.int64))
    delays = []
    for begin, end in itertools.pairwise([*truth, length]):
        position = np.searchsorted(alarms, begin)
        if position < len(alarms) and alarms[position] < end:
            delays.append(int(alarms[position]) - begin)
    return Detections(delays, len(truth) - len(delays), len(alarms) - len(delays))


def average_run_length(first_alarms: Iterable[int | None], length: int) -> float:
    """Mean number of observations up to and with the first alarm in streams without a change, cut at ``length``.

    None is a stream without an alarm. Observations lived through over alarms seen: the maximum-likelihood mean of a
    waiting time whose rate is constant. Infinite without alarms.
    """
    times = list(first_alarms)
    lived = sum(length if time is None else time + 1 for time in times)
    alarms = sum(time is not None for time in times)
    return lived / alarms if alarms else float("inf")


class Mean(NamedTuple):
    """A mean and its standard error; prints as both."""

    value: float
    error: float

    def __format__(self, form: str) -> str:
        return f"{self.value:{form}} ± {self.error:{form}}"


def mean(values: Iterable[float]) -> Mean:
    """Mean and standard error of what is not NaN (a stream in which nothing was found has no delay)."""
    known = np.array([value for value in values if not np.isnan(value)], dtype=float)
    if len(known) == 0:
        return Mean(np.nan, np.nan)
    return Mean(float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else np.nan)
