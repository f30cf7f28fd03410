"""What ``detect`` tells: events as they happen, the summary at the end, the picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ishsmm_stream.commands import _report, _terminal
from ishsmm_stream.commands._rows import BadRow
from ishsmm_stream.commands._sensors import Sensors

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

_BAD_ROWS_SHOWN = 5
_LEAST_WIDTH = 9  # the longest kind of event; an index of millions


class EventPrinter:
    """Events on stdout, one line each, under a header before the first."""

    def __init__(self, sensor_column: str | None, time_column: str | None) -> None:
        self._sensor_column = sensor_column
        self._time_column = time_column
        self._widths: list[int] = []

    def print(self, event: dict[str, Any]) -> None:
        is_alarm = event["kind"] in ("alarm", "cleared")
        cells = {"at": str(event["at"]), "event": event["kind"], "change at": "" if is_alarm else str(event["index"])}
        if self._sensor_column is not None:
            cells = {"sensor": event["sensor"], **cells}
        if self._time_column is not None:
            cells |= {"at": f"{cells['at']}  {event['time'] or '-'}"}
            cells |= {"change at": "" if is_alarm else f"{cells['change at']}  {event['index_time'] or '-'}"}
        cells |= {"probability": "" if is_alarm else _report.percent(event["probability"])}
        cells |= {"90% interval": "" if is_alarm else f"{event['low']} to {event['high']}"}
        cells |= {"unusual": _unusual(event)}
        if not self._widths:
            self._widths = [max(_LEAST_WIDTH, len(name), len(cell)) for name, cell in cells.items()]
            self._print(list(cells))
        self._print(list(cells.values()))

    def _print(self, cells: Sequence[str]) -> None:
        padded = [printable(cell).rjust(width) for cell, width in zip(cells, self._widths, strict=True)]
        padded[-1] = printable(cells[-1])  # words, to the left
        if self._sensor_column is not None:
            padded[0] = printable(cells[0]).ljust(self._widths[0])
        print("  ".join(padded).rstrip(), flush=True)


def _unusual(event: dict[str, Any]) -> str:
    """Return how often something like an alarm happens, and why it was raised; of news of a state, which one."""
    from ishsmm_stream.online.results import STATE_NEWS

    if event["kind"] in STATE_NEWS:
        words = [f"state {event['state']}", *event["reasons"]]
        return ", ".join(words).replace("_", " ")
    if event["kind"] != "alarm":
        return ""
    return f"{', '.join(event['reasons'])}: once in {event['return_period']:,.0f} rows"


class Journal:
    """Prints events, writes them to a file, and counts the rows that are set aside."""

    def __init__(self, printer: EventPrinter, file: TextIO | None, *, keeps_all: bool, quiet: bool) -> None:
        self.events: list[dict[str, Any]] = []
        self.bad_rows: list[BadRow] = []
        self.n_bad_rows = 0
        self._printer = printer
        self._file = file
        self._keeps_all = keeps_all
        self._quiet = quiet

    def record(self, events: list[dict[str, Any]]) -> None:
        if events and self._file is not None:
            self._file.writelines(f"{json.dumps(event, allow_nan=False)}\n" for event in events)
            self._file.flush()
        for event in events:
            self._printer.print(event)
        if self._keeps_all:
            self.events += events

    def set_aside(self, row: BadRow) -> None:
        self.n_bad_rows += 1
        if self._keeps_all:
            self.bad_rows.append(row)
        if self.n_bad_rows <= _BAD_ROWS_SHOWN:
            _terminal.note(f"line {row.line} is set aside: {printable(row.reason)}", self._quiet)
        elif self.n_bad_rows == _BAD_ROWS_SHOWN + 1:
            _terminal.note("more lines are set aside; --out writes all of them", self._quiet)


# The summary


def print_summary(console: Console, result: dict[str, Any]) -> None:
    """Counts, change points, states."""
    if any(sensor["alarms"] or sensor["unusual"] for sensor in result["sensors"]):
        console.print()
    console.print(_counts(result), soft_wrap=True)
    if len(result["sensors"]) == 1:
        for part in ("emission", "duration"):
            if part in result["sensors"][0]["settings"]:
                console.print(f"  {part}: {_report.described(result['sensors'][0]['settings'][part])}", soft_wrap=True)
    console.print()
    _print_change_points(console, result)
    _print_states(console, result)
    _print_dictionaries(console, result)


def _counts(result: dict[str, Any]) -> str:
    sensors, settings = result["sensors"], result["settings"]
    missing = sum(sensor["n_missing"] for sensor in sensors)
    parts = [f"{_several(result['n_observations'], 'observation')} of {', '.join(settings['columns'])}"]
    if settings["sensor_column"] is not None:
        parts.append(_several(len(sensors), "sensor"))
    if missing:
        parts.append(f"{missing} missing")
    if result["n_bad_rows"]:
        parts.append(f"{_several(result['n_bad_rows'], 'row')} set aside")
    parts.append(_several(sum(len(sensor["unusual"]) for sensor in sensors), "alarm"))
    parts.append(_several(sum(len(sensor["alarms"]) for sensor in sensors), "announced change"))
    return f"{settings['model']}: {', '.join(parts)}{' (interrupted)' if result['is_interrupted'] else ''}"


def _print_change_points(console: Console, result: dict[str, Any]) -> None:
    rows = [(sensor, point) for sensor in result["sensors"] for point in sensor["change_points"]]
    if not rows:
        console.print("no change points with a probability of 50% or more\n")
        return
    head = [*_places(result), "probability", "90% interval"]
    table = _report.make_table(*head, title="Change points (first index after)")
    _align_names(table, result)
    for sensor, point in rows[: _report.MOST_ROWS]:
        place = _place(result, sensor, point["index"], point["time"])
        table.add_row(*place, _report.percent(point["probability"]), f"{point['low']} to {point['high']}")
    _report.print_table(console, table, len(rows))


def _print_states(console: Console, result: dict[str, Any]) -> None:
    rows = [(sensor, sensor["state"]) for sensor in result["sensors"] if sensor["state"]]
    if not rows:
        return
    table = _report.make_table(*_places(result, "since"), "probability", "parameters", title="State now")
    _align_names(table, result)
    table.columns[-1].no_wrap = False
    table.columns[-1].justify = "left"
    for sensor, state in rows[: _report.MOST_ROWS]:
        parameters = ", ".join(f"{name} {value:.4g}" for name, value in state["parameters"].items())
        place = _place(result, sensor, state["since"], state["time"])
        table.add_row(*place, _report.percent(state["probability"]), parameters)
    _report.print_table(console, table, len(rows))


def _print_dictionaries(console: Console, result: dict[str, Any]) -> None:
    """The states that return, those of most readings first."""
    rows = [
        (sensor, state)
        for sensor in result["sensors"]
        for state in sorted(sensor["states"], key=lambda state: -state["readings"])
    ]
    if not rows:
        return
    by_sensor = result["settings"]["sensor_column"]
    head = ("state", "mean", "sd", "usual visit", "share", "visits", "last seen")
    table = _report.make_table(*((by_sensor,) if by_sensor else ()), *head, title="States that return")
    _align_names(table, result)
    for sensor, state in rows[: _report.MOST_ROWS]:
        dwell = "" if state["dwell"] is None else f"{state['dwell'][0]:.0f} to {state['dwell'][2]:.0f}"
        share = state["readings"] / sum(other["readings"] for other in sensor["states"])
        table.add_row(
            *([printable(sensor["sensor"])] if by_sensor else []),
            str(state["id"]), f"{state['mean']:.4g}", f"{state['sd']:.3g}", dwell, _report.percent(share),
            str(state["visits"]), str(state["last_seen"]),
        )  # fmt: skip
    _report.print_table(console, table, len(rows))


def _places(result: dict[str, Any], index: str = "change point") -> list[str]:
    settings = result["settings"]
    return [name for name in (settings["sensor_column"], index, settings["time_column"]) if name is not None]


def _align_names(table: Table, result: dict[str, Any]) -> None:
    if result["settings"]["sensor_column"] is not None:
        table.columns[0].justify = "left"


def _place(result: dict[str, Any], sensor: dict[str, Any], index: int, time: str | None) -> list[str]:
    settings = result["settings"]
    cells = [printable(sensor["sensor"])] if settings["sensor_column"] is not None else []
    return [*cells, str(index), *([printable(time or "-")] if settings["time_column"] is not None else [])]


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str) -> str:
    """``text`` without what would move the cursor or break the line."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


# The picture


def draw(plots: Any, sensors: Sensors, columns: Sequence[str], time_column: str | None, path: Path) -> None:
    """The first sensors with their changes and alarms."""
    import numpy as np

    shown = [sensor for sensor in sensors.all.values() if sensor.rows.values is not None]
    moments = [_moments(sensor.rows.times) for sensor in shown]
    dated = all(x is not None for x in moments)
    streams = [
        plots.Stream(
            values=np.array(sensor.rows.values).reshape(-1, len(columns)),
            change_points=sensor.detector.change_points if sensor.detector else (),
            alarms=sensor.detector.announced_changes if sensor.detector else (),
            name=sensor.name,
            labels=columns,
            first=sensor.rows.first,
            x=x if dated else None,
        )
        for sensor, x in zip(shown, moments, strict=True)
    ]
    parts = [f"The first {len(shown)} of {len(sensors.all)} sensors"] if len(shown) < len(sensors.all) else []
    if any(sensor.rows.first for sensor in shown):
        parts.append(f"The last {len(shown[0].rows.lines):,} observations")
    plots.plot_streams(streams, title=", ".join(parts), x_label=time_column if dated else "observation", path=path)


def _moments(times: Sequence[str]) -> np.ndarray | None:
    """Times as numbers or datetimes where all of them are such and in order."""
    import numpy as np

    for read in (float, _datetime):
        try:
            found = np.array([read(time) for time in times])
        except (ValueError, OverflowError):
            continue
        return found if (found[1:] >= found[:-1]).all() else None
    return None


def _datetime(time: str) -> Any:
    """The date and time in UTC, as numpy has it."""
    import numpy as np

    moment = datetime.fromisoformat(time)
    return np.datetime64(moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment, "us")
