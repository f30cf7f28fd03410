"""Readings on their way to the engine: their units, how often they repeat, and the rows that are looked back at.

A reading that repeats the one before it exactly says how small the noise is. A sensor that sticks would go on saying so
without limit, until a segment with even less noise begins to look likely. So an engine may ignore a reading that
repeats the one before it for more than ``REPEATS`` times: time passes and nothing is learned until the sensor moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ishsmm_stream._checks import count_complete
from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream.online.alarms import AlarmState
from ishsmm_stream.online.scaling import Scaling, standardise

REPEATS = 64

# How readings become rows: as they are, cut so that squares and products remain numbers, or standardised.
RAW, CLIPPED, STANDARDISED = range(3)
_LIMIT = 1e30


class Batch(NamedTuple):
    """Readings of one or many detectors, one detector after the other, and what each knows beside its engine.

    A detector's rows begin with those that its emission looks back at, which were taken in before.
    """

    units: int  # RAW, CLIPPED or STANDARDISED
    slots: np.ndarray  # (detectors,) int64
    begins: np.ndarray  # (detectors + 1,) int64: where its rows begin,
    firsts: np.ndarray  # (detectors,) int64: and the new ones among them
    values: np.ndarray  # (rows, channels) readings
    rows: np.ndarray  # (rows, channels) what the engine is fed; filled by ``to_rows``
    location: np.ndarray  # (detectors, channels), as the next: see ``scaling``
    scale: np.ndarray
    latest: np.ndarray  # (detectors, channels) the last reading,
    repeats: np.ndarray  # (detectors,) int64: and how often it repeated those before it
    ints: np.ndarray  # (detectors, 7), as the next: see ``alarms.AlarmState``
    floats: np.ndarray  # (detectors, 2)


@kernel
def count_repeats(rows, latest, count, repeats):
    """repeats <- how often each row repeats those before it; ``latest`` and its ``count``: the row before the first."""
    for i in range(rows.shape[0]):
        is_same = True
        for channel in range(rows.shape[1]):
            is_same = is_same and rows[i, channel] == (latest[channel] if i == 0 else rows[i - 1, channel])
        count = count + 1 if is_same else 0
        repeats[i] = count


@kernel
def to_rows(batch, i, repeats):
    """Fill the new rows of detector ``i``, and ``repeats``: how often each of its readings repeats those before it."""
    first, end = batch.firsts[i], batch.begins[i + 1]
    values, rows = batch.values[first:end], batch.rows[first:end]
    count_repeats(values, batch.latest[i], batch.repeats[i], repeats[first:end])
    if batch.units == STANDARDISED:
        standardise(values, batch.location[i], batch.scale[i], rows)
        return
    limit = _LIMIT if batch.units == CLIPPED else np.inf
    for row in range(rows.shape[0]):
        for channel in range(rows.shape[1]):
            value = values[row, channel]
            rows[row, channel] = limit if value > limit else (-limit if value < -limit else value)


@kernel
def record_taken(batch, i, repeats, end, result):
    """Record that detector ``i`` took its readings up to row ``end``."""
    first = batch.firsts[i]
    for channel in range(batch.values.shape[1]):
        batch.latest[i, channel] = batch.values[end - 1, channel]
    batch.repeats[i] = repeats[end - 1]
    result.readings[i] = end - first
    result.complete[i] = count_complete(batch.rows[first:end])


@owning_kernel
def to_all_rows(batch):
    """Fill the new rows of all detectors; returns the repeats of all readings, by row."""
    repeats = np.zeros(batch.values.shape[0], np.int64)
    for i in range(batch.firsts.shape[0]):
        to_rows(batch, i, repeats)
    return repeats


class Intake:
    """What a detector keeps of its readings, beside what the engine knows."""

    def __init__(self, channels: int, units: int = RAW, look_back: int = 0, warm_up: int = 0) -> None:
        self.units = units
        self.scaling = Scaling(channels, warm_up) if units == STANDARDISED else None
        self.location, self.scale = np.zeros(channels), np.zeros(channels)
        if self.scaling is not None:
            self.location, self.scale = self.scaling.location, self.scaling.scale
        self.latest = np.full(channels, np.nan)
        self.repeats = 0
        self.look_back = look_back
        self.recent = np.empty((0, channels))  # rows

    @property
    def channels(self) -> int:
        """Numbers of a reading."""
        return self.recent.shape[1]

    @property
    def is_learning(self) -> bool:
        """Whether the units have to be learned from values that are still to come."""
        return self.scaling is not None and not self.scaling.is_warm

    def count(self, values: np.ndarray) -> None:
        """Count how often the last of these readings repeats those before it."""
        repeats = np.empty(len(values), dtype=np.int64)
        count_repeats(values, self.latest, self.repeats, repeats)
        self.latest[:], self.repeats = values[-1], int(repeats[-1])

    def keep_recent(self, batch: Batch, i: int, taken: int) -> None:
        """Keep the last rows of entry ``i`` of a batch to look back at."""
        self.recent = batch.rows[batch.begins[i] : batch.firsts[i] + taken][-self.look_back :].copy()

    def record_last(self, batch: Batch, i: int) -> None:
        """Record units and repeats after entry ``i`` of a batch."""
        self.scale[:] = batch.scale[i]
        self.latest[:] = batch.latest[i]
        self.repeats = int(batch.repeats[i])


def gather(
    units: int,
    intakes: Sequence[Intake],
    slots: Sequence[int],
    states: Sequence[AlarmState],
    values: Sequence[np.ndarray],
) -> Batch:
    """Return a batch of new readings ``values[i]`` (length, channels) for each detector.

    With one detector its entries may be views of what it knows, else they are copies.
    """
    one = intakes[0]
    if len(intakes) == 1 and units == one.units and not one.look_back:  # views: often there is one reading
        (own,), (state,) = values, states
        numbers = np.array([0, len(own), 0, slots[0], one.repeats])  # one array: making arrays takes the time here
        return Batch(
            units, numbers[3:4], numbers[:2], numbers[2:3], own, np.empty_like(own), one.location[np.newaxis],
            one.scale[np.newaxis], one.latest[np.newaxis], numbers[4:], state.ints[np.newaxis],
            state.floats[np.newaxis],
        )  # fmt: skip
    lengths = np.array([len(own) for own in values])
    earlier: np.ndarray | int = 0
    parts: Sequence[np.ndarray] = values
    if intakes[0].look_back:
        earlier = np.array([len(intake.recent) for intake in intakes])
        parts = [part for intake, own in zip(intakes, values, strict=True) for part in (intake.recent, own)]
    begins = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(lengths + earlier, out=begins[1:])
    joined = np.concatenate(parts)
    return Batch(
        units=units,
        slots=np.array(slots),
        begins=begins,
        firsts=begins[:-1] + earlier,
        values=joined,
        rows=joined.copy(),
        location=_stacked([intake.location for intake in intakes]),
        scale=_stacked([intake.scale for intake in intakes]),
        latest=_stacked([intake.latest for intake in intakes]),
        repeats=np.array([intake.repeats for intake in intakes]),
        ints=_stacked([state.ints for state in states]),
        floats=_stacked([state.floats for state in states]),
    )


def _stacked(arrays: list[np.ndarray]) -> np.ndarray:
    """Return arrays of equal length as the rows of one: a copy, in a fraction of the time of ``np.stack``."""
    return np.concatenate(arrays).reshape(len(arrays), -1)
