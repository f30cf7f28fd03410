"""Progress and notes on stderr, files written whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ishsmm_stream import Model

COMPILING = "compiling kernels (first run only, up to a minute)"


def note(text: str, quiet: bool = False) -> None:
    """One line for the person at the terminal."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def cache_is_cold(layer: str, kernels: str, families: Iterable[type]) -> bool:
    """Whether ``kernels``, a pattern of names, have yet to be compiled for these families on this machine."""
    from ishsmm_stream import _jit

    folder = _jit.cache_folder(layer)
    if not folder:
        return True
    # An index of numba's cache names the types that its kernel was compiled for.
    compiled = b"".join(path.read_bytes() for path in Path(folder).rglob(f"{kernels}.nbi"))
    return any(family.__module__.encode() not in compiled for family in families)


def note_compilation(model: Model, exact: bool, quiet: bool = False) -> None:
    """Say why nothing seems to happen, where that is so."""
    if cache_is_cold("batch", "exact.*" if exact else "segments.*", map(type, (model.emission, model.duration))):
        note(COMPILING, quiet)


class ProgressBar:
    """A bar on stderr where that is a terminal, nothing elsewhere. Used as a context."""

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn

        self._progress = Progress(
            SpinnerColumn(), *Progress.get_default_columns(),
            console=Console(stderr=True), transient=True, disable=quiet or not sys.stderr.isatty(),
            redirect_stdout=sys.stdout.isatty(),  # what is printed meanwhile stands above the bar
        )  # fmt: skip
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, description: str, total: int | None = None) -> None:
        """Begin a step; one without a total shows movement only."""
        self._progress.remove_task(self._task)  # a reset would keep the total of the step before
        self._task = self._progress.add_task(description, total=total)

    def reach(self, done: int, total: int | None, description: str | None = None) -> None:
        """``done`` of ``total`` of this step."""
        self._progress.update(self._task, completed=done, total=total, description=description)


def check_output(option: str, path: str | None) -> Path | None:
    """The path of an output file, refused now rather than after the work."""
    if path is None:
        return None
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{option} {path} is a folder, a file name is needed")
    folder = target.parent
    if not folder.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option} {path}: the folder {folder} cannot be written to")
    return target


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a file beside ``path`` and give it its name when it is complete."""
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def import_plots(option: str | None = None, path: Path | None = None) -> Any:
    """``ishsmm_stream.plots``, and whether it can write ``path``; what is missing is a matter for the user."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase

        from ishsmm_stream import plots
    except ImportError:
        raise ValueError("pictures need matplotlib: pip install 'ishsmm-stream[plots]'") from None
    known = FigureCanvasBase.get_supported_filetypes()
    if path is not None and path.suffix.lstrip(".").lower() not in known:
        raise ValueError(f"{option} {path} must end in one of {', '.join(f'.{suffix}' for suffix in sorted(known))}")
    return plots
