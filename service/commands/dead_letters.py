"""``ishsmm-stream dead-letters``: lists the records that were set aside, with their reasons."""

from __future__ import annotations

import argparse
import base64
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.wire.messages import DeadLetter

_WIDEST_RECORD = 60  # characters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--last", type=int, default=20, metavar="N", help="the newest N (20); 0: all that are kept")
    parser.add_argument("--reason", metavar="WORD", help="only letters with this reason, such as not_json")
    parser.add_argument("--count", action="store_true", help="print how many there are of each reason")
    parser.add_argument("--json", action="store_true", help="print the messages as they are, one per line")


def run(arguments: argparse.Namespace) -> int:
    """Print the letters, oldest first."""
    from service.deployment import deployment_of
    from service.settings import load
    from service.wire import messages
    from service.wire.readings import REASONS

    if arguments.reason is not None and arguments.reason not in REASONS:
        raise ValueError(f"--reason {arguments.reason!r}: the reasons are {', '.join(REASONS)}")
    if arguments.last < 0:
        raise ValueError(f"--last {arguments.last}: must be 0 or more")
    deployment = deployment_of(load(arguments.config, os.environ))
    found = []
    for value, committed in deployment.dead_letters():
        letter = messages.decode(value)
        if isinstance(letter, messages.DeadLetter) and arguments.reason in (None, letter.reason):
            found.append((committed, value, letter))
    found.sort(key=lambda one: one[0])  # partitions are read one after the other
    if arguments.count:
        for reason, count in Counter(letter.reason for _, _, letter in found).most_common():
            print(f"{count:>9,}  {reason}")
        return 0
    for committed, value, letter in found[-arguments.last or None :]:
        print(value.decode() if arguments.json else _line(committed, letter))
    if not found and not arguments.json:
        print("no dead letters")
    return 0


def _line(committed: int, letter: DeadLetter) -> str:
    from service.wire.readings import rfc3339

    which = "" if letter.reading is None else f" reading {letter.reading}"
    where = f"{letter.topic}[{letter.partition}] at {letter.offset}{which}"
    text = base64.b64decode(letter.value or "").decode(errors="replace")
    shown = text if len(text) <= _WIDEST_RECORD else f"{text[: _WIDEST_RECORD - 3]}..."
    return f"{rfc3339(committed * 1000)}  {letter.reason}  {where}: {letter.detail}  {shown!r}"
