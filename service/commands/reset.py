"""``ishsmm-stream reset``: a sensor's detector starts afresh, as a new generation."""

from __future__ import annotations

import argparse

from service.commands._operations import add_common, open_operations, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sensor", metavar="SENSOR", help="its whole name")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the reset, and say what follows."""
    from service.operations import actions

    with open_operations(arguments) as service:
        said = actions.reset(service, arguments.sensor, who(arguments))
    print(f"{said.sensor}: generation {said.generation + 1} begins with its next reading")
    return 0
