"""``ishsmm-stream serve``: the worker, until it is told to stop."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.composition import ServiceProcess
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
    from service.deployment import deployment_of
    from service.runtime import logs, stopping
    from service.settings import load

    if arguments.embedded and arguments.config is not None:
        raise ValueError("--embedded has a configuration of its own: give --config FILE with [source] instead")
    shows = arguments.show or arguments.embedded
    settings = load(_embedded_defaults() if arguments.embedded else arguments.config, os.environ)
    settings.check()
    mode = deployment_of(settings).mode
    if arguments.show and mode == "kafka":
        raise ValueError("--show is for embedded sources; with Kafka, `ishsmm-stream tail` follows the events")
    logs.start(arguments.log_level or ("WARNING" if shows else "INFO"), settings.deprecations)
    process = _process(mode, settings, shows)
    with stopping.by_signals(process.stop):
        process.run()
    return 0


def _embedded_defaults() -> Path:
    import service.embedded

    return Path(service.embedded.__file__).with_name("default.toml")


def _process(mode: str, settings: Settings, shows: bool) -> ServiceProcess:
    from service.composition import EmbeddedService, KafkaService
    from service.tools.show import Show

    if mode == "kafka":
        return KafkaService(settings)
    return EmbeddedService(settings, Show(settings) if shows else None)
