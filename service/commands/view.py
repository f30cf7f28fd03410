"""``ishsmm-stream view``: the page and the API of the whole fleet, until it is told to stop."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--port", type=int, help="where to answer (default: view.port of the configuration)")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))


def run(arguments: argparse.Namespace) -> int:
    """Show the fleet until SIGTERM or Ctrl-C."""
    import msgspec

    from service.deployment import deployment_of
    from service.runtime import logs, stopping
    from service.settings import load

    settings = load(arguments.config, os.environ)
    settings.check()
    if deployment_of(settings).mode == "embedded":
        raise ValueError("without a broker `ishsmm-stream serve` itself shows the page, on http.port")
    if arguments.port is not None:
        if not 0 < arguments.port < 65536:
            raise ValueError(f"--port takes a number from 1 to 65535, got {arguments.port}")
        settings = msgspec.structs.replace(settings, view=msgspec.structs.replace(settings.view, port=arguments.port))
    from service.view.kafka_view import KafkaView

    logs.start(arguments.log_level)
    view = KafkaView(settings)
    print(f"== the page: {view.settings.http.address}/", flush=True)
    with stopping.by_signals(view.stop):
        view.run()
    return 0
