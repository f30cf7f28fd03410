"""The API in front of a worker of straw: what it takes, what it refuses and how it says so."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time

import jsonschema
import pytest
from http_helpers import free_port, get, post, request

from service.api.answers import SensorEntry
from service.api.backend import Busy
from service.api.openapi import document
from service.api.posterior import posterior
from service.api.recent import RecentEvents
from service.api.server import ApiServer
from service.http.attempts import Rate
from service.metrics import Metrics
from service.runtime.posting import Behind, NotTaken
from service.sensors.inference import infer
from service.sensors.rules import prepare_rule
from service.sensors.track import Track
from service.settings import Rule, Settings
from service.settings.sections import Http, Limits
from service.wire.readings import Reading

NDJSON = "application/x-ndjson"


class Straw:
    """Keeps what it is given."""

    hint = ", says the straw"

    def __init__(self):
        self.metrics = Metrics()
        self.registry = self.metrics.registry
        self.taken = []
        self.failing = None
        self.alive = self.ready = True
        self.recent = RecentEvents()
        self.tracks = {}

    def is_alive(self):
        return self.alive

    def is_ready(self):
        return self.ready

    def post(self, readings, received):
        if self.failing is not None:
            raise self.failing
        self.taken += readings
        return len(self.taken) - 1

    def events(self, *asked):
        return self.recent.page(*asked)

    def sensor(self, name):
        if self.failing is not None:
            raise self.failing
        return posterior(self.tracks[name], False) if name in self.tracks else None

    def sensors(self, after, limit):
        names = sorted(name for name in self.tracks if name > after)[:limit]
        return [SensorEntry(name, "2026-01-01T00:00:00.000Z", False) for name in names]


@pytest.fixture
def straw():
    return Straw()


@pytest.fixture
def serve(straw):
    servers = []

    def start(limits=Limits(), **options):
        settings = Settings(http=Http(port=free_port(), **options), limits=limits)
        servers.append(ApiServer(settings, straw))
        return servers[-1].port

    yield start
    for server in servers:
        server.close()


def track(name, values, **rule):
    made = Track(name, prepare_rule(Rule(**rule)))
    accepted = []
    for i, value in enumerate(values):
        reading = Reading(name, (1_700_000_000 + i) * 1_000_000, (value,))
        accepted.append((reading.time, reading.values, made.judge(reading, -1)))
    infer(made, accepted)
    return made


def notice(sensor, kind="silent"):
    return track(sensor, []).notice(kind, 0, "why")


# Readings


def test_a_reading_a_list_and_lines_are_taken(serve, straw):
    port = serve()
    one, two = {"sensor": "a/b", "value": 1}, {"sensor": "ü", "time": "2026-01-01T00:00:00Z", "values": [1, 2]}
    assert post(port, one).json == {"accepted": 1, "offset": 0}
    assert post(port, [one, two], content_type="application/json; charset=utf-8").json == {"accepted": 2, "offset": 2}
    lines = f"{json.dumps(one)}\r\n\n{json.dumps(two)}".encode()
    assert post(port, lines, content_type=NDJSON).json == {"accepted": 2, "offset": 4}
    assert [reading.sensor for reading in straw.taken] == ["a/b", "a/b", "ü", "a/b", "ü"]
    assert json.loads(straw.taken[2].value) == two


GOOD = b'{"sensor":"a","value":1}'


@pytest.mark.parametrize(
    ("body", "reason", "reading"),
    [
        (b"", "empty", None),
        (b"  \n", "empty", None),
        (b"[]", "empty", None),
        (b"{", "not_json", 0),
        (b"[{]", "not_json", None),
        (b"[" + GOOD, "not_json", None),
        (b"[" + GOOD + b"] x", "not_json", None),
        (GOOD + GOOD, "not_json", 0),
        (b"[" * 100_000, "not_json", None),
        (b"\xff\xfe", "not_utf8", 0),
        (b'[{"sensor":"\xff","value":1}]', "not_utf8", 0),
        (b"3", "wrong_type", 0),
        (b"null", "wrong_type", 0),
        (b"[" + GOOD + b",3]", "wrong_type", 1),
        (b'{"value":1}', "no_sensor", 0),
        (b'{"sensor":"","value":1}', "bad_sensor", 0),
        (b'{"sensor":"a\\u0000","value":1}', "bad_sensor", 0),
        (b'{"sensor":"a"}', "no_value", 0),
        (b'{"sensor":"a","value":null}', "not_a_number", 0),
        (b'{"sensor":"a","value":"1"}', "not_a_number", 0),
        (b'{"sensor":"a","value":1e999}', "not_a_number", 0),
        (b'{"sensor":"a","value":NaN}', "not_json", 0),
        (b'{"sensor":"a","value":1,"values":[1]}', "wrong_type", 0),
        (b'{"sensor":"a","values":[' + b"1," * 64 + b"1]}", "too_many_values", 0),
        (b'{"sensor":"a","value":1,"time":"soon"}', "bad_time", 0),
        (b'[{"sensor":"a","value":1},{"sensor":"a","value":1,"time":1e300}]', "bad_time", 1),
        (b'{"sensor":"a","value":1,"x":"' + b"x" * 500 + b'"}', "oversized", 0),
    ],
)
def test_a_bad_body_gets_its_reason_and_nothing_of_it_is_taken(serve, straw, body, reason, reading):
    answer = post(serve(Limits(record_bytes=500)), body)
    assert answer.problem == (400, reason), answer.body
    assert answer.json["error"]["reading"] == reading
    assert answer.json["error"]["detail"]
    assert straw.taken == []


def test_a_bad_line_is_named(serve, straw):
    answer = post(serve(), GOOD + b"\n\n" + GOOD + b"\noops\n", content_type=NDJSON)
    assert answer.problem == (400, "not_json")
    assert answer.json["error"]["reading"] == 2
    assert straw.taken == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_another_content_type_is_415(serve, kind):
    assert post(serve(), GOOD, content_type=kind).problem == (415, "wrong_content_type")


def test_a_compressed_body_is_415(serve):
    assert post(serve(), GOOD, content_encoding="gzip").problem == (415, "wrong_content_encoding")


def test_a_body_beyond_the_limit_is_413_announced_or_not(serve, straw):
    port = serve(body_bytes=1000)
    body = GOOD + b" " * 1000
    assert post(port, body).problem == (413, "oversized")

    def pieces():
        yield from (body[:600], body[600:])

    answer = request(port, "POST", "/v1/readings", pieces(), content_type="application/json")
    assert answer.problem == (413, "oversized")
    assert post(port, GOOD).status == 200
    assert len(straw.taken) == 1


@pytest.mark.parametrize(
    ("failing", "status", "reason", "comes_back"),
    [
        (Behind("too much"), 429, "behind", True),
        (NotTaken("not here"), 409, "not_taken", False),
        (TimeoutError(), 503, "not_stored", True),
        (OSError("disk full"), 503, "not_stored", True),
    ],
)
def test_what_the_worker_cannot_take_is_said(serve, straw, failing, status, reason, comes_back):
    straw.failing = failing
    answer = post(serve(), GOOD)
    assert answer.problem == (status, reason)
    assert (answer.headers.get("retry-after") == "1") == comes_back


def test_half_a_body_harms_nobody(serve, straw):
    port = serve()
    with socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(b"POST /v1/readings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 100\r\n\r\n" + GOOD)  # fmt: skip
        time.sleep(0.1)
    assert post(port, GOOD).status == 200
    assert len(straw.taken) == 1


# Events and sensors


def test_events_in_pages_and_by_sensor_and_status(serve, straw):
    port = serve()
    straw.recent.add([notice("a"), notice("b"), notice("a", "back"), notice("a/x"), notice("a")])
    page = get(port, "/v1/events?limit=2").json
    assert [event["seq"] for event in page["events"]] == [1, 2]
    assert page["events"][0]["event"]["sensor"] == "a"
    rest = get(port, f"/v1/events?after={page['next']}").json
    assert [event["seq"] for event in rest["events"]] == [3, 4, 5]
    assert get(port, f"/v1/events?after={rest['next']}").json == {"events": [], "next": 5}
    assert [e["seq"] for e in get(port, "/v1/events?sensor=a").json["events"]] == [1, 3, 5]
    assert [e["seq"] for e in get(port, "/v1/events?sensor=a%2Fx&status=silent").json["events"]] == [4]
    assert [e["seq"] for e in get(port, "/v1/events?status=back").json["events"]] == [3]


@pytest.mark.parametrize(
    "path",
    ["/v1/events?after=x", "/v1/events?after=-1", "/v1/events?limit=0", "/v1/events?limit=1001", "/v1/events?limti=3",
     "/v1/events?after=1&after=2", f"/v1/events?after={'9' * 400}", "/v1/events?status=gone", "/v1/sensors?limit=a",
     "/v1/sensors/a?x=1"],
)  # fmt: skip
def test_a_bad_option_is_said(serve, path):
    assert get(serve(), path).problem == (400, "bad_option")


def test_a_sensor_is_found_by_any_name_that_it_may_have(serve, straw):
    port = serve()
    names = {"plain": "plain", "a/b/c": "a/b/c", "a b": "a%20b", "50%": "50%25", "ü/?#": "%C3%BC/%3F%23", "x/": "x/"}
    straw.tracks = {name: track(name, [1.0, 2.0]) for name in names}
    for name, path in names.items():
        answer = get(port, f"/v1/sensors/{path}")
        assert (answer.status, answer.json["sensor"]) == (200, name), path
    assert get(port, "/v1/sensors/none").problem == (404, "no_such_sensor")
    assert "says the straw" in get(port, "/v1/sensors/none").json["error"]["detail"]
    first = get(port, "/v1/sensors?limit=4").json
    second = get(port, f"/v1/sensors?limit=4&after={names[first['next']]}").json
    assert [one["sensor"] for one in first["sensors"] + second["sensors"]] == sorted(names)
    assert second["next"] is None


def test_a_sensors_posterior_says_what_is_known(serve, straw):
    values = [(-1) ** i * 0.5 + (0.0 if i < 60 else 9.0) for i in range(100)]
    straw.tracks = {"s": track("s", values), "new": track("new", [])}
    answer = get(serve(), "/v1/sensors/s").json
    assert (answer["accepted"], answer["inserted"], answer["index"], answer["generation"]) == (100, 0, 99, 0)
    assert answer["time"] == "2023-11-14T22:14:59.000Z"
    assert [point["index"] for point in answer["change_points"]] == [60]
    assert answer["change_points"][0]["low"]["index"] <= 60 <= answer["change_points"][0]["high"]["index"]
    assert [(change["index"], change["status"]) for change in answer["changes"]] == [(60, "confirmed")]
    assert answer["alarms"] == answer["changes"]  # under its old name
    assert (answer["unusual"], answer["learning"]) == ([], 400)
    assert answer["state"]["parameters"]["mean"] == pytest.approx(9.0, abs=0.5)
    assert answer["run_length"]["median"] == 40
    assert len(answer["forecast"]["median"]) == 10
    assert answer["forecast"]["median"][0][0] == pytest.approx(9.0, abs=1.0)


def test_the_old_name_of_announced_changes_is_marked_as_deprecated():
    properties = document()["components"]["schemas"]["SensorPosterior"]["properties"]
    assert [name for name, schema in properties.items() if schema.get("deprecated")] == ["alarms"]


def test_a_busy_worker_is_503(serve, straw):
    straw.failing = Busy("in a cycle")
    assert get(serve(), "/v1/sensors/a").problem == (503, "busy")


# Probes, metrics, routes


def test_probes_and_metrics(serve, straw):
    port = serve()
    assert get(port, "/healthz")[::2] == (200, b"ok\n")
    assert get(port, "/readyz")[::2] == (200, b"ready\n")
    straw.alive = straw.ready = False
    assert get(port, "/healthz")[::2] == (503, b"no cycle for too long\n")
    assert get(port, "/readyz").status == 503
    straw.metrics.records.inc(3)
    metrics = get(port, "/metrics")
    assert b"ishsmm_records_total 3.0" in metrics.body
    assert metrics.headers["content-type"].startswith("text/plain; version=")


def test_other_paths_and_methods_are_said(serve):
    port = serve()
    assert get(port, "/v1/nothing").problem == (404, "not_found")
    assert get(port, "/v1/readings").problem == (405, "wrong_method")
    assert request(port, "DELETE", "/v1/events").problem == (405, "wrong_method")


# Who may ask


@pytest.mark.parametrize(
    "shown", [None, "Bearer wrong", "Bearer", "Basic secret", "secret", "Bearer secret2", "Bearer ü"]
)
def test_without_the_token_only_the_probes_answer(serve, straw, shown):
    port = serve(token="secret")
    headers = {} if shown is None else {"authorization": shown}
    for path in ("/v1/events", "/v1/sensors", "/metrics", "/openapi.json", "/nothing"):
        answer = get(port, path, **headers)
        assert answer.problem == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert post(port, GOOD, **headers).problem == (401, "unauthorized")
    assert straw.taken == []
    assert get(port, "/healthz").status == get(port, "/readyz").status == 200


def test_with_the_token_everything_answers(serve, straw):
    port = serve(token="secret")
    assert post(port, GOOD, authorization="Bearer secret").status == 200
    assert get(port, "/v1/events", authorization="bearer secret").status == 200


def test_a_client_that_asks_too_often_is_told_when_to_come_back(serve):
    port = serve(requests_per_s=2.0)
    answers = [get(port, "/v1/events") for _ in range(6)]
    assert [answer.status for answer in answers[:4]] == [200] * 4
    assert answers[-1].problem == (429, "too_many_requests")
    assert answers[-1].headers["retry-after"] == "1"
    assert get(port, "/healthz").status == 200
    deadline = time.monotonic() + 10
    while get(port, "/v1/events").status != 200:
        assert time.monotonic() < deadline


def test_the_rate_is_each_clients_own_and_few_are_remembered():
    now = [0.0]
    rate = Rate(10.0, clock=lambda: now[0])
    assert [rate.wait("a") for _ in range(20)] == [0.0] * 20
    assert rate.wait("a") == pytest.approx(0.1)
    assert rate.wait("b") == 0.0
    now[0] = 0.1
    assert rate.wait("a") == 0.0
    for i in range(20_000):
        rate.wait(str(i))
    assert len(rate._clients) <= 10_000


def test_a_port_in_use_is_one_line(serve, straw):
    port = serve()
    with pytest.raises(
        OSError, match=f"http.host, http.port: cannot listen on 127.0.0.1:{port}: Address already in use"
    ):
        ApiServer(Settings(http=Http(port=port)), straw)


def test_many_clients_at_once(serve, straw):
    port = serve(requests_per_s=1e6)

    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for _ in range(20):
            connection.request("POST", "/v1/readings", GOOD, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200
            answer.read()
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(straw.taken) == 400


# The document


def test_the_document_has_every_route_and_its_references_resolve(serve):
    port = serve()
    found = get(port, "/openapi.json").json
    assert found == document()
    assert found["openapi"] == "3.1.0"
    for path in found["paths"]:
        for method in found["paths"][path]:
            answer = request(port, method.upper(), path.replace("{sensor}", "x"))
            assert answer.status != 405, path
            assert answer.status != 404 or "{sensor}" in path, path
    text = json.dumps(found)
    for reference in {part.split('"')[0] for part in text.split('"#/')[1:]}:
        place = found
        for name in reference.split("/"):
            place = place[name]


def test_answers_are_what_the_document_says(serve, straw):
    port = serve()
    straw.tracks = {"s": track("s", [0.0, 1.0] * 30 + [9.0] * 30), "new": track("new", [])}
    straw.recent.add([notice("a")])
    found = document()

    def check(answer, path, method="get"):
        said = found["paths"][path][method]["responses"][str(answer.status)]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json, {**said, "components": found["components"]})

    check(post(port, GOOD), "/v1/readings", "post")
    check(post(port, b"x"), "/v1/readings", "post")
    check(get(port, "/v1/events"), "/v1/events")
    check(get(port, "/v1/sensors"), "/v1/sensors")
    for name in ("s", "new", "none"):
        check(get(port, f"/v1/sensors/{name}"), "/v1/sensors/{sensor}")
    reading = {**found["components"]["schemas"]["Reading"]}
    jsonschema.validate({"sensor": "a", "time": "2026-01-01T00:00:00Z", "value": 3}, reading)
    for bad in ({"sensor": "a"}, {"value": 1}, {"sensor": "a", "value": 1, "values": [1]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, reading)
