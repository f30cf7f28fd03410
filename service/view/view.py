"""The fleet with what people say of it and the incidents in it: what the API and the page ask for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeGuard

import msgspec

from service.api import view_answers as answers
from service.api.answers import (
    Acknowledged,
    AlarmNow,
    ChangeNow,
    ChangePointNow,
    ForecastNow,
    LastChange,
    NumberedEvent,
    OpenAlarm,
    SensorEntry,
    SensorPosterior,
)
from service.incidents import Incidents
from service.operations.control import Acknowledgement, ControlBook, Mute
from service.operations.dictionary import ShownDictionary, shown_dictionary, shown_name, shown_state
from service.operations.names import NameBook, shown_as
from service.settings import Settings
from service.view.history import SeenSegment, levels_of
from service.view.sensor_index import LATELY, Only, SensorIndex, Sort, ViewedSensor, change_time
from service.view.updates import Update, Updates
from service.wire import messages
from service.wire.messages import AlarmEvent, ChangeEvent, Event, Incident, Notice
from service.wire.readings import rfc3339

_SPARK = 32
_MOST_INCIDENTS = 200
_STEPS = 10  # of a forecast
_Z = 1.645  # 5% and 95% of a normal distribution
_COUNT_EVERY = 0.5


class Books(Protocol):
    """What people have said, as it was last heard."""

    @property
    def control(self) -> ControlBook: ...

    @property
    def names(self) -> NameBook: ...


class View:
    """One thread brings messages, any may ask."""

    def __init__(self, settings: Settings, books: Books) -> None:
        self.fleet = SensorIndex(settings)
        self.updates = Updates()
        self._settings = settings
        self._books = books
        self._incidents = Incidents(settings.incidents)
        self._lock = threading.Lock()  # of the incidents
        self._earlier: list[ChangeEvent | AlarmEvent] = []
        self.opened = 0  # incidents, since the start
        self.on_incidents: Callable[[list[Incident]], None] = lambda revisions: None  # who else is told of them
        self._counted = (
            -_COUNT_EVERY,
            answers.Counts(sensors=0, alarms=0, changed=0, silent=0, incidents=0, newest=None),
        )

    # Messages in

    def take(self, message: messages.Message, committed: int) -> None:
        """A message that was committed (milliseconds): followers hear of it."""
        if isinstance(message, messages.DeadLetter):
            return
        self.fleet.take(message)
        found = [Update("sensor", message.sensor)]
        if isinstance(message, Event):
            found.append(Update("event", (message, committed)))
        if self._counts_for_incidents(message):
            with self._lock:
                found += self._incident_updates(self._incidents.observe(message))
        self.updates.add(*found)

    def take_earlier(self, message: messages.Message) -> None:
        """A message from before anybody follows; ``caught_up`` ends these."""
        self.fleet.take(message)
        if self._counts_for_incidents(message):
            self._earlier.append(message)

    def _counts_for_incidents(self, message: messages.Message) -> TypeGuard[ChangeEvent | AlarmEvent]:
        if self._settings.incidents.of == "changes":
            return isinstance(message, ChangeEvent)
        return isinstance(message, AlarmEvent) and message.status == "raised"

    def caught_up(self) -> None:
        """All earlier messages have been brought."""
        with self._lock:
            self._incidents.observe_many(self._earlier)
        self._earlier = []
        self.advance()

    def go_on_from(self, published: list[Incident]) -> list[Incident]:
        """Number the incidents after those that were published; returns what is different now."""
        with self._lock:
            return self._incidents.catch_up(published)

    def forget(self, sensor: str) -> None:
        """Nothing is known of a sensor any more."""
        self.fleet.forget(sensor)
        self.updates.add(Update("said", None))

    def advance(self) -> None:
        """Time passes: incidents close. Before the first reading there is no time yet."""
        if not self.fleet.clock:
            return
        with self._lock:
            found = self._incidents.advance(self.fleet.clock * 1000)
            updates = self._incident_updates(found)
        self.updates.add(*updates)

    def _incident_updates(self, revisions: list[Incident]) -> list[Update]:
        self.opened += sum(one.status == "open" and one.revision == 0 for one in revisions)
        self.on_incidents(revisions)
        return [Update("incident", one) for one in revisions]

    def said(self) -> None:
        """People have said something."""
        self.updates.add(Update("said", None))

    # Questions

    def sensors(
        self, search: str, sort: Sort, only: Only | None, offset: int, limit: int, after: str
    ) -> tuple[list[SensorEntry], int]:
        """A page of sensors, and how many there are in all."""
        now = _now()
        since = self.fleet.clock - LATELY
        choices: dict[Only, Any] = {
            "alarm": lambda one: one.alarm is not None,
            "changed": lambda one: one.changed > since,
            "silent": lambda one: one.is_silent,
            "muted": lambda one: self._muted_until(one.name, now) is not None,
        }
        return self.fleet.page(
            lambda one: self._entry(one, now), search=search, sort=sort, only=None if only is None else choices[only],
            offset=offset, limit=limit, after=after,
        )  # fmt: skip

    def sensor(self, name: str) -> SensorPosterior | None:
        """A sensor as its messages tell of it: for those who have no detector to ask."""
        return self.fleet.look(name, self._posterior)

    def with_name(self, posterior: SensorPosterior) -> SensorPosterior:
        """Return the posterior with its state as people see it: merged and named."""
        state = self._shown_state(posterior.sensor, posterior.generation, posterior.state)
        return posterior if state is posterior.state else msgspec.structs.replace(posterior, state=state)

    def states(self, name: str) -> ShownDictionary | None:
        """Return a sensor's state dictionary, or None if it has none."""
        return self.fleet.look(name, self._dictionary)

    def history(self, name: str) -> answers.SensorHistory | None:
        """A sensor's past."""
        return self.fleet.look(name, self._history)

    def incidents(self, status: str | None) -> list[Incident]:
        """The latest first."""
        with self._lock:
            found = self._incidents.all
        return [one for one in reversed(found) if status in (None, one.status)][:_MOST_INCIDENTS]

    def numbered(self, seq: int, committed: int, event: Event) -> NumberedEvent:
        """An event with what people have said of it."""
        acknowledged = None if isinstance(event, Notice) else self._acknowledged(event.id)
        is_muted = self._books.control.is_muted(event.sensor, committed * 1000) is not None
        return NumberedEvent(seq, rfc3339(committed * 1000), event, acknowledged, is_muted)

    def promise(self) -> answers.Promised:
        """Alarms raised against alarms promised, by rule."""
        return answers.Promised(self.counts().newest, self.fleet.promise())

    def mutes(self) -> list[Mute]:
        """Those that end first in front."""
        return self._books.control.mutes()

    def counts(self) -> answers.Counts:
        """The fleet in numbers, at most half a second old."""
        counted, found = self._counted
        if time.monotonic() - counted < _COUNT_EVERY:
            return found
        sensors, alarms, changed, silent = self.fleet.counts()
        with self._lock:
            incidents = len(self._incidents.open)
        newest = None if not sensors else rfc3339(self.fleet.clock * 1000)
        found = answers.Counts(
            sensors=sensors, alarms=alarms, changed=changed, silent=silent, incidents=incidents, newest=newest
        )
        self._counted = time.monotonic(), found
        return found

    def batch(self, updates: Iterable[Update], most_sensors: int) -> answers.Batch:
        """Updates as a follower is told of them, with each sensor once and as it is now."""
        now, said = _now(), False
        names: dict[str, None] = {}
        events: list[NumberedEvent] = []
        incidents: dict[str, Incident] = {}
        for kind, about in updates:
            if kind == "sensor":
                names[about] = None
            elif kind == "event":
                event, committed = about
                events.append(self.numbered(0, committed, event))
            elif kind == "incident":
                incidents[about.id] = about
            else:
                said = True
        told = list(names)[:most_sensors]
        sensors = [self.fleet.look(name, lambda one: self._entry(one, now)) for name in told]
        return answers.Batch(
            counts=self.counts(), sensors=[one for one in sensors if one is not None], events=events,
            incidents=list(incidents.values()), many=len(names) > most_sensors, said=said,
        )  # fmt: skip

    # A sensor in words

    def _entry(self, sensor: ViewedSensor, now: int) -> SensorEntry:
        record = sensor.state
        assert record is not None
        levels, noises = ([], []) if record.state is None else levels_of(record.state.parameters)
        return SensorEntry(
            sensor=sensor.name,
            time=record.time,
            is_silent=sensor.is_silent,
            labels=record.labels,
            generation=record.generation,
            change_probability=record.change_probability,
            run_length=record.run_length,
            state=self._named(sensor),
            level=levels[0] if levels else None,
            noise=noises[0] if noises else None,
            change=None if sensor.latest is None else self._last_change(sensor.latest),
            alarm=None if sensor.alarm is None else self._open_alarm(sensor.alarm),
            return_period=record.return_period,
            learning=record.learning,
            muted_until=self._muted_until(sensor.name, now),
            spark=[None if value is None else messages.rounded(value) for value in sensor.history.spark(_SPARK)],
        )

    def _last_change(self, event: ChangeEvent) -> LastChange:
        at = change_time(event)
        return LastChange(
            id=event.id, status=event.status, time=rfc3339(at * 1000) if at else None, probability=event.probability,
            summary=event.summary, acknowledged=self._acknowledged(event.id),
        )  # fmt: skip

    def _open_alarm(self, event: AlarmEvent) -> OpenAlarm:
        return OpenAlarm(
            id=event.id, time=event.at.time, return_period=event.return_period, frequency=event.frequency,
            reasons=list(event.reasons), summary=event.summary, acknowledged=self._acknowledged(event.id),
        )  # fmt: skip

    def _posterior(self, sensor: ViewedSensor) -> SensorPosterior:
        record = sensor.state
        assert record is not None
        changes = [one for one in sensor.changes.values() if one.generation == record.generation]
        announced = [
            ChangeNow(
                one.id, one.index, one.time, sensor.raised[one.id],
                one.status if one.status in ("confirmed", "retracted") else "raised",
            )
            for one in changes
        ]  # fmt: skip
        return SensorPosterior(
            sensor=sensor.name,
            rule=self._settings.rule_for(sensor.name).match,
            labels=record.labels,
            generation=record.generation,
            is_silent=sensor.is_silent,
            accepted=None,
            inserted=None,
            index=record.index,
            time=record.time,
            state=self._named(sensor),
            run_length=record.run_length,
            change_probability=record.change_probability,
            n_states=record.n_states,
            change_points=[
                ChangePointNow(one.index, one.time, one.probability, one.low, one.high)
                for one in sorted(changes, key=lambda one: one.index)
                if one.status != "retracted"
            ],
            changes=announced,
            alarms=announced,
            unusual=[
                AlarmNow(
                    id=one.id, raised_at=one.at, is_open=one is sensor.alarm, cleared=sensor.cleared.get(one.id),
                    return_period=one.return_period, reasons=list(one.reasons), change=one.change,
                )
                for one in sensor.alarms.values()
                if one.generation == record.generation
            ],
            return_period=record.return_period,
            learning=record.learning,
            budget_s=record.budget_s,
            forecast=_unchanged(record),
            recent=record.recent,
        )  # fmt: skip

    def _named(self, sensor: ViewedSensor) -> messages.State | None:
        record = sensor.state
        assert record is not None
        return self._shown_state(sensor.name, record.generation, record.state)

    def _shown_state(self, sensor: str, generation: int, state: messages.State | None) -> messages.State | None:
        names = self._books.names.of(sensor, generation)
        if state is None or not names:
            return state
        return shown_state(state, names, self._settings.rule_for(sensor).state_names)

    def _dictionary(self, sensor: ViewedSensor) -> ShownDictionary | None:
        if sensor.dictionary is None or sensor.dictionary.generation != sensor.generation:
            return None
        names = self._books.names.of(sensor.name, sensor.generation)
        return shown_dictionary(sensor.dictionary, names, sensor.state)

    def _history(self, sensor: ViewedSensor) -> answers.SensorHistory:
        record, history = sensor.state, sensor.history
        assert record is not None
        numbers: dict[tuple[int, int], int] = {}
        shown = [self._shown_id(sensor.name, one) for one in history.segments]
        for one, state in zip(history.segments, shown, strict=True):
            numbers.setdefault((one.generation, state), len(numbers))
        return answers.SensorHistory(
            sensor=sensor.name,
            labels=record.labels,
            generation=record.generation,
            states_return=self._settings.rule_for(sensor.name).states_return,
            readings=history.readings,
            probabilities=list(history.probabilities),
            segments=[
                self._segment(sensor.name, one, state, numbers[one.generation, state])
                for one, state in zip(history.segments, shown, strict=True)
            ],
            dictionary=self._dictionary(sensor),
            changes=[answers.KnownChange(one, self._acknowledged(one.id)) for one in sensor.changes.values()],
            alarms=[
                answers.KnownAlarm(one, self._acknowledged(one.id), one is sensor.alarm, sensor.cleared.get(one.id))
                for one in sensor.alarms.values()
            ],
            return_period=record.return_period,
            learning=record.learning,
            budget_s=record.budget_s,
            muted_until=self._muted_until(sensor.name, _now()),
        )

    def _shown_id(self, sensor: str, one: SeenSegment) -> int:
        return shown_as(one.state, self._books.names.of(sensor, one.generation))

    def _segment(self, sensor: str, one: SeenSegment, state: int, number: int) -> answers.SegmentEntry:
        of_rule = self._settings.rule_for(sensor).state_names | ({str(one.state): one.name} if one.name else {})
        return answers.SegmentEntry(
            generation=one.generation, state=state, number=number,
            name=shown_name(state, self._books.names.of(sensor, one.generation), of_rule),
            since=one.since, until=one.until, levels=one.levels, noises=one.noises,
        )  # fmt: skip

    def _acknowledged(self, event_id: str) -> Acknowledged | None:
        found: Acknowledgement | None = self._books.control.acknowledgement(event_id)
        return None if found is None else Acknowledged(found.time, found.by, found.note)

    def _muted_until(self, sensor: str, now: int) -> str | None:
        found = self._books.control.is_muted(sensor, now)
        return None if found is None else found.until


def _unchanged(record: messages.StateRecord) -> ForecastNow | None:
    """The next readings if the state lasts."""
    levels, noises = levels_of(record.state.parameters) if record.state is not None else ([], [])
    if not levels or None in levels or None in noises:
        return None
    pairs = list(zip(levels, noises, strict=True))

    def rows(sign: float) -> list[list[float | None]]:
        return [[messages.rounded((level or 0.0) + sign * _Z * (noise or 0.0)) for level, noise in pairs]] * _STEPS

    return ForecastNow(rows(0.0), rows(0.0), rows(-1.0), rows(1.0))


def _now() -> int:
    return time.time_ns() // 1000
