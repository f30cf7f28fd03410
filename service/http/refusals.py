"""Error responses that are sent before a request reaches its route."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def error_body(reason: str, detail: str) -> bytes:
    """Return the body of an HTTP error in the API's format."""
    return json.dumps({"error": {"reason": reason, "detail": detail, "reading": None}}).encode()


async def refuse(
    send: Send, status: int, reason: str, detail: str, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Send an HTTP error in the API's format."""
    body = error_body(reason, detail)
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
