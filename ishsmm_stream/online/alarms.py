"""When to tell people: alarms are a policy on top of the posterior and never touch it.

The posterior of the current segment's start is all that the policy looks at. Let r be the start of the last announced
segment. An alarm is *raised* when the probability that a segment started at r + ``min_segment`` or later exceeds
``threshold``. While it is open its place follows the heaviest start (*relocated* when that leaves the published
interval), also far off, as long as the path to the new place does not pass through the announced one. It is *retracted*
when the probability falls below ``retract`` before it is *confirmed*, which happens ``confirm_after`` observations
later or when the next alarm is raised.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel
from ishsmm_stream.online import rarity
from ishsmm_stream.online.results import Event
from ishsmm_stream.online.validation import FLOAT, WHOLE, Field, check, require

RAISED, RELOCATED, CONFIRMED, RETRACTED = 0, 1, 2, 3
ALARM, CLEARED, ENTERED, NEW_STATE, SPIKE = 4, 5, 6, 7, 8  # of alarms, see ``episodes``, and of states, see ``regimes``
KINDS = ("raised", "relocated", "confirmed", "retracted", "alarm", "cleared", "entered", "new_state", "spike")


class _Policy(NamedTuple):
    threshold: float
    retract: float
    confirm_after: int
    min_segment: int
    min_effect: float
    min_effect_sd: float
    every: float
    memory: float
    new_state: float


class AlarmPolicy(_Policy):
    """When alarms are raised, and when changes are announced, confirmed and retracted.

    ``every``: the budget of alarms, at most one in this many readings on average (at least 100). ``memory``: readings
    over which habits fade; a behaviour that has gone on for longer is no longer unusual (at least 1,000).
    ``new_state``: ``model="recurring"`` announces a new state when its probability exceeds this; 1: never.

    The other settings are about changes. A change is announced when its probability exceeds ``threshold``, retracted
    when the probability falls below ``retract`` within ``confirm_after`` observations, and lies at least
    ``min_segment`` observations after the one before. ``min_effect`` (in units of the data) and ``min_effect_sd`` (in
    standard deviations of the noise) suppress changes of the level that are too small to matter.

    >>> AlarmPolicy(every=10_000).threshold
    0.98
    """

    __slots__ = ()

    def __new__(
        cls,
        threshold: float = 0.98,
        retract: float = 0.5,
        confirm_after: int = 20,
        min_segment: int = 10,
        min_effect: float = 0.0,
        min_effect_sd: float = 0.0,
        every: float = 1_000.0,
        memory: float = 10_000.0,
        new_state: float = 0.5,
    ) -> AlarmPolicy:
        threshold = _probability("threshold", threshold)
        retract = _probability("retract", retract)
        if retract > threshold:
            raise ValueError(f"retract must not exceed threshold = {threshold:g}, got {retract:g}")
        return super().__new__(
            cls,
            threshold,
            retract,
            _checks.whole("confirm_after", confirm_after, 0),
            _checks.whole("min_segment", min_segment, 1),
            _not_negative("min_effect", min_effect),
            _not_negative("min_effect_sd", min_effect_sd),
            _at_least("every", every, 100.0),
            _at_least("memory", memory, 1_000.0),
            _probability("new_state", new_state, most=1.0),
        )

    @classmethod
    def from_false_alarms(cls, false_alarms: float, changes: float, **settings: Any) -> AlarmPolicy:
        """The policy with at most ``false_alarms`` where there are ``changes`` true changes, both per the same time.

        Where probabilities are honest, a share 1 - threshold of the alarms is false.

        >>> round(AlarmPolicy.from_false_alarms(false_alarms=0.1, changes=4.9).threshold, 3)
        0.98
        """
        false_alarms = _checks.positive("false_alarms", false_alarms)
        changes = _checks.positive("changes", changes)
        threshold = changes / (changes + false_alarms)
        return cls(threshold=threshold, **{"retract": min(0.5, threshold), **settings})

    @classmethod
    def from_costs(
        cls, false_alarm: float, delay: float, *, per_minute: float = 1.0, effect: float = 1.0, **settings: Any
    ) -> AlarmPolicy:
        """The policy that balances the cost of a false alarm against that of a minute's delay.

        Shiryaev's rule: announce when 1 - p <= delay / (false_alarm x information), where a change of ``effect`` noise
        standard deviations brings effect^2 / 2 of information an observation; ``per_minute``: observations a minute.

        >>> round(AlarmPolicy.from_costs(false_alarm=100.0, delay=1.0, per_minute=1.0).threshold, 3)
        0.98
        """
        per_observation = _checks.positive("delay", delay) / _checks.positive("per_minute", per_minute)
        information = 0.5 * _checks.positive("effect", effect) ** 2
        rest = per_observation / (_checks.positive("false_alarm", false_alarm) * information)
        threshold = min(max(1.0 - rest, 0.5), 1.0 - 1e-9)
        return cls(threshold=threshold, **settings)


def _probability(name: str, value: Any, most: float = math.nextafter(1.0, 0.0)) -> float:
    if not 0.0 < _checks.number(name, value) <= most:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}")
    return float(value)


def _not_negative(name: str, value: Any) -> float:
    if not _checks.number(name, value) >= 0.0:
        raise ValueError(f"{name} must not be negative, got {value!r}")
    return float(value)


def _at_least(name: str, value: Any, least: float) -> float:
    if not least <= _checks.number(name, value) < math.inf:
        raise ValueError(f"{name} must be at least {least:g} readings, got {value!r}")
    return float(value)


# Entries of AlarmState.ints and AlarmState.floats.
NEXT, STATUS, BEFORE, INDEX, RAISED_AT, LOW, HIGH = range(7)  # BEFORE: the start announced before the open alarm
PROBABILITY, LEVEL_BEFORE = range(2)
IDLE, OPEN, SETTLING = 0, 1, 2  # STATUS: no alarm is followed; raised; confirmed and still followed

# Columns of the event buffer.
KIND, AT, E_ALARM, E_INDEX, E_PROBABILITY, E_LOW, E_HIGH, E_STATE, E_BEFORE, E_PERIOD, E_REASONS, E_CHANGE = range(12)
EVENT_NUMBERS = 12
# One observation: confirm a change and announce another, or relocate and confirm; enter a state; meet a new one; spike;
# and raise or clear an alarm.
MOST_EVENTS = 7


class AlarmState(NamedTuple):
    """What the policy remembers of a stream."""

    ints: np.ndarray  # (7,) int64
    floats: np.ndarray  # (2,) float64


def check_alarm_state(arrays: dict[str, np.ndarray], time: int, announced: int) -> None:
    """Raise SnapshotError unless a snapshot's alarm state can be that of a stream of ``time`` readings.

    ``announced``: changes that are remembered.
    """
    check(arrays, {"places": Field(WHOLE, (7,), 0, time), "amounts_watched": Field(FLOAT, (2,), nan=True)})
    status = arrays["places"][STATUS]
    require(status == IDLE or (status <= SETTLING and announced), "a change that is followed was announced")


def make_alarm_state() -> AlarmState:
    """Return the state before anything was announced: the first segment started at 0."""
    return AlarmState(np.zeros(7, dtype=np.int64), np.array([0.0, math.nan]))


@kernel
def write_event(events, count, kind, t, number, index, probability, low, high, state, before, period, reasons, change):
    """Write row ``count`` of the event buffer; returns how many rows are filled then."""
    row = events[count]
    row[KIND] = kind
    row[AT] = t
    row[E_ALARM] = number
    row[E_INDEX] = index
    row[E_PROBABILITY] = probability
    row[E_LOW] = low
    row[E_HIGH] = high
    row[E_STATE] = state
    row[E_BEFORE] = before
    row[E_PERIOD] = period
    row[E_REASONS] = reasons
    row[E_CHANGE] = change
    return count + 1


@kernel
def _write(events, count, kind, t, alarm_state, state):
    """Write an event of the change that is followed."""
    ints = alarm_state.ints
    number = ints[NEXT] - 1
    return write_event(
        events, count, kind, t, number, ints[INDEX], alarm_state.floats[PROBABILITY], ints[LOW], ints[HIGH], state,
        ints[BEFORE], 0.0, 0, number,
    )  # fmt: skip


@kernel
def _locate(starts, weights, count, first, last):
    """The heaviest start in first..last, and the 5% and 95% quantiles among them. ``starts`` ascend."""
    total = 0.0
    best, most = first, -1.0
    for i in range(count):
        if first <= starts[i] <= last:
            total += weights[i]
            if weights[i] > most:
                best, most = starts[i], weights[i]
    low, high = best, best
    running = 0.0
    for i in range(count):
        if first <= starts[i] <= last:
            if running < 0.05 * total:
                low = starts[i]
            if running < 0.95 * total:
                high = starts[i]
            running += weights[i]
    return best, min(low, best), max(high, best)


@kernel
def _mass_from(starts, weights, count, first):
    """P(the current segment started at ``first`` or later)."""
    total = 0.0
    for i in range(count):
        if starts[i] >= first:
            total += weights[i]
    return min(total, 1.0)


@kernel
def _heaviest_from(starts, weights, count, first, above):
    """Return the position of the heaviest start from ``first`` on; -1 if none has more weight than ``above``."""
    best, most = -1, above
    for i in range(count):
        if starts[i] >= first and weights[i] > most:
            best, most = i, weights[i]
    return best


@kernel
def _is_large_enough(policy, alarm_state, starts, weights, levels, noises, count, first):
    """Return whether the level moved by the least effect since the segment that was announced last.

    A family without a level moves by NaN, and an engine without levels is not asked: both are large enough.
    """
    if levels is None:
        return True
    if policy.min_effect <= 0.0 and policy.min_effect_sd <= 0.0:
        return True
    best = _heaviest_from(starts, weights, count, first, -1.0)
    moved = abs(levels[best] - alarm_state.floats[LEVEL_BEFORE])
    return not (moved < policy.min_effect or moved < policy.min_effect_sd * noises[best])


@kernel
def _remember_level(alarm_state, starts, weights, levels, count, first):
    """Remember the level of the announced segment, while nothing has followed it."""
    if levels is None:
        return
    best, most = -1, 0.5
    for i in range(count):
        if starts[i] < first and weights[i] > most:
            best, most = i, weights[i]
    if best >= 0:
        alarm_state.floats[LEVEL_BEFORE] = levels[best]


@kernel
def _moved_start(starts, weights, parents, count, first, before):
    """Return the heaviest start from ``first`` on if it follows a start below ``before``, else -1.

    If it does, it is the announced change at another index, and not one more. Without ``parents`` this is not known.
    """
    if parents is None:
        return -1
    best = _heaviest_from(starts, weights, count, first, 0.0)
    return starts[best] if best >= 0 and 0 <= parents[best] < before else -1


@kernel
def _retract(alarm_state, t, state, events, written):
    written = _write(events, written, RETRACTED, t, alarm_state, state)
    alarm_state.ints[STATUS] = IDLE
    alarm_state.ints[INDEX] = alarm_state.ints[BEFORE]
    return written


@kernel
def _follow_open(policy, alarm_state, t, starts, weights, parents, count, state, events, written):
    """Retract, relocate or confirm the alarm that is followed."""
    ints, floats = alarm_state.ints, alarm_state.floats
    first = ints[BEFORE] + policy.min_segment
    floats[PROBABILITY] = _mass_from(starts, weights, count, first)
    if ints[STATUS] == OPEN and floats[PROBABILITY] < policy.retract:
        return _retract(alarm_state, t, state, events, written)
    if floats[PROBABILITY] < policy.retract:
        return written  # confirmed, and now in doubt: there is no better index for it
    last = ints[INDEX] + policy.min_segment - 1
    if _mass_from(starts, weights, count, last + 1) > policy.threshold:
        moved = _moved_start(starts, weights, parents, count, last + 1, first)
        if moved < 0 or (moved > ints[RAISED_AT] and ints[STATUS] == SETTLING):
            return written  # the next change has come: this one stays where it is
        if moved > ints[RAISED_AT]:  # what was announced did not happen; something did later
            return _retract(alarm_state, t, state, events, written)
        last = ints[RAISED_AT]
    index, low, high = _locate(starts, weights, count, first, last)
    ints[INDEX] = index
    if not ints[LOW] <= index <= ints[HIGH]:
        ints[LOW], ints[HIGH] = low, high
        written = _write(events, written, RELOCATED, t, alarm_state, state)
    if ints[STATUS] == OPEN and t - ints[RAISED_AT] >= policy.confirm_after:
        ints[STATUS] = SETTLING
        ints[LOW], ints[HIGH] = low, high
        written = _write(events, written, CONFIRMED, t, alarm_state, state)
    return written


@kernel
def apply_policy(policy, alarm_state, t, starts, weights, parents, levels, noises, count, state, events, written):
    """Apply the policy after observation ``t``. Events go to rows ``written`` and on; returns how many rows are filled.

    ``starts`` (ascending) and ``weights`` (summing to 1): the posterior of the current segment's start. The next three
    are arrays, or None if the engine does not know them. ``parents``: the most probable start of the segment before
    each, -1 if it is not known. ``levels`` and ``noises``: the mean and standard deviation under each, read only if the
    policy has a least effect.
    """
    ints, floats = alarm_state.ints, alarm_state.floats
    if ints[STATUS] != IDLE:
        written = _follow_open(policy, alarm_state, t, starts, weights, parents, count, state, events, written)
    first = ints[INDEX] + policy.min_segment
    probability = _mass_from(starts, weights, count, first)
    if probability > policy.threshold:
        if _is_large_enough(policy, alarm_state, starts, weights, levels, noises, count, first):
            if ints[STATUS] == OPEN:
                written = _write(events, written, CONFIRMED, t, alarm_state, state)
            ints[BEFORE] = ints[INDEX]
            ints[INDEX], ints[LOW], ints[HIGH] = _locate(starts, weights, count, first, t)
            ints[STATUS] = OPEN
            ints[RAISED_AT] = t
            ints[NEXT] += 1
            floats[PROBABILITY] = probability
            written = _write(events, written, RAISED, t, alarm_state, state)
    elif policy.min_effect > 0.0 or policy.min_effect_sd > 0.0:
        _remember_level(alarm_state, starts, weights, levels, count, first)
    return written


@kernel
def announced(events, first, last):
    """Return the number of the change announced in rows ``first`` to ``last - 1`` of the buffer and where it began; -1
    for both if there is none."""
    for i in range(first, last):
        if events[i, KIND] == RAISED:
            return int(events[i, E_ALARM]), int(events[i, E_INDEX])
    return -1, -1


def read_events(buffer: np.ndarray) -> list[Event]:
    """The rows of an event buffer as events."""
    return [
        Event(
            KINDS[int(row[KIND])],
            int(row[AT]),
            int(row[E_ALARM]),
            int(row[E_INDEX]),
            float(row[E_PROBABILITY]),
            int(row[E_LOW]),
            int(row[E_HIGH]),
            int(row[E_STATE]),
            float(row[E_PERIOD]),
            rarity.reasons_of(int(row[E_REASONS])),
            int(row[E_CHANGE]),
        )
        for row in buffer
    ]
