"""All sensors with their states and events, folded from the messages about them. Any thread may read it."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from service.api.view_answers import RulePromise
from service.settings import Settings
from service.view.history import SegmentHistory, milliseconds
from service.view.promise import Promise
from service.wire import messages
from service.wire.messages import AlarmEvent, ChangeEvent, Notice, Place, StateDictionary, StateRecord

MOST_CHANGES = 100  # per sensor
# A change counts as recent within this time before the newest reading of the fleet, in milliseconds.
LATELY = 3_600_000

MOST_ALARMS = 100
Sort = Literal["name", "unusual", "probability", "changed"]
Only = Literal["alarm", "changed", "silent", "muted"]

_Said = TypeVar("_Said")


class ViewedSensor:
    """A sensor with its state, changes and alarms."""

    def __init__(self, name: str, rule: str, history: int) -> None:
        self.name = name
        self.rule = rule  # the rule's pattern
        self.state: StateRecord | None = None
        self.time = 0  # time of its newest reading, milliseconds
        self.changes: dict[str, ChangeEvent] = {}  # the last revision of each, by id, oldest first
        self.raised: dict[str, Place] = {}  # by id: the observation at which it was first announced
        self.latest: ChangeEvent | None = None  # the latest change that was not retracted
        self.changed = 0  # time of that change, milliseconds
        self.alarms: dict[str, AlarmEvent] = {}  # each alarm as raised, by id, oldest first
        self.alarm: AlarmEvent | None = None  # the open alarm
        self.cleared: dict[str, str | None] = {}  # by id: when an alarm was cleared
        self.is_silent = False
        self.dictionary: StateDictionary | None = None
        self.history = SegmentHistory(history)
        self.text = name.casefold()  # the text in which a search looks

    def take_state(self, record: StateRecord) -> None:
        self.state = record
        self.time = milliseconds(record.time)
        self.history.take(record)
        self.text = " ".join([self.name, *(str(value) for value in record.labels.values())]).casefold()

    def take_change(self, event: ChangeEvent) -> None:
        known = self.changes.get(event.id)
        if known is not None and known.revision >= event.revision:
            return
        self.changes[event.id] = event
        self.raised.setdefault(event.id, event.at)
        while len(self.changes) > MOST_CHANGES:
            oldest = next(iter(self.changes))
            del self.changes[oldest], self.raised[oldest]
        standing = [(change_time(one), one) for one in self.changes.values() if one.status != "retracted"]
        self.changed, self.latest = max(standing, key=lambda pair: pair[0], default=(0, None))

    def take_alarm(self, event: AlarmEvent) -> None:
        if event.status == "raised":
            self.alarms[event.id] = event
            self.alarm = event
            while len(self.alarms) > MOST_ALARMS:
                oldest = next(iter(self.alarms))
                del self.alarms[oldest]
                self.cleared.pop(oldest, None)
            return
        if event.id in self.alarms:
            self.cleared[event.id] = event.at.time
        if self.alarm is not None and self.alarm.id == event.id:
            self.alarm = None

    def take_notice(self, notice: Notice) -> None:
        if notice.kind in ("silent", "back"):
            self.is_silent = notice.kind == "silent"
        elif notice.kind == "new_generation" and self.alarm is not None and self.alarm.generation < notice.generation:
            # The detector that would have cleared the alarm is gone.
            self.cleared[self.alarm.id] = notice.time
            self.alarm = None

    @property
    def unusual(self) -> tuple[float, float]:
        """How unusual the sensor is now, as a sort key."""
        return messages.unusual_now(self.alarm, self.state)

    @property
    def generation(self) -> int:
        """The sensor's generation; -1 before its first state."""
        return -1 if self.state is None else self.state.generation

    @property
    def probability(self) -> float:
        """The probability of a change within its last window; -1 if it is not known."""
        found = None if self.state is None else self.state.change_probability
        return -1.0 if found is None else found


def change_time(event: ChangeEvent) -> int:
    """Return the time of a change in milliseconds, as precisely as it is known; 0 if it is not."""
    time = event.time or event.high.time or event.at.time
    return 0 if time is None else milliseconds(time)


class SensorIndex:
    """The sensors that have a state."""

    def __init__(self, settings: Settings) -> None:
        self._history = settings.view.history
        self._promise = Promise(settings)
        self._lock = threading.Lock()
        self._sensors: dict[str, ViewedSensor] = {}
        self.clock = 0  # the newest reading of all, milliseconds

    # Messages in

    def take(self, message: messages.Message) -> None:
        """Apply a committed message."""
        with self._lock:
            if isinstance(message, messages.DeadLetter):
                return
            sensor = self._sensors.get(message.sensor)
            if sensor is None:
                rule = self._promise.rule_of(message.sensor)
                sensor = self._sensors[message.sensor] = ViewedSensor(message.sensor, rule, self._history)
            if isinstance(message, StateRecord):
                self._promise.take_state(sensor.rule, message, sensor.state)
                sensor.take_state(message)
                self.clock = max(self.clock, sensor.time)
            elif isinstance(message, ChangeEvent):
                sensor.take_change(message)
            elif isinstance(message, AlarmEvent):
                self._promise.take_alarm(sensor.rule, message)
                sensor.take_alarm(message)
            elif isinstance(message, Notice):
                sensor.take_notice(message)
            elif isinstance(message, StateDictionary):
                sensor.dictionary = message

    def forget(self, sensor: str) -> None:
        """Drop a sensor."""
        with self._lock:
            self._sensors.pop(sensor, None)

    # Questions

    def look(self, name: str, say: Callable[[ViewedSensor], _Said]) -> _Said | None:
        """Return the result of ``say`` for a sensor, or None if it is not found. It does not change meanwhile."""
        with self._lock:
            sensor = self._sensors.get(name)
            return None if sensor is None or sensor.state is None else say(sensor)

    def names(self) -> list[str]:
        """Return the names of all sensors."""
        with self._lock:
            return sorted(name for name, sensor in self._sensors.items() if sensor.state is not None)

    def events_with(self, beginning: str) -> dict[str, str]:
        """Return the sensors of changes and alarms by their ids, of those whose ids begin like this."""
        with self._lock:
            return {
                name: sensor.name
                for sensor in self._sensors.values()
                for name in (*sensor.changes, *sensor.alarms)
                if name.startswith(beginning)
            }

    def page(
        self, say: Callable[[ViewedSensor], Any], *, search: str = "", sort: Sort = "name",
        only: Callable[[ViewedSensor], bool] | None = None, offset: int = 0, limit: int = 100, after: str = "",
    ) -> tuple[list[Any], int]:  # fmt: skip
        """Return the results of ``say`` for a page of the matching sensors, and the number of all matching sensors.

        ``search``: words that all occur in the name or in the labels. ``after``: only names after this one.
        """
        wanted = search.casefold().split()
        with self._lock:
            found: Iterable[ViewedSensor] = (one for one in self._sensors.values() if one.state is not None)
            if wanted:
                found = (one for one in found if all(word in one.text for word in wanted))
            if only is not None:
                found = filter(only, found)
            matching = [one for one in found if one.name > after] if after else list(found)
            # Names ascend. The other keys descend, with names ascending if they are equal.
            first = heapq.nsmallest(offset + limit, matching, key=_KEYS[sort])
            return [say(one) for one in first[offset:]], len(matching)

    def promise(self) -> list[RulePromise]:
        """Return alarms raised against alarms promised, by rule."""
        with self._lock:
            return self._promise.by_rule()

    def counts(self) -> tuple[int, int, int, int]:
        """Return how many sensors there are, and how many have an open alarm, have changed recently, and are silent."""
        with self._lock:
            known = [sensor for sensor in self._sensors.values() if sensor.state is not None]
            since = self.clock - LATELY
            return (
                len(known), sum(one.alarm is not None for one in known), sum(one.changed > since for one in known),
                sum(one.is_silent for one in known),
            )  # fmt: skip


_KEYS: dict[str, Callable[[ViewedSensor], tuple[Any, ...]]] = {
    "name": lambda one: (0.0, one.name),
    "unusual": lambda one: (*(-number for number in one.unusual), one.name),
    "probability": lambda one: (-one.probability, one.name),
    "changed": lambda one: (-float(one.changed), one.name),
}
