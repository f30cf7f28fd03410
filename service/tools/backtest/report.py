"""What a backtest found, for people: tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rich.console import Console
from rich.table import Table

from service.sensors.wording import reason_words
from service.tools.backtest.replay import Alarm, Change, Followed, Replayed
from service.tools.backtest.scoring import Margin, Score
from service.tools.tail import percent
from service.tools.terminal import (
    lasting,
    moment,
    rate,
    several,
    share,
    show,
    table,
    two_digits,
)

MOST_SENSORS = 20


@dataclass
class Trial:
    """A configuration, what it would have done, and what that is worth if there are labels."""

    name: str
    result: Replayed
    score: Score | None  # of changes
    alarm_score: Score | None = None

    @property
    def per_day(self) -> float | None:
        """Changes per day."""
        return len(self.result.changes) / self.result.days if self.result.days > 0 else None

    def count(self, status: str) -> int:
        """Changes that ended as ``status``."""
        return sum(change.status == status for change in self.result.changes)


class Step(NamedTuple):
    """A threshold of a sweep."""

    threshold: float
    trial: Trial


def print_trial(out: Console, trial: Trial, source: str, every_sensor: bool) -> None:
    """Tables of alarms and changes for each sensor that has some, then the totals."""
    out.print(headline(trial, source), soft_wrap=True)
    for reason, example in trial.result.first_refused.items():
        out.print(f"  {reason}, first at {example}", soft_wrap=True)
    told = [one for one in trial.result.sensors.values() if one.alarms or one.changes or one.notices]
    shown = told if every_sensor else told[:MOST_SENSORS]
    for sensor in shown:
        out.print()
        out.print(sensor_line(sensor), soft_wrap=True)
        if sensor.alarms:
            show(out, _table(ALARM_HEADS, map(alarm_cells, sensor.alarms)))
        if sensor.alarms and sensor.changes:
            out.print()
        if sensor.changes:
            show(out, _table(CHANGE_HEADS, map(change_cells, sensor.changes), _dimmed(sensor.changes)))
        for notice in sensor.notices:
            out.print(f"{_short(notice.time)}  {notice.kind.replace('_', ' ')}: {notice.why}", soft_wrap=True)
    if len(told) > len(shown):
        out.print(
            f"\n... and {several(len(told) - len(shown), 'sensor')} more with alarms or changes: --all shows them"
        )
    out.print()
    for line in totals(trial):
        out.print(line, soft_wrap=True)


def headline(trial: Trial, source: str) -> str:
    """What was replayed."""
    result = trial.result
    if not result.readings:
        return f"{trial.name} on {source}: no readings{_refused(result)}"
    first, last = result.span
    return (
        f"{trial.name} on {source}: {several(result.readings, 'reading')} of {several(len(result.sensors), 'sensor')}, "
        f"{moment(first)} to {moment(last)} UTC{_refused(result)}"
    )


def _refused(result: Replayed) -> str:
    if not result.refused:
        return ""
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in result.refused.most_common())
    return f"; {result.refused.total():,} refused ({reasons})"


def sensor_line(sensor: Followed) -> str:
    """A sensor's name and what it was followed by."""
    model = sensor.rule.model if isinstance(sensor.rule.model, str) else sensor.rule.model.kind
    return (
        f"{sensor.name}: {several(sensor.readings, 'reading')}, rule {sensor.rule.match}, model {model}, "
        f"alarms {sensor.rule.alarms.per_sensor}, changes above {sensor.rule.policy().threshold:.6g}"
    )


ALARM_HEADS = ("alarm raised", "cleared", "how often", "why")
CHANGE_HEADS = ("change announced", "change", "after", "what", "probability", "status")
_LEFT = ("sensor", "alarm raised", "cleared", "how often", "change announced", "change", "status")
_WRAPS = ("what", "why")


def alarm_cells(alarm: Alarm) -> tuple[str, ...]:
    """A line about an alarm."""
    cleared = "open at the end" if alarm.cleared_time is None else moment(alarm.cleared_time)
    return moment(alarm.raised_time), cleared, alarm.frequency or "-", reason_words(alarm.reasons)


def change_cells(change: Change) -> tuple[str, ...]:
    """A line about a change."""
    unit = f" {change.unit}" if change.unit and "->" in change.summary and "," not in change.summary else ""
    after = several(change.delay, "reading") + (f", {lasting(change.delay_s)}" if change.delay_s > 0 else "")
    return (
        moment(change.raised_time), moment(change.time), after, change.summary + unit,
        "-" if change.probability is None else percent(change.probability), change.status,
    )  # fmt: skip


def _dimmed(changes: Sequence[Change]) -> list[bool]:
    return [change.status == "retracted" for change in changes]


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]], dimmed: Sequence[bool] = ()) -> Table:
    made = table(*heads, left=_LEFT, wraps=_WRAPS)
    for number, line in enumerate(lines):
        made.add_row(*line, style="dim" if dimmed and dimmed[number] else None)
    return made


def totals(trial: Trial) -> list[str]:
    """Alarms against the promise, changes in all, and how good both are."""
    result, changes = trial.result, trial.result.changes
    lines = [
        f"{several(one.raised, 'alarm')} raised, {rate(one.promised)} promised (rule {one.rule}, budget {one.budget}, "
        f"{several(one.sensors, 'sensor')})"
        for one in result.promise
    ]
    fates = [f"{trial.count(status):,} {status}" for status in _STATUSES if trial.count(status)]
    rates = []
    if trial.per_day is not None:
        rates.append(f"{rate(trial.per_day)} per day")
    if result.readings:
        rates.append(f"{rate(1000.0 * len(changes) / result.readings)} per 1,000 readings")
    said = f"{several(len(changes), 'change')}{': ' if fates else ''}{', '.join(fates)}"
    lines.append("; ".join([said, *([", ".join(rates)] if rates else [])]))
    if trial.alarm_score is not None:
        lines.append(score_words(trial.alarm_score, "alarm"))
    if trial.score is not None:
        lines.append(score_words(trial.score, "change"))
        if trial.score.left_out:
            left_out = several(trial.score.left_out, "label")
            lines.append(f"note: {left_out} left out: no reading of that sensor at that time")
    return lines


_STATUSES = ("confirmed", "retracted", "provisional")


def score_words(score: Score, noun: str) -> str:
    """A score in words; ``noun``: what was scored."""
    delay = "" if score.median_delay is None else f"; median delay {delay_words(score)}"
    false = "" if score.false_a_day is None else f", {rate(score.false_a_day)} per day"
    return (
        f"{noun}s: {score.hits} of {several(score.labels, 'label')} found (recall {share(score.recall)}); "
        f"{score.false} of {several(score.found, noun)} false (precision {share(score.precision)}{false}); "
        f"F1 {two_digits(score.f1)}{delay}"
    )


def delay_words(score: Score) -> str:
    """The median delay in readings and in time."""
    if score.median_delay is None or score.median_delay_s is None:
        return "-"
    return f"{score.median_delay:g} readings, {lasting(score.median_delay_s)}"


def _short(time: str) -> str:
    return time[:19].replace("T", " ")


# Thresholds


def sweep_heads(has_labels: bool) -> tuple[str, ...]:
    """The columns of a sweep, which is about changes: alarms do not depend on the threshold."""
    return ("threshold", "changes", "per day", "retracted") + (
        ("false", "hits", "recall", "precision", "F1", "median delay") if has_labels else ()
    )


def sweep_cells(step: Step) -> tuple[str, ...]:
    """A line of a sweep."""
    trial, score = step.trial, step.trial.score
    cells: tuple[str, ...] = (
        f"{step.threshold:.6g}", f"{len(trial.result.changes):,}", rate(trial.per_day),
        f"{trial.count('retracted'):,}",
    )  # fmt: skip
    if score is not None:
        cells += (
            f"{score.false:,}", f"{score.hits:,}", share(score.recall), share(score.precision),
            two_digits(score.f1), delay_words(score),
        )  # fmt: skip
    return cells


def print_sweep(out: Console, steps: Sequence[Step]) -> None:
    """Thresholds side by side."""
    made = table(*sweep_heads(any(step.trial.score for step in steps)))
    for step in steps:
        made.add_row(*sweep_cells(step))
    out.print()
    show(out, made)


# Two configurations


_ListedFinding = TypeVar("_ListedFinding", Alarm, Change)


def only_in(one: Sequence[_ListedFinding], other: Sequence[_ListedFinding], margin: Margin) -> list[_ListedFinding]:
    """Return the alarms or changes of one configuration that the other does not have within the margin."""
    rivals: dict[str, list[_ListedFinding]] = {}
    for rival in other:
        rivals.setdefault(rival.sensor, []).append(rival)
    found = []
    for mine in one:
        free = rivals.get(mine.sensor, [])
        near = next((rival for rival in free if _distance(mine, rival, margin) <= margin.size), None)
        if near is None:
            found.append(mine)
        else:
            free.remove(near)
    return found


def _distance(one: Alarm | Change, other: Alarm | Change, margin: Margin) -> float:
    return abs(one.time - other.time) / 1e6 if margin.in_seconds else abs(one.index - other.index)


def comparison(one: Trial, other: Trial) -> list[tuple[str, str, str]]:
    """Two configurations line by line: what, the one, the other."""
    lines: list[tuple[str, str, str]] = []

    def add(name: str, words: Callable[[Trial], str]) -> None:
        lines.append((name, words(one), words(other)))

    add("alarms raised", lambda trial: f"{len(trial.result.alarms):,}")
    add("alarms promised", lambda trial: rate(sum(rule.promised for rule in trial.result.promise)))
    if one.alarm_score is not None:
        _add_score(add, "alarm_score", "false alarms")
    add("changes", lambda trial: f"{len(trial.result.changes):,}")
    for status in _STATUSES:
        add(f"  {status}", lambda trial, status=status: f"{trial.count(status):,}")  # type: ignore[misc]
    add("changes per day", lambda trial: rate(trial.per_day))
    if one.score is not None:
        _add_score(add, "score", "false changes")
    else:
        add("median delay", lambda trial: _median_words([change.delay for change in trial.result.changes]))
    return lines


def _add_score(add: Callable[[str, Callable[[Trial], str]], None], name: str, false: str) -> None:
    """Add the lines of the score of a trial under this name."""
    for words, said in (
        ("labels found", lambda score: f"{score.hits} of {score.labels}"),
        (false, lambda score: f"{score.false:,}"),
        ("recall", lambda score: share(score.recall)),
        ("precision", lambda score: share(score.precision)),
        ("F1", lambda score: two_digits(score.f1)),
        ("median delay", delay_words),
    ):
        add(f"  {words}", lambda trial, said=said: said(getattr(trial, name)))  # type: ignore[misc]


def _median_words(delays: Sequence[int]) -> str:
    return f"{sorted(delays)[len(delays) // 2]} readings" if delays else "-"


def print_comparison(out: Console, one: Trial, other: Trial, margin: Margin, most: int | None = 40) -> None:
    """Two configurations side by side, and the alarms and changes that only one of them has."""
    made = table("", one.name, other.name, left=("",))
    for line in comparison(one, other):
        made.add_row(*line)
    out.print()
    show(out, made)
    found = differences(one, other, margin)
    if not found:
        out.print(f"\nboth have the same alarms and changes, within {margin}")
    for name, count, heads, lines in found:
        out.print(f"\nonly with {name}: {count}", soft_wrap=True)
        show(out, _table(heads, lines[:most]))
        if most is not None and len(lines) > most:
            out.print(f"... and {len(lines) - most:,} more: --all shows them")


class Difference(NamedTuple):
    """Alarms, or changes, that only one configuration has, as a table."""

    name: str  # of the configuration
    how_many: str
    heads: tuple[str, ...]
    lines: list[tuple[str, ...]]


def differences(one: Trial, other: Trial, margin: Margin) -> list[Difference]:
    """Return the alarms and the changes that only one of two configurations has."""
    found = []
    for trial, rival in ((one, other), (other, one)):
        alarms = only_in(trial.result.alarms, rival.result.alarms, margin)
        lines = [(alarm.sensor, *alarm_cells(alarm)) for alarm in alarms]
        found.append(Difference(trial.name, several(len(lines), "alarm"), ("sensor", *ALARM_HEADS), lines))
        changes = only_in(trial.result.changes, rival.result.changes, margin)
        lines = [(change.sensor, *change_cells(change)) for change in changes]
        found.append(Difference(trial.name, several(len(lines), "change"), ("sensor", *CHANGE_HEADS), lines))
    return [difference for difference in found if difference.lines]
