"""What a configuration would do to the sensors that are live: the changelog says which there are."""

from __future__ import annotations

from typing import NamedTuple

from service.kafka import topics as kafka_topics
from service.kafka.changelog import ChangelogReader
from service.kafka.input import connection_of
from service.settings import Rule, Settings
from service.tools.audit import states


class LiveSensor(NamedTuple):
    """A sensor with a state, and what becomes of it."""

    sensor: str
    rule: str  # the pattern of the rule that it has now
    generation: int | None  # that its state is of; None: the state cannot be read
    keeps_state: bool


def live_sensors(settings: Settings) -> list[LiveSensor]:
    """Every sensor in the changelog under this configuration, by name."""
    connection, topic = connection_of(settings), settings.topics.changelog
    fingerprints: dict[int, str] = {}

    def fingerprint(rule: Rule) -> str:
        if id(rule) not in fingerprints:
            fingerprints[id(rule)] = rule.inference_fingerprint()
        return fingerprints[id(rule)]

    found = []
    with ChangelogReader(connection) as reader:
        for number in range(kafka_topics.partition_counts(connection, [topic])[topic]):
            for sensor, state in states(reader, settings, number).items():
                rule, tally = settings.rule_for(sensor), state.tally
                keeps = tally is not None and tally.fingerprint == fingerprint(rule)
                found.append(LiveSensor(sensor, rule.match, tally.generation if tally else None, keeps))
    return sorted(found)
