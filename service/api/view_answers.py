"""The types of what the view alone answers, and of what it is told."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from service.api.answers import Acknowledged, NumberedEvent, SensorEntry
from service.operations.control import Mute
from service.operations.dictionary import ShownDictionary
from service.operations.names import LONGEST
from service.wire.messages import AlarmEvent, ChangeEvent, Incident

Milliseconds = Annotated[int, Meta(description="since the epoch")]


class SegmentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch in one state."""

    generation: int
    state: Annotated[int, Meta(description="its id, or that of the state into which people merged it")]
    number: Annotated[int, Meta(description="of the state among those of this history, by first appearance, from 0")]
    name: Annotated[str | None, Meta(description="what people, or the rule, call the state")]
    since: Annotated[int | None, Meta(description="milliseconds since the epoch; null: not known any more")]
    until: Milliseconds
    levels: Annotated[list[float | None], Meta(description="of each channel")]
    noises: Annotated[list[float | None], Meta(description="likewise, standard deviations")]


class KnownChange(msgspec.Struct, frozen=True):
    """The last word about a change."""

    event: ChangeEvent
    acknowledged: Acknowledged | None


class KnownAlarm(msgspec.Struct, frozen=True):
    """An alarm as it was raised, and whether it is open."""

    event: AlarmEvent
    acknowledged: Acknowledged | None
    is_open: Annotated[bool, Meta(description="whether it is the sensor's open alarm")] = False
    cleared: Annotated[str | None, Meta(description="when it was cleared; null: it is open, or that is not known")] = (
        None
    )


class SensorHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A sensor's past as far as it is remembered, thinned out. Values as the detector takes them."""

    sensor: str
    labels: dict[str, str | bool]
    generation: int
    states_return: Annotated[bool, Meta(description="whether its model knows states again")]
    readings: Annotated[list[list[float | None]], Meta(description="[milliseconds, value of each channel]")]
    probabilities: Annotated[
        list[tuple[int, float | None, int]],
        Meta(description="[milliseconds, probability of a change within the window before, median run length]"),
    ]
    segments: list[SegmentEntry]
    changes: Annotated[list[KnownChange], Meta(description="in the order in which they were first said")]
    muted_until: str | None
    alarms: Annotated[list[KnownAlarm], Meta(description="in the order in which they were raised")] = []
    return_period: Annotated[
        float | None, Meta(description="readings: how seldom the sensor does what its newest reading does")
    ] = None
    learning: Annotated[int, Meta(description="readings still to come before its habits are known")] = 0
    budget_s: Annotated[
        float | None, Meta(description="seconds: its budget allows one alarm in this time, on average; null: not known")
    ] = None
    dictionary: Annotated[ShownDictionary | None, Meta(description="null: its model has none, or not yet")] = None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet in numbers."""

    sensors: int
    alarms: Annotated[int, Meta(description="sensors with an open alarm")]
    changed: Annotated[int, Meta(description="of which changed within an hour before the newest reading")]
    silent: int
    incidents: Annotated[int, Meta(description="that are open")]
    newest: Annotated[str | None, Meta(description="time of the newest reading of all")]


class SpanPromise(msgspec.Struct, frozen=True, kw_only=True):
    """Alarms of a rule's sensors within a span of time that ends with the newest reading."""

    raised: int
    promised: Annotated[float, Meta(description="alarms that the sensors' budgets allow for their readings")]
    sensor_weeks: Annotated[float, Meta(description="time that the sensors were read, summed over them; gaps left out")]
    raised_per_week: Annotated[float | None, Meta(description="raised, per sensor-week; null: nothing was read")]
    promised_per_week: Annotated[float | None, Meta(description="likewise, promised")]


class RulePromise(msgspec.Struct, frozen=True, kw_only=True):
    """Alarms raised against alarms promised, of the sensors of a rule."""

    rule: Annotated[str, Meta(description="its pattern")]
    budget: Annotated[str, Meta(description="of each sensor, such as: 1 per week")]
    budget_per_week: Annotated[
        float, Meta(description="the same per week; a sensor with few readings is promised less, see docs/alarms.md")
    ]
    spans: Annotated[dict[str, SpanPromise], Meta(description="hour, day and week")]


class Promised(msgspec.Struct, frozen=True):
    """Alarms raised against alarms promised, by rule. Rules without sensors are left out."""

    newest: Annotated[str | None, Meta(description="time of the newest reading of all, with which the spans end")]
    rules: list[RulePromise]


class IncidentList(msgspec.Struct, frozen=True):
    """The incidents that are remembered, the latest first."""

    incidents: list[Incident]


class Mutes(msgspec.Struct, frozen=True):
    """All mutes, those that end first in front."""

    mutes: list[Mute]


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has happened since the batch before; the data of an `update` of the stream."""

    counts: Counts
    sensors: Annotated[list[SensorEntry], Meta(description="that have a new state, as they are now")] = []
    events: list[NumberedEvent] = []
    incidents: list[Incident] = []
    many: Annotated[bool, Meta(description="more sensors than are told of have a new state: ask for them")] = False
    said: Annotated[bool, Meta(description="mutes, acknowledgements or names have changed: ask again")] = False


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `hello`, which begins a stream, and of `resync`, after which everything is to be asked for again."""

    is_resumed: Annotated[bool, Meta(description="nothing was missed since Last-Event-ID; else ask for everything")]
    counts: Counts


# What it is told


class NewMute(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keep sinks from hearing of the sensors that match, from now on."""

    pattern: Annotated[str, Meta(min_length=1, max_length=500, description="of names: * any text, ? a character")]
    for_s: Annotated[float, Meta(ge=1.0, le=366 * 86_400.0, description="for so many seconds")]
    why: Annotated[str, Meta(max_length=500)] = ""
    by: Annotated[str, Meta(max_length=100)] = ""


class NewAcknowledgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Mark a change or an alarm as seen."""

    id: Annotated[str, Meta(min_length=6, max_length=100, description="of the change or alarm, or a unique prefix")]
    note: Annotated[str, Meta(max_length=500)] = ""
    by: Annotated[str, Meta(max_length=100)] = ""


class NewAcceptance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Make what a sensor does now usual from here on, which clears its open alarm."""

    sensor: Annotated[str, Meta(min_length=1, max_length=500)]
    by: Annotated[str, Meta(max_length=100)] = ""


class NewName(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Give a state a name; an empty one takes it back."""

    sensor: str
    generation: Annotated[int, Meta(ge=0)]
    state: Annotated[int, Meta(ge=0)]
    name: Annotated[str, Meta(max_length=LONGEST)]
    by: Annotated[str, Meta(max_length=100)] = ""


class NewMerge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Show a state as another one; null takes that back."""

    sensor: str
    generation: Annotated[int, Meta(ge=0)]
    state: Annotated[int, Meta(ge=0)]
    into: Annotated[int, Meta(ge=0, description="id of the other state")] | None
    by: Annotated[str, Meta(max_length=100)] = ""


class NewSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Show the token for a cookie."""

    token: Annotated[str, Meta(min_length=1, max_length=1000)]


class Done(msgspec.Struct, frozen=True):
    """It is kept."""

    done: Annotated[str, Meta(description="in words")]


STREAMED: dict[str, Any] = {"hello": Hello, "update": Batch, "resync": Hello}
