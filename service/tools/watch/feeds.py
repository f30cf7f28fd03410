"""Where messages come from: the topics, or the file of the service that runs without a broker.

A feed is an iterator of encoded messages, states and events; None comes whenever there is nothing more for the moment.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator

from service.settings import Settings

# Events from before that are shown at first, of each partition.
_EARLIER = 200
_LOOK_EVERY = 0.25


def feed(
    settings: Settings, *, with_states: bool = True, earlier: bool = True, is_over: Callable[[], bool] = lambda: False
) -> Iterator[bytes | None]:
    """The messages of the configured service. ``earlier``: begin with the last events that are there."""
    if not settings.source.is_kafka:
        return _from_database(settings, with_states, earlier, is_over)
    from service.kafka.input import connection_of
    from service.tools.tail import follow_several

    last: dict[str, int | None] = {settings.topics.states: None} if with_states else {}
    last[settings.topics.events] = _EARLIER if earlier else 0
    records = follow_several(connection_of(settings), last, is_over=is_over)
    return (None if record is None else record[0] for record in records)


def _from_database(
    settings: Settings, with_states: bool, earlier: bool, is_over: Callable[[], bool]
) -> Iterator[bytes | None]:
    path = settings.source.state
    if not path.is_file():
        raise ValueError(f"source.state {path}: there is no such file, the service has not run yet")
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)) as database:
            yield from _looked_at(database, with_states, earlier, is_over)
    except sqlite3.Error as error:
        raise ValueError(f"source.state {path}: {error}") from None


def _looked_at(
    database: sqlite3.Connection, with_states: bool, earlier: bool, is_over: Callable[[], bool]
) -> Iterator[bytes | None]:
    (newest,) = database.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    seq = max(0, newest - _EARLIER) if earlier else newest
    known: dict[str, bytes] = {}
    version = None
    while True:
        (now,) = database.execute("PRAGMA data_version").fetchone()
        if now != version:
            version = now
            for number, value in database.execute("SELECT seq, value FROM events WHERE seq > ? ORDER BY seq", (seq,)):
                seq = number
                yield value
            for sensor, value in database.execute("SELECT sensor, value FROM states") if with_states else ():
                if known.get(sensor) != value:
                    known[sensor] = value
                    yield value
        yield None
        if is_over():
            return
        time.sleep(_LOOK_EVERY)
