"""For all tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _level_of_the_log() -> Iterator[None]:
    """A command that runs in this process sets the level of the log: later tests read lower ones."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
