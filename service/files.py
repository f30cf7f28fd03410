"""Files that others on the machine must not read."""

from __future__ import annotations

import os
from pathlib import Path

STATE = 0o600  # readings and what is inferred from them
LINES = 0o640  # events, which a shipper of logs in the same group reads


def create(path: Path, mode: int) -> None:
    """Make an empty file with these permissions, and the folders above it; a file that is there stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, mode))
