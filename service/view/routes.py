"""The routes that a service which knows the whole fleet has on top of a worker's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from service.api import view_answers as answers
from service.api.answers import NumberedEvent, SensorPosterior, Sensors
from service.api.guard import TOO_MANY_ATTEMPTS
from service.api.openapi import INCIDENT_STATUSES, MOST_OFFSET, ONLY, SORTS
from service.api.requests import MOST_AT_ONCE, Bodies, Refused, answer, ask, chosen, options, whole
from service.api.session import LASTS, Session
from service.http.attempts import client_of
from service.operations.actions import UnknownState
from service.view import stream
from service.view.files import PageFiles
from service.view.operations import ViewOperations
from service.view.view import View
from service.wire.messages import Event

_HISTORY = "/history"


class FleetRoutes:
    """``sensor`` answers for one sensor; ``not_kept`` are the failures of what keeps what people say."""

    def __init__(
        self, view: View, operations: ViewOperations, sensor: Callable[[str], SensorPosterior | None],
        not_kept: tuple[type[Exception], ...],
    ) -> None:  # fmt: skip
        self._view, self._operations, self._sensor, self._not_kept = view, operations, sensor, not_kept
        self._files = PageFiles()

    def routes(self, bodies: Bodies, session: Session | None, streams_per_address: int) -> list[BaseRoute]:
        """All of them; the page's own are at / and below /page."""
        self._bodies, self._session = bodies, session
        self._streams = stream.Streams(streams_per_address)
        return [
            Route("/", self._files.index),
            Route("/page/{name}", self._files.one),
            _route("/v1/session", POST=self.post_session, DELETE=self.delete_session),
            Route("/v1/sensors", self.get_sensors),
            Route("/v1/sensors/{sensor:path}", self.get_sensor),
            Route("/v1/incidents", self.get_incidents),
            Route("/v1/promise", self.get_promise),
            _route("/v1/mutes", GET=self.get_mutes, POST=self.post_mute, DELETE=self.delete_mute),
            _route("/v1/acknowledgements", POST=self.post_acknowledgement),
            _route("/v1/acceptances", POST=self.post_acceptance),
            Route("/v1/states", self.get_states),
            _route("/v1/names", POST=self.post_name),
            _route("/v1/merges", POST=self.post_merge),
            Route("/v1/stream", self.get_stream),
        ]

    def is_open(self, path: str) -> bool:
        """The page holds no secrets, and asks for the token."""
        return path in ("/", "/v1/session") or path.startswith("/page/")

    def numbered(self, seq: int, committed: int, event: Event) -> NumberedEvent:
        """An event with what people have said of it."""
        return self._view.numbered(seq, committed, event)

    def close(self) -> None:
        """End the streams."""
        self._view.updates.close()

    # The fleet

    async def get_sensors(self, request: Request) -> Response:
        asked = options(request, "after", "limit", "search", "sort", "only", "offset")
        limit = whole(asked, "limit", 100, 1, MOST_AT_ONCE)
        offset = whole(asked, "offset", 0, 0, MOST_OFFSET)
        sort = chosen(asked, "sort", SORTS) or "name"
        only = chosen(asked, "only", ONLY)
        after = asked.get("after", "")
        found, total = await run_in_threadpool(
            self._view.sensors, asked.get("search", ""), cast(Any, sort), cast(Any, only), offset, limit, after
        )
        has_more = sort == "name" and bool(found) and offset + len(found) < total
        return answer(Sensors(found, found[-1].sensor if has_more else None, total))

    async def get_sensor(self, request: Request) -> Response:
        options(request)
        name = request.path_params["sensor"]
        # a name may end with /history: then its last slash is written %2F
        if request.scope["raw_path"].endswith(_HISTORY.encode()):
            name = name.removesuffix(_HISTORY)
            history = await ask(self._view.history, name)
            if history is not None:
                return answer(history)
        else:
            found = await ask(self._sensor, name)
            if found is not None:
                return answer(self._view.with_name(found))
        raise Refused(404, "no_such_sensor", f"no state of {name!r} is known")

    async def get_states(self, request: Request) -> Response:
        name = options(request, "sensor").get("sensor", "")
        if not name:
            raise Refused(400, "bad_option", "sensor takes the name of a sensor, and is needed")
        found = await ask(self._view.states, name)
        if found is not None:
            return answer(found)
        if self._operations.generation_of(name) is None:
            raise Refused(404, "no_such_sensor", f"no state of {name!r} is known")
        detail = f"{name!r} has no state dictionary: set model = 'recurring' in its rule, and wait for readings"
        raise Refused(404, "no_dictionary", detail)

    async def get_incidents(self, request: Request) -> Response:
        status = chosen(options(request, "status"), "status", INCIDENT_STATUSES)
        return answer(answers.IncidentList(await run_in_threadpool(self._view.incidents, status)))

    async def get_promise(self, request: Request) -> Response:
        options(request)
        return answer(await run_in_threadpool(self._view.promise))

    async def get_stream(self, request: Request) -> Response:
        options(request)
        return self._streams.response(self._view, request.headers.get("last-event-id", ""), client_of(request.scope))

    # What people say

    async def get_mutes(self, request: Request) -> Response:
        options(request)
        return answer(answers.Mutes(self._view.mutes()))

    async def post_mute(self, request: Request) -> Response:
        wanted = await self._bodies.read_as(request, answers.NewMute)
        said = await self._do(self._operations.mute, wanted.pattern, wanted.for_s, wanted.why, wanted.by)
        return self._done(f"{said.pattern} is muted until {said.until}")

    async def delete_mute(self, request: Request) -> Response:
        pattern = options(request, "pattern").get("pattern", "")
        said = await self._do(self._operations.unmute, pattern)
        return self._done(f"{said.pattern} is no longer muted")

    async def post_acknowledgement(self, request: Request) -> Response:
        wanted = await self._bodies.read_as(request, answers.NewAcknowledgement)
        said = await self._do(self._operations.acknowledge, wanted.id, wanted.note, wanted.by)
        return self._done(f"the change {said.id} of {said.sensor} is acknowledged")

    async def post_acceptance(self, request: Request) -> Response:
        wanted = await self._bodies.read_as(request, answers.NewAcceptance)
        said = await self._do(self._operations.accept, wanted.sensor, wanted.by)
        return self._done(f"what {said.sensor} does now is usual from its next reading on")

    async def post_name(self, request: Request) -> Response:
        wanted = await self._bodies.read_as(request, answers.NewName)
        said = await self._do(
            self._operations.name, wanted.sensor, wanted.generation, wanted.state, wanted.name, wanted.by
        )  # fmt: skip
        return self._done(f"state {said.state} of {said.sensor} is called {said.name or 'by its number'}")

    async def post_merge(self, request: Request) -> Response:
        wanted = await self._bodies.read_as(request, answers.NewMerge)
        said = await self._do(
            self._operations.merge, wanted.sensor, wanted.generation, wanted.state, wanted.into, wanted.by
        )  # fmt: skip
        shown = "itself" if said.merged_into is None else f"state {said.merged_into}"
        return self._done(f"state {said.state} of {said.sensor} is shown as {shown}")

    async def _do(self, act: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return await run_in_threadpool(act, *arguments)
        except self._not_kept as error:
            raise Refused(503, "not_kept", f"it may not be kept: {error}", headers={"Retry-After": "1"}) from None
        except UnknownState as error:
            raise Refused(404, "no_such_state", str(error)) from None
        except ValueError as error:
            raise Refused(409, "not_possible", str(error)) from None

    def _done(self, words: str) -> Response:
        self._view.said()
        return answer(answers.Done(words))

    # Who asks

    async def post_session(self, request: Request) -> Response:
        wanted = await self._bodies.read_as(request, answers.NewSession)
        if self._session is None:
            return answer(answers.Done("no token is needed here"))
        client = client_of(request.scope)
        if self._session.tokens.wait(client) > 0.0:
            raise Refused(429, "too_many_attempts", TOO_MANY_ATTEMPTS, headers={"Retry-After": "1"})
        if not self._session.tokens.is_right(client, wanted.token.encode()):
            raise Refused(401, "unauthorized", "this is not the service's token")
        return self._with_cookie(self._session.value(), LASTS, request)

    async def delete_session(self, request: Request) -> Response:
        return self._with_cookie("", 0, request)

    def _with_cookie(self, value: str, lasts: int, request: Request) -> Response:
        is_secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
        body = msgspec.json.encode(answers.Done("the session has begun" if lasts else "the session is over"))
        headers = {"Set-Cookie": Session.cookie(value, lasts, is_secure)}
        return Response(body, headers=headers, media_type="application/json")


def _route(path: str, **by_method: Callable[[Request], Awaitable[Response]]) -> Route:
    """One route for all methods of a path, so that what is refused can say all that are not."""

    async def answered(request: Request) -> Response:
        return await by_method["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, answered, methods=list(by_method))
