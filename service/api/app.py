"""The routes of the API."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import anyio
import anyio.to_thread
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from service.api.answers import Accepted, Events, NumberedEvent, Sensors
from service.api.backend import Backend, Front
from service.api.bodies import JSON, LINES, BadBody, posted_readings
from service.api.guard import Guard
from service.api.headers import SecurityHeaders
from service.api.openapi import LARGEST, ORDERS, document
from service.api.requests import (
    MOST_AT_ONCE,
    Bodies,
    Refused,
    answer,
    ask,
    chosen,
    content_type,
    handlers,
    options,
    whole,
)
from service.api.session import Session
from service.http.hosts import Hosts
from service.runtime.observers import StoredEvent
from service.runtime.posting import Behind, NotTaken
from service.settings import RecordMapping
from service.settings.sections import Http
from service.settings.sinks import STATUSES
from service.wire import decoding as mappings
from service.wire.readings import rfc3339

log = logging.getLogger(__name__)

# Posts that wait to be durable at once; they share commits.
_POSTS_AT_ONCE = 32


def application(http: Http, backend: Backend, record_bytes: int, front: Front | None = None) -> Any:
    """The API in front of a worker, or of a fleet with its ``front``, as an ASGI application."""
    bodies = Bodies(http.body_bytes)
    api = _Api(bodies, backend, record_bytes, front)
    token = http.read_token()
    session = None if token is None else Session(token)
    routes = [
        *(() if front is None else front.routes(bodies, session, http.streams_per_address)),
        Route("/v1/readings", api.post_readings, methods=["POST"]),
        Route("/v1/events", api.get_events),
        Route("/v1/sensors", api.get_sensors),
        Route("/v1/sensors/{sensor:path}", api.get_sensor),
        Route("/openapi.json", api.get_openapi),
        Route("/healthz", api.get_health),
        Route("/readyz", api.get_readiness),
        Route("/metrics", api.get_metrics),
    ]
    made = Starlette(routes=routes, exception_handlers=handlers())
    is_open = (lambda path: False) if front is None else front.is_open
    hosts = Hosts(http.hosts, has_token=token is not None)
    return SecurityHeaders(Guard(made, session, http.requests_per_s, hosts, front is not None, is_open))


class _Api:
    def __init__(self, bodies: Bodies, backend: Backend, record_bytes: int, front: Front | None) -> None:
        self._bodies = bodies
        self._backend = backend
        self._front = front
        self._decode = mappings.decoder(RecordMapping(), record_bytes)
        self._posts = anyio.CapacityLimiter(_POSTS_AT_ONCE)
        self._document = json.dumps(document(has_view=front is not None), indent=2).encode()

    # Readings

    async def post_readings(self, request: Request) -> Response:
        kind = content_type(request, *JSON, *LINES)
        body = await self._bodies.read(request)
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
            self._bodies.done(body)
        return answer(accepted)

    def _take(self, body: bytes, is_lines: bool, received: int) -> Accepted:
        readings = posted_readings(body, is_lines, self._decode, received)
        return Accepted(len(readings), self._backend.post(readings, received))

    # Events

    async def get_events(self, request: Request) -> Response:
        asked = options(request, "after", "before", "limit", "order", "sensor", "status")
        newest_first = chosen(asked, "order", ORDERS) == "newest"
        after, before = whole(asked, "after", 0, 0, LARGEST), whole(asked, "before", LARGEST, 0, LARGEST)
        limit = whole(asked, "limit", 100, 1, MOST_AT_ONCE)
        status = chosen(asked, "status", STATUSES)
        found = await run_in_threadpool(
            self._backend.events, (after, before), limit, asked.get("sensor"), status, newest_first
        )
        events = [self._numbered(event) for event in found]
        return answer(Events(events, events[-1].seq if events else before if newest_first else after))

    def _numbered(self, stored: StoredEvent) -> NumberedEvent:
        if self._front is not None:
            return self._front.numbered(*stored)
        return NumberedEvent(stored.seq, rfc3339(stored.committed * 1000), stored.event)

    # Sensors

    async def get_sensors(self, request: Request) -> Response:
        asked = options(request, "after", "limit")
        limit = whole(asked, "limit", 100, 1, MOST_AT_ONCE)
        found = await ask(self._backend.sensors, asked.get("after", ""), limit + 1)
        return answer(Sensors(found[:limit], found[limit - 1].sensor if len(found) > limit else None))

    async def get_sensor(self, request: Request) -> Response:
        options(request)
        name = request.path_params["sensor"]
        found = await ask(self._backend.sensor, name)
        if found is None:
            raise Refused(404, "no_such_sensor", f"no reading of {name!r} was taken{self._backend.hint}")
        return answer(found)

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
        text = await run_in_threadpool(generate_latest, self._backend.registry)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _unwell(text: str) -> Response:
    return PlainTextResponse(text, status_code=503)
