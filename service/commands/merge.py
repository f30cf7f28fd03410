"""``ishsmm-stream merge``: shows a state of a sensor as another one. Inference and published events do not change."""

from __future__ import annotations

import argparse

from service.commands._operations import add_common, add_state, open_operations, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_state(parser)
    parser.add_argument("into", type=int, metavar="INTO", help="number of the state that it is shown as")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the merge, and print what was done."""
    from service.operations import actions

    with open_operations(arguments) as service:
        said = actions.merge_state(service, arguments.sensor, arguments.state, arguments.into, who(arguments))
    print(f"state {said.state} of {said.sensor} is shown as state {said.merged_into}")
    return 0
