"""Ends a process whose commit hangs: a worker that is stuck is worse than one that restarts.

Last resort behind the guards: the client has calls without a timeout.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

EXIT_CODE = 70  # EX_SOFTWARE; differs from a user's error, so that a supervisor restarts


@contextmanager
def deadline(seconds: float, what: str) -> Iterator[None]:
    """End the process when the block takes longer than ``seconds``."""
    timer = threading.Timer(seconds, _end, (seconds, what))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(seconds: float, what: str) -> None:
    log.critical("%s has hung for %.0f s: ending this process, a restart goes on from the last commit", what, seconds)
    for handler in logging.getLogger().handlers:
        handler.flush()
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    sys.stderr.flush()
    os._exit(EXIT_CODE)
