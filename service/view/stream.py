"""The stream of server-sent events: what happens, as it happens.

``hello`` comes first and says whether nothing was missed since ``Last-Event-ID``. ``update`` brings what is new, in
batches. ``resync`` tells a client that was too slow that some of it is gone: it asks for everything again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from service.api.requests import Refused
from service.api.view_answers import Hello
from service.view.view import View

# Seconds between batches, and after which one comes although nothing is new, so that a dead connection is noticed.
_EVERY, _AT_LEAST_EVERY = 0.1, 5.0
# Sensors in a batch: beyond these a client asks for what it shows.
MOST_SENSORS = 200
MOST_STREAMS = 200
# After which a browser tries again, milliseconds.
_RETRY = 1000


class Streams:
    """The open streams of a view, at most ``per_address`` of one address."""

    def __init__(self, per_address: int) -> None:
        self._per_address = per_address
        self._open: Counter[str] = Counter()

    def response(self, view: View, last: str, client: str) -> Response:
        """Return the stream of a view from the place that a client remembers; raise Refused if there are too many."""
        detail = None
        if self._open.total() >= MOST_STREAMS:
            detail = f"{MOST_STREAMS} clients follow the stream already"
        elif self._open[client] >= self._per_address:
            detail = f"this address has {self._per_address} streams open: close some, or raise http.streams_per_address"
        if detail is not None:
            raise Refused(503, "too_many_streams", detail, headers={"Retry-After": "5"})
        events = self._events(view, last, client)
        return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _events(self, view: View, last: str, client: str) -> AsyncIterator[bytes]:
        self._open[client] += 1
        try:
            async for event in _followed(view, last):
                yield event
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]


async def _followed(view: View, last: str) -> AsyncIterator[bytes]:
    updates = view.updates
    place = updates.place_of(last)
    is_resumed = place is not None and updates.after(place) is not None
    if place is None or not is_resumed:
        place = updates.place
    yield f"retry: {_RETRY}\n".encode() + _event("hello", updates.mark(place), await _hello(view, is_resumed))
    sent = time.monotonic()
    while not updates.is_over:
        await asyncio.sleep(_EVERY)
        found = updates.after(place)
        if found is None:
            place = updates.place
            yield _event("resync", updates.mark(place), await _hello(view, False))
            continue
        news, place = found
        if news or time.monotonic() - sent > _AT_LEAST_EVERY:
            batch = await run_in_threadpool(view.batch, news, MOST_SENSORS)
            yield _event("update", updates.mark(place), batch)
            sent = time.monotonic()


async def _hello(view: View, is_resumed: bool) -> Hello:
    return Hello(is_resumed=is_resumed, counts=await run_in_threadpool(view.counts))


def _event(kind: str, mark: str, data: msgspec.Struct) -> bytes:
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), mark.encode(), msgspec.json.encode(data))
