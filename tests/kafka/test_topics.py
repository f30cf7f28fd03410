"""Topics as the service makes them and finds them."""

from __future__ import annotations

import uuid

import pytest

from service.kafka.connection import ConnectionProblem
from service.kafka.topics import CHANGELOG, TopicSpec, create, partition_counts, retention_ms


def test_changelog_is_created_once_and_compacted(connection):
    spec = TopicSpec(f"changelog-{uuid.uuid4().hex}", 3, CHANGELOG)
    assert create(connection, [spec]) == [f"{spec.name}: created with 3 partitions"]
    assert create(connection, [spec]) == [f"{spec.name}: exists"]
    assert partition_counts(connection, [spec.name]) == {spec.name: 3}
    assert retention_ms(connection, spec.name) is None


def test_differences_of_an_existing_topic_are_reported(connection, topic):
    spec = TopicSpec(topic(), 1, {"cleanup.policy": "compact"})
    assert create(connection, [spec]) == [f"{spec.name}: exists, but cleanup.policy is delete, not compact"]


def test_another_partition_count_is_refused_with_the_remedy(connection, topic):
    with pytest.raises(ConnectionProblem, match=r"has 2 partitions, 3 are configured.*Configure 2"):
        create(connection, [TopicSpec(topic(2), 3)])


def test_retention(connection, topic):
    assert retention_ms(connection, topic(**{"retention.ms": "60000"})) == 60_000
    assert retention_ms(connection, topic(**{"retention.ms": "-1"})) is None


def test_unknown_topic(connection):
    with pytest.raises(ConnectionProblem, match="does not exist"):
        partition_counts(connection, ["no-such-topic"])
