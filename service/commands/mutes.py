"""``ishsmm-stream mutes``: lists what is muted."""

from __future__ import annotations

import argparse
import sys

from service.commands._operations import add_common, open_operations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--all", action="store_true", help="also those that are over")
    parser.add_argument("--json", action="store_true", help="the records as they are, one a line")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """List the mutes, those that end first in front."""
    import msgspec

    from service.operations import actions
    from service.wire.readings import from_rfc3339

    now = actions.now()
    with open_operations(arguments) as service:
        found = service.control.read().mutes()
    found = [mute for mute in found if arguments.all or from_rfc3339(mute.until) > now]
    for mute in found:
        if arguments.json:
            sys.stdout.write(msgspec.json.encode(mute).decode() + "\n")
        else:
            print(actions.described(mute, now))
    if not found and not arguments.json:
        print("nothing is muted")
    return 0
