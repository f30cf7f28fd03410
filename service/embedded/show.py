"""The embedded worker on a terminal: what it does, where to look, what was planted and what was found."""

from __future__ import annotations

from service.embedded.worker import Worker
from service.settings import Settings
from service.sources.plant import PLANT
from service.tail import Printer, decode, line

_POST = """curl -H 'Content-Type: application/json' -d '{"sensor": "mine", "value": 20.1}'"""


def shown_worker(settings: Settings) -> Worker:
    """A worker that tells people what happens."""
    printer = Printer()

    def found(value: bytes) -> None:
        event = decode(value)
        if event is not None:
            printer(*line(event))

    if settings.http.port:
        print(f"== the page: {settings.http.address}/  (in a moment)", flush=True)
    print("== compiling the detectors' kernels: up to a minute the first time, then they are cached", flush=True)
    return Worker(
        settings, printer.planted, found, lambda: print("\n".join(introduction(settings)), end="\n\n", flush=True)
    )


def introduction(settings: Settings) -> list[str]:
    """What runs and where to look."""
    source, http = settings.source, settings.http
    ways = {
        "simulate": f"a simulated plant of {len(PLANT)} sensors, {source.simulate.rate:g} readings a second each",
        "http": "readings that are posted",
        "file": f"{source.file.path}{', followed' if source.file.follow else ''}",
        "stdin": "stdin",
    }
    lines = [
        f"== ready, without a broker. Readings from {' and '.join(ways[kind] for kind in source.kinds)}.",
        f"   state         {source.state}: goes on from there when started again; delete it to begin afresh",
    ]
    if http.port:
        root = settings.http.address
        lines += [
            f"   page          {root}/",
            f"   events        {root}/v1/events",
            f"   sensors       {root}/v1/sensors  and of each its posterior: {root}/v1/sensors/NAME",
            f"   API, metrics  {root}/openapi.json  {root}/metrics",
        ]
        if "http" in source.kinds:
            lines.append(f"   post          {_POST} {root}/v1/readings")
    lines.append("   Below: changes as they are planted, and as they are found. Ctrl-C stops in order.")
    return lines
