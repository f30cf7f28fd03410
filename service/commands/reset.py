"""``ishsmm-stream reset``: a sensor's detector starts afresh, as a new generation."""

from __future__ import annotations

import argparse

from service.commands._handling import add_common, at_desk, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sensor", metavar="SENSOR", help="its whole name")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the reset, and say what follows."""
    from service.operations import actions as handling

    with at_desk(arguments) as desk:
        said = handling.reset(desk, arguments.sensor, who(arguments))
    print(f"{said.sensor}: generation {said.generation + 1} begins with its next reading")
    return 0
