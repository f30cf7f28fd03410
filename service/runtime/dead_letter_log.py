"""Log a warning about new dead letters. Otherwise a mapping that fits nothing would look like a quiet topic."""

from __future__ import annotations

import logging
import time

from service.runtime.observers import CommittedCycle
from service.wire.messages import DeadLetter

log = logging.getLogger(__name__)

_AGAIN_AFTER = 60.0  # seconds


class DeadLetterLog:
    """Counts committed dead letters and logs them at most once per minute, with one of them as an example."""

    def __init__(self) -> None:
        self._untold = 0
        self._next = 0.0  # monotonic

    def idle(self) -> None:
        """Do nothing: there is nothing to log."""

    def committed(self, cycle: CommittedCycle) -> None:
        """Count the dead letters of a cycle, and log them if the last line is a minute old."""
        letters = [output.message for output in cycle.outputs if isinstance(output.message, DeadLetter)]
        self._untold += len(letters)
        now = time.monotonic()
        if not letters or now < self._next:
            return
        example = letters[0]
        log.warning(
            "%d records or readings set aside as dead letters, such as the one at offset %d of %s[%d]: %s: %s",
            self._untold, example.offset, example.topic, example.partition, example.reason, example.detail,
        )  # fmt: skip
        self._untold, self._next = 0, now + _AGAIN_AFTER
