"""Limits on connections: how many, how long they may be silent, and which one is closed to make room.

A connection without a request in progress is idle. When a limit is reached, the oldest idle connection is closed, so
that an address that opens many sockets closes its own. If none is idle, the new connection may ask for the probes only.
"""

from __future__ import annotations

import asyncio
import ipaddress
import select
from collections.abc import Callable
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.http.refusals import error_body, refuse

PROBES = ("/healthz", "/readyz")
# Connections beyond the limits that may ask for the probes. More close the oldest of these.
_PROBE_CONNECTIONS = 32
# IPv6 clients get networks of this size, and can use all of its addresses.
_IPV6_PREFIX = 64
_BAD_REQUEST_BODY = error_body("bad_request", "this is not a request of HTTP/1.1, or its headers are too large")
_BAD_REQUEST = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(_BAD_REQUEST_BODY), _BAD_REQUEST_BODY)
)


class ConnectionLimits(NamedTuple):
    """Of one port. Times are in seconds."""

    most: int = 512
    per_address: int = 256
    # for a request's complete headers, from the connection's start or from the first byte
    header_timeout: float = 10.0
    # between requests
    idle_timeout: float = 30.0
    # for a client that does not read its response
    write_timeout: float = 30.0


def network_of(address: str) -> str:
    """Return the address that limits are counted by: an IPv4 address, or the /64 network of an IPv6 address.

    Anything else, which a header may hold, counts as one address.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), _IPV6_PREFIX), strict=False))


class Connections:
    """The open connections of one port. Used on the event loop's thread only."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._counts: dict[str, int] = {}
        self._idle: dict[str, dict[LimitedProtocol, None]] = {}  # by address, each with the longest idle first
        self._admitted: set[LimitedProtocol] = set()
        self._probing: dict[LimitedProtocol, None] = {}

    def __len__(self) -> int:
        return len(self._admitted) + len(self._probing)

    def admit(self, connection: LimitedProtocol) -> bool:
        """Count a new connection. Returns False if it may ask for the probes only."""
        address = connection.address
        if self._has_room(address):
            self._counts[address] = self._counts.get(address, 0) + 1
            self._admitted.add(connection)
            self.set_idle(connection, True)
            return True
        if len(self._probing) >= _PROBE_CONNECTIONS:
            self._close(next(iter(self._probing)))
        self._probing[connection] = None
        return False

    def _has_room(self, address: str) -> bool:
        if self._counts.get(address, 0) >= self.limits.per_address and not self._evict(address):
            return False
        if len(self._admitted) < self.limits.most:
            return True
        return any(self._evict(one) for one in sorted(self._idle, key=self._counts.__getitem__, reverse=True))

    def _evict(self, address: str) -> bool:
        for connection in list(self._idle.get(address, ())):
            if not connection.has_unread_data():
                self._close(connection)
                return True
        return False

    def _close(self, connection: LimitedProtocol) -> None:
        self.forget(connection)
        connection.transport.abort()

    def set_idle(self, connection: LimitedProtocol, is_idle: bool) -> None:
        """Note whether a connection has no request in progress."""
        if connection not in self._admitted:
            return
        idle = self._idle.setdefault(connection.address, {})
        if is_idle:
            idle[connection] = None
        else:
            idle.pop(connection, None)
        if not idle:
            del self._idle[connection.address]

    def forget(self, connection: LimitedProtocol) -> None:
        """Count a connection no longer. Does nothing if it is not counted."""
        self._probing.pop(connection, None)
        if connection not in self._admitted:
            return
        self.set_idle(connection, False)
        self._admitted.discard(connection)
        self._counts[connection.address] -= 1
        if not self._counts[connection.address]:
            del self._counts[connection.address]


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with the limits above."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connections_open = connections
        self._limits = connections.limits
        self._is_idle = True
        self._header_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self.address = ""

    # Called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = network_of(self.client[0] if self.client else "")
        if not self._connections_open.admit(self):
            self.app = _probes_only(self.app)
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections_open.forget(self)
        self._cancel_timers()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._start_header_timer()
        super().data_received(data)
        self._note_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._limits.write_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # Called by uvicorn

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note_request()
        if self._is_idle and self.conn.trailing_data[0]:  # the beginning of the next request has come already
            self._start_header_timer()

    def timeout_keep_alive_handler(self) -> None:
        self.transport.abort()  # close() would wait for a client that does not read

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # else a response has begun
            self.transport.write(_BAD_REQUEST)
        self.transport.close()

    # State

    def has_unread_data(self) -> bool:
        """Whether the client has sent something that the event loop has not read yet."""
        if not hasattr(select, "poll"):
            return False
        socket = self.transport.get_extra_info("socket")
        if socket is None or socket.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLIN)
        return any(event & select.POLLIN and not event & select.POLLHUP for _, event in poll.poll(0))

    def _note_request(self) -> None:
        is_idle = self.cycle is None or self.cycle.response_complete
        if not is_idle and self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            self._connections_open.set_idle(self, is_idle)

    def _start_header_timer(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self._limits.header_timeout, self.transport.abort)

    def _cancel_timers(self) -> None:
        for timer in (self._header_timer, self._write_timer):
            if timer is not None:
                timer.cancel()


def _probes_only(app: Any) -> Callable[..., Any]:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] not in PROBES:
            detail = (
                "too many connections with requests in progress: raise http.connections_per_address or "
                "http.connections, or use fewer connections"
            )
            headers = [(b"retry-after", b"1"), (b"connection", b"close")]
            await refuse(send, 503, "too_many_connections", detail, headers)
        else:
            await app(scope, receive, send)

    return answer
