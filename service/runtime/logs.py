"""Write log lines as JSON for machines, one object per line. People can use ``jq``."""

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
    """Passes each message of the Kafka client at most once in ten seconds.

    While a broker is away, the client repeats itself thirty times per second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, object], tuple[float, int]] = {}  # time of the last line, and repetitions since

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("kafka."):
            return True
        what = record.name, record.msg
        said, held_back = self._said.get(what, (-_SELDOM, 0))
        if record.created - said < _SELDOM:
            self._said[what] = said, held_back + 1
            return False
        if len(self._said) > _MOST_SAID:  # some of the client's lines never repeat
            self._said.clear()
        self._said[what] = record.created, 0
        if held_back:
            record.fields = {"repeated": held_back}
        return True


def start(level: str = "INFO", warnings: Iterable[str] = ()) -> None:
    """Write the log to stderr from now on. The first lines are the warnings about the configuration."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    handler.addFilter(_Seldom())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The client logs every reconnection. The service logs the relevant ones itself.
    logging.getLogger("kafka").setLevel(logging.ERROR)
    # The client logs this ten times per second while a partition waits for the transaction of a worker that died.
    logging.getLogger("kafka.coordinator.consumer").addFilter(
        lambda record: "UnstableOffsetCommitError" not in record.getMessage()
    )
    for warning in warnings:
        logging.getLogger(__name__).warning("%s", warning)
