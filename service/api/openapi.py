"""The OpenAPI document, written from the types of the answers: what it says is what is sent."""

from __future__ import annotations

from typing import Any

import msgspec

import ishsmm_stream
from service.api.answers import Accepted, Events, Refusal, SensorPosterior, Sensors
from service.messages import tidy

_ANSWERS = (Accepted, Events, Sensors, SensorPosterior, Refusal)
_EXAMPLE = {"sensor": "boiler-1", "time": 1767225600.5, "value": 20.1}
_READING = {
    "type": "object",
    "description": "A reading in the service's own format: `value`, or `values` where the sensor has several channels.",
    "required": ["sensor"],
    "properties": {
        "sensor": {"type": "string", "minLength": 1, "maxLength": 249},
        "time": {
            "description": "seconds since the epoch, or RFC 3339; without it the moment at which it is received",
            "oneOf": [{"type": "number"}, {"type": "string", "format": "date-time"}],
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
    404: "there is no such sensor",
    408: "the body came too slowly",
    409: "this service takes no readings over HTTP, and why",
    413: "the body is larger than http.body_bytes",
    415: "another Content-Type, or a Content-Encoding",
    429: "more than is worked off, or more requests than a client may send: Retry-After says in how many seconds",
    503: "no answer in time; whether posted readings are stored is then not known",
}
_TEXT = {"text/plain": {"schema": {"type": "string"}}}


def document() -> dict[str, Any]:
    """The document as plain tables."""
    _, components = msgspec.json.schema_components(_ANSWERS, ref_template="#/components/schemas/{name}")
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
                        "schema": {"oneOf": [_ref("Reading"), {"type": "array", "items": _ref("Reading")}]},
                        "example": [_EXAMPLE],
                    },
                    "application/x-ndjson": {"schema": {"type": "string", "description": "a reading on each line"}},
                }},
                "responses": _responses(Accepted, 400, 401, 408, 409, 413, 415, 429, 503),
            }},
            "/v1/events": {"get": {
                "operationId": "getEvents",
                "summary": "Change points and notices in the order in which they were committed",
                "parameters": [
                    _option("after", {"type": "integer", "minimum": 0, "default": 0}, after),
                    limit,
                    _option("sensor", {"type": "string"}, "of this sensor only"),
                    _option("status", {"type": "string"}, "of this status only: provisional, confirmed, relocated, "
                            "retracted; of notices their kind: silent, back, new_generation"),
                ],
                "responses": _responses(Events, 400, 401, 429),
            }},
            "/v1/sensors": {"get": {
                "operationId": "getSensors",
                "summary": "The sensors, by name",
                "parameters": [_option("after", {"type": "string"}, after), limit],
                "responses": _responses(Sensors, 400, 401, 429, 503),
            }},
            "/v1/sensors/{sensor}": {"get": {
                "operationId": "getSensor",
                "summary": "A sensor's posterior now",
                "parameters": [{
                    "name": "sensor", "in": "path", "required": True, "schema": {"type": "string"},
                    "description": "its name; slashes in it may stand as they are",
                }],
                "responses": _responses(SensorPosterior, 400, 401, 404, 429, 503),
            }},
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
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }  # fmt: skip


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _option(name: str, schema: dict[str, Any], says: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": says}


def _responses(answer: type, *refusals: int) -> dict[str, Any]:
    found = {"200": {"description": "done", "content": {"application/json": {"schema": _ref(answer.__name__)}}}}
    for status in refusals:
        content = {"application/json": {"schema": _ref("Refusal")}}
        found[str(status)] = {"description": _REFUSALS[status], "content": content}
    return found


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
