"""Topics: creating the service's own, and what it has to know of others'."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from service.kafka.connection import Connection, ConnectionProblem

# A changelog is read from its start at every restore: what later versions replaced has to go soon.
CHANGELOG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),  # the active segment is never compacted
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(24 * 60 * 60 * 1000),
}
# The last record of every key stays; readers come later than for a changelog.
COMPACTED = {"cleanup.policy": "compact", "segment.ms": str(60 * 60 * 1000)}


@dataclass(frozen=True)
class TopicSpec:
    """A topic as it should be; ``replication`` -1 is the cluster's default."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    replication: int = -1


def create(connection: Connection, specs: Iterable[TopicSpec]) -> list[str]:
    """Create what is missing; returns a line for each topic, also where an existing one is configured differently."""
    with connection.admin() as admin:
        try:
            return [_create(admin, spec) for spec in specs]
        except KafkaError as error:
            raise ConnectionProblem(f"topics cannot be created: {type(error).__name__}: {error}") from error


def _create(admin: KafkaAdminClient, spec: TopicSpec) -> str:
    wanted = {
        "num_partitions": spec.partitions,
        "replication_factor": spec.replication,
        "configs": dict(spec.config),
    }
    try:
        admin.create_topics({spec.name: wanted})
    except TopicAlreadyExistsError:
        return _compare(admin, spec)
    admin.wait_for_topics([spec.name])
    return f"{spec.name}: created with {spec.partitions} partitions"


def _compare(admin: KafkaAdminClient, spec: TopicSpec) -> str:
    count = _partition_counts(admin, [spec.name])[spec.name]
    if count != spec.partitions:
        raise ConnectionProblem(
            f"topic {spec.name!r} has {count} partitions, {spec.partitions} are configured: keys would move between "
            f"partitions and lose their state. Configure {count}, or use a new topic name (or delete the topic)"
        )
    found = _config(admin, spec.name)
    different = [
        f"{key} is {found.get(key)}, not {value}" for key, value in spec.config.items() if found.get(key) != value
    ]
    return f"{spec.name}: exists" + (f", but {'; '.join(different)}" if different else "")


def partition_counts(connection: Connection, topics: Iterable[str]) -> dict[str, int]:
    """The number of partitions of each topic."""
    with connection.admin() as admin:
        return _partition_counts(admin, topics)


def retention_ms(connection: Connection, topic: str) -> int | None:
    """For how long a topic keeps its records; None: for ever."""
    with connection.admin() as admin:
        config = _config(admin, topic)
    if "delete" not in config.get("cleanup.policy", "delete"):
        return None
    retention = int(config["retention.ms"])
    return None if retention < 0 else retention


def largest_record(connection: Connection, topic: str) -> int:
    """Bytes of the largest record that a topic takes."""
    with connection.admin() as admin:
        return int(_config(admin, topic)["max.message.bytes"])


def _partition_counts(admin: KafkaAdminClient, topics: Iterable[str]) -> dict[str, int]:
    counts = {}
    for topic in admin.describe_topics(sorted(topics)):
        if topic["error_code"] == UnknownTopicOrPartitionError.errno:
            raise ConnectionProblem(f"topic {topic['name']!r} does not exist")
        counts[topic["name"]] = len(topic["partitions"])
    return counts


def _config(admin: KafkaAdminClient, topic: str) -> dict[str, str]:
    told = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")["topic"][
        topic
    ]
    if not told:  # the client raises nothing
        raise ConnectionProblem(f"the settings of topic {topic!r} cannot be seen: allow DESCRIBE_CONFIGS on it")
    return {key: entry["value"] for key, entry in told.items()}
