"""``ishsmm-stream topics create``: the topics that the service writes."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("action", choices=("create",), help="create what is missing, and say what differs")
    parser.add_argument("--config", type=Path, help="configuration file (TOML); ISHSMM_... variables come before it")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Create the topics and say so."""
    from service.kafka.own_topics import create
    from service.settings import load

    print("\n".join(create(load(arguments.config, os.environ))))
    return 0
