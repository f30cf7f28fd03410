"""Pages of other sites, DNS rebinding, and guesses at the token: what a browser or a stranger may not do."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest
from http_helpers import free_port, get, request
from prometheus_client import CollectorRegistry
from view_helpers import ShownFleet, shown

from service.api.openapi import document
from service.http.attempts import TokenCheck
from service.http.hosts import Hosts, check_hosts
from service.metrics.server import MetricsServer
from service.settings.sections import MetricsSettings

MUTE = {"pattern": "*", "for_s": 60.0, "why": "", "by": "me"}
PATHS = document(has_view=True)["paths"]
CHANGING = [(path, method) for path, methods in PATHS.items() for method in methods if method != "get"]


@contextlib.contextmanager
def serving(**options) -> Iterator[int]:
    with shown(ShownFleet(), **options) as port:
        yield port


def mute(port: int, **headers: str):
    headers = {"content_type": "application/json", **headers}
    return request(port, "POST", "/v1/mutes", json.dumps(MUTE).encode(), **headers)


@pytest.fixture(scope="module")
def port():
    with serving() as port:
        yield port


# Hosts


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "LOCALHOST.", "127.0.0.1:9", "127.9.9.9", "[::1]:80", ""])
def test_this_machines_names_are_allowed(port, host):
    assert get(port, "/v1/sensors", host=host).status == 200
    assert mute(port, host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]",
     "0.0.0.0", "evil.example@localhost", "localhost:x", "[", "evil/localhost", "::1", "localhost, evil", "2130706433"],
)  # fmt: skip
def test_a_foreign_name_is_refused_wherever_it_asks(port, host):
    for path in ("/", "/v1/sensors", "/v1/events", "/metrics", "/openapi.json", "/page/main.js", "/nothing"):
        assert get(port, path, host=host).problem == (403, "wrong_host"), path
    assert mute(port, host=host).problem == (403, "wrong_host")
    assert get(port, "/healthz", host=host).status == get(port, "/readyz", host=host).status == 200


def test_dns_rebinding_changes_nothing_and_says_what_to_set():
    with serving() as port:
        rebound = {"host": f"evil.example:{port}", "origin": f"http://evil.example:{port}"}
        refused = mute(port, **rebound)
        assert refused.problem == (403, "wrong_host")
        assert "add 'evil.example' to http.hosts" in refused.json["error"]["detail"]
        body = json.dumps({"sensor": "a", "value": 1}).encode()
        headers = {"content_type": "application/json", **rebound}
        assert request(port, "POST", "/v1/readings", body, **headers).problem == (403, "wrong_host")
        assert get(port, "/v1/mutes").json["mutes"] == []


def test_names_that_are_set_are_allowed_beside_this_machines():
    with serving(hosts=("sensors.example.com", "[2001:db8::1]")) as port:
        for host in ("sensors.example.com", "Sensors.Example.com:8443", "[2001:db8:0::1]:80", "localhost"):
            assert get(port, "/v1/sensors", host=host).status == 200, host
        assert get(port, "/v1/sensors", host="other.example.com").problem == (403, "wrong_host")
    with serving(hosts=("*",)) as port:
        assert get(port, "/v1/sensors", host="any.example").status == 200


def test_with_a_token_any_name_is_allowed_unless_names_are_set():
    with serving(token="secret") as port:
        assert get(port, "/v1/sensors", host="worker-1:9108", authorization="Bearer secret").status == 200
        assert get(port, "/v1/sensors", host="evil.example").problem == (401, "unauthorized")
    with serving(token="secret", hosts=("a.example",)) as port:
        assert get(port, "/v1/sensors", host="b.example", authorization="Bearer secret").status == 403
        assert get(port, "/v1/sensors", host="a.example", authorization="Bearer secret").status == 200


@pytest.mark.parametrize("host", ["", "http://a.example", "a.example:80", "a b", "*.example.com", "a/b", "[::1]:80"])
def test_hosts_are_names_without_scheme_and_port(host):
    with pytest.raises(ValueError, match="hosts takes names such as"):
        check_hosts([host])


def test_the_metrics_port_checks_its_host():
    server = MetricsServer(MetricsSettings(port=free_port(), hosts=("box",)), CollectorRegistry())
    try:
        assert get(server.port, "/metrics").status == get(server.port, "/metrics", host="box:1").status == 200
        refused = get(server.port, "/metrics", host="evil.example")
        assert (refused.status, b"metrics.hosts" in refused.body) == (403, True)
    finally:
        server.close()


# Origins


def test_the_pages_own_origin_and_programs_without_one_may_change_things(port):
    assert mute(port).status == 200
    assert mute(port, origin=f"http://127.0.0.1:{port}").status == 200
    assert mute(port, origin=f"http://localhost:{port}", host=f"localhost:{port}").status == 200
    assert mute(port, origin=f"http://127.0.0.1:{port}", sec_fetch_site="same-origin").status == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1", "http://localhost:{port}", "", "file://",
     "ftp://127.0.0.1:{port}", "http://127.0.0.1:{port}.evil.example", "http://evil@127.0.0.1:{port}",
     "127.0.0.1:{port}"],
)  # fmt: skip
def test_another_origin_may_not(port, origin):
    refused = mute(port, origin=origin.format(port=port))
    assert refused.problem == (403, "cross_site")
    assert mute(port, origin=origin.format(port=port), sec_fetch_site="same-origin").status == 403
    assert "http.hosts" in refused.json["error"]["detail"]
    answer = request(port, "DELETE", "/v1/mutes?pattern=x", origin=origin.format(port=port))
    assert answer.problem == (403, "cross_site")


@pytest.mark.parametrize(("path", "method"), CHANGING)
def test_every_route_that_changes_something_checks_origin_and_content_type(port, path, method):
    assert request(port, method.upper(), path, b"{}", origin="http://evil.example").problem == (403, "cross_site")
    if method != "delete":  # a browser asks before it sends DELETE to another origin, and is refused
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            assert request(port, method.upper(), path, b"{}", content_type=kind).problem == (415, "wrong_content_type")
    assert request(port, "OPTIONS", path, origin="http://evil.example").status == 405


def test_behind_a_proxy_the_page_has_the_proxys_origin():
    with serving(token="secret", hosts=("sensors.example.com",)) as port:
        right = {"authorization": "Bearer secret", "origin": "https://sensors.example.com"}
        assert mute(port, host="sensors.example.com", **right).status == 200
        assert mute(port, **right).status == 200  # the proxy does not pass the Host on
    with serving(token="secret") as port:
        assert mute(port, host="sensors.example.com", **right).status == 200
        assert mute(port, **right).problem == (403, "cross_site")


def test_default_ports_are_the_schemes():
    hosts = Hosts((), has_token=True)

    def is_allowed(origin: str, host: str) -> bool:
        return hosts.problem("POST", {b"origin": origin.encode(), b"host": host.encode()}) is None

    assert is_allowed("http://a", "a")
    assert is_allowed("http://a", "a:80")
    assert is_allowed("http://a:80", "a")
    assert is_allowed("https://a", "a:443")
    assert not is_allowed("http://a", "a:443")
    assert not is_allowed("http://a:81", "a")
    assert not is_allowed("http://", "")


# Guesses at the token


def test_wrong_tokens_of_an_address_are_limited_in_headers_too():
    with serving(token="secret") as port:
        answers = [get(port, "/v1/events", authorization=f"Bearer guess{i}") for i in range(10)]
        assert answers[0].problem == (401, "unauthorized")
        assert answers[-1].problem == (429, "too_many_attempts")
        assert answers[-1].headers["retry-after"] == "1"
        # the right one tells nothing either, from this address
        assert get(port, "/v1/events", authorization="Bearer secret").problem == (429, "too_many_attempts")
        assert get(port, "/v1/events", authorization="Bearer secret", x_forwarded_for="10.1.1.1").status == 200
        assert get(port, "/healthz").status == 200


def test_the_page_and_headers_share_the_limit():
    with serving(token="secret") as port:
        for i in range(10):
            get(port, "/v1/events", authorization=f"Bearer guess{i}")
        body = json.dumps({"token": "secret"}).encode()
        answer = request(port, "POST", "/v1/session", body, content_type="application/json")
        assert answer.problem == (429, "too_many_attempts")


def test_a_session_goes_on_while_its_address_is_limited():
    with serving(token="secret") as port:
        body = json.dumps({"token": "secret"}).encode()
        answer = request(port, "POST", "/v1/session", body, content_type="application/json")
        cookie = answer.headers["set-cookie"].partition(";")[0]
        for i in range(10):
            get(port, "/v1/events", authorization=f"Bearer guess{i}")
        assert get(port, "/v1/events", cookie=cookie).status == 200


def test_a_program_with_an_old_token_does_not_shut_out_others():
    with serving(token="secret") as port:
        for _ in range(20):
            assert get(port, "/v1/events", authorization="Bearer old").status == 401
            assert get(port, "/v1/events").status == 401
        assert get(port, "/v1/events", authorization="Bearer secret").status == 200


def test_attempts_come_back_one_per_second_and_few_addresses_are_remembered():
    now = [0.0]
    tokens = TokenCheck("secret", clock=lambda: now[0])
    for i in range(5):
        assert tokens.wait("a") == 0.0
        assert not tokens.is_right("a", b"%d" % i)
    assert tokens.wait("a") == pytest.approx(1.0)
    assert tokens.wait("b") == 0.0
    now[0] = 1.0
    assert tokens.wait("a") == 0.0
    assert tokens.is_right("a", b"secret")
    for i in range(20_000):
        tokens.is_right(str(i), b"x")
    assert len(tokens._last_wrong) <= 10_000


def test_the_metrics_port_limits_wrong_tokens():
    server = MetricsServer(MetricsSettings(port=free_port(), token="secret"), CollectorRegistry())
    try:
        statuses = [get(server.port, "/metrics", authorization=f"Bearer {i}").status for i in range(10)]
        assert (statuses[0], statuses[-1]) == (401, 429)
    finally:
        server.close()
