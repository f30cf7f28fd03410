"""States that return, where one file holds everything: what people call them and merge outlives restarts."""

from __future__ import annotations

import json
import sqlite3
import time

import numpy as np
import pytest
from embedded_helpers import Process, eventually
from http_helpers import get, post, request

from service import cli
from service.wire.messages import dictionary_key

RULES = [{"match": "m/*", "model": "recurring", "window": {"readings": 20}}, {"window": {"readings": 20}}]
LEVELS = (0.0, 10.0, 0.0, 20.0)
LENGTH = 30


@pytest.fixture
def service(tmp_path):
    started = Process(tmp_path, rules=RULES)
    yield started
    started.kill()


def give(service, sensor, rounds=3):
    """Levels that take turns."""
    values = np.repeat(LEVELS * rounds, LENGTH) + np.random.default_rng(0).normal(size=rounds * len(LEVELS) * LENGTH)
    begin = time.time() - len(values) - 60
    body = [{"sensor": sensor, "time": begin + i, "value": value} for i, value in enumerate(values.tolist())]
    assert post(service.port, body).status == 200
    eventually(lambda: service.accepted(sensor) == len(values))


def tell(service, path, body):
    return request(service.port, "POST", path, json.dumps(body).encode(), content_type="application/json")


def dictionary_of(service, sensor):
    answer = get(service.port, f"/v1/states?sensor={sensor}")
    return {one["id"]: one for one in answer.json["states"]} if answer.status == 200 else {}


def stored(service, question):
    connection = sqlite3.connect(service.folder / "state.sqlite")
    try:
        return [row[0] for row in connection.execute(question)]
    finally:
        connection.close()


def test_states_are_named_and_merged_across_restarts_and_forgotten(service, tmp_path, capsys, monkeypatch):
    config = str(service.config)
    monkeypatch.setenv("ISHSMM_RULES", (tmp_path / "rules.json").read_text())

    def command(*words):
        code = cli.main([*words, "--config", config])
        said = capsys.readouterr()
        return code, said.out or said.err

    service.start()
    give(service, "m/1")
    give(service, "plain")
    states = eventually(lambda: dictionary_of(service, "m/1"))
    by_level = {round(one["level"], -1): number for number, one in states.items()}
    assert sorted(by_level) == [0.0, 10.0, 20.0]
    zero, ten, twenty = (str(by_level[level]) for level in (0.0, 10.0, 20.0))

    # by command
    code, table = command("states", "m/1")
    assert code == 0
    assert table.splitlines()[0].split() == ["state", "name", "level", "noise", "usual", "visit", "share", "visits",
                                             "last", "seen"]  # fmt: skip
    assert "Now in state " in table
    assert "Next: " in table
    assert command("name", "m/1", zero, " idle ", "--by", "ann") == (0, f"state {zero} of m/1 is called idle\n")
    assert command("merge", "m/1", ten, twenty) == (0, f"state {ten} of m/1 is shown as state {twenty}\n")
    row = next(line for line in command("states", "m/1")[1].splitlines() if line.split()[:1] == [twenty])
    assert row.endswith(f"with {ten}")
    eventually(lambda: set(dictionary_of(service, "m/1")) == {int(zero), int(twenty)})
    whole = json.loads(command("states", "m/1", "--json")[1])
    assert whole == get(service.port, "/v1/states?sensor=m/1").json
    assert {tuple(pair) for *pair, _ in whole["transitions"]} == {
        (int(zero), int(twenty)), (int(twenty), int(zero)),
    }  # fmt: skip
    assert sum(one["share"] for one in whole["states"]) == pytest.approx(1.0, abs=1e-4)
    for words, problem in (
        (("name", "m/1", "7777", "x"), f"no state 7777 of 'm/1', it has {zero}, "),
        (("merge", "m/1", zero, zero), "cannot be merged into itself"),
        (("merge", "m/1", twenty, ten), f"state {ten} of 'm/1' is merged into state {twenty} already"),
        (("unmerge", "m/1", zero), f"state {zero} of 'm/1' is not merged into another one"),
        (("states", "plain"), "'plain' has no state dictionary: set model = 'recurring' in its rule"),
        (("states", "m/2"), "no sensor 'm/2' has a state; did you mean 'm/1'?"),
        (("name", "m/1", "one", "x"), "invalid int value: 'one'"),
    ):
        code, said = command(*words)
        assert (code, problem in said, said.count("\n")) == (2, True, 1), said

    # by the API
    body = {"sensor": "m/1", "generation": 0, "state": int(twenty), "name": "running", "by": "bob"}
    assert tell(service, "/v1/names", body).status == 200

    assert service.stop() == 0
    service.start()
    after = dictionary_of(service, "m/1")
    assert {number: one["name"] for number, one in after.items()} == {int(zero): "idle", int(twenty): "running"}
    assert after[int(twenty)]["merged"] == [int(ten)]
    state = get(service.port, "/v1/sensors/m/1").json["state"]
    assert (state["id"], state["name"]) == (int(twenty), "running")
    published = stored(service, "SELECT value FROM events") + stored(service, "SELECT value FROM states")
    assert not [value for value in published if b"running" in value or b"idle" in value]

    assert command("unmerge", "m/1", ten) == (0, f"state {ten} of m/1 is shown as itself\n")
    eventually(lambda: len(dictionary_of(service, "m/1")) == 3)
    assert len(stored(service, "SELECT key FROM state_names")) == 2
    keys = "SELECT sensor FROM states ORDER BY 1"
    assert stored(service, keys) == ["m/1", dictionary_key("m/1").decode(), "plain"]
    assert command("forget", "m/1", "--yes")[0] == 0
    eventually(lambda: stored(service, keys) == ["plain"])
    eventually(lambda: stored(service, "SELECT key FROM state_names") == [])
    assert get(service.port, "/v1/states?sensor=m/1").problem == (404, "no_such_sensor")
