"""``ishsmm-stream deliver``: committed events to the configuration's sinks, until it is told to stop."""

from __future__ import annotations

import argparse
import os
import threading
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--sink", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--port", type=int, default=0, help="serve /metrics on 127.0.0.1 there (default 0: none)")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))


def run(arguments: argparse.Namespace) -> int:
    """Deliver until SIGTERM or Ctrl-C."""
    from service.deployment import deployment_of
    from service.kafka.deliver import deliver
    from service.runtime import logs, stopping
    from service.settings import load
    from service.settings.nearest import nearest

    settings = load(arguments.config, os.environ)
    settings.check()
    if deployment_of(settings).mode == "embedded":
        raise ValueError("the sinks of embedded sources are fed by `ishsmm-stream serve` itself")
    wanted = arguments.sink or [sink.name for sink in settings.sinks]
    by_name = {sink.name: sink for sink in settings.sinks_in_force}
    if not by_name:
        raise ValueError("the configuration has no [[sinks]]: nobody is to be told of events")
    for name in wanted:
        if name not in by_name:
            raise ValueError(f"--sink {name!r} is unknown{nearest(name, by_name)}")
    logs.start(arguments.log_level, settings.deprecations)
    over = threading.Event()
    with stopping.by_signals(over.set):
        deliver(settings, [by_name[name] for name in dict.fromkeys(wanted)], over, arguments.port)
    return 0
