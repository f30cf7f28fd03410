"""Says in the log that records are set aside: a mapping that fits nothing would otherwise look like a quiet topic."""

from __future__ import annotations

import logging
import time

from service.runtime.observers import CommittedCycle
from service.wire.messages import DeadLetter

log = logging.getLogger(__name__)

_AGAIN_AFTER = 60.0  # seconds


class DeadLetterLog:
    """Counts dead letters that are committed, and tells of them once a minute at most, with one as an example."""

    def __init__(self) -> None:
        self._untold = 0
        self._next = 0.0  # monotonic

    def idle(self) -> None:
        """Nothing to tell."""

    def committed(self, cycle: CommittedCycle) -> None:
        """Take note of what was published."""
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
