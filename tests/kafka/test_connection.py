"""What a user sees who has configured something wrong: one line with the reason, within seconds."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import local_broker
import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError

from service.kafka import connection as connection_module
from service.kafka.connection import Connection, ConnectionProblem
from service.kafka.producer import Transactions
from service.kafka.topics import TopicSpec, create

QUICKLY = 6.5


@contextmanager
def problem(*words: str) -> Iterator[None]:
    started = time.monotonic()
    with pytest.raises(ConnectionProblem) as raised:
        yield
    assert time.monotonic() - started < QUICKLY
    told = str(raised.value)
    assert "\n" not in told
    for word in words:
        assert word in told


def as_user(secured: local_broker.SecuredBroker, user: tuple[str, str] = local_broker.APP, **other: Any) -> Connection:
    settings: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "mechanism": "SCRAM-SHA-512",
        "username": user[0],
        "password": user[1],
        "ca_file": secured.ca_file,
    }
    return Connection(secured.bootstrap, **{**settings, **other})


@pytest.fixture(scope="module")
def guarded_topics(secured: local_broker.SecuredBroker) -> dict[str, str]:
    """Topics that the application may read, write, or not touch; it may use group g and transactional id t."""
    admin_connection = as_user(secured, local_broker.ADMIN)
    create(admin_connection, [TopicSpec(name, 1) for name in ("readable", "writable", "forbidden")])
    allowed = [
        (ResourceType.TOPIC, "readable", ACLOperation.READ),
        (ResourceType.TOPIC, "writable", ACLOperation.WRITE),
        (ResourceType.GROUP, "g", ACLOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, "t", ACLOperation.WRITE),
    ]
    with admin_connection.admin() as admin:
        admin.create_acls(
            [
                ACL("User:app", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
                for kind, name, operation in allowed
            ]
        )
    time.sleep(0.5)  # until they take effect
    return {"reads": "readable", "writes": "writable"}


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    subprocess.run(["sh", local_broker.HERE / "tls.sh", folder], check=True)
    return folder


def test_password_and_permissions_as_they_should_be(secured, guarded_topics):
    connection = as_user(secured)
    connection.check(reads=["readable"], writes=["writable"], group="g", transactional_id="t")
    producer = Transactions(connection, "t")
    producer.begin()
    producer.send("writable", b"k", b"v")
    producer.commit({}, None)
    producer.close()


def test_client_certificate_instead_of_a_password(secured, guarded_topics):
    files = {"certificate_file": secured.certificate_file, "key_file": secured.key_file}
    connection = Connection(secured.mutual_bootstrap, security_protocol="SSL", ca_file=secured.ca_file, **files)
    connection.check(reads=["readable"], writes=["writable"], group="g", transactional_id="t")


def test_wrong_password(secured):
    with problem("password", "'app'"):
        as_user(secured, ("app", "wrong")).check()


def test_the_password_is_not_in_the_representation(secured):
    assert "app-secret" not in repr(as_user(secured))


def test_unknown_authority(secured, other_authority):
    with problem("not signed by", "ca.pem"):
        as_user(secured, ca_file=other_authority / "ca.pem").check()


def test_plain_client_on_a_tls_port(secured):
    with problem("expects TLS", "PLAINTEXT"):
        Connection(secured.bootstrap).check()


def test_tls_client_on_a_plain_port(broker, secured):
    with problem("does not speak TLS"):
        Connection(broker.bootstrap, security_protocol="SSL", ca_file=secured.ca_file).check()


def test_client_certificate_missing(secured):
    with problem("client certificate"):
        Connection(secured.mutual_bootstrap, security_protocol="SSL", ca_file=secured.ca_file).check()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"reads": ["forbidden"]}, ("'app'", "read", "'forbidden'", "allow READ")),
        ({"writes": ["readable"]}, ("'app'", "write", "'readable'", "allow WRITE")),
        ({"group": "other"}, ("group 'other'", "allow READ")),
        ({"transactional_id": "other"}, ("transactional id 'other'", "allow WRITE")),
    ],
)
def test_denied(secured, guarded_topics, wanted, words):
    with problem(*words):
        as_user(secured).check(**wanted)


def test_missing_topic(connection):
    with problem("'no-such-topic' does not exist", "create it"):
        connection.check(reads=["no-such-topic"])


def test_new_group_and_transactional_id_are_no_problem(connection, topic, group, transactional_id):
    name = topic()
    connection.check(reads=[name], writes=[name], group=group, transactional_id=transactional_id)


def test_nobody_listens():
    with problem("connection refused"):
        Connection([f"127.0.0.1:{local_broker.free_ports(1)[0]}"]).check()


@pytest.mark.parametrize("tls", [False, True])
def test_broker_that_does_not_answer(secured, tls):
    """A stopped broker takes the connection; without a deadline of ours the TLS handshake would wait for ever."""
    connection = as_user(secured) if tls else Connection(secured.bootstrap)
    secured.pause()
    try:
        with problem("does not answer"):
            connection.check()
    finally:
        secured.resume()


@pytest.mark.parametrize("file", ["ca_file", "certificate_file", "key_file"])
def test_missing_file(tmp_path, file):
    there = tmp_path / "there.pem"
    there.touch()
    files = {"certificate_file": there, file: tmp_path / "absent.pem"}
    with problem("absent.pem", "no such file"):
        Connection(["localhost:9092"], security_protocol="SSL", **files)


def test_file_that_is_no_certificate(tmp_path):
    (tmp_path / "ca.pem").write_text("hello")
    with problem("ca.pem", "PEM"):
        Connection(["localhost:9092"], security_protocol="SSL", ca_file=tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"bootstrap": []}, "no broker address"),
        ({"bootstrap": ["localhost"]}, "host:port"),
        ({"security_protocol": "TLS"}, "SASL_SSL"),
        ({"security_protocol": "SASL_SSL", "mechanism": "SCRAM"}, "SCRAM-SHA-512"),
        ({"security_protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u"}, "password"),
        ({"security_protocol": "SSL", "key_file": "k"}, "certificate"),
    ],
)
def test_settings_that_cannot_work(settings, word):
    with problem(word):
        Connection(**{"bootstrap": ["localhost:9092"], **settings})


@pytest.mark.parametrize("refusal", [CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError])
def test_a_coordinator_that_is_being_made_is_waited_for(refusal):
    """The first worker on a new cluster ended with NotCoordinatorError."""
    answers = iter([refusal(), refusal(), None])

    def ask():
        if (answer := next(answers)) is not None:
            raise answer

    connection_module.once_available(ask)
    assert list(answers) == []
