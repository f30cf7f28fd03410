"""``ishsmm-stream`` with a shorter patience, and faults at points that a signal from outside cannot hit.

FAULT_FILE names a file that is there while a fault is wanted: a word, and the number of a broker's process. The next
commit takes it away and

    kill-before    kills this process between the offsets and the commit,
    kill-after     kills it when the commit is done and before anybody here knows,
    stop-before    stops it (SIGSTOP) between the offsets and the commit,
    wait-before    waits there for a minute,
    hang-before    stops the broker there, and goes on to commit.

With CHANGELOG=off snapshots are taken and not written.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from service.cli import main
from service.kafka import connection, consumer, log, producer

FAULT_FILE = Path(os.environ["FAULT_FILE"])
REQUEST_MS = 2_000
SESSION_MS = 3_000


def _be_impatient() -> None:
    connection.REQUEST_MS = consumer.REQUEST_MS = REQUEST_MS
    producer.SETTLE_SECONDS = 4.0
    init = consumer.Subscription.__init__

    def with_short_session(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **{"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 500, **options})

    consumer.Subscription.__init__ = with_short_session  # type: ignore[method-assign]


def _fail_in_commits() -> None:
    commit = KafkaProducer.commit_transaction

    def failing(self: Any) -> Any:
        fault, broker = _wanted()
        if fault == "kill-before":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "stop-before":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == "wait-before":
            time.sleep(60.0)
        elif fault == "hang-before":
            os.kill(broker, signal.SIGSTOP)
        result = commit(self)
        if fault == "kill-after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    KafkaProducer.commit_transaction = failing


def _wanted() -> tuple[str, int]:
    try:
        fault, broker = FAULT_FILE.read_text(encoding="utf-8").split()
        FAULT_FILE.unlink()
    except FileNotFoundError:
        return "", 0
    return fault, int(broker)


if __name__ == "__main__":
    _be_impatient()
    _fail_in_commits()
    if os.environ.get("CHANGELOG") == "off":
        log.KafkaLog._changelog_records = lambda self, snapshots: ()  # type: ignore[method-assign]
    sys.exit(main())
