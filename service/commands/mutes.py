"""``ishsmm-stream mutes``: lists what is muted."""

from __future__ import annotations

import argparse
import sys

from service.commands._handling import add_common, at_desk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--all", action="store_true", help="also those that are over")
    parser.add_argument("--json", action="store_true", help="the records as they are, one a line")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """List the mutes, those that end first in front."""
    import msgspec

    from service.operations import actions as handling
    from service.operations.control import moment

    now = handling.now()
    with at_desk(arguments) as desk:
        found = desk.control.read().mutes()
    found = [mute for mute in found if arguments.all or moment(mute.until) > now]
    for mute in found:
        if arguments.json:
            sys.stdout.write(msgspec.json.encode(mute).decode() + "\n")
        else:
            print(handling.described(mute, now))
    if not found and not arguments.json:
        print("nothing is muted")
    return 0
