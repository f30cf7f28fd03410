"""Rates of requests and of wrong tokens, for each client."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import Any

from service.http.connections import network_of

# Clients that are remembered; beyond these the longest quiet are forgotten.
_MOST_CLIENTS = 10_000
_BURST_SECONDS = 2.0
# Wrong tokens of one address: per second, and at once.
_WRONG_PER_SECOND, _WRONG_AT_ONCE = 1.0, 5.0


def client_of(scope: Mapping[str, Any]) -> str:
    """Return the address that a request's limits are counted by."""
    return network_of(scope["client"][0]) if scope.get("client") else ""


class Rate:
    """A number of requests per second from each client, with bursts: two seconds' worth unless told."""

    def __init__(
        self, per_second: float, burst: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second * _BURST_SECONDS if burst is None else burst)
        self._clock = clock
        self._clients: dict[str, tuple[float, float]] = {}  # requests that are left, and when; longest quiet first

    def wait(self, client: str, cost: float = 1.0) -> float:
        """Count a request. Returns the seconds that its client has to wait instead, 0 if it may go on.

        With ``cost`` 0 nothing is counted.
        """
        now = self._clock()
        left, since = self._clients.pop(client, (self._most, now))
        left = min(self._most, left + (now - since) * self._per_second)
        is_free = left >= 1.0
        self._clients[client] = (left - cost if is_free else left, now)
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return 0.0 if is_free else (1.0 - left) / self._per_second


class TokenCheck:
    """Compares tokens in constant time, and limits how many wrong ones an address may try.

    An address that has tried too many has to wait, also with the right token: otherwise the response would tell which
    one is right. The same wrong token again is no further guess, so that a program with an old token does not shut out
    others at its address.
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token.encode()
        self._wrong = Rate(_WRONG_PER_SECOND, _WRONG_AT_ONCE, clock)
        self._last_wrong: dict[str, bytes] = {}

    def wait(self, client: str) -> float:
        """Return the seconds for which a client may try no token, 0 if it may."""
        return self._wrong.wait(client, cost=0.0)

    def is_right(self, client: str, shown: bytes) -> bool:
        """Whether it is the token. Counts a wrong one."""
        if hmac.compare_digest(shown, self._token):
            return True
        digest = hashlib.sha256(shown).digest()
        if self._last_wrong.pop(client, b"") != digest:
            self._wrong.wait(client)
        self._last_wrong[client] = digest
        if len(self._last_wrong) > _MOST_CLIENTS:
            del self._last_wrong[next(iter(self._last_wrong))]
        return False


def bearer_of(authorization: bytes) -> bytes | None:
    """Return the token in an Authorization header, None if there is none."""
    scheme, _, shown = authorization.partition(b" ")
    shown = shown.strip()
    return shown if scheme.lower() == b"bearer" and shown else None
