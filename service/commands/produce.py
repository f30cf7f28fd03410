"""``ishsmm-stream produce``: the readings of a file onto the input topic, at a pace."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from service.sources.arguments import add_file_arguments

if TYPE_CHECKING:
    from service.tools.produce import Sent

NOT_DELIVERED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="CSV with a header, or JSON lines")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; the first of its topics is written to")
    parser.add_argument("--topic", metavar="NAME", help="another topic")
    parser.add_argument("--create", action="store_true", help="make the topic where it is missing")
    pace = parser.add_argument_group("pace (default: as fast as the brokers take them)")
    pace.add_argument("--rate", type=float, metavar="N", help="readings a second")
    pace.add_argument("--speed", type=float, metavar="X", help="times as fast as the file's own clock; 1: as it was")
    pace.add_argument("--now", action="store_true", help="times of readings begin now, in place of those of the file")
    pace.add_argument("--loop", action="store_true", help="again and again, until Ctrl-C; with --now times go on")
    add_file_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send, and say what was acknowledged; 1 where not everything was."""
    from service.kafka.input import connection_of
    from service.runtime import stopping
    from service.settings import load
    from service.sources.arguments import FileRecords, file_source
    from service.tools.produce import Pace, check_pace, create_topic, produce
    from service.tools.progress import Progress

    settings = load(arguments.config, os.environ)
    if arguments.topic is None and settings.kafka.topics_pattern is not None:
        raise ValueError("the configuration names topics by a pattern: say which one with --topic")
    pace = check_pace(arguments.rate, arguments.speed)
    if arguments.loop and not arguments.now:
        raise ValueError("--loop needs --now: the same times again would be refused as late or repeated")
    if arguments.now and pace == Pace():
        raise ValueError("--now needs --rate or --speed: sent at once, the readings' times would lie in the future")
    topic = arguments.topic or settings.kafka.topics[0]
    records = FileRecords(file_source(arguments, arguments.file, settings.source.file), settings)
    connection = connection_of(settings)
    if arguments.create:
        names = settings.topics
        print(create_topic(connection, topic, names.partitions, names.replication), file=sys.stderr)
    over = threading.Event()
    # what is under way at a Ctrl-C arrives, and is counted
    with stopping.by_signals(over.set, (signal.SIGINT,)), Progress(f"{arguments.file.name} -> {topic}") as progress:
        sent = produce(
            connection, topic, records, records.decode,
            pace=pace, now=arguments.now, loop=arguments.loop, wait=over.wait, progress=progress,
        )  # fmt: skip
    return _tell(sent, topic)


def _tell(sent: Sent, topic: str) -> int:
    for line, why in sent.lines:
        print(f"line {line} is set aside: {why}", file=sys.stderr)
    if sent.refused:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sent.refused.most_common())
        print(f"{sent.refused.total():,} lines were not sent ({reasons})", file=sys.stderr)
    print(f"{sent.acknowledged:,} of {sent.readings:,} readings acknowledged on {topic}")
    if sent.failure:
        print(f"not all arrived: {sent.failure}", file=sys.stderr)
    return 0 if sent.acknowledged == sent.readings and not sent.failure else NOT_DELIVERED
