"""Operations on the page: mutes, acknowledgements, acceptances, names of states."""

from __future__ import annotations

import threading
from typing import Protocol

from service.operations import actions, names
from service.operations.control import (
    Acceptance,
    Acknowledgement,
    Changes,
    ControlBook,
    ControlLog,
    Mute,
)
from service.operations.names import NameBook, StateName
from service.settings.nearest import nearest
from service.view.sensor_index import SensorIndex
from service.wire.readings import rfc3339


class ControlRecords(Protocol):
    """Where mutes and acknowledgements stand."""

    @property
    def book(self) -> ControlBook: ...

    def poll(self) -> object: ...

    def write(self, changes: Changes) -> None: ...


class NameRecords(Protocol):
    """Where names stand."""

    @property
    def book(self) -> NameBook: ...

    def poll(self) -> object: ...

    def write(self, changes: Changes) -> None: ...


class People:
    """The operations and state names of a service. May be used from any thread; one of them polls."""

    def __init__(self, control: ControlRecords, names: NameRecords) -> None:
        self._control, self._names = control, names
        self._lock = threading.Lock()

    @property
    def control(self) -> ControlBook:
        """Mutes and acknowledgements."""
        return self._control.book

    @property
    def names(self) -> NameBook:
        """Names of states."""
        return self._names.book

    def poll(self) -> bool:
        """Read what other processes wrote; returns whether there was anything."""
        with self._lock:
            known = self.control.version, self.names.version
            self._control.poll()
            self._names.poll()
            return known != (self.control.version, self.names.version)

    def write_control(self, changes: Changes) -> None:
        """Write mutes, acknowledgements and acceptances. Returns when they are durable, and known here."""
        self._control.write(changes)
        with self._lock:
            self.control.apply(changes)

    def write_names(self, changes: Changes) -> None:
        """Write names of states. Returns when they are durable, and known here."""
        self._names.write(changes)
        with self._lock:
            self.names.apply(changes)


class _ViewControl:
    """What the actions read and write."""

    def __init__(self, people: People) -> None:
        self._people = people

    def read(self) -> ControlBook:
        return self._people.control

    def write(self, changes: Changes) -> None:
        self._people.write_control(changes)


class ViewOperations:
    """The operations that people write on the page."""

    what_stays = ""  # nothing is forgotten here

    def __init__(self, fleet: SensorIndex, people: People) -> None:
        self._fleet, self._people = fleet, people
        self.control: ControlLog = _ViewControl(people)

    def generation_of(self, sensor: str) -> int | None:
        """The generation that a sensor is in."""
        return self._fleet.look(sensor, lambda one: one.generation)

    def sensors(self) -> list[str]:
        """All that have a state."""
        return self._fleet.names()

    def events_with(self, beginning: str) -> dict[str, str]:
        """Changes whose ids begin so, with their sensors."""
        return self._fleet.events_with(beginning)

    def close(self) -> None:
        """Nothing of its own is open."""

    # What is said

    def mute(self, pattern: str, seconds: float, why: str, by: str) -> Mute:
        """From now on."""
        now = actions.now()
        return actions.mute(self, pattern, now, now + int(seconds * 1e6), why, by)

    def unmute(self, pattern: str) -> Mute:
        """Take a mute back."""
        return actions.unmute(self, pattern)

    def acknowledge(self, event: str, note: str, by: str) -> Acknowledgement:
        """Somebody has seen a change."""
        return actions.acknowledge(self, event, note, by)

    def accept(self, sensor: str, by: str) -> Acceptance:
        """What the sensor does now is usual from here on."""
        return actions.accept(self, sensor, by)

    def name(self, sensor: str, generation: int, state: int, name: str, by: str) -> StateName:
        """Call a state by a name; an empty one takes it back."""
        current = self.generation_of(sensor)
        if current is None:
            known = self.sensors()
            raise ValueError(f"no sensor {sensor!r}{nearest(sensor, known) if known else '; there is none at all'}")
        if generation > current:
            raise ValueError(f"{sensor!r} has not come to generation {generation}, it is in {current}")
        said = StateName(
            sensor=sensor, generation=generation, state=state, name=name.strip(), by=by, time=rfc3339(actions.now())
        )
        self._people.write_names(names.as_change(said))
        return said

    def forget(self, sensor: str) -> None:
        """Take back the names of a sensor that is gone."""
        keys = list(self._people.names.of_sensor(sensor))
        if keys:
            self._people.write_names(dict.fromkeys(keys))
