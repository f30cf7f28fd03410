"""Log lines as JSON, one object a line, for machines to read; people have ``jq``."""

from __future__ import annotations

import json
import logging
import sys
import time


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


def start(level: str = "INFO") -> None:
    """Write the log to stderr from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The client tells of every reconnection; what matters of it we say ourselves.
    logging.getLogger("kafka").setLevel(logging.ERROR)
    # Ten times a second while a partition waits for the transaction of a worker that died.
    logging.getLogger("kafka.coordinator.consumer").addFilter(
        lambda record: "UnstableOffsetCommitError" not in record.getMessage()
    )
