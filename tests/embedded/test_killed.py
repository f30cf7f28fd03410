"""The server is killed at random moments while readings are posted: what was acknowledged counts once."""

from __future__ import annotations

import http.client
import random
import sqlite3
import threading

import pytest
from embedded_helpers import Process, eventually
from http_helpers import post

from service.sensors.track import tally

CLIENTS = 6
START = 1_767_225_600


class Client:
    """Posts to a sensor of its own, one post after the other, until the server is gone."""

    def __init__(self, number, seed):
        self.sensor = f"client-{number}"
        self.counted = 0  # readings that are known to be stored
        self.unknown = 0  # of the post that got no answer
        self.posts = 0
        self._sent = 0
        self._rng = random.Random(f"{seed}-{number}")

    def post_until_killed(self, port):
        while True:
            size = self._rng.randint(1, 20)
            readings = [
                {"sensor": self.sensor, "time": START + self._sent + i, "value": self._rng.gauss(0.0, 1.0)}
                for i in range(size)
            ]
            self._sent += size
            try:
                answer = post(port, readings, timeout=60.0)
            except (OSError, http.client.HTTPException):  # no answer, or half of one
                self.unknown = size
                return
            assert answer.status == 200, answer
            self.counted += size
            self.posts += 1


def kill_and_count(folder, kills, seed):
    """Returns how many readings were acknowledged, and how many posts got no answer but were stored."""
    # duplicates would count: nothing hides a reading that is taken twice
    server = Process(folder, rules=[{"time": {"duplicate": "accept"}, "window": {"readings": 50}}])
    clients = [Client(number, seed) for number in range(CLIENTS)]
    moments = random.Random(seed)
    stored_anyway = 0
    try:
        server.start()
        for turn in range(kills):
            threads = [threading.Thread(target=client.post_until_killed, args=(server.port,)) for client in clients]
            before = sum(client.posts for client in clients)
            for thread in threads:
                thread.start()
            eventually(lambda before=before: sum(client.posts for client in clients) > before, what="a first answer")
            threading.Event().wait(moments.uniform(0.0, 1.0))
            server.kill()
            for thread in threads:
                thread.join()
            server.start()
            # the sentinel is behind everything in the intake
            assert post(server.port, {"sensor": "sentinel", "value": float(turn)}).status == 200
            eventually(lambda turn=turn: server.accepted("sentinel") == turn + 1, what="the intake is worked off")
            for client in clients:
                found = server.accepted(client.sensor)
                assert found in (client.counted, client.counted + client.unknown), (turn, client.sensor)
                stored_anyway += found > client.counted
                client.counted, client.unknown = found, 0
        assert server.stop() == 0
    finally:
        server.kill()
    # in order, everything is saved: the states have counted the same, and the intake is empty
    database = sqlite3.connect(folder / "state.sqlite")
    saved = dict(database.execute("SELECT sensor, state FROM sensors"))
    for client in clients:
        assert tally(saved[client.sensor]).final_index == client.counted - 1
    assert database.execute("SELECT count(*) FROM intake").fetchone() == (0,)
    assert database.execute("SELECT count(*) FROM dead_letters").fetchone() == (0,)
    return sum(client.counted for client in clients), stored_anyway


def test_each_acknowledged_reading_counts_once_after_kills(tmp_path):
    acknowledged, _ = kill_and_count(tmp_path, kills=2, seed=1)
    assert acknowledged > 20


@pytest.mark.long
def test_each_acknowledged_reading_counts_once_after_twenty_kills(tmp_path):
    acknowledged, stored_anyway = kill_and_count(tmp_path, kills=20, seed=2)
    print(f"{acknowledged:,} readings, {stored_anyway} posts stored without an answer")
    assert acknowledged > 1000
