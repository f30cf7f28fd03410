"""The API in front of a fleet: what is known of it, what people say of it, the stream, and who may ask."""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
import time

import jsonschema
import msgspec
import pytest
from http_helpers import get, request
from view_helpers import (
    START,
    STEP,
    ShownFleet,
    alarm,
    change,
    dictionary,
    moment,
    notice,
    recurring,
    shown,
    state_record,
)

from service.api.openapi import document
from service.api.session import LASTS, Session
from service.settings import Settings
from service.settings.rules import Rule
from service.view import stream

IED = {"kind": "ied", "emission": {"family": "normal"}, "duration": {"family": "poisson"}}


@pytest.fixture
def fleet():
    return ShownFleet()


@pytest.fixture
def port(fleet):
    with shown(fleet) as port:
        yield port


def tell(port, path, body, **headers):
    return request(port, "POST", path, json.dumps(body).encode(), content_type="application/json", **headers)


def check(schema_name, instance):
    schemas = document(has_view=True)["components"]["schemas"]
    jsonschema.validate(instance, {"$ref": f"#/components/schemas/{schema_name}", "components": {"schemas": schemas}})


# What is known


def test_the_list_says_what_changed_when_and_how_sure(fleet, port):
    fleet.take(state_record("n/a", labels={"unit": "bar"}), change("n/a"), state_record("n/b", probability=0.7))
    answer = get(port, "/v1/sensors?sort=changed").json
    check("Sensors", answer)
    first, second = answer["sensors"]
    assert (first["sensor"], first["level"], first["noise"]) == ("n/a", 20.0, 1.0)
    assert (first["change"]["summary"], first["change"]["time"]) == ("level 20 -> 26", moment(30))
    assert (first["change"]["probability"], first["change"]["status"]) == (0.995, "provisional")
    assert (second["sensor"], second["change"], second["change_probability"]) == ("n/b", None, 0.7)
    assert answer["total"] == 2


def test_the_list_in_pages_by_name_and_by_offset(fleet, port):
    fleet.take(*(state_record(f"s{i}", probability=i / 10) for i in range(7)))
    first = get(port, "/v1/sensors?limit=3").json
    second = get(port, f"/v1/sensors?limit=3&after={first['next']}").json
    last = get(port, f"/v1/sensors?limit=3&after={second['next']}").json
    assert [one["sensor"] for page in (first, second, last) for one in page["sensors"]] == [f"s{i}" for i in range(7)]
    assert (first["total"], last["next"]) == (7, None)
    by_probability = get(port, "/v1/sensors?sort=probability&offset=1&limit=2").json
    assert [one["sensor"] for one in by_probability["sensors"]] == ["s5", "s4"]
    assert (by_probability["next"], by_probability["total"]) == (None, 7)
    fleet.take(notice("s3"))
    assert [one["sensor"] for one in get(port, "/v1/sensors?only=silent").json["sensors"]] == ["s3"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/sensors?sort=size",
        "/v1/sensors?only=x",
        "/v1/sensors?offset=-1",
        "/v1/incidents?status=x",
        "/v1/stream?x=1",
        "/v1/events?before=x",
        "/v1/events?order=up",
        "/v1/sensors/a/history?x=1",
    ],
)
def test_a_bad_option_is_said(fleet, port, path):
    fleet.take(state_record("a"))
    assert get(port, path).problem == (400, "bad_option")


def test_events_newest_first(fleet, port):
    fleet.take(*(change(f"s{i}") for i in range(5)))
    first = get(port, "/v1/events?order=newest&limit=2").json
    assert [one["seq"] for one in first["events"]] == [5, 4]
    rest = get(port, f"/v1/events?order=newest&before={first['next']}").json
    assert [one["seq"] for one in rest["events"]] == [3, 2, 1]
    assert get(port, "/v1/events?order=newest&before=1").json == {"events": [], "next": 1}
    assert [one["seq"] for one in get(port, "/v1/events?order=newest&before=5&after=2").json["events"]] == [4, 3]
    assert [one["seq"] for one in get(port, "/v1/events?before=5&after=2").json["events"]] == [3, 4]


def test_a_sensor_as_its_messages_tell_of_it(fleet, port):
    fleet.take(
        state_record("a/b", since=30, level=26.0), change("a/b"), change("a/b", revision=1, status="confirmed"),
        change("a/b", 1, index=50), change("a/b", 1, index=50, revision=1, status="retracted"),
    )  # fmt: skip
    answer = get(port, "/v1/sensors/a/b").json
    check("SensorPosterior", answer)
    assert [(one["index"], one["probability"]) for one in answer["change_points"]] == [(30, 0.995)]
    assert [(one["status"], one["raised_at"]["index"]) for one in answer["alarms"]] == [
        ("confirmed", 35),
        ("retracted", 55),
    ]
    assert answer["changes"] == answer["alarms"]  # under its old name
    assert answer["unusual"] == []
    fleet.take(alarm("a/b"), alarm("a/b", index=50, status="cleared"), alarm("a/b", 1, index=55))
    answer = get(port, "/v1/sensors/a/b").json
    check("SensorPosterior", answer)
    assert [(one["raised_at"]["index"], one["is_open"], one["cleared"]) for one in answer["unusual"]] == [
        (40, False, moment(50)),
        (55, True, None),
    ]
    assert answer["unusual"][0]["reasons"] == ["level"]
    assert (answer["learning"], answer["budget_s"]) == (0, 604800.0)
    assert (answer["index"], answer["rule"], answer["accepted"]) == (59, "*", None)
    assert answer["forecast"]["low"][0][0] == pytest.approx(26.0 - 1.645)
    assert get(port, "/v1/sensors/a").problem == (404, "no_such_sensor")


def test_a_sensors_history(fleet, port):
    fleet.take(state_record("a/b"), state_record("a/b", index=119, since=80, level=26.0), change("a/b", index=80))
    answer = get(port, "/v1/sensors/a/b/history").json
    check("SensorHistory", answer)
    assert [row[0] for row in answer["readings"]] == [START + i * STEP for i in range(120)]
    assert [(one["state"], one["number"], one["levels"]) for one in answer["segments"]] == [
        (0, 0, [20.0]),
        (80, 1, [26.0]),
    ]
    assert [one["event"]["index"] for one in answer["changes"]] == [80]
    assert [(point[0], point[2]) for point in answer["probabilities"]] == [(START + 59_000, 60), (START + 119_000, 40)]
    assert not answer["states_return"]
    assert get(port, "/v1/sensors/a/history").problem == (404, "no_such_sensor")


def test_the_most_unusual_sensors_come_first(fleet, port):
    fleet.take(
        state_record("a"), state_record("b", return_period=400.0), state_record("c", return_period=90.0),
        state_record("d"), alarm("d"), state_record("e", return_period=5000.0),
        state_record("f", return_period=1e6, learning=240),
    )  # fmt: skip
    answer = get(port, "/v1/sensors?sort=unusual").json
    check("Sensors", answer)
    assert [one["sensor"] for one in answer["sensors"]] == ["d", "e", "b", "a", "c", "f"]
    assert answer["sensors"][0]["alarm"]["frequency"] == "about once in 12 days"
    assert (answer["sensors"][5]["learning"], answer["sensors"][1]["return_period"]) == (240, 5000.0)
    assert [one["sensor"] for one in get(port, "/v1/sensors?only=alarm").json["sensors"]] == ["d"]
    fleet.take(alarm("d", index=50, status="cleared"))
    assert get(port, "/v1/sensors?only=alarm").json["total"] == 0


def test_a_sensors_alarms(fleet, port):
    fleet.take(state_record("a", return_period=400.0), alarm("a"), alarm("a", index=50, status="cleared"))
    fleet.take(alarm("a", 1, index=55))
    answer = get(port, "/v1/sensors/a/history").json
    check("SensorHistory", answer)
    assert [(one["event"]["at"]["index"], one["is_open"], one["cleared"]) for one in answer["alarms"]] == [
        (40, False, moment(50)),
        (55, True, None),
    ]
    assert (answer["return_period"], answer["learning"]) == (400.0, 0)
    assert [one["event"]["id"] for one in get(port, "/v1/events?status=raised").json["events"]] == [
        alarm("a").id,
        alarm("a", 1).id,
    ]


def test_a_new_generation_ends_the_open_alarm(fleet, port):
    fleet.take(state_record("a"), alarm("a"), notice("a", "new_generation", generation=1))
    assert get(port, "/v1/sensors?only=alarm").json["total"] == 0
    (known,) = get(port, "/v1/sensors/a/history").json["alarms"]
    assert (known["is_open"], known["cleared"]) == (False, moment(60))


def test_an_alarm_is_acknowledged(fleet, port):
    fleet.take(state_record("a"), alarm("a"))
    assert tell(port, "/v1/acknowledgements", {"id": alarm("a").id, "note": "us", "by": "ann"}).status == 200
    assert get(port, "/v1/events").json["events"][0]["acknowledged"]["by"] == "ann"
    assert get(port, "/v1/sensors").json["sensors"][0]["alarm"]["acknowledged"]["note"] == "us"
    assert get(port, "/v1/sensors/a/history").json["alarms"][0]["acknowledged"]["by"] == "ann"


def test_a_sensor_may_be_called_history(fleet, port):
    fleet.take(state_record("x"), state_record("x/history"), state_record("y/history"))
    assert "readings" in get(port, "/v1/sensors/x/history").json
    assert get(port, "/v1/sensors/x%2Fhistory").json["sensor"] == "x/history"
    assert get(port, "/v1/sensors/x%2Fhistory").json["alarms"] == []
    assert get(port, "/v1/sensors/x/history/history").json["sensor"] == "x/history"
    assert get(port, "/v1/sensors/y/history").problem == (404, "no_such_sensor")


def test_the_rule_says_whether_states_return():
    fleet = ShownFleet(Settings(rules=(msgspec.convert({"match": "m*", "model": IED}, Rule),)))
    fleet.take(state_record("m"), state_record("other"))
    with shown(fleet) as port:
        assert get(port, "/v1/sensors/m/history").json["states_return"]
        assert not get(port, "/v1/sensors/other/history").json["states_return"]


# What people say


def test_a_name_is_joined_where_the_state_is_shown_and_nowhere_else(fleet, port):
    fleet.take(state_record("a", since=30), change("a"))
    body = {"sensor": "a", "generation": 0, "state": 30, "name": " full load ", "by": "ann"}
    assert tell(port, "/v1/names", body).json == {"done": "state 30 of a is called full load"}
    assert get(port, "/v1/sensors").json["sensors"][0]["state"]["name"] == "full load"
    assert get(port, "/v1/sensors/a").json["state"]["name"] == "full load"
    assert get(port, "/v1/sensors/a/history").json["segments"][0]["name"] == "full load"
    assert b"full load" not in get(port, "/v1/events").body
    fleet.take(state_record("a", index=119, since=30, generation=1))  # the same number means another state
    assert get(port, "/v1/sensors/a").json["state"]["name"] is None
    fleet.take(state_record("a", index=119, since=30))
    assert tell(port, "/v1/names", {**body, "name": ""}).status == 200
    assert get(port, "/v1/sensors/a").json["state"]["name"] is None


@pytest.mark.parametrize(
    ("change_of", "said"),
    [
        ({"sensor": "aa"}, "no sensor 'aa' has a state; did you mean 'a'?"),
        ({"generation": 1}, "has not come to generation 1"),
        ({"name": "x" * 61}, "length <= 60"),
        ({"state": -1}, ">= 0"),
        ({"state": "1"}, "Expected `int`"),
        ({"more": 1}, "unknown field `more`"),
    ],
)
def test_a_name_that_cannot_be_given_is_said(fleet, port, change_of, said):
    fleet.take(state_record("a"))
    answer = tell(port, "/v1/names", {"sensor": "a", "generation": 0, "state": 0, "name": "x"} | change_of)
    assert answer.status in (400, 409)
    assert said in answer.json["error"]["detail"]


# The state dictionary


def test_the_dictionary_is_told_with_names_and_merges(fleet, port):
    fleet.take(recurring(), dictionary())
    plain = get(port, "/v1/states?sensor=a").json
    check("ShownDictionary", plain)
    assert [(one["id"], one["name"]) for one in plain["states"]] == [(0, None), (40, "full load"), (70, None)]
    assert (plain["state"], plain["novelty"], plain["remaining"], plain["interval_s"]) == (70, 0.25, 12.0, 60.0)
    about = {"sensor": "a", "generation": 0, "by": "ann"}
    assert tell(port, "/v1/names", {**about, "state": 40, "name": "peak"}).status == 200
    done = {"done": "state 70 of a is shown as state 40"}
    assert tell(port, "/v1/merges", {**about, "state": 70, "into": 40}).json == done
    merged = get(port, "/v1/states?sensor=a").json
    check("ShownDictionary", merged)
    assert [(one["id"], one["name"], one["merged"]) for one in merged["states"]] == [(0, None, []), (40, "peak", [70])]
    history = get(port, "/v1/sensors/a/history").json
    check("SensorHistory", history)
    assert history["dictionary"] == merged
    # wherever the state is shown
    assert [(one["state"], one["name"]) for one in history["segments"]] == [(40, "peak")]
    state = get(port, "/v1/sensors/a").json["state"]
    assert (state["id"], state["name"]) == (40, "peak")
    assert get(port, "/v1/sensors").json["sensors"][0]["state"]["name"] == "peak"
    assert tell(port, "/v1/merges", {**about, "state": 70, "into": None}).json["done"].endswith("shown as itself")
    assert get(port, "/v1/sensors/a").json["state"]["id"] == 70
    assert len(get(port, "/v1/states?sensor=a").json["states"]) == 3


def test_a_sensor_without_a_dictionary_says_so(fleet, port):
    fleet.take(state_record("a"), recurring("b", generation=1), dictionary("b"))
    assert get(port, "/v1/states").problem == (400, "bad_option")
    assert get(port, "/v1/states?sensor=none").problem == (404, "no_such_sensor")
    assert get(port, "/v1/states?sensor=a").problem == (404, "no_dictionary")
    assert get(port, "/v1/states?sensor=b").problem == (404, "no_dictionary")  # it is of an earlier generation
    assert get(port, "/v1/sensors/b/history").json["dictionary"] is None
    assert "set model = 'recurring'" in get(port, "/v1/states?sensor=a").json["error"]["detail"]


@pytest.mark.parametrize(
    ("path", "change_of", "status", "said"),
    [
        ("/v1/names", {"state": 7}, 404, "no state 7 of 'a', it has 0, 40, 70: `ishsmm-stream states a` lists them"),
        ("/v1/merges", {"state": 7}, 404, "no state 7 of 'a'"),
        ("/v1/merges", {"into": 7}, 404, "no state 7 of 'a'"),
        ("/v1/merges", {"into": 70}, 409, "state 70 of 'a' cannot be merged into itself"),
        ("/v1/merges", {"state": 40, "into": 0}, 409, "state 0 of 'a' is merged into state 40 already"),
        ("/v1/merges", {"into": None}, 409, "is not merged into another one"),
        ("/v1/merges", {"sensor": "aa"}, 409, "no sensor 'aa' has a state; did you mean 'a'?"),
        ("/v1/merges", {"generation": 1}, 409, "has not come to generation 1"),
        ("/v1/merges", {"into": -1}, 400, ">= 0"),
        ("/v1/merges", {"into": "0"}, 400, "Expected `int | null`"),
        ("/v1/merges", {"name": "x"}, 400, "unknown field `name`"),
    ],
)
def test_a_merge_that_cannot_be_made_is_said(fleet, port, path, change_of, status, said):
    fleet.take(recurring(), dictionary())
    fleet.operations.merge("a", 0, 0, 40, "ann")
    body = {"sensor": "a", "generation": 0, "state": 70} | ({"into": 0} if path == "/v1/merges" else {"name": "x"})
    answer = tell(port, path, body | change_of)
    assert (answer.status, said in answer.json["error"]["detail"]) == (status, True), answer.json


def test_a_merge_that_cannot_be_kept_is_said(fleet, port):
    fleet.take(recurring(), dictionary())
    fleet.names.failing = sqlite3.OperationalError("disk full")
    body = {"sensor": "a", "generation": 0, "state": 70, "into": 40}
    assert tell(port, "/v1/merges", body).problem == (503, "not_kept")
    assert get(port, "/v1/sensors/a").json["state"]["id"] == 70


def test_forgetting_a_sensor_takes_back_its_names_and_merges(fleet, port):
    fleet.take(recurring(), dictionary(), recurring("b"), dictionary("b"))
    for sensor in ("a", "b"):
        fleet.operations.name(sensor, 0, 40, "peak", "ann")
        fleet.operations.merge(sensor, 0, 70, 40, "ann")
    fleet.view.forget("a")
    fleet.operations.forget("a")
    assert get(port, "/v1/states?sensor=a").problem == (404, "no_such_sensor")
    fleet.take(recurring(), dictionary())
    assert [one["name"] for one in get(port, "/v1/states?sensor=a").json["states"]] == [None, "full load", None]
    assert [one["name"] for one in get(port, "/v1/states?sensor=b").json["states"]] == [None, "peak"]


def test_mute_and_unmute(fleet, port):
    fleet.take(state_record("n/a"), state_record("s/a"))
    assert tell(port, "/v1/mutes", {"pattern": "n/*", "for_s": 60, "why": "oil"}).status == 200
    listed = {one["sensor"]: one["muted_until"] for one in get(port, "/v1/sensors").json["sensors"]}
    assert (listed["n/a"] is not None, listed["s/a"]) == (True, None)
    assert [one["sensor"] for one in get(port, "/v1/sensors?only=muted").json["sensors"]] == ["n/a"]
    mutes = get(port, "/v1/mutes").json
    check("Mutes", mutes)
    assert [(one["pattern"], one["why"]) for one in mutes["mutes"]] == [("n/*", "oil")]
    fleet.take(change("n/a"), change("s/a"))
    assert [one["is_muted"] for one in get(port, "/v1/events").json["events"]] == [True, False]
    assert request(port, "DELETE", "/v1/mutes?pattern=n").problem == (409, "not_possible")
    assert request(port, "DELETE", "/v1/mutes?pattern=n/*").status == 200
    assert get(port, "/v1/mutes").json == {"mutes": []}


def test_an_acknowledgement_is_seen_everywhere(fleet, port):
    fleet.take(state_record("a"), change("a"))
    event = get(port, "/v1/events").json["events"][0]["event"]["id"]
    assert tell(port, "/v1/acknowledgements", {"id": event[:8], "note": "us", "by": "ann"}).status == 200
    assert get(port, "/v1/events").json["events"][0]["acknowledged"]["by"] == "ann"
    assert get(port, "/v1/sensors").json["sensors"][0]["change"]["acknowledged"]["note"] == "us"
    assert get(port, "/v1/sensors/a/history").json["changes"][0]["acknowledged"]["by"] == "ann"
    assert tell(port, "/v1/acknowledgements", {"id": "abcdef"}).problem == (409, "not_possible")


def test_what_cannot_be_kept_is_said(fleet, port):
    fleet.take(state_record("a"))
    fleet.control.failing = sqlite3.OperationalError("disk full")
    assert tell(port, "/v1/mutes", {"pattern": "a", "for_s": 60}).problem == (503, "not_kept")
    assert get(port, "/v1/mutes").json == {"mutes": []}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b'{"pattern":"a"}', b'{"pattern":"a","for_s":1e9}', b"[" * 9999]
)
def test_a_bad_body_is_said(port, body):
    assert request(port, "POST", "/v1/mutes", body, content_type="application/json").status == 400
    assert request(port, "POST", "/v1/mutes", body, content_type="text/plain").problem == (415, "wrong_content_type")


# Incidents


def test_incidents_are_listed_and_streamed(fleet, port):
    names = [f"n/{i}" for i in range(12)]
    fleet.view.take_earlier(change("elsewhere", index=-100_000))  # so that something is usual
    fleet.view.caught_up()
    fleet.take(*(state_record(name) for name in names))
    with Follower(port) as follower:
        assert follower.next("hello")["counts"]["incidents"] == 0
        assert get(port, "/v1/incidents").json == {"incidents": []}
        for i, name in enumerate(names):
            fleet.take(change(name, index=30 + i))
        update = follower.until("update", lambda data: any(one["sensors"] == 12 for one in data.get("incidents", ())))
        check("Batch", update)
    listed = get(port, "/v1/incidents").json
    check("IncidentList", listed)
    (incident,) = listed["incidents"]
    assert (incident["group"], incident["status"], incident["opened"]) == ("n", "open", moment(30))
    assert [one["sensor"] for one in incident["members"]] == names
    assert get(port, "/v1/incidents?status=closed").json == {"incidents": []}
    fleet.take(state_record("n/0", index=2 * 86_400))
    fleet.view.advance()
    assert get(port, "/v1/incidents?status=open").json == {"incidents": []}


def test_a_fleet_that_has_just_begun_has_no_incidents(fleet, port):
    """Nothing is usual yet: a plant that starts is no incident."""
    fleet.view.caught_up()
    for i in range(12):
        fleet.take(state_record(f"n/{i}"), change(f"n/{i}", index=30 + i))
        fleet.view.advance()
    assert get(port, "/v1/incidents").json == {"incidents": []}


# The stream


class Follower:
    """Reads server-sent events."""

    def __init__(self, port, **headers):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", "/v1/stream", headers=named)
        self.answer = self._connection.getresponse()
        self.last_id = ""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._connection.close()

    def events(self):
        found = {}
        while line := self.answer.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                found[name] = value
            elif "event" in found:
                self.last_id = found["id"]
                yield found["event"], json.loads(found["data"])
                found = {}

    def next(self, kind):
        came, data = next(self.events())
        assert came == kind
        return data

    def until(self, kind, condition):
        return next(data for came, data in self.events() if came == kind and condition(data))


def test_the_stream_tells_of_sensors_events_and_what_people_say(fleet, port):
    with Follower(port) as follower:
        assert follower.answer.headers["content-type"].startswith("text/event-stream")
        hello = follower.next("hello")
        check("Hello", hello)
        assert not hello["is_resumed"]
        fleet.take(state_record("a"), change("a"))
        update = follower.until("update", lambda data: "events" in data)
        check("Batch", update)
        assert [one["sensor"] for one in update["sensors"]] == ["a"]
        assert [one["event"]["sensor"] for one in update["events"]] == ["a"]
        tell(port, "/v1/mutes", {"pattern": "a", "for_s": 60})
        assert follower.until("update", lambda data: data.get("said"))


def test_who_comes_back_hears_what_was_missed_and_nothing_twice(fleet, port):
    with Follower(port) as follower:
        follower.next("hello")
        fleet.take(state_record("a"))
        follower.until("update", lambda data: "sensors" in data)
        mark = follower.last_id
    fleet.take(state_record("b"))
    with Follower(port, last_event_id=mark) as follower:
        assert follower.next("hello")["is_resumed"]
        assert [one["sensor"] for one in follower.next("update")["sensors"]] == ["b"]
    with Follower(port, last_event_id="elsewhere-3") as follower:
        assert not follower.next("hello")["is_resumed"]


def test_a_slow_client_is_told_to_resync_and_costs_no_memory(fleet, port):
    """A client that does not read: the server stops sending to it, its place is lost, and it is told so."""
    fleet.view.updates._kept = type(fleet.view.updates._kept)(maxlen=1000)
    large = [state_record(f"s{i}", labels={"large": "x" * 5000}) for i in range(150)]
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline:
            fleet.take(*large)
            time.sleep(0.05)  # a client that reads has a third of the list to go
        assert len(fleet.view.updates._kept) == 1000
        slow.settimeout(10)
        read = b""
        while b"event: resync" not in read:
            piece = slow.recv(1 << 16)
            assert piece
            read = read[-20:] + piece
    assert get(port, "/healthz").status == 200


def test_streams_are_counted_and_end_with_the_server(fleet, monkeypatch):
    monkeypatch.setattr(stream, "MOST_STREAMS", 2)
    with shown(fleet) as port:
        followers = [Follower(port), Follower(port)]
        for follower in followers:
            follower.next("hello")
        assert get(port, "/v1/stream").problem == (503, "too_many_streams")
        began = time.monotonic()
    assert time.monotonic() - began < 1.5
    assert list(followers[0].events()) == []
    with shown(ShownFleet()) as port, Follower(port) as follower:
        follower.next("hello")


# Who may ask


def test_the_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(fleet):
    fleet.take(state_record("a"))
    with shown(fleet, token="secret") as port:
        assert get(port, "/").status == 200
        assert get(port, "/page/main.js").status == 200
        assert get(port, "/v1/sensors").problem == (401, "unauthorized")
        assert get(port, "/v1/stream").problem == (401, "unauthorized")
        answer = tell(port, "/v1/session", {"token": "secret"})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "secret" not in cookie
        assert "Secure" not in cookie
        shown_cookie = cookie.partition(";")[0]
        assert get(port, "/v1/sensors", cookie=f"other=1; {shown_cookie}").status == 200
        with Follower(port, cookie=shown_cookie) as follower:
            follower.next("hello")
        assert get(port, "/v1/sensors", cookie=shown_cookie[:-1] + "x").status == 401
        over = request(port, "DELETE", "/v1/session", cookie=shown_cookie).headers["set-cookie"]
        assert "Max-Age=0" in over


def test_a_proxy_with_tls_gets_a_secure_cookie(fleet):
    with shown(fleet, token="secret") as port:
        answer = tell(port, "/v1/session", {"token": "secret"}, x_forwarded_proto="https")
        assert answer.headers["set-cookie"].endswith("; Secure")


def test_tokens_are_not_tried_quickly(fleet):
    with shown(fleet, token="secret") as port:
        answers = [tell(port, "/v1/session", {"token": f"guess {i}"}).problem for i in range(10)]
        assert answers[0] == (401, "unauthorized")
        assert answers[-1] == (429, "too_many_attempts")


def test_a_cookie_ends_and_is_of_its_token():
    now = [1000.0]
    session = Session("secret", clock=lambda: now[0])
    value = session.value()
    assert session.is_valid(value)
    assert not Session("other", clock=lambda: now[0]).is_valid(value)
    for wrong in ("", ".", "1.", f"9{value}", f"{value}0", value.replace(".", ""), "ü.ü"):
        assert not session.is_valid(wrong)
    now[0] += LASTS
    assert not session.is_valid(value)


def test_another_sites_page_may_not_say_anything(fleet, port):
    fleet.take(state_record("a"))
    mute = {"pattern": "a", "for_s": 60}
    assert tell(port, "/v1/mutes", mute, sec_fetch_site="cross-site").problem == (403, "cross_site")
    assert tell(port, "/v1/mutes", mute, sec_fetch_site="same-site").problem == (403, "cross_site")
    assert tell(port, "/v1/mutes", mute, sec_fetch_site="same-origin").status == 200
    assert get(port, "/v1/mutes", sec_fetch_site="cross-site").status == 200


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/v1/sensors", "/v1/nothing", "/healthz", "/metrics"])
def test_every_answer_has_the_security_headers(port, path):
    headers = get(port, path).headers
    assert "unsafe" not in headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
        assert part in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "cache-control" in headers


def test_the_pages_files_are_served_and_nothing_else(port):
    page = get(port, "/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert get(port, "/", if_none_match=page.headers["etag"]).status == 304
    for path in ("/page/x.js", "/page/..%2Fview.py", "/page/", "/page/../view.py", "/favicon.ico"):
        assert get(port, path).status == 404


# The document


def test_the_document_has_the_views_routes_and_its_references_resolve(fleet, port):
    fleet.take(state_record("x"))
    found = get(port, "/openapi.json").json
    assert found == document(has_view=True)
    for path in found["paths"]:
        for method in found["paths"][path]:
            if path != "/v1/stream":  # has no end
                assert request(port, method.upper(), path.replace("{sensor}", "x")).status not in (404, 405), path
    text = json.dumps(found)
    for reference in {part.split('"')[0] for part in text.split('"#/')[1:]}:
        place = found
        for name in reference.split("/"):
            place = place[name]
