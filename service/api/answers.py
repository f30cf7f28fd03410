"""The types of everything that the API answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from service.wire.messages import Event, Place, RunLength, State


class Accepted(msgspec.Struct, frozen=True):
    """All readings of the body are on the disk, or acknowledged by the brokers."""

    accepted: Annotated[int, Meta(description="how many")]
    offset: Annotated[int, Meta(description="of the last one, in the intake or in its partition of the topic")]


class Acknowledged(msgspec.Struct, frozen=True):
    """Somebody has seen a change or an alarm."""

    time: str
    by: str
    note: str


class NumberedEvent(msgspec.Struct, frozen=True):
    """An event, and its number in the order in which events were committed."""

    seq: int
    committed: Annotated[str, Meta(description="when it was committed")]
    event: Event
    acknowledged: Annotated[Acknowledged | None, Meta(description="known to the view only")] = None
    is_muted: Annotated[bool, Meta(description="sinks were told nothing of it; known to the view only")] = False


class Events(msgspec.Struct, frozen=True):
    """A page of events."""

    events: list[NumberedEvent]
    next: Annotated[int, Meta(description="what to give as `after` (newest first: `before`) for those after these")]


class LastChange(msgspec.Struct, frozen=True, kw_only=True):
    """The latest change of a sensor that was not retracted."""

    id: str
    status: str
    time: Annotated[str | None, Meta(description="when it was, or the earliest that is known")]
    probability: float | None
    summary: str
    acknowledged: Acknowledged | None


class OpenAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """The alarm that a sensor has now."""

    id: str
    time: Annotated[str | None, Meta(description="when it was raised, by the sensor's readings")]
    return_period: Annotated[float | None, Meta(description="readings")]
    frequency: Annotated[str, Meta(description="in words, such as: about once in 12 days")]
    reasons: list[str]
    summary: str
    acknowledged: Acknowledged | None


class SensorEntry(msgspec.Struct, frozen=True):
    """A sensor in the list. A worker tells the first three only, the view all."""

    sensor: str
    time: Annotated[str, Meta(description="of its newest reading")]
    is_silent: bool
    labels: dict[str, str | bool] = {}
    generation: int | None = None
    change_probability: float | None = None
    run_length: RunLength | None = None
    state: State | None = None
    level: Annotated[float | None, Meta(description="of the state, first channel")] = None
    noise: Annotated[float | None, Meta(description="likewise, its standard deviation")] = None
    change: LastChange | None = None
    alarm: OpenAlarm | None = None
    return_period: Annotated[
        float | None, Meta(description="readings: how seldom the sensor does what its newest reading does")
    ] = None
    learning: Annotated[int, Meta(description="readings still to come before its habits are known")] = 0
    muted_until: str | None = None
    spark: Annotated[list[float | None], Meta(description="the last values of the first channel")] = []


class Sensors(msgspec.Struct, frozen=True):
    """A page of sensors."""

    sensors: list[SensorEntry]
    next: Annotated[
        str | None,
        Meta(description="by name: what to give as `after` for the next page; null: this was the last. Else null"),
    ]
    total: Annotated[int | None, Meta(description="how many there are on all pages; known to the view only")] = None


class ChangePointNow(msgspec.Struct, frozen=True):
    """A change point as it is believed now."""

    index: Annotated[int, Meta(description="the first observation after the change")]
    time: str | None
    probability: float | None
    low: Annotated[Place, Meta(description="5% quantile of where the change is")]
    high: Annotated[Place, Meta(description="95% quantile of where the change is")]


class ChangeNow(msgspec.Struct, frozen=True):
    """A change that was announced."""

    id: Annotated[str, Meta(description="of the change in events")]
    index: int
    time: str | None
    raised_at: Place
    status: Annotated[str, Meta(description="raised, confirmed or retracted")]


class AlarmNow(msgspec.Struct, frozen=True, kw_only=True):
    """An alarm from its raise to its clear."""

    id: Annotated[str, Meta(description="of the alarm in events")]
    raised_at: Place
    is_open: bool
    cleared: Annotated[str | None, Meta(description="when it was cleared; null: it is open, or that is not known")]
    return_period: Annotated[float | None, Meta(description="readings, when it was raised")]
    reasons: list[str]
    change: Annotated[str | None, Meta(description="the id of the change behind it, if one was announced")]


class ForecastNow(msgspec.Struct, frozen=True):
    """Of the next observations, the nearest first, each a list of its channels: mean, median, 5% and 95% quantiles.

    The view of a fleet on Kafka has no detector: there it is the forecast if nothing changes.
    """

    mean: list[list[float | None]]
    median: list[list[float | None]]
    low: list[list[float | None]]
    high: list[list[float | None]]


class SensorPosterior(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a sensor now. Values are in the units of the detector: after the rule's transform."""

    sensor: str
    rule: Annotated[str, Meta(description="the pattern of the rule that it has")]
    labels: dict[str, str | bool]
    generation: int
    is_silent: bool
    accepted: Annotated[int | None, Meta(description="readings of this generation; null: known to its worker only")]
    inserted: Annotated[int | None, Meta(description="missing steps inserted between them; null: likewise")]
    index: Annotated[int | None, Meta(description="of the newest observation; null before the first")]
    time: Annotated[str | None, Meta(description="of the newest reading")]
    state: State | None
    run_length: RunLength | None
    change_probability: float | None
    n_states: int
    change_points: Annotated[list[ChangePointNow], Meta(description="oldest first; the last ones may still move")]
    changes: Annotated[list[ChangeNow], Meta(description="changes that were announced, oldest first")]
    alarms: Annotated[
        list[ChangeNow],
        Meta(description="deprecated: announced changes, as in `changes`", extra_json_schema={"deprecated": True}),
    ]
    unusual: Annotated[list[AlarmNow], Meta(description="alarms, oldest first; the last one may be open")]
    return_period: Annotated[
        float | None, Meta(description="readings: how seldom the sensor does what its newest reading does")
    ]
    learning: Annotated[int | None, Meta(description="readings still to come before its habits are known")]
    budget_s: Annotated[
        float | None, Meta(description="seconds: its budget allows one alarm in this time, on average; null: not known")
    ]
    forecast: ForecastNow | None
    recent: list[list[float | None]]


class Problem(msgspec.Struct, frozen=True):
    """What was wrong, and what to do."""

    reason: Annotated[str, Meta(description="a word for programs")]
    detail: Annotated[str, Meta(description="a sentence for people")]
    reading: Annotated[int | None, Meta(description="which reading of the body, from 0")] = None


class Refusal(msgspec.Struct, frozen=True):
    """Every answer that is none."""

    error: Problem
