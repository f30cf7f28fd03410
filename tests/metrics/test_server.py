"""``/metrics`` on its own port."""

from __future__ import annotations

import pytest
from http_helpers import free_port, get, request
from prometheus_client import CollectorRegistry, Counter

from service.metrics.server import MetricsServer, serve
from service.settings.sections import MetricsSettings


@pytest.fixture
def serving():
    opened = []

    def start(**options):
        registry = CollectorRegistry()
        Counter("things", "Things", registry=registry).inc(3)
        opened.append(serve(MetricsSettings(port=free_port(), **options), registry))
        return opened[-1].port

    yield start
    for server in opened:
        server.close()


def test_it_answers_metrics_and_nothing_else(serving):
    port = serving()
    answer = get(port, "/metrics")
    assert answer.status == 200
    assert b"\nthings_total 3.0" in answer.body
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert get(port, "/").status == get(port, "/v1/sensors").status == 404
    assert request(port, "POST", "/metrics", b"x").status in (200, 405)


@pytest.mark.parametrize("shown", [None, "Bearer wrong", "Bearer", "Basic secret", "secret", "Bearer secret2", "ü ü"])
def test_without_its_token_it_refuses(serving, shown):
    answer = get(serving(token="secret"), "/metrics", **({} if shown is None else {"authorization": shown}))
    assert answer.status == 401
    assert b"metrics.token" in answer.body
    assert answer.headers["www-authenticate"] == "Bearer"


def test_with_its_token_it_answers(serving, tmp_path):
    assert get(serving(token="secret"), "/metrics", authorization="Bearer secret").status == 200
    (tmp_path / "token").write_text("other\n")
    port = serving(token_file=tmp_path / "token")
    assert get(port, "/metrics", authorization="bearer other").status == 200


def test_a_port_that_is_taken_is_said(serving):
    port = serving()
    with pytest.raises(OSError, match=rf"metrics.host, metrics.port: cannot listen on 127.0.0.1:{port}: Address"):
        serve(MetricsSettings(port=port), CollectorRegistry())


def test_no_port_no_server():
    assert serve(MetricsSettings(), CollectorRegistry()) is None


def test_a_port_that_is_taken_is_said_by_the_option_that_gave_it(serving):
    port = serving()
    with pytest.raises(OSError, match=f"--port: cannot listen on 127.0.0.1:{port}: Address"):
        MetricsServer(MetricsSettings(port=port), CollectorRegistry(), keys="--port")
