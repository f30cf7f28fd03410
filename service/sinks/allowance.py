"""``at_most``: which raised alarms a sink is sent when there are more than it may get.

How unusual an alarm is: its ratio, the return period over the sensor's own budget. It is 1 or more, and the same
ratio means the same for every sensor. An alarm passes if its ratio reaches the bar.

**The bar.** With ``most`` messages allowed in any ``period_s``, let r be how many are left now, and let those sent in
the last period leave it after h_1 < h_2 < ... seconds. Until just before h_i, r + i - 1 may be sent. Alarms come at a
rate of about v per second, so the share that may pass is q = min over i of (r + i - 1) / (v h_i): the allowance then
lasts until each of these times. The bar is the ratio that this share of the last period's alarms has reached. While q
is 1 or more everything passes: after quiet, until about half of the allowance is spent. With nothing left nothing
passes, so that there are never more than ``most`` in a period. ``_RESERVE`` raises the bar for the last few, and a
flood of equally unusual alarms leaves a quarter for what is more unusual.

**The rate** is of the last period, or of its last 24th if that is clearly more, so that a flood raises the bar at once.
If no alarm has come for a time, the rate is at most three per that time: after a flood the bar falls soon.

In a steady flood of 2 to 100 times the allowance of 20, about 16 of 20 are sent, among them 97% of the five most
unusual of a period and 75% of the twenty (``tests/sinks/test_allowance.py``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from service.settings.budgets import Budget

_RESERVE = 0.5
_LAST = 4.0  # of the allowance, a quarter is not for alarms of which there are too many equally unusual ones
_BURST = 24.0  # the shorter time over which the rate is measured is so many times shorter than the period
_QUIET = 3.0  # a gap of three times the mean interval means that the rate has fallen
_BINS = 8.0  # of ratios, per doubling
_LARGEST = 2.0**40  # ratios above it are the same
_FORGOTTEN = 0.01  # a bin with fewer alarms is dropped
_MOST_TIMES = 1000  # that are kept


class Limit(NamedTuple):
    """At most so many messages in any stretch of so many seconds."""

    most: int
    period_s: float


def limit_of(budget: Budget) -> Limit:
    """Return the limit with whole messages. More than 1,000 are kept as 1,000 in a shorter period.

    >>> limit_of(Budget(20.0, 86400.0)), limit_of(Budget(0.5, 86400.0)), limit_of(Budget(5000.0, 86400.0))
    (Limit(most=20, period_s=86400.0), Limit(most=1, period_s=172800.0), Limit(most=1000, period_s=17280.0))
    """
    most = min(max(1, math.floor(budget.alarms)), _MOST_TIMES)
    return Limit(most, budget.apart_s * most)


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent, and how many alarms came. Fresh: nothing is spent."""

    sent: tuple[float, ...] = ()  # times of the last period, oldest first
    at: float = 0.0  # the time of the numbers below
    # alarms of the last period, fading: eight bins per doubling of the ratio
    ratios: dict[int, float] = {}
    burst: float = 0.0  # alarms of the last 24th of the period, fading


def bar(limit: Limit, allowance: Allowance, now: float) -> float:
    """Return the least ratio that passes at this time; infinite if nothing is left."""
    quiet = max(now - allowance.at, 1e-9)
    allowance = _at(limit, allowance, now)
    left = limit.most - len(allowance.sent)
    if left <= 0:
        return math.inf
    total = sum(allowance.ratios.values())
    alarms = max(total, _BURST * (allowance.burst - 2.0 * math.sqrt(allowance.burst)))
    alarms = min(alarms, _QUIET * limit.period_s / quiet)  # per period
    waits = [*(sent + limit.period_s - now for sent in allowance.sent), limit.period_s]
    excess = max(alarms * wait / limit.period_s / (left + i) for i, wait in enumerate(waits)) * (1.0 + _RESERVE / left)
    if excess <= 1.0:
        return 1.0
    lowest, reached = max(allowance.ratios, default=-1) + 1, 0.0
    for place, count in sorted(allowance.ratios.items(), reverse=True):
        if reached + count > total / excess and (reached or _LAST * left < limit.most):
            break
        lowest, reached = place, reached + count
    return float(2.0 ** (lowest / _BINS))


def decide(limit: Limit, allowance: Allowance, ratio: float, now: float) -> tuple[Allowance, bool]:
    """Return whether an alarm passes, and the allowance after it.

    With an infinite ratio, an incident's, it passes while anything is left, and does not count in the rate of alarms.
    """
    least, after = bar(limit, allowance, now), _at(limit, allowance, now)
    passes = max(1.0, ratio) >= least < math.inf
    if passes:
        after = msgspec.structs.replace(after, sent=(*after.sent, now))
    if math.isinf(ratio):
        return after, passes
    place = math.floor(_BINS * math.log2(min(max(1.0, ratio), _LARGEST)))
    ratios = after.ratios | {place: after.ratios.get(place, 0.0) + 1.0}
    return msgspec.structs.replace(after, ratios=ratios, burst=after.burst + 1.0), passes


def _at(limit: Limit, allowance: Allowance, now: float) -> Allowance:
    """Return the allowance at a later time. A clock that was set back gives nothing back."""
    periods = max(0.0, now - allowance.at) / limit.period_s
    fading = math.exp(-periods)
    return Allowance(
        sent=tuple(min(sent, now) for sent in allowance.sent if sent > now - limit.period_s),
        at=now,
        ratios={place: count * fading for place, count in allowance.ratios.items() if count * fading > _FORGOTTEN},
        burst=allowance.burst * math.exp(-_BURST * periods),
    )
