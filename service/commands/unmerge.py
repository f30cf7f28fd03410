"""``ishsmm-stream unmerge``: shows a merged state as itself again."""

from __future__ import annotations

import argparse

from service.commands._operations import add_common, add_state, open_operations, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_state(parser)
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Undo the merge, and print what was done."""
    from service.operations import actions

    with open_operations(arguments) as service:
        said = actions.merge_state(service, arguments.sensor, arguments.state, None, who(arguments))
    print(f"state {said.state} of {said.sensor} is shown as itself")
    return 0
