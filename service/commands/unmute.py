"""``ishsmm-stream unmute``: takes a mute back."""

from __future__ import annotations

import argparse

from service.commands._operations import add_common, open_operations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("pattern", metavar="PATTERN", help="as it was muted; `ishsmm-stream mutes` lists them")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Take it back, and say so."""
    from service.operations import actions

    with open_operations(arguments) as service:
        was = actions.unmute(service, arguments.pattern)
    print(f"no longer muted: {actions.described(was, actions.now())}")
    return 0
