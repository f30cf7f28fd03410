"""All settings in one structure."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

import msgspec

from service.settings.alarm_budget import AlarmBudget
from service.settings.incidents import IncidentPolicy
from service.settings.rules import EVERY_SENSOR, IMPLIED, Rule
from service.settings.sections import Http, Kafka, Limits, MetricsSettings, Topics, WorkerSettings
from service.settings.sinks import SinkSettings
from service.settings.sources import SourceSettings
from service.settings.view import ViewSettings
from service.wire.mapping import RecordMapping


# dict: room for what is computed of the settings once
class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """The whole configuration. Everything has a default."""

    source: SourceSettings = SourceSettings()
    kafka: Kafka = Kafka()
    topics: Topics = Topics()
    mapping: RecordMapping = RecordMapping()
    limits: Limits = Limits()
    worker: WorkerSettings = WorkerSettings()
    http: Http = Http()
    metrics: MetricsSettings = MetricsSettings()
    view: ViewSettings = ViewSettings()
    alarms: AlarmBudget = AlarmBudget()
    incidents: IncidentPolicy = IncidentPolicy()
    rules: tuple[Rule, ...] = ()
    sinks: tuple[SinkSettings, ...] = ()

    def __post_init__(self) -> None:
        if self.metrics.port and (self.metrics.host, self.metrics.port) == (self.http.host, self.http.port):
            raise ValueError(
                f"metrics.port takes a port of its own, got the API's {self.http.port} (http.port); 0 leaves it there"
            )
        for key, topic in self.topics.names.items():
            if self.kafka.reads(topic):
                source = "topics" if self.kafka.topics_pattern is None else "topics_pattern"
                raise ValueError(f"kafka.{source} reads {topic!r}, which the service itself writes (topics.{key})")
        for i, sink in enumerate(self.sinks):
            if sink.name in [earlier.name for earlier in self.sinks[:i]]:
                raise ValueError(f"sinks[{i}].name takes a name of its own, got {sink.name!r} again")
        for i, rule in enumerate(self.rules[:-1]):
            if rule.match == EVERY_SENSOR:
                raise ValueError(f"rules[{i}].match = '*' takes every sensor: the rules after it are never used")

    @functools.cached_property
    def rules_in_force(self) -> tuple[Rule, ...]:
        """The rules with the alarms that they have in this fleet, and last one of defaults for all other sensors."""
        return tuple(rule.under(self.alarms) for rule in (*self.rules, IMPLIED))

    @functools.cached_property
    def sinks_in_force(self) -> tuple[SinkSettings, ...]:
        """The sinks, with the fleet's ``at_most`` if they have none of their own."""
        shared = self.alarms.sinks_at_most
        return tuple(
            msgspec.structs.replace(sink, at_most=shared) if sink.at_most is None else sink for sink in self.sinks
        )

    @property
    def deprecations(self) -> list[str]:
        """What to change in the configuration before a later version no longer takes it, a sentence each."""
        moved = [
            f"rules[{i}].detector.move_every is deprecated and does nothing: more chains are as good and cost less"
            for i, rule in enumerate(self.rules)
            if rule.detector_settings.move_every
        ]
        if self.alarms.false_alarms_per_day is None:
            return moved
        taken = "" if self.alarms.at_most is not None else f" It is taken as at_most = {self.alarms.sinks_at_most!r}."
        return [
            "alarms.false_alarms_per_day is deprecated: set alarms.at_most to limit what sinks are sent, and "
            f"threshold in a rule's alarms to choose when changes are announced.{taken}",
            *moved,
        ]

    @property
    def notes(self) -> list[str]:
        """Options that do something else than their name suggests, a sentence each."""
        notes = []
        for i, rule in enumerate(self.rules):
            for name in ("threshold", "rate", "costs", "false_alarms_per_day"):
                if getattr(rule.alarms, name) is not None:
                    old = " It is deprecated: set threshold instead." if name == "false_alarms_per_day" else ""
                    notes.append(f"rules[{i}].alarms.{name} governs changes only; alarms follow per_sensor.{old}")
        return notes

    def rule_for(self, sensor: str) -> Rule:
        """The first rule in force that matches."""
        return next(rule for rule in self.rules_in_force if rule.matches(sensor))

    def check(self, environ: Mapping[str, str] = os.environ) -> None:
        """Raise ValueError unless every rule's detector can be built and every file that is named is there."""
        for sink in self.sinks:
            if sink.kind == "webhook":
                _ = sink.address(), sink.secret("token", environ), sink.secret("secret", environ)
        for i, rule in enumerate(self.rules_in_force):
            try:
                rule.detector()
            except ValueError as error:
                raise ValueError(f"rules[{i}] (match = {rule.match!r}): {error}") from None
        self.http.read_token()
        self.metrics.read_token()
        if not self.source.is_kafka:
            return
        missing = self.kafka.security.missing_files()
        if missing:
            raise ValueError(f"kafka.security.{missing[0]}: there is no such file")
        self.kafka.security.read_password()
