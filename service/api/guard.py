"""Who may ask, and how often: checked before anything else of a request."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from service.api.session import Session, value_in
from service.http.attempts import Rate, TokenCheck, bearer_of, client_of
from service.http.connections import PROBES
from service.http.hosts import Hosts
from service.http.refusals import Receive, Scope, Send, refuse

TOO_MANY_ATTEMPTS = "too many wrong tokens from this address: wait a second, and check the token"


class Guard:
    """ASGI middleware. Probes are let through; paths that ``is_open`` need no token."""

    def __init__(
        self, app: Any, session: Session | None, requests_per_s: float, hosts: Hosts, takes_cookies: bool,
        is_open: Callable[[str], bool] = lambda path: False,
    ) -> None:  # fmt: skip
        self._app = app
        self._session = session  # None: there is no token
        self._rate = Rate(requests_per_s)
        self._hosts = hosts
        self._takes_cookies = takes_cookies
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        client, headers = client_of(scope), dict(scope["headers"])
        wait = self._rate.wait(client)
        if wait > 0.0:
            detail = "more requests than http.requests_per_s allows: send more readings in each"
            await refuse(send, 429, "too_many_requests", detail, _after(wait))
            return
        problem = self._hosts.problem(scope["method"], headers)
        if problem is not None:
            await refuse(send, 403, *problem)
        elif self._session is None or self._is_open(scope["path"]) or self._shows_cookie(self._session, headers):
            await self._app(scope, receive, send)
        else:
            await self._with_token(self._session.tokens, client, headers, scope, receive, send)

    async def _with_token(
        self, tokens: TokenCheck, client: str, headers: dict[bytes, bytes], scope: Scope, receive: Receive, send: Send
    ) -> None:
        shown = bearer_of(headers.get(b"authorization", b""))
        wait = 0.0 if shown is None else tokens.wait(client)
        if wait > 0.0:
            await refuse(send, 429, "too_many_attempts", TOO_MANY_ATTEMPTS, _after(wait))
        elif shown is not None and tokens.is_right(client, shown):
            await self._app(scope, receive, send)
        else:
            detail = "this service wants its token: Authorization: Bearer TOKEN"
            await refuse(send, 401, "unauthorized", detail, [(b"www-authenticate", b"Bearer")])

    def _shows_cookie(self, session: Session, headers: dict[bytes, bytes]) -> bool:
        cookies = headers.get(b"cookie", b"").decode("latin-1")
        return self._takes_cookies and session.is_valid(value_in(cookies))


def _after(wait: float) -> list[tuple[bytes, bytes]]:
    return [(b"retry-after", str(math.ceil(wait)).encode())]
