"""The embedded worker on a terminal: what it does, where to look, what was planted and what was found."""

from __future__ import annotations

from service.embedded.worker import Worker
from service.settings import Settings
from service.sources.plant import DAY, HISTORY, PLANT, Planted
from service.tools.demo_score import Score
from service.tools.tail import Printer, decode, line
from service.wire import messages

_POST = """curl -H 'Content-Type: application/json' -d '{"sensor": "mine", "value": 20.1}'"""


def shown_worker(settings: Settings) -> Worker:
    """Return a worker that prints what happens: alarms and notices; without the demo plant, changes too."""
    printer = Printer()
    score = Score(settings.source.simulate.rate, len(PLANT)) if "simulate" in settings.source.kinds else None

    def planted(fault: Planted) -> None:
        printer.planted(fault)
        if score is not None:
            score.plant(fault)

    def found(value: bytes) -> None:
        event = decode(value)
        if event is None:
            return
        if score is None:
            printer(*line(event))
            return
        if score.take(event) and not isinstance(event, messages.ChangeEvent):
            printer(*line(event))
        if (said := score.due()) is not None:
            printer.note(said)

    def ready() -> None:
        print("\n".join(introduction(settings)), end="\n\n", flush=True)
        if score is not None:
            score.begin()

    if settings.http.port:
        print(f"== the page: {settings.http.address}/  (in a moment)", flush=True)
    print("== compiling the detectors' kernels: up to a minute the first time, then they are cached", flush=True)
    return Worker(settings, planted, found, ready)


def introduction(settings: Settings) -> list[str]:
    """Return what runs and where to look."""
    source, http = settings.source, settings.http
    ways = {
        "simulate": f"a simulated plant of {len(PLANT)} sensors, {source.simulate.rate:g} readings per second each",
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
    if "simulate" in source.kinds:
        lines += [
            f"   First {HISTORY // DAY} simulated days (compressed) in a few seconds: detectors learn what is usual.",
            "   Below: faults as they are planted, and alarms. Ordinary changes are published, but not shown here.",
        ]
    lines.append("   Ctrl-C stops in order.")
    return lines
