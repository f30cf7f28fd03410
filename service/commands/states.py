"""``ishsmm-stream states``: the states that a sensor returns to, with the names and merges that people made."""

from __future__ import annotations

import argparse
import sys

from service.commands._operations import add_config, open_operations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sensor", metavar="SENSOR", help="its whole name")
    parser.add_argument("--json", action="store_true", help="the dictionary with its transitions as one JSON object")
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the dictionary, and print it."""
    import msgspec

    from service.operations import actions
    from service.tools.dictionary_report import show
    from service.tools.terminal import console

    with open_operations(arguments) as service:
        found = actions.dictionary_of(service, arguments.sensor)
    if found is None:
        raise ValueError(
            f"{arguments.sensor!r} has no state dictionary: set model = 'recurring' in its rule, and wait for readings"
        )
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
    else:
        show(console(), found)
    return 0
