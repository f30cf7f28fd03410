"""The topics that the service writes, as created by ``ishsmm-stream topics create``."""

from __future__ import annotations

from service.kafka import topics
from service.kafka.input import connection_of, reads_directly, sensor_topic
from service.settings import Settings

_LARGEST_LETTER = 2 * 1024 * 1024  # by default, brokers take records of up to 1 MB


def create(settings: Settings) -> list[str]:
    """Create the topics. Returns a line of text for each.

    Topics about sensors get as many partitions as the topic that has the sensors.
    """
    connection, names = connection_of(settings), settings.topics
    if reads_directly(settings):
        topic = sensor_topic(settings)
        partitions = topics.partition_counts(connection, [topic])[topic]
    else:
        partitions = names.partitions
    # A dead letter contains the bytes of a record in base64.
    letters = {"max.message.bytes": str(max(_LARGEST_LETTER, 2 * settings.limits.record_bytes))}
    kinds: dict[str, dict[str, str]] = {names.events: {}, names.dead_letters: letters}
    kinds |= {names.states: topics.COMPACTED, names.changelog: topics.CHANGELOG}
    if not reads_directly(settings):
        kinds[names.readings] = {}
    specs = [topics.TopicSpec(name, partitions, config, names.replication) for name, config in kinds.items()]
    # Every reader reads all of these topics, so one partition is enough.
    for name in (names.control, names.state_names, names.incidents, names.sink_records):
        specs.append(topics.TopicSpec(name, 1, topics.COMPACTED, names.replication))
    return topics.create(connection, specs)
