"""A service on Kafka as its topics show it, for commands beside its workers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import cached_property, partial
from typing import Any, Literal

import msgspec
from kafka.partitioner import murmur2

from service.kafka import groups
from service.kafka import topics as kafka_topics
from service.kafka.changelog import ChangelogReader, ReadStalled
from service.kafka.connection import ConnectionProblem
from service.kafka.control import ControlFollower, KafkaControl, KafkaNames
from service.kafka.following import follow, follow_dated, follow_several
from service.kafka.input import connection_of, read_commit, reads_directly, sensor_topic
from service.operations.control import ControlLog
from service.operations.names import NameLog
from service.runtime.forwarding import partition_of
from service.runtime.log import StoredSensor
from service.sensors.envelope import read_changelog_value
from service.sensors.records import decode_with
from service.sensors.saved import Saved
from service.settings import RecordMapping, Settings
from service.wire import decoding, messages


class KafkaDeployment:
    """A ``Deployment``."""

    mode: Literal["kafka", "embedded"] = "kafka"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        names = settings.topics
        self.output = f"topics {names.states}, {names.events}"

    def operations(self) -> KafkaOperations:
        """See ``Deployment``."""
        return KafkaOperations(self._settings)

    @contextmanager
    def control(self) -> Iterator[ControlFollower]:
        """See ``Deployment``."""
        with closing(ControlFollower(connection_of(self._settings), self._settings.topics.control)) as control:
            control.catch_up()
            yield control

    def events(self, *, from_beginning: bool, until_end: bool) -> Generator[tuple[bytes, int], None, None]:
        """See ``Deployment``."""
        topic = self._settings.topics.events
        return follow_dated(connection_of(self._settings), topic, from_beginning=from_beginning, until_end=until_end)

    def dead_letters(self) -> Generator[tuple[bytes, int], None, None]:
        """See ``Deployment``."""
        topic = self._settings.topics.dead_letters
        return follow_dated(connection_of(self._settings), topic, from_beginning=True, until_end=True)

    def messages(self, *, with_states: bool, earlier: int, is_over: Callable[[], bool]) -> Iterator[bytes | None]:
        """See ``Deployment``. ``earlier``: events of each partition."""
        names = self._settings.topics
        last: dict[str, int | None] = {names.states: None} if with_states else {}
        last[names.events] = earlier
        records = follow_several(connection_of(self._settings), last, is_over=is_over)
        return (None if record is None else record[0] for record in records)

    @contextmanager
    def stored(self, sensor: str) -> Iterator[Iterator[StoredSensor[Any]]]:
        """See ``Deployment``."""
        try:
            with ChangelogReader(connection_of(self._settings)) as reader:
                yield self._stored(sensor, reader)
        except ReadStalled as stalled:
            raise ConnectionProblem(f"cannot be read to its end: {stalled}") from stalled

    def _stored(self, sensor: str, reader: ChangelogReader) -> Iterator[StoredSensor[Any]]:
        settings = self._settings
        connection, topic, names = connection_of(settings), sensor_topic(settings), settings.topics
        count = kafka_topics.partition_counts(connection, [names.changelog])[names.changelog]
        # The service's own topic has its own partitioner. For other topics the producers decide.
        is_direct = reads_directly(settings)
        numbers = list(range(count)) if is_direct else [partition_of(sensor, count)]
        mapping = settings.mapping if is_direct else RecordMapping(partitioned_by_sensor=True)
        decode = decode_with(decoding.decoder(mapping, settings.limits.record_bytes))
        saved: dict[int, Saved] = {}
        for number in numbers:
            for key, value, _ in reader.read(names.changelog, number):
                if key == sensor.encode() and value is not None:
                    saved[number] = read_changelog_value(value)
        committed = groups.committed(connection, settings.kafka.group)

        def events(number: int) -> Iterator[bytes]:
            return (value for _, value, _ in reader.read(names.events, number) if value)

        for number in saved or numbers:
            offset, metadata = committed.get((topic, number), (0, ""))
            if not metadata:
                continue
            commit = read_commit(metadata, f"{topic}[{number}]", settings.kafka.group)
            since = commit.unsaved_from
            records = reader.records(topic, number, since, offset) if since < offset else iter(())
            place = f"{names.changelog}[{number}]"
            yield StoredSensor(
                saved.get(number), decode, records, number, offset, commit.clock, place, partial(events, number)
            )


class KafkaOperations:
    """``Operations`` on a service whose state is on Kafka."""

    what_stays = "its past events stay where topics keep them, until their retention ends"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection = connection_of(settings)
        self.control: ControlLog = KafkaControl(self._connection, settings.topics.control)
        self._reader = ChangelogReader(self._connection)

    @cached_property
    def names(self) -> NameLog:
        """Names and merges of states. Opened when first used: other operations need no permission on their topic."""
        return KafkaNames(self._connection, self._settings.topics.state_names)

    def generation_of(self, sensor: str) -> int | None:
        """Return a sensor's generation.

        The changelog has it, since every new generation is written there at once. A sensor that is in no snapshot
        yet has it in the states topic.
        """
        names = self._settings.topics
        for number in self._partitions(names.changelog, sensor):
            found = self._newest(names.changelog, number, sensor.encode())
            if found:
                return read_changelog_value(found[0]).generation
        record, _ = self.states_of(sensor)
        return None if record is None else record.generation

    def states_of(self, sensor: str) -> tuple[messages.StateRecord | None, messages.StateDictionary | None]:
        """Return a sensor's newest state record and state dictionary, as far as it has them."""
        topic = self._settings.topics.states
        for number in self._partitions(topic, sensor):
            found = self._newest(topic, number, sensor.encode(), messages.dictionary_key(sensor))
            if found:
                return messages.as_states(found)
        return None, None

    def sensors(self) -> list[str]:
        """Return the names of all sensors that have a state."""
        found: dict[str, bool] = {}
        for topic in (self._settings.topics.changelog, self._settings.topics.states):
            for number in self._partitions(topic):
                for key, value, _ in self._reader.read(topic, number):
                    if key is not None and not messages.is_dictionary_key(key):
                        found[key.decode(errors="replace")] = value is not None
        return sorted(name for name, is_there in found.items() if is_there)

    def events_with(self, beginning: str) -> dict[str, str]:
        """Return the sensors of changes and alarms on the events topic by their ids, of those whose ids begin like
        this."""
        found: dict[str, str] = {}
        within = f'"id":"{beginning}'.encode()
        topic = self._settings.topics.events
        for value in follow(self._connection, topic, from_beginning=True, until_end=True):
            if within not in value:
                continue  # nearly all events
            try:
                event = messages.decode(value)
            except msgspec.DecodeError:
                continue
            if isinstance(event, messages.ChangeEvent | messages.AlarmEvent) and event.id.startswith(beginning):
                found[event.id] = event.sensor
        return found

    def close(self) -> None:
        self._reader.close()

    def _newest(self, topic: str, number: int, *keys: bytes) -> list[bytes]:
        """Return the newest values under these keys, without those that were removed."""
        newest = {key: value for key, value, _ in self._reader.read(topic, number) if key in keys}
        return [value for value in newest.values() if value is not None]

    def _partitions(self, topic: str, sensor: str = "") -> Iterator[int]:
        """Yield all partitions, beginning with the one that has the sensor for certain or probably: a changelog may be
        long."""
        count = kafka_topics.partition_counts(self._connection, [topic])[topic]
        if reads_directly(self._settings):
            likely = (murmur2(sensor.encode()) & 0x7FFFFFFF) % count  # most clients choose a key's partition like this
        else:
            likely = partition_of(sensor, count)
        yield likely
        yield from (number for number in range(count) if number != likely)
