"""Alarms raised and alarms promised, by rule, over the last hour, day and week.

Raised alarms are counted from events. Promised alarms are counted from state records: each has the number of alarms
that the sensor's budgets have allowed so far, so the difference between two records is what the readings in between
allowed. A sensor's first record stands for readings that came without a gap before it, which is how a view that has
just started counts the past. Everything is kept in intervals of five minutes, so memory does not grow with time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from service.api.view_answers import RulePromise, SpanPromise
from service.settings import Rule, Settings
from service.settings.budgets import WEEK
from service.view.history import milliseconds
from service.wire.messages import AlarmEvent, StateRecord, rounded

SPANS = {"hour": 3600, "day": 86_400, "week": 604_800}
_WIDTH = 300  # seconds of an interval
_KEPT = SPANS["week"] // _WIDTH + 1  # the last one is under way
_RAISED, _PROMISED, _OBSERVED = range(3)  # observed: in seconds, summed over sensors


class Promise:
    """Counts for the rules of ``settings``. Time is that of the readings and ends with the newest one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rules: dict[str, Rule] = {}  # by pattern; of two with one pattern the first is used
        for rule in settings.rules_in_force:
            self._rules.setdefault(rule.match, rule)
        self._counts: dict[str, np.ndarray] = {}  # by the rule's pattern: (3, intervals), the newest last
        self._end = 0  # the number of the interval after the newest

    def rule_of(self, sensor: str) -> str:
        """Return the pattern of a sensor's rule."""
        return self._settings.rule_for(sensor).match

    def take_alarm(self, rule: str, event: AlarmEvent) -> None:
        """Count an alarm if it was raised."""
        if event.status == "raised" and event.at.time is not None:
            time = milliseconds(event.at.time) / 1000
            self._add(rule, time, time, {_RAISED: 1.0})

    def take_state(self, rule: str, record: StateRecord, before: StateRecord | None) -> None:
        """Count the alarms that the readings since the record ``before`` allow; None: all of the sensor's readings."""
        if record.promised is None or record.budget_s is None:
            return
        counted = 0.0 if before is None or before.promised is None else before.promised
        # less than before: the sensor's state was lost, and it began again
        promised = record.promised - (counted if counted <= record.promised else 0.0)
        seconds = promised * record.budget_s
        end = milliseconds(record.time) / 1000
        self._add(rule, end - seconds, end, {_PROMISED: promised, _OBSERVED: seconds})

    def by_rule(self) -> list[RulePromise]:
        """Return the counts of every rule that has sensors, in the order of the configuration."""
        return [
            RulePromise(
                rule=match,
                budget=rule.alarms.per_sensor or "",
                budget_per_week=rule.alarms.budget.per_week,
                spans=dict(zip(SPANS, self._spans(self._counts[match]), strict=True)),
            )
            for match, rule in self._rules.items()
            if match in self._counts
        ]

    @staticmethod
    def _spans(counts: np.ndarray) -> Iterator[SpanPromise]:
        for seconds in SPANS.values():
            raised, promised, observed = counts[:, -(seconds // _WIDTH + 1) :].sum(axis=1).tolist()
            per_week = WEEK / observed if observed > 0.0 else None
            yield SpanPromise(
                raised=int(raised),
                promised=rounded(promised) or 0.0,
                sensor_weeks=rounded(observed / WEEK) or 0.0,
                raised_per_week=None if per_week is None else rounded(raised * per_week),
                promised_per_week=None if per_week is None else rounded(promised * per_week),
            )

    def _add(self, rule: str, begin: float, end: float, amounts: dict[int, float]) -> None:
        """Spread amounts evenly over a time in seconds. What lies before the week is left out."""
        last = int(end // _WIDTH)
        self._advance(last + 1)
        counts = self._counts.get(rule)
        if counts is None:
            counts = self._counts[rule] = np.zeros((3, _KEPT))
        # the edges of the intervals that the time is in, and how much of it is in each
        first = max(int(begin // _WIDTH), self._end - _KEPT)
        if last < first:
            return
        edges = np.clip(np.arange(first, last + 2) * float(_WIDTH), begin, end)
        shares = np.diff(edges) / (end - begin) if end > begin else np.ones(1)
        at = first - (self._end - _KEPT)
        for row, amount in amounts.items():
            counts[row, at : at + len(shares)] += amount * shares

    def _advance(self, end: int) -> None:
        """Drop what is older than a week before the interval ``end``."""
        passed = end - self._end
        if passed <= 0:
            return
        self._end = end
        for counts in self._counts.values():
            counts[:, : max(0, _KEPT - passed)] = counts[:, passed:]
            counts[:, max(0, _KEPT - passed) :] = 0.0
