"""The incidents of a fleet, and their revisions as events come in and time passes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from service.incidents.change import HOUR, SensorChange, change_of, group_of
from service.incidents.group import Group, GroupSession, Windows
from service.incidents.usual import HISTORIES, Usual
from service.settings import IncidentPolicy
from service.wire.messages import MOST_MEMBERS, AlarmEvent, ChangeEvent, Incident, incident_id
from service.wire.readings import from_rfc3339, rfc3339

# An event may be so many hours behind the stream's time.
LATEST = 24
# With more of them the oldest are dropped before their day is over.
MOST_CHANGES = 200_000
# Incidents that can no longer change.
MOST_SETTLED = 1000

_NARROWER = (64, 8, 1)
# A window that a late change may begin anew starts up to an hour before it, and has members up to an hour before that.
_REACH = 2
# Causes often come on the hour, where an id must not depend on a second.
_PERIODS_BEGIN = 1_397 * 1_000_000


class _Latest(NamedTuple):
    """The highest revision of an event."""

    revision: int
    group: str
    hour: int
    change: SensorChange | None  # None: retracted


class _Standing(NamedTuple):
    """An incident as it was last said, and when it was."""

    incident: Incident
    start: int
    end: int


class Incidents:
    """What the changes of a fleet come to. Times are in microseconds since the epoch; there is no other clock.

    Each list that a method returns holds the incidents that are new or different, with their next revision, to be
    published in that order. ``refused`` counts events that were not taken: ``late`` and ``no_time``.
    """

    def __init__(self, policy: IncidentPolicy) -> None:
        self.policy = policy
        self.refused: Counter[str] = Counter()
        span = round(policy.span_s * 1e6)
        self._windows = Windows(tuple(span // part for part in _NARROWER), policy.min_sensors)
        self._usual = Usual(policy.false_per_week / len(_NARROWER))
        self._groups: dict[str, Group] = {}
        self._latest: dict[str, _Latest] = {}  # by event
        self._events: dict[int, list[str]] = {}  # by hour: events that were, or still are, of it
        self._n_changes = 0
        self._live: dict[str, dict[str, _Standing]] = {}  # by group and id
        self._past: dict[str, _Standing] = {}  # by id: retracted, or too old to change
        self._time: int | None = None
        self._floor: int | None = None  # the first hour of which events are taken

    # What there is

    @property
    def all(self) -> list[Incident]:
        """Every incident that is remembered, in order of its beginning."""
        standing = [*self._past.values(), *(one for found in self._live.values() for one in found.values())]
        return [one.incident for one in sorted(standing, key=lambda one: (one.start, one.incident.id))]

    @property
    def open(self) -> list[Incident]:
        """Those that are going on."""
        return [incident for incident in self.all if incident.status == "open"]

    # Events in

    def observe(self, event: ChangeEvent | AlarmEvent) -> list[Incident]:
        """Take in one event."""
        return self.observe_many((event,))

    def observe_many(self, events: Iterable[ChangeEvent | AlarmEvent]) -> list[Incident]:
        """Take in events: the incidents are those of one after the other, with fewer revisions on the way."""
        touched: set[str] = set()
        earliest = math.inf
        for event in events:
            for group, hour in self._take(event):
                touched.add(group)
                earliest = min(earliest, hour)
        revisions = self._refresh(touched, earliest)
        # of the two, one has retracted ones as well, the other those of incidents that go on
        while max(len(self._latest), self._n_changes) > MOST_CHANGES and self._events:
            self._raise_floor(min(self._events) + 1, reach=0)
        return revisions

    def _take(self, event: ChangeEvent | AlarmEvent) -> Iterable[tuple[str, int]]:
        """Put the event in the place of its earlier revision. Yields the groups and hours that are concerned."""
        known = self._latest.get(event.id)
        if known is not None and known.revision >= event.revision:
            return
        try:
            change = change_of(event, self._windows.span)
        except (ValueError, TypeError):  # no time, or one without a zone
            change = None
        if change is None:
            self.refused["no_time"] += 1
            return
        if self._floor is not None and change.hour < self._floor:
            self.refused["late"] += 1
            return
        if known is not None and known.change is not None:
            self._groups[known.group].take(known.change)
            self._count(known.hour, -1)
            yield known.group, known.hour
        group = group_of(event, self.policy.group_by)
        is_retracted = event.status == "retracted"
        self._latest[event.id] = _Latest(event.revision, group, change.hour, None if is_retracted else change)
        if known is None or known.hour != change.hour:
            self._events.setdefault(change.hour, []).append(event.id)
        if not is_retracted:
            self._groups.setdefault(group, Group(self._windows)).put(change)
            self._count(change.hour, +1)
            yield group, change.hour

    def _count(self, hour: int, step: int) -> None:
        self._usual.count(hour, step)
        self._n_changes += step

    # Time

    def advance(self, time: int) -> list[Incident]:
        """Time has come to this; it never goes back. Incidents close, and what is too old to matter is forgotten."""
        if self._time is not None and time <= self._time:
            return []
        revisions = []
        if self._time is None:
            self._usual.begin(time // HOUR)
            revisions = self._refresh(set(), -math.inf)
        self._time = time
        for found in self._live.values():
            for id, standing in found.items():
                if standing.incident.status == "open" and self._is_over(standing.end):
                    closed = replace(standing.incident, status="closed", revision=standing.incident.revision + 1)
                    found[id] = standing._replace(incident=closed)
                    revisions.append(closed)
        self._raise_floor(time // HOUR - LATEST)
        return revisions

    def _is_over(self, end: int) -> bool:
        return self._time is not None and self._time - end > self._windows.quiet

    def _raise_floor(self, floor: int, reach: int = _REACH) -> None:
        """Take no more events of earlier hours, and forget what only those could have changed."""
        if self._floor is not None and floor <= self._floor:
            return
        self._floor, first = floor, floor - reach
        for hour in [hour for hour in self._events if hour < first]:
            for id in self._events.pop(hour):
                if id in self._latest and self._latest[id].hour == hour:
                    del self._latest[id]
        for name in list(self._groups):
            self._forget(name, first)
        self._usual.forget(first)
        self._drop_old(floor)

    def _forget(self, name: str, first: int) -> None:
        """Drop a group's changes before an hour, but none of an incident that may go on after it."""
        live = self._live.get(name, {})
        windows = self._windows
        for standing in sorted(live.values(), key=lambda one: -one.start):
            begins, ends = (standing.start - windows.span) // HOUR, (standing.end + windows.quiet) // HOUR
            if begins < first <= ends:
                first = begins
        for id in [id for id, standing in live.items() if (standing.end + windows.quiet) // HOUR < first]:
            self._past[id] = live.pop(id)
        if not live:
            self._live.pop(name, None)
        self._n_changes -= self._groups[name].forget(first)
        if self._groups[name].is_empty:
            del self._groups[name]

    def _drop_old(self, floor: int) -> None:
        oldest = (floor + LATEST - HISTORIES[0]) * HOUR
        kept = sorted((one for one in self._past.values() if one.end >= oldest), key=lambda one: one.start)
        self._past = {one.incident.id: one for one in kept[-MOST_SETTLED:]}

    # Revisions out

    def _refresh(self, touched: set[str], earliest: float) -> list[Incident]:
        """Look at these groups again, after changes in the hours from ``earliest`` on."""
        different = self._usual.refresh(earliest)
        if different:
            touched |= {name for name, group in self._groups.items() if group.distrust(different)}
        revisions = []
        for name in sorted(touched):
            group = self._groups[name]
            group.refresh(self._usual.before)
            sessions = group.sessions()
            if sessions or self._live.get(name):
                revisions += self._revise(name, sessions)
        return revisions

    def _revise(self, group: str, sessions: list[GroupSession]) -> list[Incident]:
        earlier = self._live.get(group, {})
        found = {}
        for session in sessions:
            standing = self._standing(group, session)
            found[standing.incident.id] = standing
        revisions = [
            self._retract(standing, list(found.values())) for id, standing in earlier.items() if id not in found
        ]
        for id, standing in found.items():
            said = earlier.get(id) or self._past.pop(id, None)
            found[id], is_new = _next_revision(standing, said)
            if is_new:
                revisions.append(found[id].incident)
        if found:
            self._live[group] = found
        else:
            self._live.pop(group, None)
        return revisions

    def _retract(self, standing: _Standing, others: list[_Standing]) -> Incident:
        incident = standing.incident
        heirs = [one.incident for one in others if one.start <= standing.end and standing.start <= one.end]
        retracted = replace(
            incident,
            status="retracted",
            revision=incident.revision + 1,
            merged_into=heirs[0].id if heirs else None,
        )
        self._past[incident.id] = standing._replace(incident=retracted)
        return retracted

    def _standing(self, group: str, session: GroupSession) -> _Standing:
        """A session as an incident that nothing was said of yet."""
        changes = session.changes
        incident = Incident(
            id=incident_id(group, (session.start - _PERIODS_BEGIN) // self._windows.quiet),
            group=group,
            revision=0,
            status="closed" if self._is_over(session.end) else "open",
            opened=changes[0].member.onset,
            until=rfc3339(session.end),
            at=rfc3339(max(change.at for change in changes)),
            sensors=len(changes),
            members=[change.member for change in changes[:MOST_MEMBERS]],
            merged_into=None,
            summary=f"{len(changes)} sensors within {_duration(session.end - changes[0].onset)}",
        )
        return _Standing(incident, session.start, session.end)

    # After a restart

    def catch_up(self, published: Iterable[Incident]) -> list[Incident]:
        """Go on from what was published before: the last message of each incident, in any order.

        To be called once, after the events that are still there were taken in and time was advanced. What is the same
        as it was is not said again, what is no longer found is retracted, and what is too old to change stays.
        """
        said = {one.id: _Standing(one, from_rfc3339(one.opened), from_rfc3339(one.until)) for one in published}
        revisions = []
        for found in self._live.values():
            for id, standing in found.items():
                new = standing._replace(incident=replace(standing.incident, revision=0))
                found[id], is_new = _next_revision(new, said.pop(id, None))
                if is_new:
                    revisions.append(found[id].incident)
        self._past = said
        for standing in list(said.values()):
            is_settled = self._floor is not None and standing.end // HOUR < self._floor
            if standing.incident.status != "retracted" and not is_settled:
                others = self._live.get(standing.incident.group, {})
                revisions.append(self._retract(standing, list(others.values())))
        return revisions


def _next_revision(standing: _Standing, said: _Standing | None) -> tuple[_Standing, bool]:
    """The incident with its number among what was said of it, and whether it is something new."""
    if said is None:
        return standing, True
    if replace(standing.incident, revision=said.incident.revision) == said.incident:
        return standing._replace(incident=said.incident), False
    return standing._replace(incident=replace(standing.incident, revision=said.incident.revision + 1)), True


def _duration(time: int) -> str:
    """A length of time in words.

    >>> [_duration(time) for time in (0, 7_400_000, 250_000_000, 9_000_000_000)]
    ['1 s', '8 s', '5 min', '3 h']
    """
    seconds = max(1, math.ceil(time / 1e6))
    if seconds < 120:
        return f"{seconds} s"
    return f"{math.ceil(seconds / 60)} min" if seconds < 7200 else f"{math.ceil(seconds / 3600)} h"
