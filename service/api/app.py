"""The routes of the API."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from service import mapping as mappings
from service import messages
from service.api.answers import Accepted, Events, NumberedEvent, Problem, Refusal, Sensors
from service.api.backend import Backend, Behind, Busy, NotTaken
from service.api.bodies import JSON, LINES, BadBody, posted_readings
from service.api.guard import Guard
from service.api.openapi import document
from service.readings import rfc3339
from service.settings import RecordMapping
from service.settings.sections import Http

log = logging.getLogger(__name__)

MOST_AT_ONCE = 1000  # entries of a page
# Seconds within which a body has to come.
_BODY_WITHIN = 30.0
# Posts that wait to be durable at once; they share commits. And bodies of the largest size held in memory.
_POSTS_AT_ONCE = 32
_MOST_BODIES = 64
_STATUSES = ("provisional", "confirmed", "relocated", "retracted", "silent", "back", "new_generation")
_LARGEST = 2**63 - 1


class Refused(Exception):
    """An answer that is none."""

    def __init__(
        self, status: int, reason: str, detail: str, reading: int | None = None, headers: Mapping[str, str] = {}
    ) -> None:
        super().__init__(detail)
        self.status, self.headers = status, dict(headers)
        self.body = Refusal(Problem(reason, detail, reading))


def application(http: Http, backend: Backend, record_bytes: int) -> Any:
    """The API in front of a worker, as an ASGI application."""
    api = _Api(http, backend, record_bytes)
    routes = [
        Route("/v1/readings", api.post_readings, methods=["POST"]),
        Route("/v1/events", api.get_events),
        Route("/v1/sensors", api.get_sensors),
        Route("/v1/sensors/{sensor:path}", api.get_sensor),
        Route("/openapi.json", api.get_openapi),
        Route("/healthz", api.get_health),
        Route("/readyz", api.get_readiness),
        Route("/metrics", api.get_metrics),
    ]
    handlers: Any = {Refused: _refused, HTTPException: _no_route}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), http.read_token(), http.requests_per_s)


class _Api:
    def __init__(self, http: Http, backend: Backend, record_bytes: int) -> None:
        self._http = http
        self._backend = backend
        self._decode = mappings.decoder(RecordMapping(), record_bytes)
        self._posts = anyio.CapacityLimiter(_POSTS_AT_ONCE)
        self._bytes_in_flight = 0  # of bodies
        self._document = json.dumps(document(), indent=2).encode()

    # Readings

    async def post_readings(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (*JSON, *LINES):
            detail = f"a body is {JSON[0]} or {LINES[0]}, this one's Content-Type is {kind or 'not given'}"
            raise Refused(415, "wrong_content_type", detail)
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "wrong_content_encoding", "a body is sent as it is, without a Content-Encoding")
        body = await self._body(request)
        received = int(time.time() * 1000)
        try:
            # on threads of their own: readings may wait for a disk or for brokers, and others shall not wait for them
            accepted = await anyio.to_thread.run_sync(self._take, body, kind in LINES, received, limiter=self._posts)
        except BadBody as bad:
            raise Refused(400, bad.reason, bad.detail, bad.reading) from None
        except Behind as behind:
            raise Refused(429, "behind", str(behind), headers={"Retry-After": "1"}) from None
        except NotTaken as reason:
            raise Refused(409, "not_taken", str(reason)) from None
        except Exception as error:
            log.warning("posted readings are not stored: %s", error or type(error).__name__)
            detail = f"whether the readings are stored is not known: {str(error) or type(error).__name__}"
            raise Refused(503, "not_stored", detail, headers={"Retry-After": "1"}) from None
        finally:
            self._bytes_in_flight -= len(body)
        return _answer(accepted)

    def _take(self, body: bytes, is_lines: bool, received: int) -> Accepted:
        readings = posted_readings(body, is_lines, self._decode, received)
        return Accepted(len(readings), self._backend.submit(readings, received))

    async def _body(self, request: Request) -> bytes:
        most = self._http.body_bytes
        oversized = Refused(
            413, "oversized", f"a body has at most http.body_bytes = {most:,} bytes", headers={"Connection": "close"}
        )
        if (
            request.headers.get("content-length", "0").isdecimal()
            and int(request.headers.get("content-length", 0)) > most
        ):
            raise oversized
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_WITHIN):
                async for piece in request.stream():
                    body += piece
                    self._bytes_in_flight += len(piece)
                    if len(body) > most:
                        raise oversized
                    if self._bytes_in_flight > _MOST_BODIES * most:
                        raise Refused(429, "behind", "too many bodies at once", headers={"Retry-After": "1"})
            return bytes(body)
        except BaseException as error:
            self._bytes_in_flight -= len(body)
            if isinstance(error, TimeoutError):
                raise Refused(408, "too_slow", f"the body did not come within {_BODY_WITHIN:g} s") from None
            if isinstance(error, ClientDisconnect):
                raise Refused(400, "incomplete", "the body has no end") from None
            raise

    # Events

    async def get_events(self, request: Request) -> Response:
        options = _options(request, "after", "limit", "sensor", "status")
        after = _whole(options, "after", 0, 0, _LARGEST)
        limit = _whole(options, "limit", 100, 1, MOST_AT_ONCE)
        status = options.get("status")
        if status is not None and status not in _STATUSES:
            raise Refused(400, "bad_option", f"status is one of {', '.join(_STATUSES)}, got {status!r}")
        found = await run_in_threadpool(self._backend.events, after, limit, options.get("sensor"), status)
        events = [
            NumberedEvent(event.seq, rfc3339(event.committed * 1000), messages.decode(event.value))  # type: ignore[arg-type]
            for event in found
        ]
        return _answer(Events(events, events[-1].seq if events else after))

    # Sensors

    async def get_sensors(self, request: Request) -> Response:
        options = _options(request, "after", "limit")
        limit = _whole(options, "limit", 100, 1, MOST_AT_ONCE)
        found = await self._ask(self._backend.sensors, options.get("after", ""), limit + 1)
        return _answer(Sensors(found[:limit], found[limit - 1].sensor if len(found) > limit else None))

    async def get_sensor(self, request: Request) -> Response:
        _options(request)
        name = request.path_params["sensor"]
        found = await self._ask(self._backend.sensor, name)
        if found is None:
            raise Refused(404, "no_such_sensor", f"no reading of {name!r} was taken{self._backend.hint}")
        return _answer(found)

    async def _ask(self, question: Any, *arguments: Any) -> Any:
        try:
            return await run_in_threadpool(question, *arguments)
        except Busy as busy:
            raise Refused(503, "busy", str(busy), headers={"Retry-After": "1"}) from None

    # About the service

    async def get_openapi(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    async def get_health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n") if self._backend.is_alive() else _unwell("no cycle for too long\n")

    async def get_readiness(self, request: Request) -> Response:
        if self._backend.is_ready():
            return PlainTextResponse("ready\n")
        return _unwell("starting, restoring or stopping\n")

    async def get_metrics(self, request: Request) -> Response:
        text = await run_in_threadpool(generate_latest, self._backend.metrics.registry)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(answer: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _unwell(text: str) -> Response:
    return PlainTextResponse(text, status_code=503)


async def _refused(request: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)
    body = msgspec.json.encode(refused.body)
    return Response(body, refused.status, refused.headers, media_type="application/json")


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        problem = Problem("wrong_method", f"{request.url.path} does not take {request.method}")
    else:
        problem = Problem("not_found", f"there is no {request.url.path}: see /openapi.json for what there is")
    body = msgspec.json.encode(Refusal(problem))
    return Response(body, error.status_code, dict(error.headers or {}), media_type="application/json")


def _options(request: Request, *known: str) -> dict[str, str]:
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


def _whole(options: dict[str, str], name: str, default: int, least: int, most: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise Refused(400, "bad_option", f"{name} takes a whole number from {least} to {most}, got {text[:40]!r}")
    return int(text)
