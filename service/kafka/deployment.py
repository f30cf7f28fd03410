"""Sensors and events as the topics hold them, for people who handle them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from kafka.partitioner import murmur2

from service.kafka import topics as kafka_topics
from service.kafka.changelog import ChangelogReader
from service.kafka.control import KafkaControl
from service.kafka.input import connection_of, partition_of, reads_directly
from service.operations.control import ControlLog
from service.sensors.envelope import read_changelog_value
from service.settings import Settings
from service.tools.tail import follow
from service.wire import messages


class KafkaDesk:
    """A service whose state is on Kafka."""

    what_stays = "its past events stay where topics keep them, until their retention ends"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection = connection_of(settings)
        self.control: ControlLog = KafkaControl(self._connection, settings.topics.control)
        self._reader = ChangelogReader(self._connection)

    def generation_of(self, sensor: str) -> int | None:
        """The generation that a sensor is in, from the changelog, where every new one stands at once; from the states
        topic for a sensor that is in no snapshot yet."""
        names = self._settings.topics
        for number in self._partitions(names.changelog, sensor):
            value = self._newest(names.changelog, number, sensor)
            if value is not None:
                return read_changelog_value(value).generation
        for number in self._partitions(names.states, sensor):
            value = self._newest(names.states, number, sensor)
            if value is not None:
                state = messages.decode(value)
                return state.generation if isinstance(state, messages.StateRecord) else None
        return None

    def sensors(self) -> list[str]:
        """All that have a state."""
        found: dict[str, bool] = {}
        for topic in (self._settings.topics.changelog, self._settings.topics.states):
            for number in self._partitions(topic):
                for key, value, _ in self._reader.read(topic, number):
                    if key is not None:
                        found[key.decode(errors="replace")] = value is not None
        return sorted(name for name, is_there in found.items() if is_there)

    def events_with(self, beginning: str) -> dict[str, str]:
        """Changes on the events topic whose ids begin so, with their sensors."""
        found: dict[str, str] = {}
        within = f'"id":"{beginning}'.encode()
        topic = self._settings.topics.events
        for value in follow(self._connection, topic, from_beginning=True, until_end=True):
            if within not in value:
                continue  # nearly all
            try:
                event = messages.decode(value)
            except msgspec.DecodeError:
                continue
            if isinstance(event, messages.ChangeEvent | messages.AlarmEvent) and event.id.startswith(beginning):
                found[event.id] = event.sensor
        return found

    def close(self) -> None:
        self._reader.close()

    def _newest(self, topic: str, number: int, sensor: str) -> bytes | None:
        newest, wanted = None, sensor.encode()
        for key, value, _ in self._reader.read(topic, number):
            if key == wanted:
                newest = value
        return newest

    def _partitions(self, topic: str, sensor: str = "") -> Iterator[int]:
        """All partitions, the one in which the sensor is or probably is in front: a changelog may be long."""
        count = kafka_topics.partition_counts(self._connection, [topic])[topic]
        if reads_directly(self._settings):
            likely = (murmur2(sensor.encode()) & 0x7FFFFFFF) % count  # as most clients place their keys
        else:
            likely = partition_of(sensor, count)
        yield likely
        yield from (number for number in range(count) if number != likely)
