"""Whether a reading is taken, by its time, and how many missing steps come before it.

A pure function of the rule's policy, the sensor's newest reading, and the reading: it gives the same answer wherever
and however often the reading is processed.

Late readings that are accepted count in the order of their arrival: the detector knows no times. A clock that was set
back makes its readings late until it has caught up. Missing steps are inserted before a reading that comes
more than one and a half intervals after the newest one. Beyond ``MOST_INSERTED`` steps nothing is inserted: after so
long the detector has no use for the length of the silence, and a clock that jumps must not cost a million steps.
The reading is then simply the next one, and ``Arrival.restarted`` says that the steps are counted afresh from it.
"""

from __future__ import annotations

from typing import NamedTuple

from service.settings.times import TimePolicy
from service.wire.readings import Reading

MOST_INSERTED = 1000


class Arrival(NamedTuple):
    """The judgement. Where ``reason`` is not None the reading is refused and ``newest`` is as before."""

    reason: str | None
    missing: int  # steps of NaN to insert before the reading
    restarted: bool  # the gap was too long to be filled
    newest: Reading | None  # of the sensor, by time and not by arrival: what is to be remembered of it


def judge(policy: TimePolicy, newest: Reading | None, reading: Reading, timestamp: int) -> Arrival:
    """Judge a reading. ``newest``: as the last judgement left it; ``timestamp``: the record's in milliseconds, negative
    if it has none."""
    time = reading.time
    if policy.max_ahead_s is not None and timestamp >= 0 and time > timestamp * 1000 + policy.max_ahead_s * 1e6:
        return Arrival("clock_ahead", 0, False, newest)
    if newest is None:
        return Arrival(None, 0, False, reading)
    if time > newest.time:
        missing, restarted = (0, False) if policy.gap == "ignore" else _missing(policy, time - newest.time)
        return Arrival(None, missing, restarted, reading)
    if time < newest.time:
        return Arrival("late" if policy.late == "reject" else None, 0, False, newest)
    identical = reading.values == newest.values
    if policy.duplicate == "reject" or (policy.duplicate == "reject_identical" and identical):
        return Arrival("duplicate", 0, False, newest)
    return Arrival(None, 0, False, reading)


def _missing(policy: TimePolicy, elapsed: int) -> tuple[int, bool]:
    assert policy.interval_s is not None
    missing = max(0, round(elapsed / (policy.interval_s * 1e6)) - 1)
    return (0, True) if missing > MOST_INSERTED else (missing, False)
