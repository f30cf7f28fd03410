"""Real brokers. ``broker`` is shared and stays whole; ``fragile`` may be harmed; ``secured`` wants credentials.

Each test process starts its own: brokers that are shared between processes would have to outlive the one that started
them, and none may be left behind.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import local_broker
import pytest
from worker_helpers import Service

from service.kafka import topics
from service.kafka.connection import Connection
from service.runtime.warm_up import compile_kernels
from service.settings import Rule

MakeTopic = Callable[..., str]


@pytest.fixture(scope="session")
def broker_software() -> None:
    try:
        local_broker.prepare()
    except local_broker.BrokerUnavailable as reason:
        pytest.skip(f"no Kafka broker: {reason}")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[local_broker.Broker]:
    """One broker for the whole process, or the user's own one when KAFKA_BOOTSTRAP names it."""
    if own := os.environ.get("KAFKA_BOOTSTRAP"):
        yield local_broker.Broker([], own.split(","))
        return
    request.getfixturevalue("broker_software")
    with local_broker.single(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="module")
def _fragile(broker_software: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[local_broker.Broker]:
    with local_broker.single(tmp_path_factory.mktemp("fragile")) as started:
        yield started


@pytest.fixture
def fragile(_fragile: local_broker.Broker) -> local_broker.Broker:
    """A broker to kill, stop and restart, whole at the start of each test."""
    for node in _fragile.nodes:
        if node.running:
            node.resume()
    _fragile.start()
    return _fragile


@pytest.fixture(scope="module")
def secured(broker_software: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[local_broker.SecuredBroker]:
    with local_broker.secured(tmp_path_factory.mktemp("secured")) as started:
        yield started


@pytest.fixture
def connection(broker: local_broker.Broker) -> Connection:
    return Connection(broker.bootstrap)


@pytest.fixture
def topic(connection: Connection) -> MakeTopic:
    """Makes topics with names of their own on the shared broker."""
    return topic_maker(connection)


def topic_maker(connection: Connection) -> MakeTopic:
    def make(partitions: int = 1, **config: str) -> str:
        name = unique("topic")
        topics.create(connection, [topics.TopicSpec(name, partitions, config)])
        return name

    return make


@pytest.fixture
def fragile_connection(fragile: local_broker.Broker) -> Connection:
    return Connection(fragile.bootstrap)


@pytest.fixture
def fragile_topic(fragile_connection: Connection) -> MakeTopic:
    return topic_maker(fragile_connection)


@pytest.fixture
def group() -> str:
    return unique("group")


@pytest.fixture
def transactional_id() -> str:
    return unique("transactions")


def unique(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def compiled() -> None:
    """Kernels in the cache: compiling them may take longer than a test waits for a worker."""
    compile_kernels(Rule())


@pytest.fixture
def service(broker: local_broker.Broker, compiled: None, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Makes services with topics of their own; their workers end with the test."""
    with contextlib.ExitStack() as made:

        def make(**sections: Any) -> Service:
            name = f"sensors-{uuid.uuid4().hex[:12]}"
            found = made.enter_context(Service(broker.bootstrap, tmp_path, name, **sections))
            found.create_topics(4)
            return found

        yield make
