"""End a process whose cycle hangs: a stuck worker is worse than one that restarts.

The watchdog is the last resort behind the guards, since the client has calls without a timeout.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from numba.core.event import Event, Listener, register

log = logging.getLogger(__name__)

EXIT_CODE = 70  # EX_SOFTWARE; differs from the code of a user's error, so that a supervisor restarts


# While a kernel compiles, the process works and is not stuck. It may take this many times the deadline.
_MOST_COMPILING = 10


class _Compiling(Listener):
    """Counts the kernels that numba is compiling now.

    Kernels are compiled before the first record. If one was missed, a restart would only compile it again, so ending
    the process does not help.
    """

    def __init__(self) -> None:
        self.now = 0
        self._lock = threading.Lock()

    def on_start(self, event: Event) -> None:
        with self._lock:
            self.now += 1

    def on_end(self, event: Event) -> None:
        with self._lock:
            self.now -= 1


_compiling = _Compiling()
register("numba:compile", _compiling)  # type: ignore[no-untyped-call]


_report: IO[str] | None = None


def report_to(file: IO[str] | None) -> None:
    """Write the reason to this file, too, before ending the process."""
    global _report
    _report = file


def is_compiling() -> bool:
    """Return whether numba is compiling a kernel: a process that waits for it is not stuck."""
    return _compiling.now > 0


@contextmanager
def deadline(seconds: float, what: str) -> Iterator[None]:
    """End the process if the block takes longer than ``seconds``. While kernels compile, it may take longer."""
    is_over = threading.Event()
    threading.Thread(target=_watch, args=(seconds, what, is_over), name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def _watch(seconds: float, what: str, is_over: threading.Event) -> None:
    for _ in range(_MOST_COMPILING):
        if is_over.wait(seconds):
            return
        if not is_compiling():
            break
        log.warning("%s has waited for the compiler for %.0f s: a kernel was not compiled at the start", what, seconds)
    _end(seconds, what)


def _end(seconds: float, what: str) -> None:
    log.critical("%s has hung for %.0f s: ending this process, a restart goes on from the last commit", what, seconds)
    if _report is not None:
        print(f"{what} has hung for {seconds:.0f} s", file=_report, flush=True)
    for handler in logging.getLogger().handlers:
        handler.flush()
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    sys.stderr.flush()
    os._exit(EXIT_CODE)
