"""``ishsmm-stream ack``: somebody has seen a change. It stops nothing and is there to be seen."""

from __future__ import annotations

import argparse

from service.commands._operations import add_common, open_operations, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("event", metavar="EVENT", help="the change's id, or as much of it as is the only one")
    parser.add_argument("--note", default="", metavar="TEXT", help="what is to be said of it")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Acknowledge, and say so."""
    from service.operations import actions

    with open_operations(arguments) as service:
        said = actions.acknowledge(service, arguments.event, arguments.note, who(arguments))
    print(f"acknowledged: {said.id} of {said.sensor}{f', by {said.by}' if said.by else ''}")
    return 0
