"""Alarms: when something unusual raises one, and when it clears.

An alarm is raised when a return period reaches the policy's budget ``every`` and no alarm is open. It clears when all
return periods have stayed below max(``every`` / 10, 500) for ``every`` / 20 readings (at least 50, at most 3,000), or
after 10,000 readings: by then the behaviour has become a habit. A level of the ladder that is still high at that
moment is *latched*: it counts again once it has been low. A person who accepts the behaviour clears the alarm at once;
no other is raised until the alarm would have cleared by itself. At most three alarms are raised in any ``every``
readings.

Announced changes are ranked too. A change whose jump is as large as that of k earlier ones in n readings has the return
period (300 + n) / (3 + k); it raises an alarm by itself when that reaches five times the budget.

All of this counts readings with a value only, so that missing readings neither raise nor clear anything.
"""

from __future__ import annotations

from ishsmm_stream._jit import kernel
from ishsmm_stream.online import rarity
from ishsmm_stream.online.alarms import ALARM, CLEARED, E_ALARM, E_PERIOD, KIND, RAISED, write_event
from ishsmm_stream.online.histogram import BASE, HIGHEST, add, bin_number
from ishsmm_stream.online.rarity import (
    BEHIND,
    CHANGE_PERIOD,
    CLOCK,
    EVERY,
    INDEX,
    KINDS,
    LATCHED,
    LATEST,
    LOW_FOR,
    MOST_AT_ONCE,
    NEXT,
    OPEN,
    OPENED,
    PERIOD,
)

_IS_OPEN, _IS_ACCEPTED = 1, 2  # values of OPEN; accepted: cleared, but no other is raised before it is quiet
_LEAST_LOW = 500.0  # a return period cannot tell less than about 150 readings apart
_SPAN_SHARE, _SHORTEST_SPAN, _LONGEST_SPAN = 0.05, 50, 3000
_HABIT_AFTER = 10_000
_CHANGE_SHARE = 0.2  # of a change's return period counts against the budget
_CHANGE_READINGS, _CHANGES = 300.0, 3.0  # the prior of a change's return period
_AS_LARGE = 0.9


@kernel
def _rank_change(tracker, jump):
    """Return the return period of a change by its jump, which then joins the record."""
    bins, sums = tracker.jumps, tracker.jump_sums
    number = bin_number(jump if jump > 0.0 else 1.0)
    least = bin_number(_AS_LARGE * jump if jump > 0.0 else 1.0)
    seen = float(tracker.ints[CLOCK])
    as_large = 0.0
    if sums[HIGHEST] >= 0.0:
        for i in range(max(least - int(sums[BASE]), 0), int(sums[HIGHEST]) + 1):
            as_large += float(bins[i])
    add(bins, sums, number, 1.0)
    period = (_CHANGE_READINGS + seen) / (_CHANGES + as_large)
    return period * seen / (seen + rarity.READINGS.learning)


@kernel
def note_changes(tracker, jump, events, first, last):
    """Write the return period of the newest change into rows ``first`` to ``last - 1`` of the event buffer.

    Returns how much a change that was announced by these rows counts against the budget, 0 if there is none.
    """
    counts = 0.0
    for i in range(first, last):
        if events[i, KIND] == RAISED:
            tracker.floats[CHANGE_PERIOD] = _rank_change(tracker, jump)
            counts = _CHANGE_SHARE * tracker.floats[CHANGE_PERIOD]
            if tracker.ints[OPEN] == _IS_OPEN and tracker.ints[BEHIND] < 0:
                tracker.ints[BEHIND] = int(events[i, E_ALARM])
        events[i, E_PERIOD] = tracker.floats[CHANGE_PERIOD]
    return counts


@kernel
def _write(events, count, kind, t, state, tracker, period, kinds):
    """Write an event of the newest alarm."""
    index = tracker.ints[INDEX]
    return write_event(
        events, count, kind, t, tracker.ints[NEXT] - 1, index, 0.0, index, index, state, 0, period, kinds,
        tracker.ints[BEHIND],
    )  # fmt: skip


@kernel
def _clear(tracker, low):
    """End the episode; levels that are still high are latched."""
    tracker.ints[OPEN] = 0
    for level in range(rarity.LEVELS):
        if tracker.periods[level] >= low:
            tracker.ints[LATCHED] |= 1 << level


@kernel
def follow(
    policy, tracker, rows, row, t, change, change_index, change_period, state, events, written,
    news=0, news_period=0.0, holds=False, is_over=False,
):  # fmt: skip
    """Judge row ``row``, observation ``t``; events go to rows ``written`` and on; returns how many rows are filled.

    ``change`` and ``change_index``: the number of the change that this observation announced, and where it began; -1 if
    it announced none. ``change_period``: what ``note_changes`` returned for it. ``news``: other reasons to raise an
    alarm now, with their return period. ``holds``: whether the open alarm must not clear yet; ``is_over``: whether what
    it was raised for is over, so that the shortest quiet time clears it.
    """
    ints, floats = tracker.ints, tracker.floats
    floats[PERIOD] = 0.0
    floats[KINDS] = 0.0
    if not rarity.observe(tracker, rows, row, policy.memory):
        return written
    ints[CLOCK] += 1
    every = floats[EVERY]
    low = max(0.1 * every, _LEAST_LOW)
    period, kinds, is_low = change_period, rarity.CHANGE if change_period > 0.0 else 0, True
    for level in range(rarity.LEVELS):
        own = tracker.periods[level]
        if ints[LATCHED] >> level & 1:
            if own < low:
                ints[LATCHED] &= ~(1 << level)
            continue
        if own > period:
            period = own
            kinds = tracker.kinds[level] | (kinds & rarity.CHANGE)
        is_low = is_low and own < low
    if news:
        period, kinds = max(period, news_period), kinds | news
    if holds and ints[OPEN] == _IS_OPEN:
        is_low = False
    floats[PERIOD] = period
    floats[KINDS] = kinds
    if ints[OPEN]:
        ints[LOW_FOR] = ints[LOW_FOR] + 1 if is_low else 0
        span = min(max(int(_SPAN_SHARE * every), _SHORTEST_SPAN), _SHORTEST_SPAN if is_over else _LONGEST_SPAN)
        if ints[LOW_FOR] >= span or ints[CLOCK] - ints[OPENED] >= _HABIT_AFTER:
            was_accepted = ints[OPEN] == _IS_ACCEPTED
            _clear(tracker, low)
            if was_accepted:
                return written
            return _write(events, written, CLEARED, t, state, tracker, period, kinds)
        return written
    oldest = ints[LATEST + ints[NEXT] % MOST_AT_ONCE]
    is_muted = policy.threshold > 1.0
    is_spent = ints[NEXT] >= MOST_AT_ONCE and ints[CLOCK] - oldest < every
    if period >= every and not is_muted and not is_spent:
        ints[LATEST + ints[NEXT] % MOST_AT_ONCE] = ints[CLOCK]
        ints[NEXT] += 1
        ints[OPEN] = _IS_OPEN
        ints[OPENED] = ints[CLOCK]
        ints[LOW_FOR] = 0
        ints[INDEX] = change_index if change_index >= 0 else t
        ints[BEHIND] = change
        return _write(events, written, ALARM, t, state, tracker, period, kinds)
    return written


@kernel
def accept(tracker):
    """Make the present behaviour the habit; returns whether an alarm was open.

    What was accepted may stay unusual for a while: statistics that remember the time before need to catch up. Until
    the return periods have been low for as long as a clear takes, no other alarm is raised.
    """
    ints = tracker.ints
    was_open = ints[OPEN] == _IS_OPEN
    _clear(tracker, max(0.1 * tracker.floats[EVERY], _LEAST_LOW))
    ints[OPEN] = _IS_ACCEPTED
    ints[OPENED] = ints[CLOCK]
    ints[LOW_FOR] = 0
    rarity.accept(tracker)
    return was_open
