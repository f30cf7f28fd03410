"""A service in one SQLite file, for commands beside the process that has it open."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any, Literal

import msgspec

from service.embedded import tables
from service.embedded.control import ControlTable, NameTable
from service.embedded.events import follow
from service.embedded.intake import IntakeRecord, records_between
from service.embedded.state_file import StateFile
from service.operations.control import ControlLog
from service.operations.names import NameLog
from service.runtime.log import StoredSensor
from service.settings import RecordMapping, Settings
from service.wire import decoding, messages
from service.wire.readings import Reading

_PARTITION = 0  # the only one
_LOOK_EVERY = 0.25


class EmbeddedDeployment:
    """A ``Deployment``."""

    mode: Literal["kafka", "embedded"] = "embedded"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = settings.source.state
        self.output = str(self._path)

    def operations(self) -> EmbeddedOperations:
        """See ``Deployment``."""
        return EmbeddedOperations(self._settings)

    @contextmanager
    def control(self) -> Iterator[ControlTable]:
        """See ``Deployment``."""
        with closing(StateFile(self._path)) as file:
            yield ControlTable(file)

    def events(self, *, from_beginning: bool, until_end: bool) -> Generator[tuple[bytes, int], None, None]:
        """See ``Deployment``."""
        with closing(StateFile(self._path)) as file:
            yield from follow(file, from_beginning=from_beginning, until_end=until_end)

    def dead_letters(self) -> Generator[tuple[bytes, int], None, None]:
        """See ``Deployment``."""
        with closing(StateFile(self._path)) as file:
            yield from file.reading().execute("SELECT value, committed FROM dead_letters ORDER BY seq")

    def messages(self, *, with_states: bool, earlier: int, is_over: Callable[[], bool]) -> Iterator[bytes | None]:
        """See ``Deployment``."""
        try:
            with closing(StateFile(self._path)) as file:
                yield from _new_messages(file.reading(), with_states, earlier, is_over)
        except sqlite3.Error as error:
            raise ValueError(f"source.state {self._path}: {error}") from None

    @contextmanager
    def stored(self, sensor: str) -> Iterator[Iterator[StoredSensor[Any]]]:
        """See ``Deployment``."""
        try:
            with closing(StateFile(self._path)) as file:
                file.reading().execute("BEGIN")  # one consistent view of all tables
                yield iter([self._stored(sensor, file)])
        except sqlite3.Error as error:
            raise ValueError(f"source.state {self._path}: {error}") from None

    def _stored(self, sensor: str, file: StateFile) -> StoredSensor[IntakeRecord]:
        reading = file.reading()
        saved, position = tables.SnapshotTable(file).get(_PARTITION, sensor), tables.position(file)
        records = records_between(file, position.unsaved_from, position.next_offset)
        limit = self._settings.limits.record_bytes
        decoders = {
            number: decoding.decoder(msgspec.json.decode(text, type=RecordMapping), limit)
            for number, text in reading.execute("SELECT format, mapping FROM formats")
        }

        def decode(record: IntakeRecord) -> list[Reading]:
            return decoders[record.format](record.key, record.value, record.timestamp)

        def events() -> Iterator[bytes]:
            return (value for (value,) in reading.execute("SELECT value FROM events WHERE sensor = ?", (sensor,)))

        return StoredSensor(
            saved, decode, records, _PARTITION, position.next_offset, position.clock, str(self._path), events
        )


def _new_messages(
    reading: sqlite3.Connection, with_states: bool, earlier: int, is_over: Callable[[], bool]
) -> Iterator[bytes | None]:
    (newest,) = reading.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    seq = max(0, newest - earlier)
    known: dict[str, bytes] = {}
    version = None
    while True:
        (now,) = reading.execute("PRAGMA data_version").fetchone()
        if now != version:
            version = now
            for number, value in reading.execute("SELECT seq, value FROM events WHERE seq > ? ORDER BY seq", (seq,)):
                seq = number
                yield value
            for sensor, value in reading.execute("SELECT sensor, value FROM states") if with_states else ():
                if known.get(sensor) != value:
                    known[sensor] = value
                    yield value
        yield None
        if is_over():
            return
        time.sleep(_LOOK_EVERY)


class EmbeddedOperations:
    """``Operations`` on a service whose state is in one file."""

    what_stays = "its events go with its state; dead letters stay until newer ones take their place"

    def __init__(self, settings: Settings) -> None:
        self._file = StateFile(settings.source.state)
        self.control: ControlLog = ControlTable(self._file)
        self.names: NameLog = NameTable(self._file)

    def generation_of(self, sensor: str) -> int | None:
        """Return a sensor's generation: that of its snapshot, or of its state record if it has no snapshot yet."""
        reading = self._file.reading()
        found = reading.execute("SELECT generation FROM sensors WHERE sensor = ?", (sensor,)).fetchone()
        if found is not None:
            return int(found[0])
        record, _ = self.states_of(sensor)
        return None if record is None else record.generation

    def states_of(self, sensor: str) -> tuple[messages.StateRecord | None, messages.StateDictionary | None]:
        """Return a sensor's newest state record and state dictionary, as far as it has them."""
        keys = sensor, messages.dictionary_key(sensor).decode()
        found = self._file.reading().execute("SELECT value FROM states WHERE sensor IN (?, ?)", keys)
        return messages.as_states(value for (value,) in found)

    def sensors(self) -> list[str]:
        """Return the names of all sensors that have a state."""
        found = self._file.reading().execute("SELECT sensor FROM sensors UNION SELECT sensor FROM states ORDER BY 1")
        return [sensor for (sensor,) in found if not messages.is_dictionary_key(sensor.encode())]

    def events_with(self, beginning: str) -> dict[str, str]:
        """Return the sensors of changes and alarms by their ids, of those whose ids begin like this."""
        found = self._file.reading().execute(
            "SELECT id, sensor FROM events WHERE substr(id, 1, ?) = ?", (len(beginning), beginning)
        )
        return dict(found)

    def close(self) -> None:
        self._file.close()
