"""A backtest as files: events, everything as JSON, and a page with the pictures."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from service.tools.backtest.replay import Alarm, Change
from service.tools.backtest.report import (
    ALARM_HEADS,
    CHANGE_HEADS,
    Step,
    Trial,
    alarm_cells,
    change_cells,
    comparison,
    differences,
    headline,
    only_in,
    sensor_line,
    sweep_cells,
    sweep_heads,
    totals,
)
from service.tools.backtest.scoring import Margin, Score
from service.wire.readings import rfc3339

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 2.5rem 0 .3rem } p { margin: .4rem 0 } img { max-width: 100% }
table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; border-bottom: 1px solid #e4e4e4; white-space: nowrap }
td.what, td.why { white-space: normal } tr.retracted td { color: #999 } .note { color: #666 }
"""


def write(
    folder: Path,
    trials: Sequence[Trial],
    steps: Sequence[Step],
    source: str,
    margin: Margin,
    pictures: dict[str, str],
) -> list[Path]:
    """Write the files and return their paths; ``trials``: one configuration, or two that are compared."""
    files = {"report.json": _json(trials, steps, source, margin, pictures)}
    files["index.html"] = _page(trials, steps, source, margin, pictures)
    for number, trial in enumerate(trials):
        name = "events.jsonl" if number == 0 else "events-compared.jsonl"
        files[name] = "".join(f"{event.decode()}\n" for event in trial.result.events)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


# JSON


def _json(trials: Sequence[Trial], steps: Sequence[Step], source: str, margin: Margin, pictures: dict[str, str]) -> str:
    whole: dict[str, Any] = {"source": source, "margin": str(margin), "configurations": [_trial(t) for t in trials]}
    whole["configurations"][0]["pictures"] = pictures
    if len(trials) == 2:
        one, other = trials
        pairs = ((one.result, other.result), (other.result, one.result))
        whole["only_in"] = {
            "alarms": [[alarm.id for alarm in only_in(a.alarms, b.alarms, margin)] for a, b in pairs],
            "changes": [[change.id for change in only_in(a.changes, b.changes, margin)] for a, b in pairs],
        }
    whole["thresholds"] = [
        {
            "threshold": step.threshold,
            "changes": len(step.trial.result.changes),
            "retracted": step.trial.count("retracted"),
            "score": _score(step.trial.score),
        }
        for step in steps
    ]
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def _trial(trial: Trial) -> dict[str, Any]:
    result = trial.result
    first, last = result.span
    return {
        "name": trial.name,
        "records": result.records,
        "readings": result.readings,
        "refused": dict(result.refused),
        "first": rfc3339(first),
        "last": rfc3339(last),
        "score": _score(trial.score),
        "alarm_score": _score(trial.alarm_score),
        "promise": [one._asdict() for one in result.promise],
        "sensors": [
            {
                "sensor": sensor.name,
                "rule": sensor.rule.match,
                "threshold": sensor.rule.policy().threshold,
                "readings": sensor.readings,
                "inserted": sensor.inserted,
                "alarms": [_alarm(alarm) for alarm in sensor.alarms],
                "promised": sensor.promised,
                "changes": [_change(change) for change in sensor.changes],
                "notices": [msgspec.to_builtins(notice) for notice in sensor.notices],
                "change_points": [point._asdict() for point in sensor.change_points],
            }
            for sensor in result.sensors.values()
        ],
    }


def _change(change: Change) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(change)
    times = {"raised_time": rfc3339(change.raised_time), "time": rfc3339(change.time)}
    return plain | times | {"delay": change.delay, "delay_s": change.delay_s}


def _alarm(alarm: Alarm) -> dict[str, Any]:
    times = {name: getattr(alarm, name) for name in ("raised_time", "time", "cleared_time")}
    plain: dict[str, Any] = msgspec.to_builtins(alarm)
    return plain | {name: None if time is None else rfc3339(time) for name, time in times.items()}


def _score(score: Score | None) -> dict[str, Any] | None:
    if score is None:
        return None
    more = {name: getattr(score, name) for name in ("false", "missed", "precision", "recall", "f1")}
    plain: dict[str, Any] = msgspec.to_builtins(score)
    return plain | more


# The page


def _page(trials: Sequence[Trial], steps: Sequence[Step], source: str, margin: Margin, pictures: dict[str, str]) -> str:
    trial = trials[0]
    title = f"Backtest of {trial.name}"
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        *(_paragraph(line) for line in (headline(trial, source), *totals(trial))),
    ]
    if steps:
        rows = [sweep_cells(step) for step in steps]
        parts += ["<h2>Thresholds</h2>", _table(sweep_heads(any(s.trial.score for s in steps)), rows)]
    if len(trials) == 2:
        parts += _compared(trials[0], trials[1], margin)
    for sensor in trial.result.sensors.values():
        if sensor.name not in pictures and not sensor.alarms and not sensor.changes:
            continue
        parts.append(f"<h2>{html.escape(sensor.name)}</h2>")
        parts.append(f'<p class="note">{html.escape(sensor_line(sensor))}</p>')
        if sensor.name in pictures:
            parts.append(f'<img src="{html.escape(pictures[sensor.name])}" alt="{html.escape(sensor.name)}">')
        if sensor.alarms:
            parts.append(_table(ALARM_HEADS, map(alarm_cells, sensor.alarms)))
        if sensor.changes:
            classes = [change.status for change in sensor.changes]
            parts.append(_table(CHANGE_HEADS, map(change_cells, sensor.changes), classes))
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n{body}\n'
        "</body></html>\n"
    )


def _compared(one: Trial, other: Trial, margin: Margin) -> list[str]:
    parts = [f"<h2>Against {html.escape(other.name)}</h2>", _table(("", one.name, other.name), comparison(one, other))]
    for name, how_many, heads, lines in differences(one, other, margin):
        parts += [_paragraph(f"Only with {name}: {how_many}"), _table(heads, lines)]
    return parts


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], classes: Sequence[str] | None = None) -> str:
    lines = ["<table><tr>" + "".join(f"<th>{html.escape(head)}</th>" for head in heads) + "</tr>"]
    for number, row in enumerate(rows):
        opening = "<tr>" if classes is None else f'<tr class="{classes[number]}">'
        cells = "".join(
            f"<td{f' class={chr(34)}{head}{chr(34)}' if head in ('what', 'why') else ''}>{html.escape(cell)}</td>"
            for head, cell in zip(heads, row, strict=True)
        )
        lines.append(f"{opening}{cells}</tr>")
    return "\n".join([*lines, "</table>"])
