"""The log tells of dead letters."""

from __future__ import annotations

import logging

from events import notice
from records import Record

from service.runtime import dead_letter_log as dead_letters
from service.runtime.dead_letter_log import DeadLetterLog
from service.runtime.observers import CommittedCycle
from service.sensors.counts import CycleCounts
from service.sensors.records import Outbound, dead_letter
from service.wire.readings import BadRecord


def letters(count):
    bad = BadRecord("no_value", "nothing at data.engine.rpm")
    return [dead_letter(Record(offset, 0, None, b"{}"), bad) for offset in range(5, 5 + count)]


def cycle(outputs):
    return CommittedCycle(CycleCounts(), outputs, [], [])


def test_it_tells_at_once_and_then_once_a_minute(caplog, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(dead_letters.time, "monotonic", lambda: clock[0])
    caplog.set_level(logging.WARNING)
    told = DeadLetterLog()
    told.committed(cycle([Outbound("events", b"a", notice())]))
    assert not caplog.messages
    told.committed(cycle(letters(3)))
    (message,) = caplog.messages
    assert message.startswith("3 records or readings set aside")
    assert "offset 5 of " in message
    assert message.endswith("no_value: nothing at data.engine.rpm")
    told.committed(cycle(letters(2)))
    clock[0] += 61.0
    told.committed(cycle([]))
    assert len(caplog.messages) == 1
    told.committed(cycle(letters(1)))
    assert caplog.messages[1].startswith("3 records or readings set aside")
