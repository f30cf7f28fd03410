"""``ishsmm-stream tail``: follows the events topic and prints a line for each event."""

from __future__ import annotations

import argparse
import fnmatch
import os
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--sensor", default="*", metavar="PATTERN", help="only sensors whose names match (* any text)")
    parser.add_argument("--from-beginning", action="store_true", help="first what the topic still holds")
    parser.add_argument("--no-follow", action="store_true", help="print what the topic holds, and end")
    parser.add_argument("--json", action="store_true", help="the messages as they are, one a line")


def run(arguments: argparse.Namespace) -> int:
    """Print until Ctrl-C."""
    from service.settings import load
    from service.tail import Printer, decode, follow, line
    from service.worker import connection_of

    settings = load(arguments.config, os.environ)
    show = Printer()
    for value in follow(
        connection_of(settings), settings.topics.events,
        from_beginning=arguments.from_beginning or arguments.no_follow, until_end=arguments.no_follow,
    ):  # fmt: skip
        event = decode(value)
        if event is None or not fnmatch.fnmatchcase(event.sensor, arguments.sensor):
            continue
        if arguments.json:
            print(value.decode(), flush=True)
        else:
            show(*line(event))
    return 0
