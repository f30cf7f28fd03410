"""A browser's way to show the token: once, for a cookie that scripts cannot read and other sites cannot use.

An EventSource sends no header, and a token does not belong into scripts or addresses. The cookie is made of the token
and says when it ends, so that nothing is kept and a restart ends no session.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable

from service.http.attempts import TokenCheck

COOKIE = "ishsmm_session"
LASTS = 7 * 86_400


class Session:
    """Makes cookies of a token, and knows its own again."""

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:
        self._token = token.encode()
        self._clock = clock
        self.tokens = TokenCheck(token)

    def value(self) -> str:
        """Of a new cookie."""
        until = str(int(self._clock()) + LASTS)
        return f"{until}.{self._signed(until)}"

    def is_valid(self, value: str) -> bool:
        """Whether a cookie's value is ours and not over."""
        until, _, signature = value.partition(".")
        if not (until.isascii() and until.isdecimal() and len(until) < 16):
            return False
        is_ours = hmac.compare_digest(signature.encode(), self._signed(until).encode())
        return is_ours and self._clock() < int(until)

    @staticmethod
    def cookie(value: str, lasts: int, is_secure: bool) -> str:
        """The Set-Cookie header; ``lasts`` 0 ends the session."""
        secure = "; Secure" if is_secure else ""
        return f"{COOKIE}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}"

    def _signed(self, until: str) -> str:
        return hmac.new(self._token, f"session until {until}".encode(), hashlib.sha256).hexdigest()


def value_in(cookies: str) -> str:
    """The session in a Cookie header; empty where there is none."""
    for one in cookies.split(";"):
        name, _, value = one.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
