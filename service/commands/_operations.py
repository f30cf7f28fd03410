"""What the commands that write operations have in common."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.operations.actions import Operations


def add_config(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")


def add_state(parser: argparse.ArgumentParser) -> None:
    """Declare a sensor and one of its states."""
    parser.add_argument("sensor", metavar="SENSOR", help="its whole name")
    parser.add_argument("state", type=int, metavar="STATE", help="its number in `ishsmm-stream states`")


def add_common(parser: argparse.ArgumentParser) -> None:
    """The configuration, and who speaks."""
    add_config(parser)
    parser.add_argument("--by", metavar="NAME", help="who says so (default: the user who is logged in)")


def who(arguments: argparse.Namespace) -> str:
    """The name given, or the user's."""
    if arguments.by is not None:
        return str(arguments.by)
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""


@contextmanager
def open_operations(arguments: argparse.Namespace) -> Iterator[Operations]:
    """Open the operations of the service that the configuration describes."""
    from service.deployment import deployment_of
    from service.settings import load

    operations = deployment_of(load(arguments.config, os.environ)).operations()
    try:
        yield operations
    finally:
        operations.close()
