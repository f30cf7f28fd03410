"""``ishsmm-stream forget``: nothing is kept of a sensor."""

from __future__ import annotations

import argparse
import sys

from service.commands._operations import add_common, open_operations, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sensor", metavar="SENSOR", help="its whole name")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask, write it, and say what follows."""
    from service.operations import actions

    if not arguments.yes:
        if not sys.stdin.isatty():
            raise ValueError("forgetting a sensor cannot be undone: say --yes where nobody can be asked")
        if input(f"Forget {arguments.sensor!r} for good? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was done")
            return 1
    with open_operations(arguments) as service:
        said = actions.forget(service, arguments.sensor, who(arguments))
        print(f"{said.sensor}: its state goes as soon as a worker runs; {service.what_stays}.")
    print(f"Should readings come again, it is a new sensor, generation {said.generation + 1}.")
    return 0
