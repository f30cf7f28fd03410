"""Operations on the page: mutes, acknowledgements, acceptances, names and merges of states."""

from __future__ import annotations

import threading
from typing import Protocol

from service.operations import actions
from service.operations.control import (
    Acceptance,
    Acknowledgement,
    Changes,
    ControlBook,
    ControlLog,
    Mute,
)
from service.operations.names import NameBook, NameLog, StateName
from service.view.sensor_index import SensorIndex
from service.wire.messages import StateDictionary, StateRecord


class ControlRecords(Protocol):
    """The store of mutes, acknowledgements and acceptances."""

    @property
    def book(self) -> ControlBook: ...

    def poll(self) -> object: ...

    def write(self, changes: Changes) -> None: ...


class NameRecords(Protocol):
    """The store of state names."""

    @property
    def book(self) -> NameBook: ...

    def poll(self) -> object: ...

    def write(self, changes: Changes) -> None: ...


class People:
    """The operations and state names of a service. Any thread may use it; only one thread polls."""

    def __init__(self, control: ControlRecords, names: NameRecords) -> None:
        self._control, self._names = control, names
        self._lock = threading.Lock()

    @property
    def control(self) -> ControlBook:
        """Mutes, acknowledgements and acceptances."""
        return self._control.book

    @property
    def names(self) -> NameBook:
        """State names."""
        return self._names.book

    def poll(self) -> bool:
        """Read records that other processes wrote. Returns whether there were any."""
        with self._lock:
            known = self.control.version, self.names.version
            self._control.poll()
            self._names.poll()
            return known != (self.control.version, self.names.version)

    def write_control(self, changes: Changes) -> None:
        """Write mutes, acknowledgements and acceptances. Returns when they are durable and applied here."""
        self._control.write(changes)
        with self._lock:
            self.control.apply(changes)

    def write_names(self, changes: Changes) -> None:
        """Write state names. Returns when they are durable and applied here."""
        self._names.write(changes)
        with self._lock:
            self.names.apply(changes)


class _ViewControl:
    """A ``ControlLog`` for the actions."""

    def __init__(self, people: People) -> None:
        self._people = people

    def read(self) -> ControlBook:
        return self._people.control

    def write(self, changes: Changes) -> None:
        self._people.write_control(changes)


class _ViewNames:
    """A ``NameLog`` for the actions."""

    def __init__(self, people: People) -> None:
        self._people = people

    def read(self) -> NameBook:
        return self._people.names

    def write(self, changes: Changes) -> None:
        self._people.write_names(changes)


class ViewOperations:
    """The operations of the page."""

    what_stays = ""  # the page has no operation that forgets a sensor

    def __init__(self, fleet: SensorIndex, people: People) -> None:
        self._fleet, self._people = fleet, people
        self.control: ControlLog = _ViewControl(people)
        self.names: NameLog = _ViewNames(people)

    def generation_of(self, sensor: str) -> int | None:
        """Return a sensor's generation, or None if the sensor is not found."""
        return self._fleet.look(sensor, lambda one: one.generation)

    def sensors(self) -> list[str]:
        """Return the names of all sensors that have a state."""
        return self._fleet.names()

    def states_of(self, sensor: str) -> tuple[StateRecord | None, StateDictionary | None]:
        """Return a sensor's newest state record and state dictionary, as far as it has them."""
        return self._fleet.look(sensor, lambda one: (one.state, one.dictionary)) or (None, None)

    def events_with(self, beginning: str) -> dict[str, str]:
        """Return the sensors of changes and alarms by their ids, of those whose ids begin like this."""
        return self._fleet.events_with(beginning)

    def close(self) -> None:
        """Do nothing: it has nothing of its own open."""

    # Operations

    def mute(self, pattern: str, seconds: float, why: str, by: str) -> Mute:
        """Mute matching sensors from now on, for this many seconds."""
        now = actions.now()
        return actions.mute(self, pattern, now, now + int(seconds * 1e6), why, by)

    def unmute(self, pattern: str) -> Mute:
        """Remove the mute of this pattern."""
        return actions.unmute(self, pattern)

    def acknowledge(self, event: str, note: str, by: str) -> Acknowledgement:
        """Record that a person has seen a change or an alarm."""
        return actions.acknowledge(self, event, note, by)

    def accept(self, sensor: str, by: str) -> Acceptance:
        """Accept the sensor's present behaviour as usual from its next reading on."""
        return actions.accept(self, sensor, by)

    def name(self, sensor: str, generation: int, state: int, name: str, by: str) -> StateName:
        """Name a state. An empty name removes the earlier one."""
        return actions.name_state(self, sensor, state, name, by, generation)

    def merge(self, sensor: str, generation: int, state: int, into: int | None, by: str) -> StateName:
        """Show a state as another one. None undoes that."""
        return actions.merge_state(self, sensor, state, into, by, generation)

    def forget(self, sensor: str) -> None:
        """Remove the names and merges of a forgotten sensor."""
        keys = list(self._people.names.of_sensor(sensor))
        if keys:
            self._people.write_names(dict.fromkeys(keys))
