"""Handle the signals that end a process: the first one stops it in order, a second one ends it at once.

A handler runs in the middle of whatever the main thread does, even while that thread holds a lock. If the handler
set an event on which the main thread just begins to wait, the thread would wait for itself forever. So the handler
only puts a value into a queue, and another thread, which may wait, calls ``stop``.
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
# Seconds within which a further signal still counts as the first one: `timeout` and others signal a process and then
# its group.
STILL_THE_FIRST = 0.5


@contextmanager
def by_signals(
    stop: Callable[[], object], numbers: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT)
) -> Iterator[None]:
    """While the block runs, let the first of these signals call ``stop``, and a later one end the process."""
    told: SimpleQueue[bool] = SimpleQueue()  # its ``put`` is reentrant

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
