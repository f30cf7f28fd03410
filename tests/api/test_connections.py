"""Many, silent and slow connections: probes and requests are answered all the same."""

from __future__ import annotations

import contextlib
import http.client
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from http_helpers import free_port, get, post, request
from prometheus_client import CollectorRegistry
from view_helpers import ShownFleet

from service.api.server import ApiServer
from service.http.connections import ConnectionLimits, Connections, network_of
from service.http.listener import _within_file_limit
from service.metrics.server import MetricsServer
from service.settings import Settings
from service.settings.sections import Http, MetricsSettings

HEAD = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/mutes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"


@contextlib.contextmanager
def serving(**options) -> Iterator[int]:
    fleet = ShownFleet()
    settings = Settings(http=Http(port=free_port(), requests_per_s=1e6, **options))
    server = ApiServer(settings, fleet, fleet.front)
    try:
        yield server.port
    finally:
        server.close()


@contextlib.contextmanager
def opened(port: int, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(count):
            sockets.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)))
            sockets[-1].sendall(sent)
        yield sockets


def closed_after(one: socket.socket) -> float:
    """Seconds until the server closes a connection."""
    start = time.monotonic()
    with contextlib.suppress(ConnectionResetError):
        while one.recv(4096):
            pass
    return time.monotonic() - start


def timed(port: int, path: str, **headers: str) -> float:
    start = time.monotonic()
    answer = get(port, path, **headers)
    assert answer.status == 200, answer.body
    return time.monotonic() - start


# The measure: thousands of idle sockets


FLOOD = 5000


@pytest.fixture
def many_files():
    """Room for the sockets of the flood in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FLOOD + 1500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the hard limit of open files is {hard}, {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def service(tmp_path):
    """A process with the usual 1,024 files: yields the ports of the API and of the metrics."""
    ports = free_port(), free_port()
    config = tmp_path / "service.toml"
    config.write_text(
        f'[source]\nkinds = ["http"]\nstate = "{tmp_path / "state.sqlite"}"\n'
        f'[http]\nport = {ports[0]}\ntoken = "secret"\n[metrics]\nport = {ports[1]}\n',
        encoding="utf-8",
    )
    line = ["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh", sys.executable, "-m", "service.cli", "serve"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*line, "--config", str(config)], cwd=tmp_path, stderr=log, env=os.environ)
        try:
            deadline = time.monotonic() + 180
            while not is_ready(ports[0]):
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield ports
            assert process.poll() is None
        finally:
            process.kill()
            process.wait(30)
    assert "Too many open files" not in (tmp_path / "log").read_text(encoding="utf-8")


def is_ready(port: int) -> bool:
    try:
        return get(port, "/readyz").status == 200
    except OSError:
        return False


@pytest.mark.usefixtures("many_files")
def test_probes_and_requests_are_answered_beside_5000_idle_sockets(service):
    api, scraped = service
    sockets = []
    probes, requests, scrapes = [], [], []
    try:
        for port, count in ((api, FLOOD), (scraped, 1000)):
            for i in range(count):
                sockets.append(socket.create_connection(("127.0.0.1", port), timeout=10))
                if i % 250 == 0:  # also while they come
                    probes.append(timed(api, "/healthz"))
        for _ in range(5):
            probes.append(timed(api, "/healthz"))
            requests.append(timed(api, "/v1/sensors", authorization="Bearer secret"))
            scrapes.append(timed(scraped, "/metrics"))
        reading = {"sensor": "a", "value": 1.0}
        assert post(api, reading, authorization="Bearer secret").json["accepted"] == 1
    finally:
        for one in sockets:
            one.close()
    assert max(probes) < 1.0
    assert max(requests) < 3.0
    assert max(scrapes) < 3.0


# Limits


def test_an_address_with_too_many_idle_connections_loses_its_oldest():
    with serving(connections_per_address=5) as port, opened(port, 6) as sockets:
        assert closed_after(sockets[0]) < 5.0
        for one in sockets[2:]:
            one.sendall(HEAD + b"Connection: close\r\n\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 200")


def test_a_connection_kept_alive_is_idle_and_counts():
    with serving(connections_per_address=2) as port:
        kept = [http.client.HTTPConnection("127.0.0.1", port, timeout=10) for _ in range(2)]
        for one in kept:
            one.request("GET", "/v1/events")
            one.getresponse().read()
        assert get(port, "/v1/events").status == 200
        assert closed_after(kept[0].sock) < 5.0
        kept[1].request("GET", "/v1/events")
        assert kept[1].getresponse().status == 200
        kept[1].close()


def test_requests_in_progress_are_not_closed_and_probes_pass_them():
    with serving(connections_per_address=3) as port, opened(port, 3, POST) as busy:
        time.sleep(0.2)
        for _ in range(50):  # more than the connections that are kept for probes
            assert get(port, "/healthz").status == 200
        refused = get(port, "/v1/events")
        assert refused.problem == (503, "too_many_connections")
        assert "http.connections_per_address" in refused.json["error"]["detail"]
        busy[0].sendall(b" " * 98)
        assert busy[0].recv(100).startswith(b"HTTP/1.1 400")
        assert get(port, "/v1/events").status == 200


def test_silent_connections_beyond_the_limit_do_not_stop_probes():
    with serving(connections_per_address=2) as port, opened(port, 2, POST):
        time.sleep(0.2)
        with opened(port, 100):
            assert get(port, "/healthz").status == 200


def test_the_whole_port_has_a_limit_too():
    with serving(connections=4) as port, opened(port, 10) as sockets:
        assert closed_after(sockets[0]) < 5.0
        assert get(port, "/v1/events").status == 200


class Open:
    """A connection as the limits see it."""

    def __init__(self, address: str) -> None:
        self.address, self.is_open, self.unread = address, True, False
        self.transport = self

    def abort(self) -> None:
        self.is_open = False

    def has_unread_data(self) -> bool:
        return self.unread


def test_the_address_with_most_connections_makes_room():
    connections = Connections(ConnectionLimits(most=4, per_address=10))
    one, *many = (Open("one"), *(Open("many") for _ in range(3)))
    assert all(connections.admit(each) for each in (one, *many))
    last = Open("last")
    assert connections.admit(last)
    assert [each.is_open for each in (one, *many, last)] == [True, False, True, True, True]
    assert len(connections) == 4


def test_a_connection_whose_request_is_not_read_yet_is_not_idle():
    connections = Connections(ConnectionLimits(most=9, per_address=2))
    first, second, third = Open("a"), Open("a"), Open("a")
    first.unread = True
    assert all(connections.admit(each) for each in (first, second, third))
    assert [first.is_open, second.is_open, third.is_open] == [True, False, True]


def test_what_is_forgotten_leaves_nothing():
    connections = Connections(ConnectionLimits(most=2, per_address=1))
    for _ in range(100):
        one = Open("a")
        connections.admit(one)
        connections.set_idle(one, False)
        other = Open("a")
        assert not connections.admit(other)
        for each in (one, other, one):
            connections.forget(each)
    assert len(connections) == 0
    assert (connections._counts, connections._idle, connections._probing) == ({}, {}, {})


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("x" * 9000, ""),
    ],
)
def test_an_ipv6_network_counts_as_one_address(address, network):
    assert network_of(address) == network


def test_the_limit_of_open_files_bounds_connections(monkeypatch, caplog):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (300, 4096))
    assert _within_file_limit(512) == 44
    assert "ulimit -n" in caplog.text
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert _within_file_limit(512) == 512


# Times


def test_a_silent_connection_is_closed():
    with serving(header_timeout_s=0.5) as port, opened(port, 1) as sockets:
        assert 0.2 < closed_after(sockets[0]) < 5.0


def test_headers_that_come_byte_by_byte_end_in_time():
    with serving(header_timeout_s=1.0) as port, opened(port, 1) as (slow,):
        assert drips(slow, HEAD) < 5.0


def test_headers_of_a_second_request_that_come_byte_by_byte_end_in_time():
    with serving(header_timeout_s=1.0) as port, opened(port, 1, HEAD + b"\r\n") as (slow,):
        time.sleep(0.3)
        assert slow.recv(65536).startswith(b"HTTP/1.1 200")
        assert drips(slow, HEAD) < 5.0


def test_half_of_a_second_request_that_came_with_the_first_ends_in_time():
    with serving(header_timeout_s=1.0) as port, opened(port, 1, HEAD + b"\r\n" + HEAD) as (slow,):
        assert closed_after(slow) < 5.0


def test_a_body_that_nobody_asked_for_ends_in_time():
    unwanted = HEAD + b"Content-Length: 100000\r\n\r\n"
    with serving(header_timeout_s=1.0) as port, opened(port, 1, unwanted) as (slow,):
        time.sleep(0.3)
        assert slow.recv(65536).startswith(b"HTTP/1.1 200")
        assert drips(slow, b" " * 100) < 5.0


def drips(slow: socket.socket, text: bytes) -> float:
    """Send a byte every 0.1 s; returns the seconds until the server closes the connection."""
    start = time.monotonic()
    slow.settimeout(0.1)
    for i in range(len(text)):
        try:
            slow.sendall(text[i : i + 1])
            if not slow.recv(4096):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    else:
        pytest.fail("the connection is still open")
    return time.monotonic() - start


def test_a_connection_between_requests_is_closed():
    with serving(idle_timeout_s=1.0) as port, opened(port, 1, HEAD + b"\r\n") as sockets:
        assert 0.5 < closed_after(sockets[0]) < 5.0


def test_a_client_that_does_not_read_is_dropped(monkeypatch):
    monkeypatch.setattr("service.api.server._limits", lambda http: ConnectionLimits(write_timeout=0.5))
    with serving() as port, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.settimeout(20)
        deaf.connect(("127.0.0.1", port))
        deadline = time.monotonic() + 20
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < deadline:  # the document is large: asked for, and never read
                deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
                time.sleep(0.05)
        assert time.monotonic() < deadline


# Streams


def follow(port: int) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port), timeout=20)
    stream.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"event: hello" in read_until(stream, b"event: hello")
    return stream


def read_until(stream: socket.socket, text: bytes) -> bytes:
    read = b""
    while text not in read:
        piece = stream.recv(65536)
        assert piece, read[-200:]
        read += piece
    return read


def test_a_stream_outlives_timeouts_and_idle_sockets():
    with serving(header_timeout_s=0.5, idle_timeout_s=0.5, connections_per_address=5) as port, follow(port) as stream:
        with opened(port, 50):
            time.sleep(1.5)
        stream.settimeout(20)
        read_until(stream, b"event: update")  # comes after five seconds


def test_streams_of_one_address_are_limited():
    with serving(streams_per_address=2) as port:
        first, second = follow(port), follow(port)
        refused = get(port, "/v1/stream")
        assert refused.problem == (503, "too_many_streams")
        assert "http.streams_per_address" in refused.json["error"]["detail"]
        first.close()
        deadline = time.monotonic() + 20
        while True:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as again:
                again.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
                if again.recv(100).startswith(b"HTTP/1.1 200"):
                    break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        second.close()


def test_clients_of_a_trusted_proxy_have_limits_of_their_own():
    with serving(streams_per_address=1) as port, follow(port):
        assert get(port, "/v1/stream").status == 503
        with socket.create_connection(("127.0.0.1", port), timeout=20) as other:
            other.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 10.1.1.1\r\n\r\n")
            assert other.recv(100).startswith(b"HTTP/1.1 200")
    with serving(streams_per_address=1, trusted_proxies=()) as port, follow(port):
        assert get(port, "/v1/stream", x_forwarded_for="10.1.1.1").status == 503


# The metrics port


def test_the_metrics_port_drops_silent_connections(monkeypatch):
    limits = ConnectionLimits(most=4, per_address=4, header_timeout=0.5)
    monkeypatch.setattr("service.metrics.server._LIMITS", limits)
    server = MetricsServer(MetricsSettings(port=free_port()), CollectorRegistry())
    try:
        with opened(server.port, 20) as sockets:
            assert closed_after(sockets[0]) < 5.0
            assert get(server.port, "/metrics").status == 200
            assert closed_after(sockets[-1]) < 5.0
            assert drips(opened_one(server.port), HEAD) < 5.0
    finally:
        server.close()


def opened_one(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


# Garbage


@pytest.mark.parametrize(
    "sent",
    [
        b"\0" * 100 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /v1/mutes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HEAD /v1/mutes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_garbage_is_400_and_closes(sent, caplog):
    with serving() as port:
        with opened(port, 1, sent) as (one,):
            assert one.recv(100).startswith(b"HTTP/1.1 400")
            assert closed_after(one) < 5.0
        assert request(port, "GET", "/healthz").status == 200
    assert "Traceback" not in caplog.text
