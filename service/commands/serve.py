"""``ishsmm-stream serve``: the worker, until it is told to stop."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.embedded.worker import Worker as EmbeddedWorker
    from service.kafka.worker import Worker
    from service.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, help="configuration file (TOML); ISHSMM_... variables come before it")
    parser.add_argument(
        "--embedded", action="store_true",
        help="without a broker: a simulated plant, readings that are posted, and a SQLite file for everything",
    )  # fmt: skip
    parser.add_argument("--show", action="store_true", help="print events as they come (embedded sources)")
    parser.add_argument("--log-level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), help="default INFO")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the worker."""
    from service.runtime import logs, stopping
    from service.settings import load

    if arguments.embedded and arguments.config is not None:
        raise ValueError("--embedded has a configuration of its own: give --config FILE with [source] instead")
    shows = arguments.show or arguments.embedded
    settings = load(_embedded_defaults() if arguments.embedded else arguments.config, os.environ)
    settings.check()
    if arguments.show and settings.source.is_kafka:
        raise ValueError("--show is for embedded sources; with Kafka, `ishsmm-stream tail` follows the events")
    logs.start(arguments.log_level or ("WARNING" if shows else "INFO"), settings.deprecations)
    worker = _worker(settings, shows)
    with stopping.by_signals(worker.stop):
        worker.run()
    return 0


def _embedded_defaults() -> Path:
    import service.embedded

    return Path(service.embedded.__file__).with_name("default.toml")


def _worker(settings: Settings, shows: bool) -> Worker | EmbeddedWorker:
    if settings.source.is_kafka:
        from service.kafka.worker import Worker

        return Worker(settings)
    from service.embedded.worker import Worker as EmbeddedWorker
    from service.tools.show import shown_worker

    return shown_worker(settings) if shows else EmbeddedWorker(settings)
