"""The API's server, on a thread beside the worker."""

from __future__ import annotations

import logging

from service.api.app import application
from service.api.backend import Backend, Front
from service.http.connections import ConnectionLimits
from service.http.listener import Listener
from service.settings import Settings
from service.settings.sections import Http

log = logging.getLogger(__name__)


class ApiServer:
    """Answers until it is closed."""

    def __init__(self, settings: Settings, backend: Backend, front: Front | None = None) -> None:
        http = settings.http
        self._front = front
        self._listener = Listener(
            application(http, backend, settings.limits.record_bytes, front), http.host, http.port, _limits(http),
            name="api", keys="http.host, http.port", trusted_proxies=http.trusted_proxies,
        )  # fmt: skip
        self.port = self._listener.port
        log.info("API, health and metrics on http://%s:%d", http.host, self.port)

    def close(self) -> None:
        """Answer what is being asked, and no more."""
        if self._front is not None:
            self._front.close()
        self._listener.close()


def serve(settings: Settings, backend: Backend, front: Front | None = None) -> ApiServer | None:
    """The server that the settings ask for; None where they ask for none."""
    return None if settings.http.port == 0 else ApiServer(settings, backend, front)


def _limits(http: Http) -> ConnectionLimits:
    return ConnectionLimits(
        http.connections, http.connections_per_address, header_timeout=http.header_timeout_s,
        idle_timeout=http.idle_timeout_s,
    )  # fmt: skip
