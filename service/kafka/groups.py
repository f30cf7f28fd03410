"""What a consumer group has done, asked from outside of it."""

from __future__ import annotations

from kafka.errors import GroupIdNotFoundError, KafkaError

from service.kafka.connection import Connection, ConnectionProblem, once_available
from service.runtime.log import TopicPartition


def committed(connection: Connection, group: str) -> dict[TopicPartition, tuple[int, str]]:
    """(offset, metadata) of every partition that the group has committed."""
    with connection.admin() as admin:
        try:
            found = once_available(lambda: admin.list_group_offsets(group))[group]
        except KafkaError as error:
            raise ConnectionProblem(f"offsets of group {group!r}: {type(error).__name__}: {error}") from error
    return {(one.topic, one.partition): (at.offset, at.metadata or "") for one, at in found.items() if at.offset >= 0}


def members(connection: Connection, group: str) -> int:
    """How many consumers are in the group."""
    with connection.admin() as admin:
        try:
            return len(once_available(lambda: admin.describe_groups([group]))[group]["members"])
        except GroupIdNotFoundError:
            return 0
        except KafkaError as error:
            raise ConnectionProblem(f"group {group!r}: {type(error).__name__}: {error}") from error
