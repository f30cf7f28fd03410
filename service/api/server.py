"""The API's server, on a thread beside the worker."""

from __future__ import annotations

import logging
import socket
import threading
import time

import uvicorn

from service.api.app import application
from service.api.backend import Backend, Front
from service.settings import Settings

log = logging.getLogger(__name__)

_MOST_CONNECTIONS = 1000
_START_WITHIN, _STOP_WITHIN = 10.0, 5.0


class ApiServer:
    """Answers until it is closed."""

    def __init__(self, settings: Settings, backend: Backend, front: Front | None = None) -> None:
        http = settings.http
        listening = _listen(http.host, http.port)
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            application(http, backend, settings.limits.record_bytes, front),
            log_config=None, access_log=False, lifespan="off", ws="none", server_header=False,
            limit_concurrency=_MOST_CONNECTIONS, timeout_keep_alive=30, timeout_graceful_shutdown=2,
        )  # fmt: skip
        self._front = front
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="api", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_WITHIN
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        log.info("API, health and metrics on http://%s:%d", http.host, self.port)

    def close(self) -> None:
        """Answer what is being asked, and no more."""
        if self._front is not None:
            self._front.close()
        self._server.should_exit = True
        self._thread.join(_STOP_WITHIN)


def serve(settings: Settings, backend: Backend, front: Front | None = None) -> ApiServer | None:
    """The server that the settings ask for; None where they ask for none."""
    return None if settings.http.port == 0 else ApiServer(settings, backend, front)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=512)
    except OSError as error:
        raise OSError(f"http.host, http.port: cannot listen on {host}:{port}: {error.strerror}") from None
