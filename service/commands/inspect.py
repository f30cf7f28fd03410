"""``ishsmm-stream inspect``: where one sensor stands, from what the service has committed."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sensor", metavar="SENSOR", help="its name")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--all", action="store_true", help="every change point, change and alarm that is remembered")
    parser.add_argument("--json", action="store_true", help="the whole answer as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Look, and print."""
    from service.settings import load
    from service.tools.inspection import inspect
    from service.tools.inspection_report import MOST_ROWS, show

    found = inspect(load(arguments.config, os.environ), arguments.sensor)
    if arguments.json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
        return 0
    from service.tools.terminal import console

    show(console(), found, None if arguments.all else MOST_ROWS)
    return 0
