"""The HTTP API in front of a worker on Kafka, and that it makes no difference where readings come from."""

from __future__ import annotations

import json

import numpy as np
from embedded_helpers import eventually, settings_of
from embedded_helpers import running as running_embedded
from http_helpers import free_port, get, is_ready, post
from kafka_helpers import read_partition
from running import running, settings_for

from service.wire.messages import event_id

RULES = [{"window": {"readings": 25}, "time": {"max_ahead_s": 1e9}}]
START = 1_767_225_600


def stream(sensors=5, length=150, seed=4):
    rng = np.random.default_rng(seed)
    return [
        {"sensor": f"plant/{s}", "time": START + t, "value": round(float(rng.normal()) + 6.0 * (t > 90 + s), 6)}
        for t in range(length)
        for s in range(sensors)
    ]


def post_all(port, readings):
    for begin in range(0, len(readings), 40):
        answer = post(port, readings[begin : begin + 40])
        assert answer.status == 200, answer
        assert answer.json["accepted"] == len(readings[begin : begin + 40])


def wait_until_counted(port, readings):
    for sensor in {one["sensor"] for one in readings}:
        count = sum(one["sensor"] == sensor for one in readings)
        eventually(lambda s=sensor, n=count: get(port, f"/v1/sensors/{s}").json.get("accepted") == n, what=sensor)


def events_over_http(port):
    """By sensor, in their order."""
    found = {}
    for one in get(port, "/v1/events?limit=1000").json["events"]:
        found.setdefault(one["event"]["sensor"], []).append(one["event"])
    return found


def test_the_same_readings_through_file_http_and_kafka_give_the_same_events(connection, tmp_path):
    readings, found = stream(), {}
    for way in ("file", "http", "kafka"):
        (tmp_path / way).mkdir()
    text = "".join(f"{one['time']},{one['sensor']},{one['value']}\n" for one in readings)
    (tmp_path / "file" / "data.csv").write_text("time,sensor,value\n" + text)
    file = {"kinds": ["file"], "file": {"path": str(tmp_path / "file" / "data.csv")}}
    for way, source in (("file", file), ("http", {"kinds": ["http"]})):
        port = free_port()
        with running_embedded(settings_of(tmp_path / way, RULES, source=source, http={"port": port})):
            if way == "http":
                post_all(port, readings)
            wait_until_counted(port, readings)
            found[way] = events_over_http(port)
    port = free_port()
    settings = settings_for(connection, tmp_path / "kafka", http={"port": port}, rules=RULES)
    with running(settings):
        eventually(lambda: is_ready(port), what="ready")
        post_all(port, readings)
        wait_until_counted(port, readings)
        found["kafka"] = events_over_http(port)
    on_topic = {}
    for partition in range(2):
        for key, value, _ in read_partition(connection, settings.topics.events, partition):
            on_topic.setdefault(key.decode(), []).append(json.loads(value))
    assert len(found["file"]) == 5
    assert found["file"]["plant/0"][0]["id"] == event_id("plant/0", 0, 0)
    assert found["http"] == found["file"]
    assert found["kafka"] == found["file"]
    assert on_topic == found["file"]


def test_readings_are_not_posted_to_a_topic_of_another_format(connection, tmp_path):
    other = {"format": "json", "sensor": "id", "values": ["v"], "partitioned_by_sensor": True}
    port = free_port()
    with running(settings_for(connection, tmp_path, http={"port": port}, mapping=other)):
        eventually(lambda: is_ready(port), what="ready")
        answer = post(port, {"sensor": "a", "value": 1})
        assert answer.problem == (409, "not_taken")
        assert "format = 'json'" in answer.json["error"]["detail"]
        missing = get(port, "/v1/sensors/a")
        assert missing.problem == (404, "no_such_sensor")
        assert "another one may have it" in missing.json["error"]["detail"]


def test_brokers_that_do_not_acknowledge_are_503_and_come_back(fragile, fragile_connection, tmp_path, monkeypatch):
    monkeypatch.setattr("service.kafka.posting._ACKNOWLEDGED_WITHIN", 2.0)
    port = free_port()
    with running(settings_for(fragile_connection, tmp_path, http={"port": port})):
        eventually(lambda: is_ready(port), what="ready")
        assert post(port, {"sensor": "a", "time": START, "value": 1}).status == 200
        for node in fragile.nodes:
            node.pause()
        try:
            assert post(port, {"sensor": "a", "time": START + 1, "value": 2}).problem == (503, "not_stored")
            assert get(port, "/healthz").status == 200
        finally:
            for node in fragile.nodes:
                node.resume()
        eventually(lambda: post(port, {"sensor": "a", "time": START + 2, "value": 3}).status == 200, what="back")
        # the one without an answer may have been stored
        eventually(lambda: get(port, "/v1/sensors/a").json.get("accepted", 0) >= 2, what="counted")
