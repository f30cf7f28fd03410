"""Log lines as JSON, one object a line, for machines to read; people have ``jq``."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable

_SELDOM = 10.0  # seconds
_MOST_SAID = 1_000


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class _Seldom(logging.Filter):
    """What the Kafka client says is said once in ten seconds: while a broker is away it repeats itself thirty times a
    second."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, object], tuple[float, int]] = {}  # when, and how often since

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("kafka."):
            return True
        what = record.name, record.msg
        said, held_back = self._said.get(what, (-_SELDOM, 0))
        if record.created - said < _SELDOM:
            self._said[what] = said, held_back + 1
            return False
        if len(self._said) > _MOST_SAID:  # some of its lines are never the same
            self._said.clear()
        self._said[what] = record.created, 0
        if held_back:
            record.fields = {"repeated": held_back}
        return True


def start(level: str = "INFO", warnings: Iterable[str] = ()) -> None:
    """Write the log to stderr from now on, beginning with warnings about the configuration."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    handler.addFilter(_Seldom())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The client tells of every reconnection; what matters of it we say ourselves.
    logging.getLogger("kafka").setLevel(logging.ERROR)
    # Ten times a second while a partition waits for the transaction of a worker that died.
    logging.getLogger("kafka.coordinator.consumer").addFilter(
        lambda record: "UnstableOffsetCommitError" not in record.getMessage()
    )
    for warning in warnings:
        logging.getLogger(__name__).warning("%s", warning)
