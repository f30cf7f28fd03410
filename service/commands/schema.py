"""``ishsmm-stream schema``: the JSON Schemas of the messages."""

from __future__ import annotations

import argparse
import json

from service.operations import control, names
from service.wire.messages import MESSAGES, schemas

_KINDS = {**MESSAGES, **control.RECORDS, **names.RECORDS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "message", nargs="?", choices=list(_KINDS), help="one message's schema; without it, all of them"
    )


def run(arguments: argparse.Namespace) -> int:
    found = schemas(_KINDS)
    print(json.dumps(found if arguments.message is None else found[arguments.message], indent=2))
    return 0
