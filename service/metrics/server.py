"""``/metrics`` on a port of its own, with a token of its own."""

from __future__ import annotations

import logging

from prometheus_client import CollectorRegistry, make_asgi_app

from service.http.attempts import TokenCheck, bearer_of, client_of
from service.http.connections import ConnectionLimits
from service.http.hosts import Hosts
from service.http.listener import Listener
from service.http.refusals import Receive, Scope, Send
from service.settings.sections import MetricsSettings

log = logging.getLogger(__name__)

# Few ask here, and each of them seldom.
_LIMITS = ConnectionLimits(most=64, per_address=32)


class MetricsServer:
    """Answers on a thread of its own until it is closed. ``keys`` are the options that say where."""

    def __init__(
        self, settings: MetricsSettings, registry: CollectorRegistry, keys: str = "metrics.host, metrics.port"
    ) -> None:
        self._listener = Listener(
            _MetricsApplication(settings, registry), settings.host, settings.port, _LIMITS,
            name="metrics", keys=keys,
        )  # fmt: skip
        self.port = self._listener.port
        log.info("metrics on http://%s:%d/metrics", settings.host, self.port)

    def close(self) -> None:
        """Answer no more."""
        self._listener.close()


def serve(settings: MetricsSettings, registry: CollectorRegistry) -> MetricsServer | None:
    """The server that the settings ask for; None where they ask for none."""
    return None if settings.port == 0 else MetricsServer(settings, registry)


class _MetricsApplication:
    """ASGI application with one route."""

    def __init__(self, settings: MetricsSettings, registry: CollectorRegistry) -> None:
        token = settings.read_token()
        self._tokens = None if token is None else TokenCheck(token)
        self._hosts = Hosts(settings.hosts, has_token=token is not None, key="metrics.hosts")
        self._metrics = make_asgi_app(registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, text, headers = self._refusal(scope)
        if not status:
            await self._metrics(scope, receive, send)
            return
        headers += [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    def _refusal(self, scope: Scope) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        """Return the status, text and headers of a refusal; status 0 if there is none."""
        headers, client = dict(scope["headers"]), client_of(scope)
        problem = self._hosts.problem("GET", headers)
        if problem is not None:
            return 403, f"{problem[1]}\n".encode(), []
        if self._tokens is not None:
            shown = bearer_of(headers.get(b"authorization", b""))
            if shown is not None and self._tokens.wait(client) > 0.0:
                return 429, b"too many wrong tokens from this address (metrics.token)\n", [(b"retry-after", b"1")]
            if shown is None or not self._tokens.is_right(client, shown):
                text = b"this port wants its token (metrics.token): Authorization: Bearer TOKEN\n"
                return 401, text, [(b"www-authenticate", b"Bearer")]
        if scope["path"] != "/metrics":
            return 404, b"there is nothing here but /metrics\n", []
        if scope["method"] not in ("GET", "HEAD"):
            return 405, b"/metrics takes GET\n", [(b"allow", b"GET, HEAD")]
        return 0, b"", []
