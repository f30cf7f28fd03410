"""What systemd would run for a unit: its command and environment, for tests on machines without it."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_FOLDERS = {"%S": "/var/lib", "%C": "/var/cache"}
# what systemd gives every service
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Unit(NamedTuple):
    """A service as it is started; ``restarts_after``: seconds, None where it is not started again."""

    command: list[str]
    environment: dict[str, str]
    restarts_after: float | None
    stops_within: float


def read(path: Path, instance: str, places: Mapping[str, Path]) -> Unit:
    """A unit file, for one instance of it. ``places``: folders that stand for those of a machine, by their names."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]

    def all_of(key: str) -> list[str]:
        return [_expanded(value, instance, places) for name, value in pairs if name == key]

    variables = [one.partition("=")[::2] for value in all_of("Environment") for one in shlex.split(value)]
    (command,) = all_of("ExecStart")
    restarts = all_of("Restart") == ["on-failure"]
    return Unit(
        shlex.split(command),
        {"PATH": _PATH, **dict(variables)},
        float(all_of("RestartSec")[0]) if restarts else None,
        float(all_of("TimeoutStopSec")[0]),
    )


def _expanded(value: str, instance: str, places: Mapping[str, Path]) -> str:
    for specifier, folder in {**_FOLDERS, "%i": instance, "%H": socket.gethostname()}.items():
        value = value.replace(specifier, folder)
    assert "%" not in value, f"a specifier that is not known here: {value}"
    for folder, place in sorted(places.items(), key=lambda pair: -len(pair[0])):
        value = value.replace(folder, str(place))
    return value
