"""Who may ask, and how often: looked at before anything else of a request."""

from __future__ import annotations

import hmac
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from service.api.answers import Problem, Refusal
from service.api.session import Session, value_in

PROBES = ("/healthz", "/readyz")
# Clients that are remembered; beyond these the longest quiet are forgotten.
_MOST_CLIENTS = 10_000
_BURST_SECONDS = 2.0

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class Rate:
    """So many requests a second from each client, with bursts of two seconds' worth."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second * _BURST_SECONDS)
        self._clock = clock
        self._clients: dict[str, tuple[float, float]] = {}  # requests that are left, and when; longest quiet first

    def wait(self, client: str) -> float:
        """Count a request; returns the seconds that its client has to wait instead, 0 where it may go on."""
        now = self._clock()
        left, since = self._clients.pop(client, (self._most, now))
        left = min(self._most, left + (now - since) * self._per_second)
        is_free = left >= 1.0
        self._clients[client] = (left - 1.0 if is_free else left, now)
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return 0.0 if is_free else (1.0 - left) / self._per_second


class Guard:
    """ASGI middleware. Probes are let through; what ``is_open`` needs no token."""

    def __init__(
        self, app: Any, token: str | None, requests_per_s: float, session: Session | None = None,
        is_open: Callable[[str], bool] = lambda path: False,
    ) -> None:  # fmt: skip
        self._app = app
        self._token = None if token is None else token.encode()
        self._rate = Rate(requests_per_s)
        self._session = session
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        wait = self._rate.wait(scope["client"][0] if scope.get("client") else "")
        if wait > 0.0:
            detail = "more requests than http.requests_per_s allows: send more readings in each"
            await _refuse(send, 429, "too_many_requests", detail, [(b"retry-after", str(math.ceil(wait)).encode())])
        elif _is_from_elsewhere(scope):
            detail = "another site's page sent this: only the service's own page and programs may"
            await _refuse(send, 403, "cross_site", detail, [])
        elif not self._is_open(scope["path"]) and not self._is_known(dict(scope["headers"])):
            detail = "this service wants its token: Authorization: Bearer TOKEN"
            await _refuse(send, 401, "unauthorized", detail, [(b"www-authenticate", b"Bearer")])
        else:
            await self._app(scope, receive, send)

    def _is_known(self, headers: dict[bytes, bytes]) -> bool:
        if self._token is None:
            return True
        scheme, _, shown = headers.get(b"authorization", b"").partition(b" ")
        if hmac.compare_digest(shown.strip(), self._token) and scheme.lower() == b"bearer":
            return True
        cookies = headers.get(b"cookie", b"").decode("latin-1")
        return self._session is not None and self._session.is_valid(value_in(cookies))


def _is_from_elsewhere(scope: Scope) -> bool:
    """Whether a browser says that the request, which changes something, comes from another site's page."""
    site = dict(scope["headers"]).get(b"sec-fetch-site", b"none")
    return scope["method"] not in ("GET", "HEAD", "OPTIONS") and site not in (b"same-origin", b"none")


async def _refuse(send: Send, status: int, reason: str, detail: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = msgspec.json.encode(Refusal(Problem(reason, detail)))
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
