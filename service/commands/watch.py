"""``ishsmm-stream watch``: all sensors in the terminal as they are; where nobody looks, a line for each event."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.deployment import Deployment

# Events from before that are shown at first.
_EARLIER = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--sensor", default="*", metavar="PATTERN", help="only sensors whose names match (* any text)")
    parser.add_argument("--plain", action="store_true", help="lines, also on a terminal")
    parser.add_argument("--seconds", type=float, metavar="N", help="end by itself after so long")


def run(arguments: argparse.Namespace) -> int:
    """Show until Ctrl-C."""
    import time

    from service.deployment import deployment_of
    from service.settings import load

    deployment = deployment_of(load(arguments.config, os.environ))
    began: list[float] = []

    def is_over() -> bool:
        began[:] = began or [time.monotonic()]  # from the first question on: connecting does not count
        return arguments.seconds is not None and time.monotonic() > began[0] + arguments.seconds

    if arguments.plain or not sys.stdout.isatty():
        _lines(deployment, arguments.sensor, is_over)
    else:
        _table(deployment, arguments.sensor, is_over)
    return 0


def _lines(deployment: Deployment, pattern: str, is_over: Callable[[], bool]) -> None:
    """The last events and those that come, a line each."""
    from service.tools.tail import Printer, line
    from service.tools.watch.board import Board

    show, board = Printer(), Board(pattern)
    for value in deployment.messages(with_states=False, earlier=_EARLIER, is_over=is_over):
        event = None if value is None else board.take(value)
        if event is not None:
            show(*line(event))


def _table(deployment: Deployment, pattern: str, is_over: Callable[[], bool]) -> None:
    from rich.console import Console
    from rich.live import Live

    from service.tools.watch.board import Board
    from service.tools.watch.screen import Screen

    board = Board(pattern)
    screen = Screen(board, f"ishsmm-stream watch  {deployment.output}" + (f"  {pattern}" if pattern != "*" else ""))
    with Live(screen, console=Console(), screen=True, auto_refresh=False) as live:
        for value in deployment.messages(with_states=True, earlier=_EARLIER, is_over=is_over):
            if value is not None:
                board.take(value)
            else:
                live.refresh()
