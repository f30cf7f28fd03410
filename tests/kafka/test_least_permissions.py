"""The permissions that docs/security.md lists are enough for each process, and none of them can be spared."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import local_broker
import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from worker_helpers import Service, eventually, first_difference, produce_readings, reading

from service.api.openapi import STATUSES
from service.kafka import own_topics
from service.kafka import topics as kafka_topics
from service.kafka.connection import Connection, ConnectionProblem
from service.kafka.deliver import deliver
from service.kafka.log import KafkaLog
from service.metrics import Metrics
from service.settings import Settings, load
from service.view.kafka_view import KafkaView

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
PARTITIONS = 2
PASSWORD = local_broker.APP[1]


class Permission(NamedTuple):
    who: str
    resource: str
    name: str  # as documented: an option, and -* where names begin with it
    operation: str


def documented() -> list[Permission]:
    """The table of the document."""
    rows = re.findall(r"^\| (\w+) \| (topic|group|transactional id) \| (\S+) \| (.+) \|$", DOCUMENT.read_text(), re.M)
    return [
        Permission(who, resource, name.replace("`", ""), operation)
        for who, resource, name, operations in rows
        for operation in operations.split(", ")
    ]


def of(who: str) -> list[Permission]:
    found = [one for one in documented() if one.who == who]
    assert found
    return found


def as_acl(one: Permission, settings: Settings) -> ACL:
    option = one.name.removesuffix("-*")
    section, key = option.split(".")
    value = getattr(getattr(settings, section), key)
    name = value[0] if isinstance(value, tuple) else value
    begins = one.name.endswith("-*")
    kind = ACLResourcePatternType.PREFIXED if begins else ACLResourcePatternType.LITERAL
    pattern = ResourcePattern(ResourceType[one.resource.upper().replace(" ", "_")], name + "-" * begins, kind)
    return ACL("User:app", "*", ACLOperation[one.operation], ACLPermissionType.ALLOW, pattern)


class Guarded:
    """A service on the secured broker, whose topics an administrator has made."""

    def __init__(self, secured: local_broker.SecuredBroker, folder: Path) -> None:
        self.admin = Connection(
            secured.bootstrap, security_protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username=local_broker.ADMIN[0],
            password=local_broker.ADMIN[1], ca_file=secured.ca_file,
        )  # fmt: skip
        name = f"guarded-{uuid.uuid4().hex[:8]}"
        self.service = Service(secured.bootstrap, folder, name, rules=[{"match": "*", "window": {"readings": 10}}])
        self.service.connection = self.admin
        secret = folder / "password"
        secret.write_text(PASSWORD + "\n", encoding="utf-8")
        self._ca_file = secured.ca_file
        self.environment = {**self._login(local_broker.APP[0]), "ISHSMM_KAFKA__SECURITY__PASSWORD_FILE": str(secret)}
        admin = self._login(local_broker.ADMIN[0])
        admin["ISHSMM_KAFKA__SECURITY__PASSWORD"] = local_broker.ADMIN[1]
        kafka_topics.create(self.admin, [kafka_topics.TopicSpec(name, PARTITIONS)])
        own_topics.create(load(self.service.write(), admin))

    def _login(self, user: str) -> dict[str, str]:
        return {
            "ISHSMM_KAFKA__SECURITY__PROTOCOL": "sasl_ssl",
            "ISHSMM_KAFKA__SECURITY__MECHANISM": "SCRAM-SHA-512",
            "ISHSMM_KAFKA__SECURITY__USERNAME": user,
            "ISHSMM_KAFKA__SECURITY__CA_FILE": str(self._ca_file),
        }

    @property
    def settings(self) -> Settings:
        return load(self.service.write(), {**self.environment, **self.service.environment})

    @contextmanager
    def allowed(self, permissions: list[Permission]) -> Iterator[None]:
        """These permissions, and no others, for a while."""
        with self.admin.admin() as admin:
            admin.delete_acls([ACLFilter("User:app", "*", ACLOperation.ANY, ACLPermissionType.ANY, EVERYTHING)])
            admin.create_acls([as_acl(one, self.settings) for one in permissions])
        time.sleep(0.3)  # until they take effect
        yield

    def run(self, command: str, log: Path, is_done: Callable[[], bool]) -> None:
        """A process as the application's user, until something is done; stopped in order."""
        line = [sys.executable, "-m", "service.cli", command, "--config", str(self.service.write())]
        variables = {**os.environ, **self.environment, **self.service.environment}
        with log.open("ab") as written:
            process = subprocess.Popen([*line, "--log-level", "DEBUG"], env=variables, stdout=written, stderr=written)
        try:
            eventually(lambda: is_done() or process.poll() is not None, 120.0, f"{command} does its work")
            assert process.poll() is None, log.read_text()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()


EVERYTHING = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)


@pytest.fixture
def guarded(secured: local_broker.SecuredBroker, tmp_path: Path) -> Guarded:
    return Guarded(secured, tmp_path)


def test_worker_deliver_and_view_work_with_what_is_documented(guarded, tmp_path):
    """And their logs at DEBUG do not hold the password."""
    service, log, told = guarded.service, tmp_path / "log", tmp_path / "told.jsonl"
    sink = {"kind": "lines", "name": "archive", "path": str(told), "age": "publication", "only": STATUSES}
    guarded.environment["ISHSMM_SINKS"] = json.dumps([sink])
    readings = [("boiler", reading("boiler", i, 20.0 + (7 * i % 11) / 5 + 9.0 * (i >= 60))) for i in range(120)]
    produce_readings(guarded.admin, service.name, readings, PARTITIONS)
    with guarded.allowed(of("worker")):
        guarded.run("serve", log, service.caught_up)
    found = service.outputs()
    assert [json.loads(value)["status"] for value in found["events"]["boiler"]][-1] == "confirmed"
    assert first_difference(service.expected(), found) is None
    with guarded.allowed(of("deliver")):
        guarded.run("deliver", log, lambda: told.exists() and b"confirmed" in told.read_bytes())
    assert told.read_bytes().splitlines() == found["events"]["boiler"]
    (port,) = local_broker.free_ports(1)
    guarded.environment["ISHSMM_VIEW__PORT"] = str(port)
    with guarded.allowed(of("view")):
        guarded.run("view", log, lambda: knows(port, "boiler"))
    assert PASSWORD not in log.read_text(encoding="utf-8")


def knows(port: int, sensor: str) -> bool:
    """Whether the view there lists a sensor."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/sensors", timeout=5) as answer:
            return sensor in answer.read().decode()
    except OSError:
        return False


@pytest.mark.parametrize("spared", of("worker"), ids=lambda one: f"{one.operation}-{one.name}")
def test_a_worker_needs_each_of_them_and_says_so(guarded, spared):
    others = [one for one in of("worker") if one != spared]
    with guarded.allowed(others), pytest.raises(ConnectionProblem) as raised:
        KafkaLog(guarded.settings, Metrics(guarded.settings)).check()
    assert PASSWORD not in str(raised.value)
    assert spared.operation in str(raised.value)


@pytest.mark.parametrize("spared", of("deliver"), ids=lambda one: f"{one.operation}-{one.name}")
def test_deliver_needs_each_of_them_and_says_so(guarded, spared):
    guarded.environment["ISHSMM_SINKS"] = json.dumps([{"kind": "stdout", "name": "pipe"}])
    others = [one for one in of("deliver") if one != spared]
    with guarded.allowed(others), pytest.raises(ConnectionProblem) as raised:
        deliver(guarded.settings, guarded.settings.sinks, threading.Event())
    assert spared.operation in str(raised.value)


@pytest.mark.parametrize("spared", of("view"), ids=lambda one: f"{one.operation}-{one.name}")
def test_a_view_needs_each_of_them_and_says_so(guarded, spared):
    others = [one for one in of("view") if one != spared]
    with guarded.allowed(others), pytest.raises(ConnectionProblem) as raised:
        KafkaView(guarded.settings).run()
    assert spared.operation in str(raised.value)
