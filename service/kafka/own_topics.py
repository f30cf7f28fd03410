"""The topics that the service writes, as ``ishsmm-stream topics create`` makes them."""

from __future__ import annotations

from service.kafka import topics
from service.kafka.input import connection_of, reads_directly, sensor_topic
from service.settings import Settings

_LARGEST_LETTER = 2 * 1024 * 1024  # brokers take records of 1 MB unless told otherwise


def create(settings: Settings) -> list[str]:
    """Create the topics, each with as many partitions as the topic whose sensors they are about; a line for each."""
    connection, names = connection_of(settings), settings.topics
    if reads_directly(settings):
        topic = sensor_topic(settings)
        partitions = topics.partition_counts(connection, [topic])[topic]
    else:
        partitions = names.partitions
    # a dead letter holds the bytes of a record in base64
    letters = {"max.message.bytes": str(max(_LARGEST_LETTER, 2 * settings.limits.record_bytes))}
    kinds: dict[str, dict[str, str]] = {names.events: {}, names.dead_letters: letters}
    kinds |= {names.states: topics.COMPACTED, names.changelog: topics.CHANGELOG}
    if not reads_directly(settings):
        kinds[names.readings] = {}
    specs = [topics.TopicSpec(name, partitions, config, names.replication) for name, config in kinds.items()]
    # every reader takes all of it
    for name in (names.control, names.state_names, names.incidents, names.sink_records):
        specs.append(topics.TopicSpec(name, 1, topics.COMPACTED, names.replication))
    return topics.create(connection, specs)
