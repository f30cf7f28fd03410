"""The rule of a sensor, with values that are computed from it once."""

from __future__ import annotations

import math
from typing import NamedTuple

import ishsmm_stream as hs
from service.sensors.transforms import Preparation, preparation
from service.settings import Rule, Settings
from service.settings.budgets import Budget


class PreparedRule(NamedTuple):
    """A rule with values that are computed from it once."""

    rule: Rule
    fingerprint: str
    prepare: Preparation | None
    policy: hs.AlarmPolicy
    most_ahead: float  # how far a reading's time may be ahead of its record's timestamp, microseconds
    fills_gaps: bool
    silent_after: int | None  # microseconds
    reorder_within: int | None  # microseconds
    budget: Budget  # of alarms


def prepare_rule(rule: Rule) -> PreparedRule:
    """Compute the values that every track of the rule needs."""
    times = rule.time
    return PreparedRule(
        rule,
        rule.inference_fingerprint(),
        preparation(rule),
        rule.policy(),
        math.inf if times.max_ahead_s is None else times.max_ahead_s * 1e6,
        times.gap != "ignore",
        None if times.silent_after_s is None else int(times.silent_after_s * 1e6),
        None if times.reorder_within_s is None else int(times.reorder_within_s * 1e6),
        rule.alarms.budget,
    )


class Rules:
    """The rule of every sensor, prepared once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prepared: dict[int, PreparedRule] = {}

    def of(self, sensor: str) -> PreparedRule:
        """Return the sensor's rule."""
        rule = self._settings.rule_for(sensor)
        prepared = self._prepared.get(id(rule))
        if prepared is None:
            prepared = self._prepared[id(rule)] = prepare_rule(rule)
        return prepared
