"""The demo plant on a Kafka topic, for ``make run-kafka``."""

from __future__ import annotations

import time
from collections.abc import Callable

from service.kafka.connection import Connection
from service.kafka.sending import Sender
from service.sources.plant import HISTORY, Planted, record, ticks


def produce(
    connection: Connection, topic: str, rate: float, seed: int,
    planted: Callable[[Planted], None], is_over: Callable[[], bool] = lambda: False,
) -> None:  # fmt: skip
    """Send readings, ``rate`` per second from each sensor, until it is over; ``planted`` is called for their faults.

    The plant's first days are sent at once, with the times that they would have had.
    """
    sender = Sender(connection, topic)
    began = time.time()
    due = time.monotonic() - HISTORY / rate
    try:
        for number, step in enumerate(ticks(seed)):
            now = round(began - (HISTORY - number) / rate if number < HISTORY else time.time(), 3)
            for sensor, value, fault in step:
                sender.send(sensor, record(sensor, now, value))
                if fault is not None:
                    planted(fault)
            due += 1.0 / rate
            if number < HISTORY and is_over():
                return
            while (wait := due - time.monotonic()) > 0:
                if is_over():
                    return
                time.sleep(min(wait, 0.1))
            if is_over():
                return
    finally:
        sender.close()
