"""``ishsmm-stream unmute``: takes a mute back."""

from __future__ import annotations

import argparse

from service.commands._handling import add_common, at_desk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("pattern", metavar="PATTERN", help="as it was muted; `ishsmm-stream mutes` lists them")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Take it back, and say so."""
    from service.operations import actions as handling

    with at_desk(arguments) as desk:
        was = handling.unmute(desk, arguments.pattern)
    print(f"no longer muted: {handling.described(was, handling.now())}")
    return 0
