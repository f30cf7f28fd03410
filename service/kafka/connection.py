"""How to reach the brokers, and one clear line when that does not work.

The client itself reports a wrong password, an unknown CA and a wrong port alike, as a timeout; the reasons are in its
log only, and missing topics or permissions it does not report at all. So settings are checked before they are used,
the log is read while connecting, and topics and permissions are asked for at start.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    KafkaError,
    NotCoordinatorError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
)

from service.kafka import guards

BOOTSTRAP_MS = 5_000
REQUEST_MS = 8_000
RECONNECT_MAX_MS = 500  # the client's 30 s would keep a worker waiting long after its broker is back

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


Client = TypeVar("Client")
Answer = TypeVar("Answer")


class ConnectionProblem(ValueError):
    """The brokers cannot be used as configured; the message says why and what to do."""


class Connection:
    """The brokers' addresses and our credentials, as all clients of this service use them."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        *,
        security_protocol: str = "PLAINTEXT",
        mechanism: str | None = None,
        username: str | None = None,
        password: str | None = None,
        ca_file: str | Path | None = None,
        certificate_file: str | Path | None = None,
        key_file: str | Path | None = None,
        client_id: str = "ishsmm-stream",
    ) -> None:
        self.bootstrap = [bootstrap] if isinstance(bootstrap, str) else list(bootstrap)
        self.security_protocol = security_protocol
        self.mechanism = mechanism
        self.username = username
        self.password = password
        self.ca_file = ca_file
        self.certificate_file = certificate_file
        self.key_file = key_file
        self.client_id = client_id
        guards.require_client_version()
        self._check_settings()
        self._tls = self._tls_context() if "SSL" in security_protocol else None

    def __repr__(self) -> str:  # without the password: it may end up in a log
        return f"Connection({','.join(self.bootstrap)}, {self.security_protocol})"

    def settings(self) -> dict[str, Any]:
        """What every client is built with."""
        settings: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "bootstrap_timeout_ms": BOOTSTRAP_MS,
            "request_timeout_ms": REQUEST_MS,
            "reconnect_backoff_max_ms": RECONNECT_MAX_MS,
        }
        if self._tls is not None:
            settings["ssl_context"] = self._tls
        if self._with_password:
            settings["sasl_mechanism"] = self.mechanism
            settings["sasl_plain_username"] = self.username
            settings["sasl_plain_password"] = self.password
        return settings

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        """An admin client; failures to connect are reported with their reason."""
        admin = self.build(KafkaAdminClient)
        try:
            yield admin
        finally:
            admin.close()

    def consumer(self, client: Callable[..., KafkaConsumer] = KafkaConsumer, **settings: Any) -> KafkaConsumer:
        """A consumer, guarded."""
        consumer = self.build(client, **{"metrics_enabled": False, **settings})
        guards.ask_leaders(consumer)
        guards.read_whatever_comes(consumer)
        return consumer

    def build(self, client: Callable[..., Client], **settings: Any) -> Client:
        """A client of the given class, connected, or a ``ConnectionProblem`` with the reason, in about six seconds.

        In a thread, with a deadline of our own: the client's does not cover a TLS handshake that is never answered.
        """
        settings = {**self.settings(), **settings}
        built: Future[Client] = Future()

        def work() -> None:
            try:
                built.set_result(client(**settings))
            except Exception as error:
                built.set_exception(error)

        with _network_log() as lines:
            threading.Thread(target=work, name="kafka-connect", daemon=True).start()
            try:
                return built.result(timeout=settings["bootstrap_timeout_ms"] / 1000 + 0.5)
            except TimeoutError as error:
                raise ConnectionProblem(f"{self._where}: it takes connections but does not answer") from error
            except KafkaError as error:
                raise ConnectionProblem(f"{self._where}: {self._reason(lines) or error}") from error

    def check(
        self,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        group: str | None = None,
        transactional_id: str | None = None,
    ) -> None:
        """Connect, and make sure that the topics exist and that we may do what we are going to do."""
        with self.admin() as admin:
            try:
                self._check_topics(admin, list(reads), list(writes))
                if group is not None:
                    once_available(lambda: self._check_group(admin, group))
                if transactional_id is not None:
                    once_available(lambda: self._check_transactional_id(admin, transactional_id))
            except KafkaError as error:
                raise ConnectionProblem(f"{self._where}: {error}") from error

    @property
    def _where(self) -> str:
        return f"cannot use Kafka at {', '.join(self.bootstrap)}"

    # --- before connecting

    @property
    def _with_password(self) -> bool:
        return self.security_protocol.startswith("SASL")

    def _check_settings(self) -> None:
        if not self.bootstrap:
            raise ConnectionProblem("no broker address: give at least one host:port")
        for address in self.bootstrap:
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit():
                raise ConnectionProblem(f"broker address {address!r}: expected host:port")
        if self.security_protocol not in PROTOCOLS:
            raise ConnectionProblem(
                f"security protocol {self.security_protocol!r}: it is one of {', '.join(PROTOCOLS)}"
            )
        if self._with_password:
            if self.mechanism not in MECHANISMS:
                raise ConnectionProblem(f"mechanism {self.mechanism!r}: it is one of {', '.join(MECHANISMS)}")
            if not self.username or not self.password:
                raise ConnectionProblem(f"{self.security_protocol} needs a username and a password")
        if self.key_file is not None and self.certificate_file is None:
            raise ConnectionProblem("a key file needs its certificate file")
        for what, file in (("CA", self.ca_file), ("certificate", self.certificate_file), ("key", self.key_file)):
            if file is not None and not Path(file).is_file():
                raise ConnectionProblem(f"{what} file {file}: no such file")

    def _tls_context(self) -> ssl.SSLContext:
        """Built here, not by the client, which would report a broken file as a timeout."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (ssl.SSLError, OSError) as error:
            raise ConnectionProblem(f"CA file {self.ca_file}: not a certificate in PEM format ({error})") from error
        if self.certificate_file is not None:
            try:
                context.load_cert_chain(self.certificate_file, self.key_file)
            except (ssl.SSLError, OSError) as error:
                files = f"{self.certificate_file}, {self.key_file or 'no key file'}"
                raise ConnectionProblem(f"certificate and key ({files}) do not load: {error}") from error
        return context

    # --- while connecting

    def _reason(self, lines: list[str]) -> str:
        """What the client's log lines mean, in the order from certain to likely."""
        said = "\n".join(lines)
        if "CERTIFICATE_VERIFY_FAILED" in said:
            if "mismatch" in said:
                return "the broker's certificate is made out to another host name than the address used"
            known = f"a CA in {self.ca_file}" if self.ca_file else "a CA known to this system; name its CA file"
            return f"the broker's certificate is not signed by {known}"
        if "ALERT" in said and "CERTIFICATE" in said:
            if self.certificate_file is None:
                return "the broker asks for a client certificate: name a certificate file and a key file"
            return f"the broker refuses our certificate {self.certificate_file}"
        if "SaslHandshake failed" in said:
            return f"the broker does not offer the mechanism {self.mechanism}"
        if "ECONNREFUSED" in said or "Connection refused" in said:
            return "connection refused: no broker listens there, or it is down"
        if "DNS" in said or "Name or service not known" in said:
            return "the host name is unknown"
        if "RequestTimedOutError" in said and "socket disconnected" not in said:
            return "the broker takes connections and does not answer: it hangs, or a proxy before it does"
        if "disconnected" in said:
            if self._with_password:
                return f"the broker ended the connection at login: wrong username or password (user {self.username!r})?"
            if self.security_protocol == "PLAINTEXT":
                return "the broker ended the connection: it expects TLS or a login, the security protocol is PLAINTEXT"
            return "the broker ended the connection: the port does not speak TLS, or expects a password"
        return "; ".join(dict.fromkeys(lines[-3:]))

    # --- once connected

    def _check_topics(self, admin: KafkaAdminClient, reads: list[str], writes: list[str]) -> None:
        wanted = [(topic, "READ") for topic in reads] + [(topic, "WRITE") for topic in writes]
        if not wanted:
            return
        found = {topic["name"]: topic for topic in admin.describe_topics(sorted({topic for topic, _ in wanted}))}
        for topic, operation in wanted:
            told = found[topic]
            if told["error_code"] == UnknownTopicOrPartitionError.errno:
                raise ConnectionProblem(
                    f"topic {topic!r} does not exist: create it (`ishsmm-stream topics create` makes the service's own)"
                )
            # An empty list comes from brokers that do not tell.
            allowed = told.get("authorized_operations") or [operation]
            if told["error_code"] == TopicAuthorizationFailedError.errno or operation not in allowed:
                raise ConnectionProblem(
                    f"{self._who} may not {operation.lower()} topic {topic!r}, or it does not exist: "
                    f"allow {operation} and DESCRIBE on it"
                )

    def _check_group(self, admin: KafkaAdminClient, group: str) -> None:
        denied = ConnectionProblem(f"{self._who} may not use the consumer group {group!r}: allow READ on it")
        try:
            told = admin.describe_groups([group])[group]
        except GroupIdNotFoundError:
            return  # it comes into being when the first member joins
        except GroupAuthorizationFailedError as error:
            raise denied from error
        allowed = told.get("authorized_operations") or ["READ"]
        if "READ" not in allowed or "Authorization" in (told["error"] or ""):
            raise denied

    def _check_transactional_id(self, admin: KafkaAdminClient, transactional_id: str) -> None:
        try:
            admin.describe_transactions([transactional_id])
        except TransactionalIdNotFoundError:
            return  # its first use makes it known
        except TransactionalIdAuthorizationFailedError as error:
            raise ConnectionProblem(
                f"{self._who} may not use the transactional id {transactional_id!r}: allow WRITE and DESCRIBE on it"
            ) from error

    @property
    def _who(self) -> str:
        if self._with_password:
            return f"user {self.username!r}"
        return f"the owner of {self.certificate_file}" if self.certificate_file else "an anonymous client"


def once_available(ask: Callable[[], Answer]) -> Answer:
    """A cluster makes its coordinators when the first client asks for one, or when one has died; meanwhile it answers
    "not available", "loading" or, before it has elected one, "not me"."""
    deadline = time.monotonic() + BOOTSTRAP_MS / 1000
    while True:
        try:
            return ask()
        except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@contextmanager
def _network_log() -> Iterator[list[str]]:
    """Warnings about the network of the client that is built inside the block, kept from the log: the caller reports
    them. Those of clients that were there before, told by their threads, go where they always go."""
    lines: list[str] = []
    others = {thread.ident for thread in threading.enumerate()}
    logger = logging.getLogger("kafka.net")

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread in others and logger.parent is not None:
                logger.parent.handle(record)
            else:
                lines.append(record.getMessage())

    keep, level, propagate = Keep(logging.WARNING), logger.level, logger.propagate
    logger.addHandler(keep)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.removeHandler(keep)
        logger.setLevel(level)
        logger.propagate = propagate
