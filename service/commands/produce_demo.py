"""``ishsmm-stream produce-demo``: readings of four dozen sensors with changes planted in them, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; the first of its topics is written to")
    parser.add_argument("--rate", type=float, default=4.0, help="readings per second of each sensor (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other faults (default 0)")


def run(arguments: argparse.Namespace) -> int:
    """Send, and print what was planted."""
    from service.kafka.input import connection_of
    from service.settings import load
    from service.tools.demo import produce
    from service.tools.tail import Printer

    if not 0.0 < arguments.rate <= 1000.0:
        raise ValueError(f"--rate takes readings per second between 0 and 1000, got {arguments.rate:g}")
    settings = load(arguments.config, os.environ)
    if settings.kafka.topics_pattern is not None:
        raise ValueError("the configuration names topics by a pattern: give it one topic to write to (kafka.topics)")
    produce(connection_of(settings), settings.kafka.topics[0], arguments.rate, arguments.seed, Printer().planted)
    return 0
