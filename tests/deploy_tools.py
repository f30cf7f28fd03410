"""Linters and other programs that look at what is deployed. Where one has to be there and is not, its test fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"


def program(name: str) -> str:
    """The path of a program, from the environment of this Python or from the system."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    return found or unavailable(f"no {name} on the PATH")


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail on machines on which `make` can install everything."""
    if os.geteuid() == 0 and Path("/etc/debian_version").exists():
        pytest.fail(reason)
    pytest.skip(reason)


def run(name: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    line = [program(name), *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
