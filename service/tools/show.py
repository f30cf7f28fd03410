"""The embedded worker on a terminal: what it does, where to look, what was planted and what was found."""

from __future__ import annotations

from service.runtime.observers import CommittedCycle
from service.settings import Settings
from service.sources.plant import DAY, HISTORY, PLANT, Planted
from service.sources.registry import describe
from service.tools.demo_score import DemoScore
from service.tools.tail import Printer, line
from service.wire import messages

_POST = """curl -H 'Content-Type: application/json' -d '{"sensor": "mine", "value": 20.1}'"""


class Show:
    """Prints what happens: alarms and notices; without the demo plant, changes too. An observer of the worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._printer = Printer()
        is_demo = "simulate" in settings.source.kinds
        self._score = DemoScore(settings.source.simulate.rate, len(PLANT)) if is_demo else None
        if settings.http.port:
            print(f"== the page: {settings.http.address}/  (in a moment)", flush=True)
        print("== compiling the detectors' kernels: up to a minute the first time, then they are cached", flush=True)

    def ready(self) -> None:
        """The first record can come."""
        print("\n".join(introduction(self._settings)), end="\n\n", flush=True)
        if self._score is not None:
            self._score.begin()

    def planted(self, fault: Planted) -> None:
        """The demo plant has a fault."""
        self._printer.planted(fault)
        if self._score is not None:
            self._score.plant(fault)

    def committed(self, cycle: CommittedCycle) -> None:
        """Print the events of a cycle."""
        for output in cycle.outputs:
            if isinstance(output.message, messages.Event):
                self._show(output.message)

    def idle(self) -> None:
        """Nothing to print."""

    def _show(self, event: messages.Event) -> None:
        if self._score is None:
            self._printer(*line(event))
            return
        if self._score.take(event) and not isinstance(event, messages.ChangeEvent):
            self._printer(*line(event))
        if (said := self._score.due()) is not None:
            self._printer.note(said)


def introduction(settings: Settings) -> list[str]:
    """Return what runs and where to look."""
    source, http = settings.source, settings.http
    ways = [describe(kind, settings) for kind in source.kinds]
    lines = [
        f"== ready, without a broker. Readings from {' and '.join(ways)}.",
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
