"""``ishsmm-stream audit``: whether everything that was read was accepted or set aside, from the topics alone."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--all", action="store_true", help="list every sensor, not only those that stand out")
    parser.add_argument("--json", action="store_true", help="the whole result as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Audit and say what was found; 1 where something does not add up."""
    from service.settings import load
    from service.tools.audit_report import show

    return show(load(arguments.config, os.environ), as_json=arguments.json, every_sensor=arguments.all)
