"""``ishsmm-stream accept``: what a sensor does now is usual from here on."""

from __future__ import annotations

import argparse

from service.commands._operations import add_common, open_operations, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sensor", metavar="SENSOR", help="its whole name")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the acceptance, and say what follows."""
    from service.operations import actions

    with open_operations(arguments) as service:
        said = actions.accept(service, arguments.sensor, who(arguments))
    print(f"{said.sensor}: its present behaviour is a habit from its next reading on; an open alarm is cleared then")
    return 0
