"""The ``ishsmm-stream`` command: finds the command named on the line, runs it, and turns failures into one line.

A command is a module with ``add_arguments(parser)`` and ``run(arguments) -> int``. Only the one that is asked for is
imported: the library takes a second to import, and help should not.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

PROGRAM = "ishsmm-stream"

# name: (module, summary)
COMMANDS = {
    "fit": ("ishsmm_stream.commands.fit", "find the change points and states of a series in a CSV file"),
    "detect": ("ishsmm_stream.commands.detect", "follow sensors in a CSV file or on stdin and tell of changes at once"),
    "demo": ("ishsmm_stream.commands.demo", "a minute with the coal-mining disasters: change points and a picture"),
    "paper": ("ishsmm_stream.commands.paper", "run the paper's experiments: its claims beside ours, with figures"),
    "serve": (
        "service.commands.serve",
        "the worker: readings from Kafka, or without a broker; change points and states out",
    ),
    "view": (
        "service.commands.view",
        "the page and the API of the whole fleet on Kafka; without it `serve` has them",
    ),
    "backtest": ("service.commands.backtest", "what a configuration would have raised on readings that are there"),
    "topics": ("service.commands.topics", "create the topics that the service writes"),
    "tail": ("service.commands.tail", "follow the events and print a line for each"),
    "watch": ("service.commands.watch", "follow all sensors in the terminal: a live table, or a line for each event"),
    "inspect": ("service.commands.inspect", "where one sensor stands: state, change points, alarms, forecast"),
    "produce": ("service.commands.produce", "send the readings of a file to the input topic, at a pace"),
    "deliver": ("service.commands.deliver", "committed events to sinks: JSON lines, stdout, webhooks"),
    "mute": ("service.commands.mute", "sinks hear nothing of some sensors for a time"),
    "unmute": ("service.commands.unmute", "take a mute back"),
    "mutes": ("service.commands.mutes", "list what is muted"),
    "ack": ("service.commands.ack", "acknowledge an alarm or a change"),
    "accept": ("service.commands.accept", "what a sensor does now is usual from here on: clears its alarm"),
    "states": ("service.commands.states", "list the states that a sensor returns to"),
    "name": ("service.commands.name", "name a state of a sensor"),
    "merge": ("service.commands.merge", "show a state of a sensor as another one"),
    "unmerge": ("service.commands.unmerge", "show a merged state as itself again"),
    "reset": ("service.commands.reset", "start a sensor's detector afresh, as a new generation"),
    "forget": ("service.commands.forget", "keep nothing of a sensor"),
    "dead-letters": ("service.commands.dead_letters", "list the records that were set aside, with their reasons"),
    "audit": ("service.commands.audit", "from the topics alone: was everything accepted or set aside, and counted"),
    "check-config": ("service.commands.check_config", "read the service's configuration and say what was understood"),
    "produce-demo": ("service.commands.produce_demo", "readings of four dozen sensors with changes planted in them"),
    "schema": ("service.commands.schema", "print the JSON Schemas of the service's messages"),
}

INTERRUPTED = 130
USER_ERROR = 2
BROKEN_PIPE = 1


class _Parser(argparse.ArgumentParser):
    """Leaves it to ``main`` to report what is wrong with the line."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        try:
            code = _run(sys.argv[1:] if argv is None else list(argv))
        except SystemExit as done:  # --help and --version
            code = done.code if isinstance(done.code, int) else 0
        sys.stdout.flush()  # here, where a reader that has gone away can still be answered
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes once more when it ends; this time into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (ValueError, OSError) as error:
        print(f"{PROGRAM}: error: {_one_line(error)}", file=sys.stderr)
        return int(getattr(error, "exit_code", USER_ERROR))


def _run(argv: list[str]) -> int:
    named = next((word for word in argv if not word.startswith("-")), None)
    if named is not None and named not in COMMANDS:
        near = difflib.get_close_matches(named, COMMANDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no command {named!r}, there are {', '.join(COMMANDS)}{hint}")
    parser = _parser(named)
    arguments = parser.parse_args(argv)
    if named is None:
        parser.print_help()
        return 0
    return int(arguments.run(arguments))


def _parser(named: str | None) -> argparse.ArgumentParser:
    """The parser, with the arguments of the command ``named`` only."""
    parser = _Parser(prog=PROGRAM, description="Bayesian change-point and regime detection.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, (module_name, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        if name == named:
            module = importlib.import_module(module_name)
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


def _version() -> str:
    """The library's version, read from its source: importing it takes a second."""
    spec = importlib.util.find_spec("ishsmm_stream")
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    return found.group(1) if found else "unknown"


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
