"""The kinds of sources.

A kind of source is a module of this package with the same name. Its ``open_source(settings)`` returns the
``Source``, and its ``describe(settings)`` describes the input. Posted readings have no module: the API takes them.
"""

from __future__ import annotations

from importlib import import_module

from service.settings import Settings
from service.settings.sources import POSTED
from service.sources.source import Source


def open_sources(settings: Settings) -> list[Source]:
    """Open the sources that run on threads of their own."""
    kinds = [kind for kind in settings.source.kinds if kind != POSTED]
    return [import_module(f"service.sources.{kind}").open_source(settings) for kind in kinds]


def describe(kind: str, settings: Settings) -> str:
    """Describe the input of a kind of source in words."""
    if kind == POSTED:
        return "POST /v1/readings"
    return str(import_module(f"service.sources.{kind}").describe(settings))
