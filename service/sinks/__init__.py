"""Sinks for committed events: JSON lines in a file or on stdout, a webhook.

A sink makes one attempt to send one event; ``service.sinks.delivery`` repeats attempts. A kind of sink is a module
of this package with the same name. Its ``open_sink(settings, environ)`` returns the ``Sink``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from service.settings.sinks import SinkSettings
from service.sinks.lines import LinesSink
from service.sinks.sink import DeliveryRefused, Outgoing, Sink, TryAgain
from service.sinks.stdout import StdoutSink
from service.sinks.webhook import WebhookSink

__all__ = ["DeliveryRefused", "LinesSink", "Outgoing", "Sink", "StdoutSink", "TryAgain", "WebhookSink", "open_sink"]


def open_sink(settings: SinkSettings, environ: Mapping[str, str]) -> Sink:
    """Return the sink that the settings describe. Raises ValueError or OSError if it cannot be used."""
    sink: Sink = import_module(f"{__name__}.{settings.kind}").open_sink(settings, environ)
    return sink
