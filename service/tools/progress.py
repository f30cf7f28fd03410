"""Progress on stderr, for work whose end nobody knows."""

from __future__ import annotations

import sys

from rich import progress
from rich.console import Console


class Progress:
    """What is being done, on stderr where that is a terminal."""

    def __init__(self, what: str) -> None:
        self._progress = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.TextColumn("{task.completed:,.0f}"),
            progress.TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task(what, total=None)

    def __call__(self, done: int, total: int | None = None) -> None:
        self._progress.update(self._task, completed=done)

    def __enter__(self) -> Progress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
