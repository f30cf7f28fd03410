"""Receivers of committed events: JSON lines in a file or on stdout, a webhook.

Each makes one attempt at one event; ``service.sinks.delivery`` repeats.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.settings.sinks import SinkSettings
from service.sinks.lines import LinesSink
from service.sinks.sink import Outgoing, Refused, Sink, TryAgain
from service.sinks.stdout import StdoutSink
from service.sinks.webhook import WebhookSink

__all__ = ["LinesSink", "Outgoing", "Refused", "Sink", "StdoutSink", "TryAgain", "WebhookSink", "open_sink"]


def open_sink(settings: SinkSettings, environ: Mapping[str, str]) -> Sink:
    """The sink that the settings describe; ValueError or OSError where it cannot be used."""
    if settings.kind == "lines":
        assert settings.path is not None
        return LinesSink(settings.path)
    if settings.kind == "stdout":
        return StdoutSink()
    return WebhookSink(
        settings.address(),
        timeout=settings.timeout_s,
        token=settings.secret("token", environ),
        secret=settings.secret("secret", environ),
    )
