"""Requests to a service on this machine."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> tuple[int, str]:
        return self.status, self.json["error"]["reason"]


def request(port: int, method: str, path: str, body: Any = None, timeout: float = 30.0, **headers: str) -> Answer:
    """One request on a connection of its own; ``content_type="..."`` is the header Content-Type."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def get(port: int, path: str, **headers: str) -> Answer:
    return request(port, "GET", path, **headers)


def post(port: int, readings: Any, **options: Any) -> Answer:
    """Readings as JSON."""
    body = readings if isinstance(readings, bytes) else json.dumps(readings).encode()
    return request(port, "POST", "/v1/readings", body, **{"content_type": "application/json", **options})


def is_ready(port: int) -> bool:
    """Whether the service there answers, and works."""
    try:
        return get(port, "/readyz").status == 200
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
