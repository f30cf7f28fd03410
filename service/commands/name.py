"""``ishsmm-stream name``: names a state of a sensor. Inference and published events do not change."""

from __future__ import annotations

import argparse

from service.commands._operations import add_common, add_state, open_operations, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_state(parser)
    parser.add_argument("name", metavar="NAME", help="at most 60 characters; '' removes the name")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the name, and print what was done."""
    from service.operations import actions

    with open_operations(arguments) as service:
        said = actions.name_state(service, arguments.sensor, arguments.state, arguments.name, who(arguments))
    print(f"state {said.state} of {said.sensor} is called {said.name or 'by its number'}")
    return 0
