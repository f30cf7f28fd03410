"""What the log says, and what it keeps to itself."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """if True:
    import logging
    from service.runtime import logs

    logs.start()
    client, ours = logging.getLogger("kafka.net.connection"), logging.getLogger("service.kafka.worker")
    for node in range(50):
        client.error("Connection to %s failed", node)
        ours.warning("going on from the last commit")
    client.error("something else")
    logs._SELDOM = 0.0
    client.error("Connection to %s failed", 51)
"""


def test_what_the_client_repeats_is_said_once_in_a_while():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [one["message"] for one in told if one["logger"] == "kafka.net.connection"] == [
        "Connection to 0 failed",
        "something else",
        "Connection to 51 failed",
    ]
    assert told[-1]["repeated"] == 49
    assert sum(one["logger"] == "service.kafka.worker" for one in told) == 50
