"""``ishsmm-stream tail``: follows the events topic and prints a line for each event."""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.embedded.control import ControlTable
    from service.kafka.control import ControlFollower
    from service.settings import Settings


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
    from service.settings import load
    from service.tools.tail import Printer, decode, line, remarks

    settings = load(arguments.config, os.environ)
    from_beginning = arguments.from_beginning or arguments.no_follow
    with _events(settings, from_beginning, arguments.no_follow) as (events, control):
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


@contextmanager
def _events(
    settings: Settings, from_beginning: bool, until_end: bool
) -> Iterator[tuple[Iterator[tuple[bytes, int]], ControlFollower | ControlTable]]:
    """Events with their times, and what people say of them."""
    if settings.source.is_kafka:
        from service.kafka.control import ControlFollower
        from service.kafka.input import connection_of
        from service.tools.tail import follow_dated

        connection = connection_of(settings)
        control = ControlFollower(connection, settings.topics.control)
        try:
            control.catch_up()
            topic = settings.topics.events
            # closed here: left to the interpreter's end, its consumer waits for a thread that is gone
            with closing(follow_dated(connection, topic, from_beginning=from_beginning, until_end=until_end)) as events:
                yield events, control
        finally:
            control.close()
        return
    from service.embedded.control import ControlTable
    from service.embedded.events import follow
    from service.embedded.state_file import Visit

    visit = Visit(settings.source.state)
    try:
        yield follow(visit, from_beginning=from_beginning, until_end=until_end), ControlTable(visit)
    finally:
        visit.close()
