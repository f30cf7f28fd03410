"""What a cycle sends, without a broker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from view_helpers import dictionary, state_record

from service.kafka.log import KafkaLog
from service.metrics import Metrics
from service.runtime.log import Cycle
from service.sensors.records import Outbound
from service.settings import Settings
from service.wire import messages


class Recorder:
    """Notes what a producer is given."""

    bytes_in_flight = 0

    def __init__(self):
        self.sent = []

    def begin(self):
        pass

    def send(self, topic, key, value, number):
        self.sent.append((topic, key, value, number))

    def commit(self, offsets, member):
        pass


@pytest.fixture
def log(monkeypatch):
    made = KafkaLog.__new__(KafkaLog)
    made.settings, made._metrics, made._producer = Settings(), Metrics(), Recorder()
    made._assigned = SimpleNamespace(starts={})
    monkeypatch.setattr(made, "_note_lags", lambda lags: None)
    return made


def test_forgetting_a_sensor_removes_its_dictionary_from_the_states_topic(log):
    log.commit(Cycle([], {}, [(2, "a")], {}, None))
    assert log._producer.sent == [
        ("ishsmm.changelog", b"a", None, 2),
        ("ishsmm.states", b"a", None, 2),
        ("ishsmm.states", messages.dictionary_key("a"), None, 2),
    ]


def test_a_dictionary_has_a_key_of_its_own_and_comes_after_the_forgetting(log):
    record, states = state_record("a"), dictionary("a")
    key = messages.dictionary_key("a")
    outputs = [(2, Outbound("states", b"a", record)), (2, Outbound("states", key, states))]
    log.commit(Cycle(outputs, {}, [(2, "a")], {}, None))
    assert log._producer.sent[3:] == [
        ("ishsmm.states", b"a", messages.encode(record), 2),
        ("ishsmm.states", key, messages.encode(states), 2),
    ]


def test_no_sensor_is_taken_for_a_dictionary():
    assert messages.is_dictionary_key(messages.dictionary_key("a"))
    assert not any(messages.is_dictionary_key(key) for key in (b"a", b"dictionary", b"a/dictionary", b""))
