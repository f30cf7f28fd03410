"""Incidents: when one cause moves many sensors, people get one page, not five hundred.

**What it asks.** After a change of a sensor, do so many other sensors of its group change within a window that the
group's usual rate does not explain it? Windows have three widths: the span, an eighth and a sixty-fourth of it.
Sensors are counted, not changes: one that flaps counts once.

**The usual rate** of a group in an hour is learned from the hours before it, so that an incident has no part in the
rate it is judged by. With n changes in T hours before, Jeffreys' prior and one change at the window's start, the rate
is Gamma(n + 3/2, T), and the others in a window of width w are negative binomial: P(k - 1 or more others) =
I(w / (T + w); k - 1, n + 3/2), the regularised incomplete beta function. For n a sensor counts once in each stretch of
length w. T is the last week, and also the last day and the last three hours where they have changes: the largest k of
these is taken, so that a group which has become noisy is usual again within hours. T begins with the fleet's first
change, never the group's: a group that never changed is a quiet one. With T = 0 nothing opens.

**The budget.** If the window of each width that begins with a change exceeds with chance p / 3, a week of E changes has
at most E p incidents by chance. So p = false_per_week / E, where E comes from the fleet's rate, rounded up to a power
of two. No number of groups or sensors comes into it: groups have their share by how much they change.

An earlier incident's changes do count in the rates of the hours after it. Without them a group that became noisy would
open incidents for ever, as it could never learn that it is.

**Members.** The narrow windows that exceed come first. A wider one counts if it exceeds still when everything in those
is one sensor: around a tight cluster it would otherwise add chance changes and nothing else. Windows at most six spans
apart are one incident. Its members are the sensors with an onset in one of the windows, or whose interval reaches into
one (as far as a span from the onset): they may have moved at the same time. Intervals have no part in the test, whose
rates are of onsets.

**Order.** Incidents are a function of the latest revisions of the changes, and of the stream's time: any order of
arrival gives the same incidents, with the same ids, members and status. What differs is the way there: the number of
``revision``s, and which incidents were there in between, which stay as retracted ones. An id is made of the group and
the period of six spans in which the first window begins: no two begin in one. It stays when members come and go, also
earlier ones. Only when an earlier one moves the beginning into another period, or when two incidents
become one, is the old id retracted with ``merged_into``.

**Memory.** Changes are held for a day behind the stream's time, their hourly numbers for eight, and at most
``MOST_CHANGES``: with more, the day becomes shorter. An event that is older still is refused. Incidents are kept for
a week, at most ``MOST_SETTLED`` that can no longer change. There is no snapshot: a view reads the events of the last
eight days, or as far back as their topic goes, and ``catch_up`` goes on from what was published before.
"""

from service.incidents.incidents import Incidents

__all__ = ["Incidents"]
