"""One HTTP port: an ASGI application behind limits on connections, on a thread of its own."""

from __future__ import annotations

import functools
import logging
import math
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import uvicorn

from service.http.connections import ConnectionLimits, Connections, LimitedProtocol

log = logging.getLogger(__name__)

_START_WITHIN, _STOP_WITHIN = 10.0, 5.0
# Connections that the kernel keeps until they are accepted, and that are accepted before any of them is looked at.
_BACKLOG, _ACCEPTED_AT_ONCE = 2048, 64
# File descriptors that the rest of the process needs: brokers, the state file, logs.
_OTHER_FILES = 256
_LEAST_CONNECTIONS = 16


class Listener:
    """Answers until it is closed. ``name`` is that of the thread, ``keys`` are the options that say where."""

    def __init__(
        self, app: Any, host: str, port: int, limits: ConnectionLimits, *, name: str, keys: str,
        trusted_proxies: Sequence[str] = (),
    ) -> None:  # fmt: skip
        listening = _listen(host, port, keys)
        self.port = listening.getsockname()[1]
        self.connections = Connections(limits._replace(most=_within_file_limit(limits.most)))
        protocol: Any = functools.partial(LimitedProtocol, self.connections)
        config = uvicorn.Config(
            app, http=protocol, log_config=None, log_level=logging.ERROR, access_log=False, lifespan="off", ws="none",
            server_header=False, backlog=_ACCEPTED_AT_ONCE, timeout_keep_alive=math.ceil(limits.idle_timeout),
            timeout_graceful_shutdown=2, proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name=name, daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_WITHIN
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        if self._server.started:
            listening.listen(_BACKLOG)  # asyncio has set it to the number that is accepted at once

    def close(self) -> None:
        """Answer the requests in progress, and no more."""
        self._server.should_exit = True
        self._thread.join(_STOP_WITHIN)


def _listen(host: str, port: int, keys: str) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise OSError(f"{keys}: cannot listen on {host}:{port}: {error.strerror}") from None


def _within_file_limit(connections: int) -> int:
    """Return how many connections the process's limit of open files allows, ``connections`` at most."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    most = max(_LEAST_CONNECTIONS, soft - _OTHER_FILES)
    if most < connections:
        log.warning(
            "%d connections at most, not %d: the limit of open files (ulimit -n) is %d", most, connections, soft
        )
    return min(connections, most)
