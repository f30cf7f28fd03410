"""``ishsmm-stream inspect``: where one sensor stands, from what the service has committed."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from service.inspection import Inspection
    from service.messages import Place

MOST_ROWS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sensor", metavar="SENSOR", help="its name")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--all", action="store_true", help="every change point and alarm that is remembered")
    parser.add_argument("--json", action="store_true", help="the whole answer as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Look, and print."""
    from service.inspection import inspect
    from service.settings import load

    found = inspect(load(arguments.config, os.environ), arguments.sensor)
    if arguments.json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
        return 0
    from service.terminal import console

    show(console(), found, None if arguments.all else MOST_ROWS)
    return 0


def show(out: Console, found: Inspection, most: int | None) -> None:
    """The answer for people."""
    from service.messages import Place
    from service.tail import percent
    from service.terminal import show as show_table
    from service.terminal import table

    for name, text in described(found):
        out.print(f"{name:<15}{text}", soft_wrap=True)
    now = found.posterior
    out.print()
    if now.change_points:
        points = table("change point", "time", "probability", "90% interval", left=("time", "90% interval"))
        for point in now.change_points[-(most or 10**9) :]:
            low, high = _time(found, point.low), _time(found, point.high)
            interval = f"{point.low.index} to {point.high.index}"
            if "-" not in (low, high) and low != high:
                interval += f"  ({low} to {high})"
            time = _time(found, Place(point.index, point.time))
            points.add_row(str(point.index), time, percent(point.probability or 0.0), interval)
        show_table(out, points)
    else:
        out.print("no change points with a probability of 50 % or more")
    if now.alarms:
        out.print()
        alarms = table("alarm", "raised at", "time", "change at", "status", left=("alarm", "time", "status"))
        for alarm in now.alarms[-(most or 10**9) :]:
            raised = alarm.raised_at
            alarms.add_row(alarm.id, str(raised.index), _time(found, raised), str(alarm.index), alarm.status)
        show_table(out, alarms)


def described(found: Inspection) -> list[tuple[str, str]]:
    """Names and what is known under them."""
    from service.tail import percent

    now = found.posterior
    unit = f" {now.labels['unit']}" if "unit" in now.labels else ""
    readings = f"{now.accepted:,} readings" + (f" and {now.inserted:,} inserted steps" if now.inserted else "")
    lines = [("sensor", now.sensor + (", silent" if now.is_silent else ""))]
    if now.labels:
        lines.append(
            ("labels", ", ".join(name if value is True else f"{name} {value}" for name, value in now.labels.items()))
        )
    lines.append(("newest", f"{_short(now.time)} UTC, index {now.index}; {readings}, generation {now.generation}"))
    if now.state is not None and now.run_length is not None:
        state, length = now.state, now.run_length
        which = ""
        if found.states_return:
            name = f" ({state.name})" if state.name else ""
            which = f"{state.id}{name} of {now.n_states}, visit {state.visits}: "
        parameters = ", ".join(f"{key} {_number(value)}" for key, value in state.parameters.items())
        lines += [
            ("state", f"{which}{parameters}{unit}"),
            (
                "since",
                f"{_time(found, state.since)}, index {state.since.index}, with probability "
                f"{percent(state.probability or 0.0)}",
            ),
            ("run length", f"{length.median:,} observations, 90 % interval {length.low:,} to {length.high:,}"),
            ("P(change)", f"{percent(now.change_probability or 0.0)} within the last window of readings"),
        ]
    elif now.index is not None:
        lines.append(("state", "none yet: the season is being learned"))
    if now.forecast is not None:
        lines.append(("forecast", _forecast(found, unit)))
    if found.transform != "none":
        lines.append(("transform", f"{found.transform}: the numbers above are after it"))
    set_ = ", ".join(f"{key} {value}" for key, value in found.settings.items() if value is not None)
    lines += [
        ("rule", f"{found.rule}: model {found.model}, alarm above {found.alarm_threshold:.6g}; {set_}"),
        ("state saved", _saved(found)),
    ]
    if not found.keeps_state:
        lines.append(
            (
                "note",
                f"under this configuration the next reading starts generation {now.generation + 1}: its model, prior, "
                "transform or detector is another one",
            )
        )
    return lines


def _saved(found: Inspection) -> str:
    if found.snapshot_offset is None:
        return f"{found.place}: no snapshot yet, made from {found.replayed:,} records"
    if not found.keeps_state:
        return f"{found.place}, up to offset {found.snapshot_offset:,}, as it was saved"
    since = f"{found.replayed:,} records of the input read since" if found.replayed else "nothing came since"
    return f"{found.place}, up to offset {found.snapshot_offset:,}; {since}"


def _forecast(found: Inspection, unit: str) -> str:
    forecast = found.posterior.forecast
    assert forecast is not None

    def step(number: int) -> str:
        cells = zip(forecast.median[number], forecast.low[number], forecast.high[number], strict=True)
        return ", ".join(f"{_number(mid)} [{_number(low)}, {_number(high)}]" for mid, low, high in cells)

    last = len(forecast.median)
    return f"{step(0)}{unit} next, {step(last - 1)}{unit} {last} observations on (median, 90 % interval)"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _time(found: Inspection, place: Place) -> str:
    return _short(place.time or found.times.get(place.index))


def _short(time: str | None) -> str:
    return "-" if time is None else time[:19].replace("T", " ")
