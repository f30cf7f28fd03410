"""``ishsmm-stream accept``: what a sensor does now is usual from here on."""

from __future__ import annotations

import argparse

from service.commands._handling import add_common, at_desk, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sensor", metavar="SENSOR", help="its whole name")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the acceptance, and say what follows."""
    from service.operations import actions as handling

    with at_desk(arguments) as desk:
        said = handling.accept(desk, arguments.sensor, who(arguments))
    print(f"{said.sensor}: its present behaviour is a habit from its next reading on; an open alarm is cleared then")
    return 0
