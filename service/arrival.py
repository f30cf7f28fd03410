"""Whether a reading is taken, by its time, and how many missing steps come before it.

A pure function of the rule's policy, what was seen of the sensor, and the reading: it gives the same answer wherever
and however often the reading is processed.

Late readings that are accepted count in the order of their arrival: the detector knows no times. A clock that was set
back makes its readings late until it has caught up. Missing steps are inserted before a reading that comes
more than one and a half intervals after the newest one. Beyond ``MOST_INSERTED`` steps nothing is inserted: after so
long the detector has no use for the length of the silence, and a clock that jumps must not cost a million steps.
The reading is then simply the next one, and ``Arrival.restarted`` says that the steps are counted afresh from it.
"""

from __future__ import annotations

from typing import NamedTuple

from service.readings import Reading
from service.settings.times import TimePolicy

MOST_INSERTED = 1000


class Seen(NamedTuple):
    """What is remembered of a sensor: its newest reading in time, not in arrival."""

    time: int  # microseconds since the epoch
    values: tuple[float, ...]


class Arrival(NamedTuple):
    """The judgement. Where ``reason`` is not None the reading is refused and ``seen`` is as before."""

    reason: str | None
    missing: int  # steps of NaN to insert before the reading
    restarted: bool  # the gap was too long to be filled
    seen: Seen | None


def judge(policy: TimePolicy, seen: Seen | None, reading: Reading, timestamp: int) -> Arrival:
    """Judge a reading. ``timestamp``: its record's, in milliseconds, negative if it has none."""
    _, time, values = reading
    if policy.max_ahead_s is not None and timestamp >= 0 and time > timestamp * 1000 + policy.max_ahead_s * 1e6:
        return Arrival("clock_ahead", 0, False, seen)
    if seen is None:
        return Arrival(None, 0, False, Seen(time, values))
    if time > seen.time:
        missing, restarted = (0, False) if policy.gap == "ignore" else _missing(policy, time - seen.time)
        return Arrival(None, missing, restarted, Seen(time, values))
    if time < seen.time:
        return Arrival("late" if policy.late == "reject" else None, 0, False, seen)
    if policy.duplicate == "reject" or (policy.duplicate == "reject_identical" and values == seen.values):
        return Arrival("duplicate", 0, False, seen)
    return Arrival(None, 0, False, Seen(time, values))


def _missing(policy: TimePolicy, elapsed: int) -> tuple[int, bool]:
    assert policy.interval_s is not None
    missing = max(0, round(elapsed / (policy.interval_s * 1e6)) - 1)
    return (0, True) if missing > MOST_INSERTED else (missing, False)
