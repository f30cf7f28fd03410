"""``/metrics`` on a port of its own, with a token of its own."""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from service.settings.sections import Metrics as MetricsSettings

log = logging.getLogger(__name__)

_PATIENCE = 10.0  # seconds for a client that says nothing

Answer = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class MetricsServer:
    """Answers on a thread of its own until it is closed."""

    def __init__(self, settings: MetricsSettings, registry: CollectorRegistry) -> None:
        answer = _answer(make_wsgi_app(registry), settings.read_token())
        try:
            self._server = make_server(settings.host, settings.port, answer, _Server, _Handler)
        except OSError as error:
            where = f"{settings.host}:{settings.port}"
            raise OSError(f"metrics.host, metrics.port: cannot listen on {where}: {error.strerror}") from None
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        log.info("metrics on http://%s:%d/metrics", settings.host, self.port)

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(settings: MetricsSettings, registry: CollectorRegistry) -> MetricsServer | None:
    """The server that the settings ask for; None where they ask for none."""
    return None if settings.port == 0 else MetricsServer(settings, registry)


def _answer(metrics: Answer, token: str | None) -> Answer:
    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        plain = ("Content-Type", "text/plain; charset=utf-8")
        if token is not None and not _shows(environ.get("HTTP_AUTHORIZATION", ""), token):
            start("401 Unauthorized", [plain, ("WWW-Authenticate", "Bearer")])
            return [b"this port wants its token (metrics.token): Authorization: Bearer TOKEN\n"]
        if environ["PATH_INFO"] != "/metrics":
            start("404 Not Found", [plain])
            return [b"there is nothing here but /metrics\n"]
        return metrics(environ, start)

    return answer


def _shows(authorization: str, token: str) -> bool:
    scheme, _, shown = authorization.partition(" ")
    # a header's bytes come as Latin-1, whatever they were
    return hmac.compare_digest(shown.strip().encode("latin-1"), token.encode()) and scheme.lower() == "bearer"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are not worth a line."""
