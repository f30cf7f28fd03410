"""``ishsmm-stream serve``: the worker, until it is told to stop."""

from __future__ import annotations

import argparse
import os
import signal
import types
from pathlib import Path

FORCED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, help="configuration file (TOML); ISHSMM_... variables come before it")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the worker."""
    from service import logs
    from service.settings import load
    from service.worker import Worker

    settings = load(arguments.config, os.environ)
    settings.check()
    logs.start(arguments.log_level)
    worker = Worker(settings)

    def stop(_number: int, _frame: types.FrameType | None) -> None:
        # The first signal ends the worker in order, a second one at once, whichever it is.
        for ending in (signal.SIGTERM, signal.SIGINT):
            signal.signal(ending, lambda *_: os._exit(FORCED))
        worker.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    worker.run()
    return 0
