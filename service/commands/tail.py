"""``ishsmm-stream tail``: follows the events topic and prints a line for each event."""

from __future__ import annotations

import argparse
import fnmatch
import os
from contextlib import closing
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--sensor", default="*", metavar="PATTERN", help="only sensors whose names match (* any text)")
    parser.add_argument("--from-beginning", action="store_true", help="first what the topic still holds")
    parser.add_argument("--no-follow", action="store_true", help="print what the topic holds, and end")
    parser.add_argument("--ids", action="store_true", help="also the ids of changes, for `ishsmm-stream ack`")
    parser.add_argument("--json", action="store_true", help="the messages as they are, one a line")


def run(arguments: argparse.Namespace) -> int:
    """Print until Ctrl-C."""
    from service.deployment import deployment_of
    from service.settings import load
    from service.tools.tail import Printer, decode, line, remarks

    deployment = deployment_of(load(arguments.config, os.environ))
    from_beginning = arguments.from_beginning or arguments.no_follow
    with (
        deployment.control() as control,
        # closed here: left to the interpreter's end, its consumer waits for a thread that is gone
        closing(deployment.events(from_beginning=from_beginning, until_end=arguments.no_follow)) as events,
    ):
        show = Printer()
        for value, published in events:
            event = decode(value)
            if event is None or not fnmatch.fnmatchcase(event.sensor, arguments.sensor):
                continue
            if arguments.json:
                print(value.decode(), flush=True)
                continue
            control.poll()
            show(*line(event), remarks(event, published, control.book, arguments.ids))
    return 0
