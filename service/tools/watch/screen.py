"""The board as a table that fills a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from service.tools.tail import clock, line
from service.tools.terminal import several
from service.tools.watch.board import Board, Row
from service.wire import messages

_STYLES = {
    "ALARM": "bold red", "cleared": "green", "provisional": "", "confirmed": "", "relocated": "dim",
    "retracted": "dim", "silent": "red", "back": "green", "new generation": "magenta",
    "accepted": "green",
}  # fmt: skip
_BLOCKS = "▁▂▃▄▅▆▇█"
_SPARKS = 30
_WIDEST_SENSOR = 36
# Columns from which on a terminal has room for noise and since, and for the sparkline.
_WIDE, _WIDEST = 90, 120
_MOST_EVENT_LINES = 6
_LIKELY = 0.5


class Screen:
    """A view of the board that fits the terminal it is drawn on."""

    def __init__(self, board: Board, title: str) -> None:
        self._board = board
        self._title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.max_height
        events = list(self._board.events)[-min(_MOST_EVENT_LINES, max(1, height // 4)) :]
        room = max(1, height - len(events) - 5)  # title, header with its rule, blank, footer
        yield self._header()
        yield self._table(room, options.max_width)
        yield self._footer(room)
        for event in reversed(events):
            yield _event_line(event)

    def _header(self) -> Text:
        text = Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        text.append(f"   {datetime.now().astimezone():%H:%M:%S}", style="dim")
        return text

    def _table(self, room: int, width: int) -> Table:
        made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=True, header_style="dim")
        made.add_column("sensor", no_wrap=True, max_width=_WIDEST_SENSOR, overflow="ellipsis")
        made.add_column("level", justify="right", no_wrap=True)
        if width >= _WIDE:
            made.add_column("noise", justify="right", no_wrap=True)
            made.add_column("since", no_wrap=True)
        made.add_column("P(change)", justify="right", no_wrap=True)
        made.add_column("alarm or last change", no_wrap=True, ratio=1, overflow="ellipsis")
        if width >= _WIDEST:
            made.add_column("recent", no_wrap=True, width=_SPARKS)
        for row in self._board.rows[:room]:
            sensor, level, noise, since, likely, change = _cells(row)
            middle = [noise, since] if width >= _WIDE else []
            made.add_row(sensor, level, *middle, likely, change, *([_spark(row)] if width >= _WIDEST else []))
        if not len(self._board):
            made.add_row(Text("nothing has come yet", style="dim"))
        return made

    def _footer(self, room: int) -> Text:
        board = self._board
        parts = [several(len(board), "sensor")]
        if len(board) > room:
            parts.append(f"{room} shown")
        if board.silent:
            parts.append(f"{board.silent} silent")
        parts += [f"{count:,} {kind.replace('_', ' ')}" for kind, count in sorted(board.counts.items())]
        parts.append("Ctrl-C ends")
        return Text("\n" + " · ".join(parts), style="dim", no_wrap=True, overflow="ellipsis")


def _cells(row: Row) -> list[Text | str]:
    name = Text(row.sensor, style="red" if row.is_silent else "")
    if row.is_silent:
        name.append(" silent", style="red dim")
    state = row.state.state if row.state else None
    if row.state is None or state is None:
        return [name, "", "", "", "", _change(row)]
    level, noise = _level(state.parameters)
    probability = row.state.change_probability or 0.0
    likely = Text(
        "< 0.1 %" if probability < 0.001 else "> 99.9 %" if probability > 0.999 else f"{100.0 * probability:.1f} %",
        style="yellow" if probability >= _LIKELY else "dim",
    )
    began = state.since.time
    if began is None and row.change is not None and row.change.index == state.since.index:
        began = row.change.time  # further back than the service remembers, but it was said then
    since = state.name or ("" if began is None else clock(began))
    return [name, level + _unit(row), noise, since, likely, _change(row)]


def _level(parameters: dict[str, float | None]) -> tuple[str, str]:
    """Level and noise of the first channel."""
    level = next((parameters[name] for name in ("mean", "rate", "mean[0]") if parameters.get(name) is not None), None)
    noise = next((parameters[name] for name in ("sd", "sd[0]") if parameters.get(name) is not None), None)
    return "" if level is None else f"{level:.4g}", "" if noise is None else f"{noise:.3g}"


def _unit(row: Row) -> str:
    unit = row.state.labels.get("unit", "") if row.state else ""
    return f" {unit}" if unit else ""


def _change(row: Row) -> Text | str:
    if row.alarm is not None:
        text = Text(f"{'ALARM':<12}", style=_STYLES["ALARM"])
        return text.append(f"{clock(row.alarm.at.time)}  {row.alarm.summary}", style="default")
    if row.change is None:
        return ""
    text = Text(f"{row.change.status:<12}", style=_STYLES.get(row.change.status, ""))
    return text.append(f"{clock(row.change.at.time)}  {row.change.summary}", style="default")


def _spark(row: Row) -> str:
    if row.state is None:
        return ""
    values = [reading[1] for reading in row.state.recent if len(reading) > 1 and reading[1] is not None]
    return sparkline([value for value in values if value is not None])


def sparkline(values: Sequence[float], width: int = _SPARKS) -> str:
    """Values as a line of blocks, the means of equal stretches where there are more than fit.

    >>> sparkline([1, 2, 3, 4, 5, 6, 7, 8])
    '▁▂▃▄▅▆▇█'
    >>> sparkline([5.0, 5.0]), sparkline([])
    ('▁▁', '')
    """
    if len(values) > width:
        edges = [len(values) * i // width for i in range(width + 1)]
        values = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    if not values:
        return ""
    low, high = min(values), max(values)
    if high == low:
        return _BLOCKS[0] * len(values)
    return "".join(_BLOCKS[min(7, int(8 * (value - low) / (high - low)))] for value in values)


def _event_line(event: messages.Event) -> Text:
    moment, sensor, status, words, probable = line(event)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{moment}  ", style="dim").append(f"{sensor}  ").append(f"{status}  ", style=_STYLES.get(status, ""))
    return text.append(words).append(f"  ({probable})" if probable else "", style="dim")
