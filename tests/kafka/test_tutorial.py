"""The tutorial's part on Kafka does what it says."""

from __future__ import annotations

import os
import time

import pytest
from tutorial import PAGE, Tutorial, blocks

from service.kafka import topics


@pytest.mark.skipif("KAFKA_BOOTSTRAP" in os.environ, reason="its topics have names that others may use, too")
def test_its_commands_print_what_is_shown(broker, connection, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    tutorial = Tutorial(tmp_path, broker.bootstrap[0])
    try:
        printed = tutorial.follow(blocks(PAGE.read_text(encoding="utf-8"), with_kafka=True))
    finally:
        tutorial.close()
        monkeypatch.undo()
        time.tzset()
    assert len(printed) == 1
    assert topics.partition_counts(connection, ["pump"]) == {"pump": 12}
