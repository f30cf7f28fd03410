"""A replay under a group and topics of its own, as docs/operations.md describes it, publishes the same again."""

from __future__ import annotations

import msgspec
from running import committed, readings, running, send, settings_for, wait_for
from worker_helpers import records

from service.kafka import own_topics
from service.kafka.connection import Connection
from service.settings import Settings


def published(connection: Connection, settings: Settings) -> list[list[bytes]]:
    return [
        [record.value for record in records(connection, topic)]
        for topic in (settings.topics.events, settings.topics.states)
    ]


def test_a_replay_publishes_the_same_beside_the_service(connection, tmp_path):
    rules = [{"match": "*", "window": {"readings": 20}, "alarms": {"threshold": 0.98}}]
    settings = settings_for(connection, tmp_path, rules=rules)
    values = [(7 * i) % 11 / 5.0 + (8.0 if i >= 80 else 0.0) for i in range(160)]
    send(settings, readings("boiler", values))
    with running(settings):
        wait_for(lambda: committed(settings) == len(values))
    expected = published(connection, settings)
    assert all(expected)

    group = f"{settings.kafka.group}-replay"
    names = {key: f"{name}-replay" for key, name in settings.topics.names.items()}
    replay = msgspec.structs.replace(
        settings,
        kafka=msgspec.structs.replace(settings.kafka, group=group),
        topics=msgspec.structs.replace(settings.topics, **names),
        worker=msgspec.structs.replace(settings.worker, store=tmp_path / "other"),
    )
    own_topics.create(replay)
    with running(replay):
        wait_for(lambda: committed(replay) == len(values))
    assert published(connection, replay) == expected
    assert published(connection, settings) == expected
