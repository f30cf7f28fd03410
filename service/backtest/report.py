"""What a backtest found, for people: tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from service.backtest.replay import Alarm, Followed, Replayed
from service.scoring import Margin, Score
from service.tail import percent
from service.terminal import lasting, moment, rate, several, share, show, table, two_digits

MOST_SENSORS = 20
_THEN = {"provisional": "open", "confirmed": "confirmed", "retracted": "taken back"}


@dataclass
class Trial:
    """A configuration, what it would have done, and what that is worth where there are labels."""

    name: str
    result: Replayed
    score: Score | None

    @property
    def a_day(self) -> float | None:
        """Alarms a day."""
        return len(self.result.alarms) / self.result.days if self.result.days > 0 else None

    def count(self, status: str) -> int:
        """Alarms that ended as ``status``."""
        return sum(alarm.status == status for alarm in self.result.alarms)


class Step(NamedTuple):
    """A threshold of a sweep."""

    threshold: float
    trial: Trial


def print_trial(out: Console, trial: Trial, source: str, every_sensor: bool) -> None:
    """A table for each sensor with alarms, then the totals."""
    out.print(headline(trial, source), soft_wrap=True)
    for reason, example in trial.result.first_refused.items():
        out.print(f"  {reason}, first at {example}", soft_wrap=True)
    told = [sensor for sensor in trial.result.sensors.values() if sensor.alarms or sensor.notices]
    shown = told if every_sensor else told[:MOST_SENSORS]
    for sensor in shown:
        out.print()
        out.print(sensor_line(sensor), soft_wrap=True)
        if sensor.alarms:
            show(out, _alarm_table(sensor.alarms))
        for notice in sensor.notices:
            out.print(f"{_short(notice.time)}  {notice.kind.replace('_', ' ')}: {notice.why}", soft_wrap=True)
    if len(told) > len(shown):
        out.print(f"\n... and {several(len(told) - len(shown), 'sensor')} more with alarms: --all shows them")
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
        f"alarm above {sensor.rule.policy().threshold:.6g}"
    )


ALARM_HEADS = ("raised", "change", "after", "what", "probability", "then")


def alarm_cells(alarm: Alarm) -> tuple[str, ...]:
    """A line about an alarm."""
    unit = f" {alarm.unit}" if alarm.unit and "->" in alarm.summary and "," not in alarm.summary else ""
    after = several(alarm.delay, "reading") + (f", {lasting(alarm.delay_s)}" if alarm.delay_s > 0 else "")
    return (
        moment(alarm.raised_time), moment(alarm.time), after, alarm.summary + unit,
        "-" if alarm.probability is None else percent(alarm.probability), _THEN[alarm.status],
    )  # fmt: skip


def _alarm_table(alarms: Sequence[Alarm]) -> Table:
    made = table(*ALARM_HEADS, left=("raised", "change", "then"), wraps=("what",))
    for alarm in alarms:
        made.add_row(*alarm_cells(alarm), style="dim" if alarm.status == "retracted" else None)
    return made


def totals(trial: Trial) -> list[str]:
    """Alarms in all, and how good they are."""
    result, alarms = trial.result, trial.result.alarms
    fates = [
        f"{trial.count(status):,} {_THEN[status]}"
        for status in ("confirmed", "retracted", "provisional")
        if trial.count(status)
    ]
    rates = []
    if trial.a_day is not None:
        rates.append(f"{rate(trial.a_day)} a day")
    if result.readings:
        rates.append(f"{rate(1000.0 * len(alarms) / result.readings)} in 1,000 readings")
    said = f"{several(len(alarms), 'alarm')}{': ' if fates else ''}{', '.join(fates)}"
    lines = ["; ".join([said, *([", ".join(rates)] if rates else [])])]
    if trial.score is not None:
        lines += score_lines(trial.score)
    return lines


def score_lines(score: Score) -> list[str]:
    """A score in words."""
    delay = "" if score.median_delay is None else f"; median delay {delay_words(score)}"
    false = "" if score.false_a_day is None else f", {rate(score.false_a_day)} a day"
    lines = [
        f"{score.hits} of {several(score.labels, 'label')} found (recall {share(score.recall)}); {score.false} of "
        f"{several(score.alarms, 'alarm')} false (precision {share(score.precision)}{false}); "
        f"F1 {two_digits(score.f1)}{delay}"
    ]
    if score.left_out:
        lines.append(f"note: {several(score.left_out, 'label')} left out: no reading of that sensor at that time")
    return lines


def delay_words(score: Score) -> str:
    """The median delay in readings and in time."""
    if score.median_delay is None or score.median_delay_s is None:
        return "-"
    return f"{score.median_delay:g} readings, {lasting(score.median_delay_s)}"


def _short(time: str) -> str:
    return time[:19].replace("T", " ")


# Thresholds


def sweep_heads(has_labels: bool) -> tuple[str, ...]:
    """The columns of a sweep."""
    return ("threshold", "alarms", "a day", "taken back") + (
        ("false", "hits", "recall", "precision", "F1", "median delay") if has_labels else ()
    )


def sweep_cells(step: Step) -> tuple[str, ...]:
    """A line of a sweep."""
    trial, score = step.trial, step.trial.score
    alarms = len(trial.result.alarms)
    cells: tuple[str, ...] = (
        f"{step.threshold:.6g}", f"{alarms:,}", rate(alarms / trial.result.days) if trial.result.days else "-",
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


def only_in(one: Replayed, other: Replayed, margin: Margin) -> list[Alarm]:
    """Alarms of one whose change the other does not tell of within the margin."""
    found = []
    for sensor in one.sensors.values():
        compared = other.sensors.get(sensor.name)
        taken: set[str] = set()
        for alarm in sensor.alarms:
            near = next(
                (
                    rival
                    for rival in (compared.alarms if compared else ())
                    if rival.id not in taken and _distance(alarm, rival, margin) <= margin.size
                ),
                None,
            )
            if near is None:
                found.append(alarm)
            else:
                taken.add(near.id)
    return found


def _distance(one: Alarm, other: Alarm, margin: Margin) -> float:
    return abs(one.time - other.time) / 1e6 if margin.in_seconds else abs(one.index - other.index)


def comparison(one: Trial, other: Trial) -> list[tuple[str, str, str]]:
    """Two configurations line by line: what, the one, the other."""
    lines: list[tuple[str, str, str]] = []

    def add(name: str, words: Callable[[Trial], str]) -> None:
        lines.append((name, words(one), words(other)))

    add("alarms", lambda trial: f"{len(trial.result.alarms):,}")
    add("  confirmed", lambda trial: f"{trial.count('confirmed'):,}")
    add("  taken back", lambda trial: f"{trial.count('retracted'):,}")
    add("  open", lambda trial: f"{trial.count('provisional'):,}")
    add("alarms a day", lambda trial: rate(trial.a_day))
    if one.score is None:
        add("median delay", lambda trial: _median_words([alarm.delay for alarm in trial.result.alarms]))
        return lines

    def add_score(name: str, words: Callable[[Score], str]) -> None:
        add(name, lambda trial: "-" if trial.score is None else words(trial.score))

    add_score("labels found", lambda score: f"{score.hits} of {score.labels}")
    add_score("false alarms", lambda score: f"{score.false:,}")
    add_score("recall", lambda score: share(score.recall))
    add_score("precision", lambda score: share(score.precision))
    add_score("F1", lambda score: two_digits(score.f1))
    add_score("median delay", delay_words)
    return lines


def _median_words(delays: Sequence[int]) -> str:
    return f"{sorted(delays)[len(delays) // 2]} readings" if delays else "-"


def print_comparison(out: Console, one: Trial, other: Trial, margin: Margin, most: int | None = 40) -> None:
    """Two configurations side by side, and what only one of them raises."""
    made = table("", one.name, other.name, left=("",))
    for line in comparison(one, other):
        made.add_row(*line)
    out.print()
    show(out, made)
    differences = [(one, only_in(one.result, other.result, margin)), (other, only_in(other.result, one.result, margin))]
    if not any(alarms for _, alarms in differences):
        out.print(f"\nboth raise alarms for the same changes, within {margin}")
    for trial, alarms in differences:
        if not alarms:
            continue
        out.print(f"\nonly with {trial.name}: {several(len(alarms), 'alarm')}", soft_wrap=True)
        listed = table("sensor", *ALARM_HEADS, left=("sensor", "raised", "change", "then"), wraps=("what",))
        for alarm in alarms[:most]:
            listed.add_row(alarm.sensor, *alarm_cells(alarm))
        show(out, listed)
        if most is not None and len(alarms) > most:
            out.print(f"... and {len(alarms) - most:,} more: --all shows them")
