"""A fleet without detectors: messages as workers publish them, and the API and page in front of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from http_helpers import free_port

from service.api.recent import RecentEvents
from service.api.server import ApiServer
from service.embedded.database import WriteFailed
from service.metrics import Metrics
from service.operations.control import ControlBook
from service.operations.names import NameBook
from service.runtime.posting import NotTaken
from service.settings import Settings
from service.settings.incidents import IncidentPolicy
from service.settings.sections import Http
from service.settings.view import ViewSettings
from service.view.operations import People, ViewOperations
from service.view.routes import FleetRoutes
from service.view.view import View
from service.wire import messages
from service.wire.messages import (
    AlarmEvent,
    ChangeEvent,
    KnownState,
    LikelyState,
    Notice,
    Place,
    RunLength,
    Segment,
    State,
    StateDictionary,
    StateEvent,
    StateRecord,
)
from service.wire.readings import rfc3339

START = 1_767_225_600_000  # milliseconds: 2026-01-01
STEP = 1000  # between two readings


def moment(index: int) -> str:
    return rfc3339((START + index * STEP) * 1000)


def place(index: int) -> Place:
    return Place(index, moment(index))


def state_record(
    sensor: str = "a", index: int = 59, *, since: int = 0, state: int | None = None, visits: int = 1,
    level: float = 20.0, noise: float = 1.0, probability: float | None = 0.01, generation: int = 0,
    knows_since: bool = True, recent: list[list[float | None]] | None = None, labels: dict[str, Any] | None = None,
    return_period: float | None = None, learning: int = 0, promised: float | None = 0.5,
    budget_s: float | None = 604_800.0,
) -> StateRecord:  # fmt: skip
    """A record after the reading ``index``; its state began at ``since``."""
    if recent is None:
        recent = [[START + i * STEP, level + (-1) ** i * noise] for i in range(max(0, index - 59), index + 1)]
    return StateRecord(
        sensor=sensor, labels=labels or {}, generation=generation, index=index, time=moment(index),
        state=State(
            id=since if state is None else state, name=None, since=place(since) if knows_since else Place(since, None),
            probability=0.99, parameters={"mean": level, "sd": noise}, visits=visits,
        ),
        run_length=RunLength(low=1, median=index - since + 1, high=index + 1),
        change_probability=probability, n_states=1, recent=recent, return_period=return_period, learning=learning,
        promised=promised, budget_s=budget_s,
    )  # fmt: skip


def recurring(
    sensor: str = "a", index: int = 199, *, state: int = 70, since: int = 180, visits: int = 1, readings: int = 20,
    level: float = 20.4, generation: int = 0, **more: Any,
) -> StateRecord:  # fmt: skip
    """A record of ``model = "recurring"``: by default that of ``dictionary``, whose last state is new."""
    record = state_record(
        sensor, index, since=since, state=state, visits=visits, level=level, generation=generation, **more
    )
    present = msgspec.structs.replace(record.state, readings=readings, dwell=None)  # type: ignore[type-var]
    return msgspec.structs.replace(
        record, state=present, n_states=3, novelty=0.25, remaining=12.0,
        next=[LikelyState(0, 0.6), LikelyState(40, 0.3), LikelyState(None, 0.1)],
    )  # fmt: skip


def known_state(state: int, level: float, visits: int, readings: int, last_seen: int, **more: Any) -> KnownState:
    fields = {"name": None, "noise": 1.0, "share": None, "dwell": [8.2, 11.0, 14.4], "first_seen": state, **more}
    return KnownState(id=state, level=level, visits=visits, readings=readings, last_seen=last_seen, **fields)


def dictionary(sensor: str = "a", index: int = 199, generation: int = 0, **more: Any) -> StateDictionary:
    """Three states, the last two of which are nearly the same."""
    fields: dict[str, Any] = {
        "states": [
            known_state(0, 2.0, 4, 120, 178), known_state(40, 20.0, 2, 60, 160, name="full load"),
            known_state(70, 20.4, 1, 20, 199),
        ],
        "transitions": [[0, 40, 2], [40, 0, 2], [40, 70, 1], [0, 70, 1]],
        "interval_s": 60.0,
        **more,
    }  # fmt: skip
    return StateDictionary(sensor=sensor, labels={}, generation=generation, index=index, time=moment(index), **fields)


def state_event(sensor: str = "a", *, index: int = 40, status: str = "new_state", state: int = 40) -> StateEvent:
    return StateEvent(
        id=messages.state_event_id(sensor, 0, status, index), sensor=sensor, labels={}, generation=0, status=status,
        index=index, time=moment(index), at=place(index + 2), state=state, name=None, visits=1, probability=0.93,
        reasons=["new_state"] if status == "new_state" else [], summary=f"new state {state}, level 20",
    )  # fmt: skip


def change(
    sensor: str = "a", number: int = 0, *, index: int = 30, revision: int = 0, status: str = "provisional",
    generation: int = 0, probability: float = 0.995, labels: dict[str, Any] | None = None,
) -> ChangeEvent:  # fmt: skip
    return ChangeEvent(
        id=messages.event_id(sensor, generation, number), sensor=sensor, labels=labels or {}, generation=generation,
        revision=revision, status=status, index=index, time=moment(index), probability=probability,
        low=place(index - 1), high=place(index + 1), at=place(index + 5),
        before=Segment(20.0, 1.0, {"mean": 20.0, "sd": 1.0}), after=Segment(26.0, 1.0, {"mean": 26.0, "sd": 1.0}),
        summary="level 20 -> 26",
    )  # fmt: skip


def alarm(
    sensor: str = "a", number: int = 0, *, index: int = 40, status: str = "raised", generation: int = 0,
    reasons: tuple[str, ...] = ("level",), labels: dict[str, Any] | None = None,
) -> AlarmEvent:  # fmt: skip
    """An alarm that was raised at the reading ``index``, or cleared there."""
    is_raised = status == "raised"
    return AlarmEvent(
        id=messages.alarm_id(sensor, generation, number), sensor=sensor, labels=labels or {}, generation=generation,
        revision=int(not is_raised), status=status, index=index - 2, time=moment(index - 2), at=place(index),
        return_period=1e6, return_period_s=1e6, frequency="about once in 12 days" if is_raised else "",
        budget_s=604800.0, reasons=list(reasons), change=None,
        summary="unusual level, about once in 12 days" if is_raised else "usual again",
    )  # fmt: skip


def notice(sensor: str = "a", kind: str = "silent", generation: int = 0) -> Notice:
    return Notice(sensor=sensor, labels={}, generation=generation, kind=kind, index=0, time=moment(60), why="why")


class MemoryRecords:
    """Where what people say stands, in tests."""

    def __init__(self, book: Any) -> None:
        self.book = book
        self.failing: Exception | None = None

    def poll(self) -> None:
        pass

    def write(self, changes: Any) -> None:
        if self.failing is not None:
            raise self.failing


class ShownFleet:
    """A view of its own messages, as the API's backend."""

    hint = ""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings(incidents=IncidentPolicy(of="changes"))
        self.registry = Metrics().registry
        self.control, self.names = MemoryRecords(ControlBook()), MemoryRecords(NameBook())
        self.people = People(self.control, self.names)
        self.view = View(self.settings, self.people)
        self.recent = RecentEvents()
        self.operations = ViewOperations(self.view.fleet, self.people)
        self.front = FleetRoutes(self.view, self.operations, self.view.sensor, not_kept=(WriteFailed,))

    def take(self, *found: Any) -> None:
        for message in found:
            if not isinstance(message, StateRecord | StateDictionary):
                self.recent.add([message])
            self.view.take(message, int(time.time() * 1000))

    def is_alive(self) -> bool:
        return True

    def is_ready(self) -> bool:
        return True

    def post(self, readings: Any, received: int) -> int:
        raise NotTaken("not here")

    def events(self, *asked: Any) -> Any:
        return self.recent.page(*asked)

    def sensor(self, name: str) -> Any:
        return self.view.sensor(name)

    def sensors(self, after: str, limit: int) -> Any:
        raise AssertionError("the view answers")


@contextmanager
def shown(fleet: ShownFleet, **http: Any) -> Iterator[int]:
    """The fleet behind its API and page; yields the port."""
    options = {"port": free_port(), "requests_per_s": 1e6, **http}
    server = ApiServer(Settings(http=Http(**options), view=ViewSettings()), fleet, fleet.front)
    try:
        yield server.port
    finally:
        server.close()
