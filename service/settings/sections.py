"""The sections of the configuration that are about the service itself: Kafka, topics, limits, worker, HTTP, metrics."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from service.http.hosts import check_hosts
from service.settings.times import Seconds
from service.wire.readings import microseconds

DEFAULT_TOPICS = ("sensors",)
_MOST_REPEATS = 3  # of a topic pattern: the time grows with this power of a name's length
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ADDRESS = re.compile(r"(?:[^\s:,\[\]]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_WITH_PASSWORD = ("sasl_plaintext", "sasl_ssl")
_WITH_TLS = ("ssl", "sasl_ssl")

AtLeastOne = Annotated[int, Meta(ge=1)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class Security(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the brokers are reached. A password stands here or, better, in a file."""

    protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] = "SCRAM-SHA-256"
    username: str | None = None
    password: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def __post_init__(self) -> None:
        if self.password is not None and self.password_file is not None:
            raise ValueError("password and password_file are given: keep one of them")
        has_password = self.password is not None or self.password_file is not None
        if self.protocol in _WITH_PASSWORD and (self.username is None or not has_password):
            raise ValueError(f"protocol = {self.protocol!r} needs username, and password or password_file")
        if self.protocol not in _WITH_PASSWORD and (self.username is not None or has_password):
            raise ValueError(
                f"username and password need protocol = 'sasl_ssl' or 'sasl_plaintext', not {self.protocol!r}"
            )
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file belong together, got one of them")
        for name in ("ca_file", "certificate_file"):
            if self.protocol not in _WITH_TLS and getattr(self, name) is not None:
                raise ValueError(f"{name} needs protocol = 'ssl' or 'sasl_ssl', not {self.protocol!r}")

    def __repr__(self) -> str:
        password = "" if self.password is None else ", password=***"
        return f"Security(protocol={self.protocol!r}, username={self.username!r}{password})"

    def read_password(self) -> str | None:
        """The password, from the file if it is in one; the line's end is no part of it."""
        if self.password_file is None:
            return self.password
        return _read_secret("kafka.security.password_file", self.password_file)

    def missing_files(self) -> list[str]:
        """``name path`` of every file that is named and cannot be found."""
        names = ("password_file", "ca_file", "certificate_file", "key_file")
        files = [(name, getattr(self, name)) for name in names]
        return [f"{name} {path}" for name, path in files if path is not None and not path.is_file()]


class Kafka(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where readings come from."""

    bootstrap: tuple[str, ...] = ("localhost:9092",)
    group: Annotated[str, Meta(min_length=1)] = "ishsmm-stream"
    topics: tuple[str, ...] = DEFAULT_TOPICS
    # a regular expression that whole names match, in place of the list
    topics_pattern: str | None = None
    # where a topic is begun that this group has not read before: "latest", "earliest", or an RFC 3339 time
    start_from: str = "latest"
    delivery: Literal["exactly-once", "at-least-once"] = "exactly-once"
    # static membership: a name that is this worker's alone; "" is dynamic
    member: str = ""
    security: Security = Security()

    def __post_init__(self) -> None:
        if not self.bootstrap:
            raise ValueError("bootstrap takes at least one host:port, got none")
        for address in self.bootstrap:
            found = _ADDRESS.fullmatch(address)
            if found is None or not 0 < int(found[1]) < 65536:
                raise ValueError(f"bootstrap takes host:port, got {address!r}")
        if self.topics_pattern is not None:
            _check_pattern(self.topics_pattern)
            if self.topics != DEFAULT_TOPICS:
                raise ValueError("topics and topics_pattern are given: keep one of them")
        elif not self.topics:
            raise ValueError("topics takes at least one topic, got none; or give topics_pattern")
        for topic in self.topics:
            check_topic_name("topics", topic)
        if self.start_from not in ("latest", "earliest"):
            _ = self.start_time_ms

    @property
    def start_time_ms(self) -> int | None:
        """The time to start from in milliseconds since the epoch; None for latest and earliest."""
        if self.start_from in ("latest", "earliest"):
            return None
        try:
            moment = msgspec.convert(self.start_from, Annotated[datetime, Meta(tz=True)])
        except msgspec.ValidationError:
            takes = "'latest', 'earliest' or an RFC 3339 time such as 2026-01-31T08:00:00Z"
            raise ValueError(f"start_from takes {takes}, got {self.start_from!r}") from None
        return microseconds(moment) // 1000

    def reads(self, topic: str) -> bool:
        """Whether a topic is among those that are read."""
        if self.topics_pattern is None:
            return topic in self.topics
        return re.fullmatch(self.topics_pattern, topic) is not None


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"topics_pattern takes a regular expression, got {pattern!r}: {error}") from None
    if not pattern:
        raise ValueError("topics_pattern takes a regular expression, got an empty text")
    if _repeats(re._parser.parse(pattern)) > _MOST_REPEATS:  # type: ignore[attr-defined]
        raise ValueError(
            f"topics_pattern {pattern!r} could take minutes on one topic name: use at most {_MOST_REPEATS} of *, + and "
            "{m,n}, and none inside another or around |"
        )


def _repeats(parsed: Iterable[tuple[Any, Any]], inside: bool = False) -> float:
    """Count the repeats of a parsed regular expression; infinite if matching may take exponential time."""
    count = 0.0
    for operation, argument in parsed:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, body = argument
            varies = high != low
            if varies and inside:
                return math.inf
            count += varies + _repeats(body, inside or high > 1)
        elif name == "BRANCH":
            if inside:
                return math.inf
            count += sum(_repeats(branch, inside) for branch in argument[1])
        elif name in ("SUBPATTERN", "ATOMIC_GROUP", "ASSERT", "ASSERT_NOT", "POSSESSIVE_REPEAT"):
            count += _repeats(argument if name == "ATOMIC_GROUP" else argument[-1], inside)
        elif name in ("GROUPREF", "GROUPREF_EXISTS"):
            return math.inf
    return count


def check_topic_name(key: str, topic: str) -> None:
    """Raise ValueError for what Kafka takes for no name of a topic."""
    if not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
        raise ValueError(f"{key} takes up to 249 letters, digits, dots, dashes and underscores, got {topic!r}")


class Topics(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The topics that the service writes."""

    events: str = "ishsmm.events"
    states: str = "ishsmm.states"
    incidents: str = "ishsmm.incidents"
    dead_letters: str = "ishsmm.dead-letters"
    changelog: str = "ishsmm.changelog"
    # mutes, acknowledgements, acceptances, resets and forgettings
    control: str = "ishsmm.control"
    # what people call states
    state_names: str = "ishsmm.state-names"
    # what sinks remember: which open alarms they were sent, and their allowances
    sink_records: str = "ishsmm.sink-records"
    # the internal one, through which readings go that are not keyed by sensor
    readings: str = "ishsmm.readings"
    # of the internal topic; cannot be changed later
    partitions: AtLeastOne = 12
    replication: AtLeastOne = 1

    def __post_init__(self) -> None:
        for key, topic in self.names.items():
            check_topic_name(key, topic)
        if len(set(self.names.values())) < len(self.names):
            raise ValueError(f"every topic takes a name of its own, got {', '.join(self.names.values())}")

    @property
    def names(self) -> dict[str, str]:
        """The topics' names by their keys."""
        keys = (
            "events", "states", "incidents", "dead_letters", "changelog", "control", "state_names", "sink_records",
            "readings",
        )  # fmt: skip
        return {key: getattr(self, key) for key in keys}


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one worker takes on."""

    # a reading of one more is a dead letter
    sensors: AtLeastOne = 100_000
    # detectors held in memory; the others wait on disk
    detectors: AtLeastOne = 20_000
    # of the process: above it detectors move to disk, whatever their number
    memory_mb: Annotated[int, Meta(ge=256)] = 2048
    # a longer record is a dead letter
    record_bytes: Annotated[int, Meta(ge=64, le=64 * 1024 * 1024)] = 1_048_576


class WorkerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The worker's rhythm."""

    # a sensor's oldest reading that is in no snapshot is at most this old
    snapshot_within_s: Seconds = 60.0
    # the longest cycle; one that holds a change ends at once
    cycle_s: Seconds = 0.1
    poll_records: AtLeastOne = 10_000
    # detectors of a large cycle work on so many threads beside the worker's own; results are the same with 0
    inference_threads: Annotated[int, Meta(ge=0, le=64)] = 2
    transaction_timeout_s: Seconds = 15.0
    # the process ends when a cycle takes longer than this
    watchdog_s: Seconds = 60.0
    # after SIGTERM
    stop_within_s: Seconds = 20.0
    # the local store; safe to delete while the worker does not run
    store: Path = Path("ishsmm-store")

    def __post_init__(self) -> None:
        if self.watchdog_s <= self.transaction_timeout_s:
            raise ValueError(
                f"watchdog_s takes more than transaction_timeout_s = {self.transaction_timeout_s:g}, "
                f"got {self.watchdog_s:g}"
            )
        if self.cycle_s >= self.transaction_timeout_s:
            raise ValueError(
                f"cycle_s takes less than transaction_timeout_s = {self.transaction_timeout_s:g}, got {self.cycle_s:g}"
            )


def check_token(host: str, port: int, token: str | None, token_file: Path | None) -> None:
    """Raise ValueError where a token is said twice, or is missing although others can reach the port."""
    if token is not None and token_file is not None:
        raise ValueError("token and token_file are given: keep one of them")
    if token is not None:
        _check_token_text("token", token)
    if port and not is_loopback(host) and token is None and token_file is None:
        raise ValueError(f"host = {host!r} can be reached from other machines: that takes a token or token_file")


def _check_token_text(name: str, token: str) -> None:
    """Raise ValueError, without the token in it, if it cannot stand in a header as it is."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"{name} takes one line of ASCII letters, digits and signs without spaces, got something else; "
            "make one with: openssl rand -hex 32"
        )


def _check_network(proxy: str) -> None:
    try:
        ipaddress.ip_network(proxy, strict=False)
    except ValueError:
        raise ValueError(f"trusted_proxies takes addresses and networks such as '10.0.0.0/8', got {proxy!r}") from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a port that is bound there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the API, /healthz, /readyz and /metrics answer, and to whom."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    # 0: none
    port: Port = 9108
    # who asks for anything but the two probes shows it; needed where host is not this machine alone
    token: Annotated[str, Meta(min_length=1)] | None = None
    token_file: Path | None = None
    # a larger body is refused
    body_bytes: Annotated[int, Meta(ge=64, le=64 * 1024 * 1024)] = 1_048_576
    # of one client's address; more are answered with 429
    requests_per_s: Annotated[float, Meta(gt=0.0, le=1e6)] = 200.0
    # names that the service is reached by, beside localhost and loopback addresses; "*": any; none: any if there is a
    # token, else none. A request whose Host is another one is refused
    hosts: tuple[str, ...] = ()
    # proxies whose X-Forwarded-For is taken for the client's address: addresses or networks
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    # open at once; with more of them the longest idle is closed
    connections: Annotated[int, Meta(ge=1, le=100_000)] = 512
    # of one address; behind a proxy all clients share the proxy's
    connections_per_address: Annotated[int, Meta(ge=1, le=100_000)] = 256
    # of one address that follow /v1/stream
    streams_per_address: Annotated[int, Meta(ge=1, le=200)] = 50
    # for a request's headers, and between two requests of a connection; then it is closed
    header_timeout_s: Seconds = 10.0
    idle_timeout_s: Seconds = 30.0

    def __post_init__(self) -> None:
        check_token(self.host, self.port, self.token, self.token_file)
        check_hosts(self.hosts)
        for proxy in self.trusted_proxies:
            _check_network(proxy)

    def __repr__(self) -> str:
        return f"Http(host={self.host!r}, port={self.port}{'' if self.token is None else ', token=***'})"

    @property
    def address(self) -> str:
        """Of the page and the API."""
        return f"http://{'[' + self.host + ']' if ':' in self.host else self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def read_token(self) -> str | None:
        """The token, from the file if it is in one."""
        return self.token if self.token_file is None else _read_token("http.token_file", self.token_file)


class MetricsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who scrapes /metrics where, and which sensors have series of their own."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    # 0: no port of its own, /metrics is the API's alone
    port: Port = 0
    # who scrapes that port shows it; needed where host is not this machine alone
    token: Annotated[str, Meta(min_length=1)] | None = None
    token_file: Path | None = None
    # names that the port is reached by, as in [http]
    hosts: tuple[str, ...] = ()
    # so many of the most suspicious sensors are shown; 0: none
    top: Annotated[int, Meta(ge=0, le=1000)] = 10
    # sensors whose names match one of these have series of their own
    sensors: tuple[str, ...] = ()
    # and so have those whose rule has labels.critical = true
    critical: bool = True
    # at most so many: each has a dozen series
    most_sensors: Annotated[int, Meta(ge=0, le=10_000)] = 200

    def __post_init__(self) -> None:
        if not self.port and (self.token is not None or self.token_file is not None):
            raise ValueError("token and token_file are for a port of its own: give port, or http.token for the API's")
        check_token(self.host, self.port, self.token, self.token_file)
        check_hosts(self.hosts)
        if "" in self.sensors:
            raise ValueError("sensors takes names and patterns such as 'boiler-*', got an empty one")

    def __repr__(self) -> str:
        return f"MetricsSettings(host={self.host!r}, port={self.port}{'' if self.token is None else ', token=***'})"

    def read_token(self) -> str | None:
        """The token, from the file if it is in one."""
        return self.token if self.token_file is None else _read_token("metrics.token_file", self.token_file)


def _read_secret(name: str, path: Path) -> str:
    """A secret in a file; the line's end is no part of it."""
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"{name} {path}: {reason}") from None
    if not text:
        raise ValueError(f"{name} {path}: the file is empty")
    if not text.isprintable():
        raise ValueError(f"{name} {path}: it takes one line of text, the file has several or control characters")
    return text


def _read_token(name: str, path: Path) -> str:
    token = _read_secret(name, path)
    _check_token_text(f"{name} {path}", token)
    return token
