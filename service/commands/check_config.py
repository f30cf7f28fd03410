"""``ishsmm-stream check-config``: reads the configuration as the worker would, and says what was understood."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument(
        "--against-live", action="store_true", help="also say which sensors on the brokers would start afresh under it"
    )
    parser.add_argument("--all", action="store_true", help="with --against-live: name every sensor, however many")


def run(arguments: argparse.Namespace) -> int:
    """Print what was understood."""
    from service.settings import load
    from service.tools.live import live_sensors
    from service.tools.settings_report import described, described_live

    settings = load(arguments.config, os.environ)
    settings.check()
    print("\n".join(described(settings)))
    if arguments.against_live:
        print("\n".join(["", *described_live(live_sensors(settings), arguments.all)]))
    return 0
