"""The audit's result, for people or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from service.settings import Settings
from service.tools.audit import Report, SensorSum, audit

UNBALANCED = 1
MOST_LINES = 20


def show(settings: Settings, *, as_json: bool = False, every_sensor: bool = False) -> int:
    """Print the audit; returns the exit code."""
    report = audit(settings)
    if as_json:
        whole = msgspec.to_builtins(report) | {"balanced": report.balanced}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(whole)).decode() + "\n")
    else:
        print("\n".join(described(report, every_sensor)))
    return 0 if report.balanced else UNBALANCED


def described(report: Report, every_sensor: bool = False) -> list[str]:
    """The result as lines for people."""
    who = {0: "no worker is running", 1: "one worker is running"}.get(
        report.workers, f"{report.workers} workers are running"
    )
    lines = [f"group {report.group}, {who}", ""]
    lines += _partition_lines(report)
    lines += ["", *_sensor_lines(report, every_sensor)]
    problems = [f"{one.topic}[{one.partition}] {text}" for one in report.partitions for text in one.problems]
    if problems:
        lines += ["", *_shortened(problems)]
    lines += [f"note: {note}" for note in report.notes]
    wrong = len(problems) + sum(one.problem is not None for one in report.sensors)
    lines += [
        "",
        "everything adds up" if not wrong else f"{wrong} {'thing does' if wrong == 1 else 'things do'} not add up",
    ]
    return lines


def _partition_lines(report: Report) -> list[str]:
    rows = [
        (
            f"{one.topic}[{one.partition}]", f"{one.began:,}", f"{one.committed:,}", f"{one.records:,}",
            f"{one.accepted:,}", f"{one.dead_letters:,}", "ok" if not one.problems else "DIFFERS",
        )
        for one in report.partitions
    ]  # fmt: skip
    return _table(("partition", "began", "committed", "records", "= accepted", "+ dead letters", ""), rows)


def _sensor_lines(report: Report, every_sensor: bool) -> list[str]:
    sensors = report.sensors
    good = [one for one in sensors if one.problem is None]
    waiting = [one for one in good if one.in_no_snapshot]
    inserted = sum(one.inserted for one in sensors)
    lines = [
        f"{len(sensors):,} sensors, {sum(one.accepted for one in good):,} readings in their states"
        + (f", and {inserted:,} inserted steps" if inserted else "")
    ]
    if waiting:
        readings = sum(one.in_no_snapshot for one in waiting)
        lines.append(
            f"{readings:,} readings of {len(waiting):,} sensors are in no snapshot yet"
            + ("" if report.workers else ": the last worker did not stop in order, the next one replays them")
        )
    shown = sensors if every_sensor else [one for one in sensors if one.problem] + waiting
    if not shown:
        return lines
    if not every_sensor and len(shown) > MOST_LINES:
        rest = len(shown) - MOST_LINES
        shown = shown[:MOST_LINES]
    else:
        rest = 0
    heads = ("sensor", "partition", "accepted", "= final index + 1", "- inserted", "+ earlier", "in no snapshot", "")
    lines += ["", *_table(heads, [_sensor_row(one) for one in shown])]
    return lines + ([f"... and {rest:,} more, with --all"] if rest else [])


def _sensor_row(one: SensorSum) -> tuple[str, ...]:
    earlier = "?" if one.earlier is None else f"{one.earlier:,}"
    waits = "waits" if one.in_no_snapshot else "ok"
    if one.reordered:
        waits += f", {one.reordered:,} wait for older ones"
    return (
        one.sensor, str(one.partition) if one.partition >= 0 else "", f"{one.accepted:,}", f"{one.index + 1:,}",
        f"{one.inserted:,}", earlier, f"{one.in_no_snapshot:,}", one.problem or waits,
    )  # fmt: skip


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[:MOST_LINES], f"... and {len(lines) - MOST_LINES:,} more"]


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as they need to be; the first and the last are text."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    last = len(heads) - 1

    def line(cells: tuple[str, ...]) -> str:
        set_left = [
            f"{cell:<{w}}" if i in (0, last) else f"{cell:>{w}}"
            for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(set_left).rstrip()

    return [line(heads), *map(line, rows)]
