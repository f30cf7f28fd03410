"""Operations on sensors and events: mute, acknowledge, accept, reset, forget. They are the same on Kafka and in one
file."""

from __future__ import annotations

import fnmatch
import re
import time
from typing import Protocol

from service.operations.control import (
    NEVER,
    Acceptance,
    Acknowledgement,
    ControlLog,
    Forget,
    Mute,
    Reset,
    as_change,
    key_of,
)
from service.settings.nearest import nearest
from service.wire.readings import from_rfc3339, rfc3339

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECOND = 1_000_000
_LONGEST_MUTE = 366 * 86_400 * _SECOND
_SHORTEST_PREFIX = 6
_MOST_NAMES = 20


class Operations(Protocol):
    """The sensors and events of a service, and the log to which operations on them are written."""

    control: ControlLog
    what_stays: str  # what is kept of a forgotten sensor, for messages to people

    def generation_of(self, sensor: str) -> int | None:
        """Return a sensor's generation, or None if the sensor is not found."""
        ...

    def sensors(self) -> list[str]:
        """Return the names of all sensors, to suggest the one that was meant."""
        ...

    def events_with(self, beginning: str) -> dict[str, str]:
        """Return the sensors of changes and alarms by their ids, of those whose ids begin like this."""
        ...

    def close(self) -> None: ...


def seconds_of(text: str) -> float:
    """Return the seconds of a time span that is given as text.

    >>> seconds_of("90s"), seconds_of("2h"), seconds_of("1.5d"), seconds_of("1h30m")
    (90.0, 7200.0, 129600.0, 5400.0)
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"a time span takes numbers with s, m, h, d or w, such as 90m or 1h30m, got {text!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def now() -> int:
    """Return the present time in microseconds since the epoch."""
    return time.time_ns() // 1000


def time_of(text: str) -> int:
    """Return an RFC 3339 time in microseconds since the epoch. A time without a zone is local time.

    >>> rfc3339(time_of("2026-01-31T08:00:00Z"))
    '2026-01-31T08:00:00.000Z'
    """
    try:
        return from_rfc3339(text, "local")
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"a time takes a text such as 2026-01-31T08:00:00Z, got {text!r}") from None


def mute(service: Operations, pattern: str, since: int, until: int, why: str, by: str) -> Mute:
    """Suppress notifications for matching sensors, for a time. Replaces an earlier mute of the same pattern."""
    since, until = since - since % _SECOND, until - until % _SECOND
    if not pattern:
        raise ValueError("a pattern takes at least one character, got none")
    if until <= max(since, now()):
        raise ValueError(f"the mute would be over at {rfc3339(until)} already: --until takes a time to come")
    if until - since > _LONGEST_MUTE:
        raise ValueError("a mute takes at most a year: what is never to be sent belongs into the sinks' filters")
    said = Mute(pattern=pattern, since=rfc3339(since), until=rfc3339(until), why=why, by=by)
    service.control.write(service.control.read().outdated(now()) | as_change(said))
    return said


def unmute(service: Operations, pattern: str) -> Mute:
    """Remove the mute of this pattern."""
    found = {mute.pattern: mute for mute in service.control.read().mutes()}
    if pattern not in found:
        known = nearest(pattern, found) if found else "; there is none at all"
        raise ValueError(f"no mute of {pattern!r}{known}")
    service.control.write({key_of(found[pattern]): None})
    return found[pattern]


def acknowledge(service: Operations, event: str, note: str, by: str) -> Acknowledgement:
    """Record that a person has seen a change or an alarm. The id may be abbreviated as long as it is unambiguous."""
    if len(event) < _SHORTEST_PREFIX:
        raise ValueError(f"an event takes its id, or at least its first {_SHORTEST_PREFIX} characters, got {event!r}")
    found = service.events_with(event)
    if not found:
        raise ValueError(f"no change event {event!r}: `ishsmm-stream tail --no-follow --ids` lists those that are kept")
    if len(found) > 1:
        raise ValueError(f"{event!r} begins the ids of {len(found)} events: give more of it")
    ((name, sensor),) = found.items()
    said = Acknowledgement(id=name, sensor=sensor, time=rfc3339(now()), note=note, by=by)
    service.control.write(service.control.read().outdated(now()) | as_change(said))
    return said


def accept(service: Operations, sensor: str, by: str) -> Acceptance:
    """Accept a sensor's present behaviour as usual from its next reading on. This clears its open alarm."""
    generation = _known(service, sensor)
    if service.control.read().finished_generation(sensor) >= generation:
        raise ValueError(f"{sensor!r} has been reset or forgotten: it has no habits until its next reading")
    said = Acceptance(sensor=sensor, generation=generation, time=rfc3339(now()), by=by)
    service.control.write(as_change(said))
    return said


def reset(service: Operations, sensor: str, by: str) -> Reset:
    """Start a sensor's detector afresh at its next reading."""
    generation = _known(service, sensor)
    if service.control.read().finished_generation(sensor) >= generation:
        raise ValueError(f"{sensor!r} has been reset or forgotten already, which holds from its next reading on")
    said = Reset(sensor=sensor, generation=generation, time=rfc3339(now()), by=by)
    service.control.write(as_change(said))
    return said


def forget(service: Operations, sensor: str, by: str) -> Forget:
    """Forget a sensor: a running worker deletes its stored data within a cycle."""
    generation = _known(service, sensor)
    book = service.control.read()
    if book.forgotten.get(sensor, NEVER) >= generation:
        raise ValueError(f"{sensor!r} is being forgotten already: a running worker does that within a cycle")
    over = max(generation, book.finished_generation(sensor))
    said = Forget(sensor=sensor, generation=over, time=rfc3339(now()), by=by)
    service.control.write(as_change(said) | dict.fromkeys(book.of_sensor(sensor)))
    return said


def _known(service: Operations, sensor: str) -> int:
    generation = service.generation_of(sensor)
    if generation is not None:
        return generation
    names = service.sensors()
    known = nearest(sensor, names) if names else "; there is none at all"
    if len(names) > _MOST_NAMES and "did you mean" not in known:
        known = f"; there are {len(names):,} others"
    raise ValueError(f"no sensor {sensor!r} has a state{known}")


def matching(pattern: str, names: list[str]) -> int:
    """Return the number of names that match a pattern."""
    return sum(fnmatch.fnmatchcase(name, pattern) for name in names)


def described(mute: Mute, at: int) -> str:
    """Describe a mute in words."""
    if at < from_rfc3339(mute.since):
        when = f"from {mute.since} until {mute.until}"
    else:
        when = f"until {mute.until}" if at < from_rfc3339(mute.until) else f"over since {mute.until}"
    by = f", by {mute.by}" if mute.by else ""
    return f"{mute.pattern}  {when}{f': {mute.why}' if mute.why else ''}{by}"
