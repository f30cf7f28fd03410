"""The broker that tests and ``make kafka`` start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import local_broker
import pytest
from kafka_helpers import committed_values

from service.kafka.connection import Connection
from service.kafka.producer import Transactions
from service.kafka.topics import TopicSpec, create


def test_broker_dies_with_the_process_that_started_it(broker_software, tmp_path):
    script = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {str(local_broker.HERE)!r})
import local_broker

node = local_broker.single(Path({str(tmp_path)!r})).nodes[0]
node.start()
print(node.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        broker_pid = int(parent.stdout.readline())
        os.kill(broker_pid, 0)
        parent.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{broker_pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_without_java_the_reason_is_told(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    local_broker.prepare.cache_clear()
    with pytest.raises(local_broker.BrokerUnavailable, match="install Java 17"):
        local_broker.prepare()


def test_three_nodes_lose_one_and_go_on(broker_software, tmp_path):
    with local_broker.three_nodes(tmp_path) as cluster:
        connection = Connection(cluster.bootstrap)
        create(connection, [TopicSpec("output", 1)])
        producer = Transactions(connection, "t", request_timeout_ms=3_000)
        for number in range(6):
            if number == 2:
                cluster.nodes[0].kill()
            if number == 4:
                cluster.nodes[0].start()
                cluster.wait_until_ready()
            producer.begin()
            producer.send("output", None, str(number).encode(), partition=0)
            producer.commit({}, None)
        producer.close()
        assert committed_values(connection, "output") == [str(number).encode() for number in range(6)]
