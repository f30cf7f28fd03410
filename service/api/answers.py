"""The types of everything that the API answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from service.messages import ChangeEvent, Notice, Place, RunLength, State


class Accepted(msgspec.Struct, frozen=True):
    """All readings of the body are on the disk, or acknowledged by the brokers."""

    accepted: Annotated[int, Meta(description="how many")]
    offset: Annotated[int, Meta(description="of the last one, in the intake or in its partition of the topic")]


class NumberedEvent(msgspec.Struct, frozen=True):
    """An event, and its number in the order in which events were committed."""

    seq: int
    committed: Annotated[str, Meta(description="when it was committed")]
    event: ChangeEvent | Notice


class Events(msgspec.Struct, frozen=True):
    """A page of events."""

    events: list[NumberedEvent]
    next: Annotated[int, Meta(description="what to give as `after` for the events after these")]


class SensorEntry(msgspec.Struct, frozen=True):
    """A sensor in the list."""

    sensor: str
    time: Annotated[str, Meta(description="of its newest reading")]
    is_silent: bool


class Sensors(msgspec.Struct, frozen=True):
    """A page of sensors, by name."""

    sensors: list[SensorEntry]
    next: Annotated[str | None, Meta(description="what to give as `after` for the next page; null: this was the last")]


class ChangePointNow(msgspec.Struct, frozen=True):
    """A change point as it is believed now."""

    index: Annotated[int, Meta(description="the first observation after the change")]
    time: str | None
    probability: float | None
    low: Annotated[Place, Meta(description="5% quantile of where the change is")]
    high: Annotated[Place, Meta(description="95% quantile of where the change is")]


class AlarmNow(msgspec.Struct, frozen=True):
    """A change that was announced."""

    id: Annotated[str, Meta(description="of the change in events")]
    index: int
    time: str | None
    raised_at: Place
    status: Annotated[str, Meta(description="raised, confirmed or retracted")]


class ForecastNow(msgspec.Struct, frozen=True):
    """Of the next observations, the nearest first, each a list of its channels: mean, median, 5% and 95% quantiles."""

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
    accepted: Annotated[int, Meta(description="readings of this generation")]
    inserted: Annotated[int, Meta(description="missing steps that were inserted between them")]
    index: Annotated[int | None, Meta(description="of the newest observation; null before the first")]
    time: Annotated[str | None, Meta(description="of the newest reading")]
    state: State | None
    run_length: RunLength | None
    change_probability: float | None
    n_states: int
    change_points: Annotated[list[ChangePointNow], Meta(description="oldest first; the last ones may still move")]
    alarms: list[AlarmNow]
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
