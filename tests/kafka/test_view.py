"""The view of a fleet with a real broker and workers that are killed: the fleet is whole before, during and after."""

from __future__ import annotations

import contextlib
import json
import time
import uuid

import numpy as np
import pytest
from http_helpers import free_port, get, request
from worker_helpers import Service, WorkerProcess, command, eventually, partition_of, produce_readings, reading

from service.runtime.warm_up import compile_kernels
from service.settings import Rule

PARTITIONS = 4
NAMES = [f"line-{i % 3}/sensor-{i}" for i in range(24)]
WINDOW = 20


class ViewProcess(WorkerProcess):
    """``ishsmm-stream view``."""

    command = "view"

    def __init__(self, service: Service) -> None:
        self.port = service.settings.view.port
        super().__init__(service)

    def is_ready(self) -> bool:
        assert self.running, self.tail()
        return self.get(self.port, "/readyz")[0] == 200

    def sensors(self) -> dict[str, dict]:
        found, after = {}, ""
        while after is not None:
            page = get(self.port, f"/v1/sensors?limit=10&after={after}").json
            found |= {one["sensor"]: one for one in page["sensors"]}
            after = page["next"]
        return found


@pytest.fixture
def service(broker, tmp_path):
    compile_kernels(Rule())
    with contextlib.ExitStack() as made:
        name = f"viewed-{uuid.uuid4().hex[:12]}"
        one = made.enter_context(Service(broker.bootstrap, tmp_path, name, view={"port": free_port()}))
        one.configure(
            rules=[{"match": "*", "window": {"readings": WINDOW}}],
            worker={"snapshot_within_s": 1.0, "transaction_timeout_s": 3.0}, http={"requests_per_s": 1e6},
        )  # fmt: skip
        one.create_topics(PARTITIONS)
        yield one


def started(service):
    view = ViewProcess(service)
    service.workers.append(view)
    eventually(view.is_ready, 60, "the view is ready")
    return view


def batch(first, count, changed=(), start=None):
    rng = np.random.default_rng(first)
    start = time.time() - 3600 if start is None else start
    return [
        (name, reading(name, i, float(rng.normal(30.0 if name in changed else 20.0)), start))
        for i in range(first, first + count)
        for name in NAMES
    ]


def indices(view):
    return {name: get(view.port, f"/v1/sensors/{name}").json["index"] for name in NAMES}


def test_the_fleet_is_whole_before_during_and_after_a_worker_is_killed(service):
    start = time.time() - 3600

    def give(first, count, changed=()):
        produce_readings(service.connection, service.name, batch(first, count, changed, start), PARTITIONS)

    workers = [service.start(), service.start()]
    for worker in workers:
        worker.wait_until_said("restored in", 120)
    view = started(service)
    assert view.sensors() == {}
    give(0, 60)
    eventually(lambda: set(view.sensors()) == set(NAMES), 60, "all sensors")
    eventually(lambda: set(indices(view).values()) == {59}, 60, "all readings")

    workers[0].kill()
    assert set(view.sensors()) == set(NAMES)
    changed = NAMES[5]
    give(60, 40, [changed])
    for _ in range(20):  # while the other one takes over
        assert set(view.sensors()) == set(NAMES)
        time.sleep(0.1)
    eventually(lambda: set(indices(view).values()) == {99}, 90, "the other worker has all sensors")
    found = view.sensors()
    assert found[changed]["change"]["status"] in ("provisional", "confirmed")
    assert found[changed]["level"] == pytest.approx(30.0, abs=1.0)
    assert get(view.port, "/v1/events").json["events"][0]["event"]["sensor"] == changed
    history = get(view.port, f"/v1/sensors/{changed}/history").json
    assert [one["event"]["index"] for one in history["changes"]] == [60]
    assert [round(one["levels"][0], -1) for one in history["segments"]] == [20.0, 30.0]

    later = ViewProcess(service)  # another view comes to the same, from the topics alone
    service.workers.append(later)
    view.kill()
    eventually(later.is_ready, 60, "the later view is ready")
    assert set(later.sensors()) == set(NAMES)
    assert later.sensors()[changed]["change"] == found[changed]["change"]
    assert [one["event"]["index"] for one in get(later.port, f"/v1/sensors/{changed}/history").json["changes"]] == [60]
    assert later.stop() == 0, later.tail()


def test_what_people_say_is_on_topics_that_every_view_and_command_reads(service):
    worker = service.start()
    worker.wait_until_said("restored in", 120)
    view = started(service)
    produce_readings(service.connection, service.name, batch(0, 40), PARTITIONS)
    eventually(lambda: set(view.sensors()) == set(NAMES), 60, "all sensors")
    name, state = NAMES[0], view.sensors()[NAMES[0]]["state"]["id"]

    def tell(path, body):
        answer = request(view.port, "POST", path, json.dumps(body).encode(), content_type="application/json")
        assert answer.status == 200, answer.body

    tell("/v1/names", {"sensor": name, "generation": 0, "state": state, "name": "idle", "by": "ann"})
    assert view.sensors()[name]["state"]["name"] == "idle"
    tell("/v1/mutes", {"pattern": name, "for_s": 3600, "by": "ann"})
    assert view.sensors()[name]["muted_until"] is not None
    config = str(service.write())
    assert name in command(["mutes", "--config", config], **service.environment).stdout
    assert command(["unmute", name, "--config", config], **service.environment).returncode == 0
    eventually(lambda: view.sensors()[name]["muted_until"] is None, 30, "what a command says is heard")
    assert view.stop() == 0

    later = started(service)
    assert later.sensors()[name]["state"]["name"] == "idle"
    assert command(["forget", NAMES[1], "--yes", "--config", config], **service.environment).returncode == 0
    eventually(lambda: NAMES[1] not in later.sensors(), 30, "a sensor that was forgotten is gone")
    answer = request(later.port, "POST", "/v1/readings", b'{"sensor":"a","value":1}', content_type="application/json")
    assert answer.problem == (409, "not_taken")


def test_states_are_named_and_merged_for_every_view_and_command(service):
    name, plain = NAMES[0], NAMES[1]
    windows = {"window": {"readings": WINDOW}}
    service.configure(rules=[{"match": name, "model": "recurring", **windows}, {"match": "*", **windows}])
    compile_kernels(Rule(model="recurring"))
    config = str(service.write())

    def run(*words):
        return command([*words, "--config", config], **service.environment)

    worker = service.start()
    worker.wait_until_said("restored in", 120)
    view = started(service)
    levels = np.repeat([0.0, 10.0] * 4, 30) + np.random.default_rng(0).normal(size=240)
    start = time.time() - 3600
    records = [(one, reading(one, i, float(level), start)) for i, level in enumerate(levels) for one in (name, plain)]
    produce_readings(service.connection, service.name, records, PARTITIONS)

    def states(port):
        answer = get(port, f"/v1/states?sensor={name}")
        return {one["id"]: one for one in answer.json["states"]} if answer.status == 200 else {}

    eventually(lambda: len(states(view.port)) == 2 and get(view.port, f"/v1/sensors/{name}").json["index"] == 239, 90)
    low, high = sorted(states(view.port), key=lambda state: states(view.port)[state]["level"])
    listed = run("states", name)
    assert (listed.returncode, listed.stdout.splitlines()[0].split()[:2]) == (0, ["state", "name"]), listed.stderr
    assert run("name", name, str(low), "idle").stdout == f"state {low} of {name} is called idle\n"
    assert run("merge", name, str(high), str(low)).stdout == f"state {high} of {name} is shown as state {low}\n"
    eventually(lambda: set(states(view.port)) == {low}, 30, "what a command says is heard")
    assert states(view.port)[low]["name"] == "idle"
    assert get(view.port, f"/v1/sensors/{name}").json["state"]["id"] == low
    assert f"state {low} of '{name}' is not merged into another one" in run("unmerge", name, str(low)).stderr
    assert "no state 7777 of" in run("name", name, "7777", "x").stderr
    assert "has no state dictionary" in run("states", plain).stderr
    assert view.stop() == 0

    later = started(service)
    assert states(later.port)[low]["merged"] == [high]
    body = {"sensor": name, "generation": 0, "state": high, "into": None}
    path = "/v1/merges"
    answer = request(later.port, "POST", path, json.dumps(body).encode(), content_type="application/json")
    assert answer.status == 200, answer.body
    assert set(states(later.port)) == {low, high}
    assert run("forget", name, "--yes").returncode == 0
    eventually(lambda: name not in later.sensors(), 30, "the sensor is gone")
    eventually(lambda: "no sensor" in run("states", name).stderr, 30, "its dictionary, too")
    assert get(later.port, f"/v1/states?sensor={name}").problem == (404, "no_such_sensor")


def test_a_mistake_is_one_line(service, tmp_path):
    config = str(service.write())
    missing = command(["view", "--config", config], ISHSMM_TOPICS__STATE_NAMES="no-such-topic", **service.environment)
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "topic 'no-such-topic' does not exist" in missing.stderr
    wrong = command(["view", "--config", config, "--port", "0"], **service.environment)
    assert "--port takes a number from 1 to 65535, got 0" in wrong.stderr
    embedded = tmp_path / "embedded.toml"
    embedded.write_text('[source]\nkinds = ["http"]\n')
    assert "`ishsmm-stream serve` itself shows the page" in command(["view", "--config", str(embedded)]).stderr


def test_partitions_of_the_test_are_shared_by_both_workers():
    assert len({partition_of(name, PARTITIONS) for name in NAMES}) == PARTITIONS
