"""Operations on sensors, events and states: mute, acknowledge, accept, reset, forget, name, merge. They are the same on
Kafka and in one file."""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Mapping
from typing import Protocol

import msgspec

from service.operations import names
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
from service.operations.dictionary import ShownDictionary, present_dictionary, shown_dictionary
from service.operations.names import LONGEST, NameLog, StateName, shown_as
from service.settings.nearest import nearest
from service.wire.messages import KnownState, StateDictionary, StateRecord
from service.wire.readings import from_rfc3339, rfc3339

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECOND = 1_000_000
_LONGEST_MUTE = 366 * 86_400 * _SECOND
_SHORTEST_PREFIX = 6
_MOST_NAMES = 20


class UnknownState(ValueError):
    """The sensor has no such state."""


class Operations(Protocol):
    """The sensors and events of a service, and the logs to which operations on them are written."""

    @property
    def control(self) -> ControlLog: ...

    @property
    def names(self) -> NameLog: ...

    what_stays: str  # what is kept of a forgotten sensor, for messages to people

    def generation_of(self, sensor: str) -> int | None:
        """Return a sensor's generation, or None if the sensor is not found."""
        ...

    def sensors(self) -> list[str]:
        """Return the names of all sensors, to suggest the one that was meant."""
        ...

    def states_of(self, sensor: str) -> tuple[StateRecord | None, StateDictionary | None]:
        """Return a sensor's newest state record and state dictionary, as far as it has them."""
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


def name_state(
    service: Operations, sensor: str, state: int, name: str, by: str, generation: int | None = None
) -> StateName:
    """Name a state; an empty name removes the earlier one. ``generation``: by default, the sensor's present one.

    Raises UnknownState if the sensor has a state dictionary without this state.
    """
    name = name.strip()
    if len(name) > LONGEST:
        raise ValueError(f"a name takes at most {LONGEST} characters, got {len(name)}")
    generation = _generation(service, sensor, generation)
    before = service.names.read().of(sensor, generation)
    dictionary = _dictionary(service, sensor, generation)
    entry = None if dictionary is None else _entry(dictionary, state, before)
    return _write_name(service, _record(sensor, generation, state, before, entry), name=name, by=by)


def merge_state(
    service: Operations, sensor: str, state: int, into: int | None, by: str, generation: int | None = None
) -> StateName:
    """Show a state as another one; None undoes that. ``generation``: by default, the sensor's present one.

    Raises UnknownState if the sensor's state dictionary has not both, ValueError if states would be merged in a circle.
    """
    generation = _generation(service, sensor, generation)
    before = service.names.read().of(sensor, generation)
    if into is None:
        if state not in before or before[state].merged_into is None:
            raise ValueError(f"state {state} of {sensor!r} is not merged into another one")
        return _write_name(service, before[state], merged_into=None, by=by)
    if into == state:
        raise ValueError(f"state {state} of {sensor!r} cannot be merged into itself: give another state")
    dictionary = _dictionary(service, sensor, generation)
    if dictionary is None:
        raise ValueError(
            f"{sensor!r} has no state dictionary in generation {generation}, so that its states cannot be merged: "
            "set model = 'recurring' in its rule"
        )
    _entry(dictionary, into, before)
    record = _record(sensor, generation, state, before, _entry(dictionary, state, before))
    merged = msgspec.structs.replace(record, merged_into=into)
    if shown_as(state, {**before, state: merged}) == state:
        raise ValueError(f"state {into} of {sensor!r} is merged into state {state} already: undo that first")
    return _write_name(service, merged, by=by)


def dictionary_of(service: Operations, sensor: str) -> ShownDictionary | None:
    """Return a sensor's state dictionary as people see it, or None if it has none."""
    generation = _generation(service, sensor)
    record, dictionary = service.states_of(sensor)
    if dictionary is None or dictionary.generation != generation:
        return None
    return shown_dictionary(dictionary, service.names.read().of(sensor, generation), record)


def _generation(service: Operations, sensor: str, generation: int | None = None) -> int:
    current = _known(service, sensor)
    if generation is not None and generation > current:
        raise ValueError(f"{sensor!r} has not come to generation {generation}, it is in {current}")
    return current if generation is None else generation


def _dictionary(service: Operations, sensor: str, generation: int) -> StateDictionary | None:
    """Return the sensor's state dictionary if it is of this generation."""
    record, found = service.states_of(sensor)
    return present_dictionary(found, record) if found is not None and found.generation == generation else None


def _entry(dictionary: StateDictionary, state: int, before: Mapping[int, StateName]) -> KnownState | None:
    """Return a state's entry, or None if only people's records have the state. Raises UnknownState for others."""
    known = {one.id: one for one in dictionary.states}
    if state not in known and state not in before:
        sensor, listed = dictionary.sensor, ", ".join(map(str, sorted({*known, *before})))
        raise UnknownState(
            f"no state {state} of {sensor!r}, it has {listed or 'none yet'}: `ishsmm-stream states {sensor}` lists them"
        )
    return known.get(state)


def _record(
    sensor: str, generation: int, state: int, before: Mapping[int, StateName], entry: KnownState | None
) -> StateName:
    """Return a state's record with its present entry, to be changed."""
    found = before.get(state)
    if found is None:
        return StateName(sensor=sensor, generation=generation, state=state, name="", time="", known=entry)
    return found if entry is None else msgspec.structs.replace(found, known=entry)


def _write_name(service: Operations, record: StateName, **changes: object) -> StateName:
    said = msgspec.structs.replace(record, **changes, time=rfc3339(now()))
    service.names.write(names.as_change(said))
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
