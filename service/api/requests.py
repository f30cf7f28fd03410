"""What the API's routes have in common: options, bodies, answers and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.api.answers import Problem, Refusal
from service.api.backend import Busy
from service.api.bodies import JSON

MOST_AT_ONCE = 1000  # entries of a page
# Seconds within which a body has to come.
_BODY_WITHIN = 30.0
# Bodies of the largest size held in memory.
_MOST_BODIES = 64
_Body = TypeVar("_Body")
_Found = TypeVar("_Found")


class Refused(Exception):
    """An answer that is none."""

    def __init__(
        self, status: int, reason: str, detail: str, reading: int | None = None, headers: Mapping[str, str] = {}
    ) -> None:
        super().__init__(detail)
        self.status, self.headers = status, dict(headers)
        self.body = Refusal(Problem(reason, detail, reading))


def answer(found: msgspec.Struct) -> Response:
    """What was asked for."""
    return Response(msgspec.json.encode(found), media_type="application/json")


async def refused(request: Request, error: Exception) -> Response:
    """A refusal as it is sent."""
    assert isinstance(error, Refused)
    return Response(msgspec.json.encode(error.body), error.status, error.headers, media_type="application/json")


async def no_route(request: Request, error: Exception) -> Response:
    """Where there is nothing, or nothing that can be done so."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        problem = Problem("wrong_method", f"{request.url.path} does not take {request.method}")
    else:
        problem = Problem("not_found", f"there is no {request.url.path}: see /openapi.json for what there is")
    body = msgspec.json.encode(Refusal(problem))
    return Response(body, error.status_code, dict(error.headers or {}), media_type="application/json")


async def ask(question: Callable[..., _Found], *arguments: Any) -> _Found:
    """What a worker answers, on a thread."""
    try:
        return await run_in_threadpool(question, *arguments)
    except Busy as busy:
        raise Refused(503, "busy", str(busy), headers={"Retry-After": "1"}) from None


# Options


def options(request: Request, *known: str) -> dict[str, str]:
    """The options after the question mark, each once."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            detail = f"{name!r} is unknown, known are {', '.join(known)}" if known else f"{name!r} is unknown, none is"
            raise Refused(400, "bad_option", detail)
        if name in found:
            raise Refused(400, "bad_option", f"{name} is given twice")
        found[name] = value
    return found


def whole(found: dict[str, str], name: str, default: int, least: int, most: int) -> int:
    """An option that is a whole number."""
    text = found.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise Refused(400, "bad_option", f"{name} takes a whole number from {least} to {most}, got {text[:40]!r}")
    return int(text)


def chosen(found: dict[str, str], name: str, known: tuple[str, ...]) -> str | None:
    """An option that is one of a few words; None where it is not given."""
    text = found.get(name)
    if text is not None and text not in known:
        raise Refused(400, "bad_option", f"{name} is one of {', '.join(known)}, got {text[:40]!r}")
    return text


# Bodies


def content_type(request: Request, *known: str) -> str:
    """The kind of the body, one of those that are taken."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in known:
        detail = f"a body is {' or '.join(dict.fromkeys(known))}, this one's Content-Type is {kind or 'not given'}"
        raise Refused(415, "wrong_content_type", detail)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "wrong_content_encoding", "a body is sent as it is, without a Content-Encoding")
    return kind


class Bodies:
    """Takes bodies in, each of a size that is bounded, and all of them together too."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._in_flight = 0  # bytes

    async def read(self, request: Request) -> bytes:
        """All of it; ``done`` says that it is no longer held."""
        oversized = Refused(
            413, "oversized", f"a body has at most http.body_bytes = {self._most:,} bytes",
            headers={"Connection": "close"},
        )  # fmt: skip
        announced = request.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > self._most:
            raise oversized
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_WITHIN):
                async for piece in request.stream():
                    body += piece
                    self._in_flight += len(piece)
                    if len(body) > self._most:
                        raise oversized
                    if self._in_flight > _MOST_BODIES * self._most:
                        raise Refused(429, "behind", "too many bodies at once", headers={"Retry-After": "1"})
            return bytes(body)
        except BaseException as error:
            self._in_flight -= len(body)
            if isinstance(error, TimeoutError):
                raise Refused(408, "too_slow", f"the body did not come within {_BODY_WITHIN:g} s") from None
            if isinstance(error, ClientDisconnect):
                raise Refused(400, "incomplete", "the body has no end") from None
            raise

    def done(self, body: bytes) -> None:
        """A body that was read is no longer held."""
        self._in_flight -= len(body)

    async def read_as(self, request: Request, kind: type[_Body]) -> _Body:
        """A small JSON body of a type."""
        content_type(request, *JSON)
        body = await self.read(request)
        self.done(body)
        try:
            return msgspec.json.decode(body, type=kind)
        except UnicodeDecodeError as error:
            raise Refused(400, "not_utf8", f"byte {error.start} cannot be decoded") from None
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            reason = "bad_body" if isinstance(error, msgspec.ValidationError) else "not_json"
            raise Refused(400, reason, str(error)) from None


def handlers() -> dict[Any, Any]:
    """Who turns exceptions into answers."""
    return {Refused: refused, HTTPException: no_route}
