"""What the signals that end a process do: the first one ends it in order, a second one at once.

A handler runs inside of whatever the main thread does, also while that holds a lock. Were it to set an event for which
the main thread just begins to wait, it would wait for itself for ever. So it only says so to a thread that may wait.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

FORCED = 130
# Seconds within which a signal is still the first one: `timeout` and others signal a process and then its group.
STILL_THE_FIRST = 0.5


@contextmanager
def by_signals(
    stop: Callable[[], object], numbers: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT)
) -> Iterator[None]:
    """While the block runs, let the first of these signals call ``stop``, and a later one end the process."""
    told: SimpleQueue[bool] = SimpleQueue()  # whose put may be called in the middle of itself

    def listen() -> None:
        if told.get():
            stop()

    first: float | None = None

    def handle(_number: int, _frame: object) -> None:
        nonlocal first
        now = time.monotonic()
        if first is None:
            first = now
            told.put(True)
        elif now - first > STILL_THE_FIRST:
            os._exit(FORCED)

    listener = threading.Thread(target=listen, name="signals", daemon=True)
    listener.start()
    before = [(number, signal.signal(number, handle)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        told.put(False)
        listener.join()
