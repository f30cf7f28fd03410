"""The OpenAPI document, written from the types of the answers: what it says is what is sent."""

from __future__ import annotations

from typing import Any

import msgspec

import ishsmm_stream
from service.api import view_answers as view
from service.api.answers import Accepted, Events, Refusal, SensorPosterior, Sensors
from service.api.session import COOKIE
from service.operations.dictionary import ShownDictionary
from service.settings.sinks import STATUSES
from service.wire.messages import tidy
from service.wire.readings import EARLIEST, LATEST

_ANSWERS = (Accepted, Events, Sensors, SensorPosterior, Refusal)
_OF_THE_VIEW = (
    view.SensorHistory, view.IncidentList, view.Promised, view.Mutes, view.Done, view.Hello, view.Batch,
    view.NewMute, view.NewAcknowledgement, view.NewAcceptance, view.NewName, view.NewMerge, view.NewSession,
)  # fmt: skip
_EXAMPLE = {"sensor": "boiler-1", "time": 1767225600.5, "value": 20.1}
_READING = {
    "type": "object",
    "description": "A reading in the service's own format: `value`, or `values` where the sensor has several channels.",
    "required": ["sensor"],
    "properties": {
        "sensor": {"type": "string", "minLength": 1, "maxLength": 249},
        "time": {
            "description": "seconds since the epoch, or RFC 3339; without it the moment at which it is received",
            "oneOf": [
                {"type": "number", "minimum": EARLIEST // 1_000_000, "maximum": LATEST // 1_000_000},
                {"type": "string", "format": "date-time"},
            ],
        },
        "value": {"type": "number"},
        "values": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 64},
    },
    "oneOf": [{"required": ["value"]}, {"required": ["values"]}],
    "examples": [_EXAMPLE],
}
_REFUSALS = {
    400: "something about the request is wrong; of a body with one bad reading nothing is taken",
    401: "the service has a token, and it was not shown",
    403: "the Host header names another host (http.hosts), or a page of another site sent this",
    404: "there is no such sensor, or it has no such state",
    408: "the body came too slowly",
    409: "it cannot be done as things are, and why",
    413: "the body is larger than http.body_bytes",
    415: "another Content-Type, or a Content-Encoding",
    429: "more than is worked off, or more requests than a client may send: Retry-After says in how many seconds",
    503: "no answer in time; whether posted readings are stored is then not known",
}
_SENSOR = {
    "name": "sensor", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1},
    "description": "its name; slashes in it may stand as they are, but for one before a last part `history`: %2F",
}  # fmt: skip
ORDERS = ("oldest", "newest")
SORTS = ("name", "unusual", "probability", "changed")
ONLY = ("alarm", "changed", "silent", "muted")
INCIDENT_STATUSES = ("open", "closed", "retracted")
LARGEST = 2**63 - 1
MOST_OFFSET = 10_000_000
_TEXT = {"text/plain": {"schema": {"type": "string"}}}


def document(has_view: bool = False) -> dict[str, Any]:
    """The document as plain tables; ``has_view``: of a service that knows the whole fleet."""
    types = (*_ANSWERS, *_OF_THE_VIEW) if has_view else _ANSWERS
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    after = "only those after this one: what the page before gave as `next`"
    limit = _option("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}, "most of them")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ishsmm-stream",
            "version": ishsmm_stream.__version__,
            "description": "Readings in, change points and posteriors out. Fields may be added to answers.",
        },
        "paths": {
            "/v1/readings": {"post": {
                "operationId": "postReadings",
                "summary": "Hand in readings; answered when all of them are durable",
                "requestBody": {"required": True, "content": {
                    "application/json": {
                        "schema": {"oneOf": [
                            _ref("Reading"), {"type": "array", "items": _ref("Reading"), "minItems": 1},
                        ]},
                        "example": [_EXAMPLE],
                    },
                    "application/x-ndjson": {"schema": {"type": "string", "description": "a reading on each line"}},
                }},
                "responses": _responses(Accepted, 400, 401, 403, 408, 409, 413, 415, 429, 503),
            }},
            "/v1/events": {"get": {
                "operationId": "getEvents",
                "summary": "Change points and notices in the order in which they were committed",
                "parameters": [
                    _option("after", {"type": "integer", "minimum": 0, "maximum": LARGEST}, after),
                    _option("before", {"type": "integer", "minimum": 0, "maximum": LARGEST},
                            "only those before this one: with order=newest what the page before gave as `next`"),
                    limit,
                    _option("order", {"enum": list(ORDERS)}, "which come first; oldest unless told"),
                    _option("sensor", {"type": "string"}, "of this sensor only"),
                    _option("status", {"enum": list(STATUSES)}, "of this status only; of notices their kind"),
                ],
                "responses": _responses(Events, 400, 401, 403, 429),
            }},
            "/v1/sensors": {"get": {
                "operationId": "getSensors",
                "summary": "The sensors, by name",
                "parameters": [
                    _option("after", {"type": "string"}, after), limit, *(_ways_to_look() if has_view else ()),
                ],
                "responses": _responses(Sensors, 400, 401, 403, 429, 503),
            }},
            "/v1/sensors/{sensor}": {"get": {
                "operationId": "getSensor",
                "summary": "A sensor's posterior now",
                "parameters": [_SENSOR],
                "responses": _responses(SensorPosterior, 400, 401, 403, 404, 429, 503),
            }},
            **(_paths_of_the_view() if has_view else {}),
            "/openapi.json": {"get": {
                "operationId": "getOpenapi",
                "summary": "This document",
                "responses": {"200": {"description": "OpenAPI 3.1", "content": {"application/json": {}}}},
            }},
            "/healthz": {"get": _probe("getHealth", "Whether the worker lives (no token)", "no cycle for too long")},
            "/readyz": {"get": _probe("getReadiness", "Whether the worker works (no token)", "starting or ending")},
            "/metrics": {"get": {
                "operationId": "getMetrics",
                "summary": "Metrics for Prometheus",
                "responses": {"200": {"description": "text format", "content": _TEXT}},
            }},
        },
        "components": {
            "schemas": {"Reading": _READING, **tidy(components)},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                **({"session": {"type": "apiKey", "in": "cookie", "name": COOKIE}} if has_view else {}),
            },
        },
        "security": [{}, {"token": []}, *([{"session": []}] if has_view else [])],
    }  # fmt: skip


def _ways_to_look() -> list[dict[str, Any]]:
    return [
        _option("search", {"type": "string"}, "words that are all in the name or in the values of the labels"),
        _option(
            "sort",
            {"enum": list(SORTS)},
            "name (the default); unusual: open alarms first, then the most unusual; probability: the most probable "
            "change first; changed: the latest change first",
        ),
        _option(
            "only",
            {"enum": list(ONLY)},
            "only sensors that have an open alarm, changed in the last hour, are silent, or are muted",
        ),
        _option("offset", {"type": "integer", "minimum": 0, "maximum": MOST_OFFSET}, "so many are left out in front"),
    ]


def _paths_of_the_view() -> dict[str, Any]:
    return {
        "/v1/sensors/{sensor}/history": {"get": {
            "operationId": "getHistory",
            "summary": "A sensor's readings, states, changes and alarms, as far back as they are remembered",
            "parameters": [_SENSOR],
            "responses": _responses(view.SensorHistory, 400, 401, 403, 404, 429, 503),
        }},
        "/v1/incidents": {"get": {
            "operationId": "getIncidents",
            "summary": "Sensors of a group that changed together, the latest first",
            "parameters": [_option("status", {"enum": list(INCIDENT_STATUSES)}, "of this status only")],
            "responses": _responses(view.IncidentList, 400, 401, 403, 429),
        }},
        "/v1/promise": {"get": {
            "operationId": "getPromise",
            "summary": "Alarms raised against alarms promised, over the last hour, day and week, by rule",
            "responses": _responses(view.Promised, 400, 401, 403, 429),
        }},
        "/v1/stream": {"get": {
            "operationId": "getStream",
            "summary": "What happens, as it happens: server-sent events",
            "description": "`hello` (data: Hello) comes first, then `update` (Batch); `resync` (Hello) where some were "
                           "missed and everything is to be asked for again. `Last-Event-ID` goes on from there.",
            "parameters": [{
                "name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "string"},
                "description": "the last id that was seen",
            }],
            "responses": {
                "200": {"description": "no end", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
                **_refusals(400, 401, 403, 429, 503),
            },
        }},
        "/v1/mutes": {
            "get": {
                "operationId": "getMutes",
                "summary": "What is muted",
                "responses": _responses(view.Mutes, 400, 401, 403, 429),
            },
            "post": _telling("postMute", "Mute sensors: sinks hear nothing of them for a time", view.NewMute),
            "delete": {
                "operationId": "deleteMute",
                "summary": "Take a mute back",
                "parameters": [{**_option("pattern", {"type": "string"}, "as it was given"), "required": True}],
                "responses": _responses(view.Done, 400, 401, 403, 409, 429, 503),
            },
        },
        "/v1/acknowledgements": {
            "post": _telling("postAcknowledgement", "Say that an alarm or a change was seen", view.NewAcknowledgement),
        },
        "/v1/acceptances": {
            "post": _telling("postAcceptance", "Make what a sensor does now usual from here on", view.NewAcceptance),
        },
        "/v1/states": {"get": {
            "operationId": "getStates",
            "summary": "A sensor's state dictionary, with names and merges",
            "parameters": [{**_option("sensor", {"type": "string", "minLength": 1}, "its name"), "required": True}],
            "responses": _responses(ShownDictionary, 400, 401, 403, 404, 429, 503),
        }},
        "/v1/names": {"post": _telling("postName", "Name a state of a sensor", view.NewName, 404)},
        "/v1/merges": {"post": _telling("postMerge", "Show a state of a sensor as another one", view.NewMerge, 404)},
        "/v1/session": {
            "post": {
                **_telling("postSession", "Show the token, and get a cookie that stands for it", view.NewSession),
                "security": [{}],
            },
            "delete": {
                "operationId": "deleteSession",
                "summary": "Give the cookie back",
                "security": [{}],
                "responses": _responses(view.Done, 400, 403, 429),
            },
        },
    }  # fmt: skip


def _telling(name: str, summary: str, body: type, *more: int) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(body.__name__)}}},
        "responses": _responses(view.Done, 400, 401, 403, *more, 408, 409, 413, 415, 429, 503),
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _option(name: str, schema: dict[str, Any], says: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": says}


def _responses(answer: type, *refusals: int) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref(answer.__name__)}}
    return {"200": {"description": "done", "content": content}, **_refusals(*refusals)}


def _refusals(*statuses: int) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref("Refusal")}}
    return {str(status): {"description": _REFUSALS[status], "content": content} for status in statuses}


def _probe(name: str, summary: str, otherwise: str) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "security": [{}],
        "responses": {
            "200": {"description": "yes", "content": _TEXT},
            "503": {"description": otherwise, "content": _TEXT},
        },
    }
