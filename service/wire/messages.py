"""Every message that the service publishes: versioned JSON, typed, the same bytes for the same content.

Each has ``type``, which tells messages on one topic apart, and ``version``, which rises when a field changes its
meaning or goes. Fields may be added: readers should ignore those that they do not know. Times are RFC 3339 in UTC,
indices count the sensor's observations from 0, inserted missing steps included. Parameters and probabilities have six
significant digits; a number that does not exist is null.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from service.wire.readings import REASONS, from_rfc3339, rfc3339

VERSION = 1
MOST_RECENT = 60
MOST_MEMBERS = 500
# A generation is raised by people and by changes of rules: a larger number is damage.
MOST_GENERATIONS = 2**30
SHORT = "%.6g"  # numbers are published with six significant digits


class Place(msgspec.Struct, frozen=True):
    """An observation: its index, and its time where it is still known."""

    index: int
    time: str | None


class Segment(msgspec.Struct, frozen=True):
    """What a stretch of readings was like. Level and noise where the model has them, in the units of the detector:
    after the rule's transform."""

    level: float | None
    noise: float | None
    parameters: dict[str, float | None]


class _Versioned(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    version: int = VERSION


class ChangeEvent(_Versioned, tag="change", frozen=True, kw_only=True):
    """A change point, said for the first time (provisional) or said again with more knowledge.

    All messages about a change have its ``id``; ``revision`` counts them from 0, and the highest one holds. A
    ``retracted`` change did not happen.
    """

    id: str
    sensor: str
    labels: dict[str, str | bool]
    generation: int
    revision: int
    status: Literal["provisional", "confirmed", "relocated", "retracted"]
    index: Annotated[int, Meta(description="the first observation after the change")]
    time: str | None
    probability: float | None
    low: Annotated[Place, Meta(description="5% quantile of where the change is")]
    high: Annotated[Place, Meta(description="95% quantile of where the change is")]
    at: Annotated[Place, Meta(description="the observation at which this could be said")]
    before: Segment | None
    after: Segment | None
    summary: Annotated[str, Meta(description="in words, such as: level 4.1 -> 6.3, noise x1.2")]
    return_period: Annotated[
        float | None,
        Meta(description="readings: this sensor has a change of this size about once in so many; null: not known"),
    ] = None


class AlarmEvent(_Versioned, tag="alarm", frozen=True, kw_only=True):
    """Something unusual for this sensor (``raised``), or the end of it (``cleared``).

    Both messages have the alarm's ``id``; ``revision`` counts them from 0. Alarms and changes have ids of their own.
    """

    id: str
    sensor: str
    labels: dict[str, str | bool]
    generation: int
    revision: int
    status: Literal["raised", "cleared"]
    index: Annotated[int, Meta(description="the observation at which it began")]
    time: str | None
    at: Annotated[Place, Meta(description="the observation that caused this message")]
    return_period: Annotated[
        float | None, Meta(description="readings: this sensor does something like this about once in so many")
    ]
    return_period_s: Annotated[float | None, Meta(description="the same in seconds, by the sensor's usual interval")]
    frequency: Annotated[str, Meta(description="in words, such as: about once in 12 days")]
    budget_s: Annotated[
        float | None, Meta(description="seconds: the budget promises at most one alarm in this time, on average")
    ]
    reasons: list[
        Literal[
            "change", "level", "spike", "louder", "quieter", "stuck", "drift", "new_state", "new_transition",
            "unusual_dwell",
        ]
    ]  # fmt: skip
    change: Annotated[str | None, Meta(description="the id of the change behind it, if one was announced")]
    summary: Annotated[str, Meta(description="in words")]


class StateEvent(_Versioned, tag="state_event", frozen=True, kw_only=True):
    """News about the states of a sensor with ``model = "recurring"``. It is information: alarms are messages of their
    own.

    ``entered``: the sensor went to a state. ``new_state``: it is in a state unlike all that it has been in.
    ``spike``: one reading beyond all earlier ones, which belongs to no state.
    """

    id: str
    sensor: str
    labels: dict[str, str | bool]
    generation: int
    revision: int = 0
    status: Literal["entered", "new_state", "spike"]
    index: Annotated[int, Meta(description="the first observation in the state; of a spike, the spike")]
    time: str | None
    at: Annotated[Place, Meta(description="the observation at which this was known")]
    state: Annotated[int, Meta(description="its id, the same whenever the state returns")]
    name: Annotated[str | None, Meta(description="from the rule's state_names")]
    visits: Annotated[int | None, Meta(description="visits to the state so far, this one included")]
    probability: Annotated[float | None, Meta(description="of what the message says")]
    reasons: Annotated[
        list[Literal["new_state", "new_transition", "spike"]],
        Meta(description="of an entry: it is the state's first, or the first from the state before"),
    ]
    summary: Annotated[str, Meta(description="in words")]


class KnownState(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a sensor's state dictionary."""

    id: int
    name: str | None
    level: float | None
    noise: float | None
    visits: int
    readings: Annotated[int, Meta(description="in all of its visits")]
    share: Annotated[float | None, Meta(description="of the readings in known states, from 0 to 1")]
    dwell: Annotated[
        list[float | None] | None,
        Meta(description="usual length of a visit in readings: 5%, 50% and 95% quantiles; null before one ended"),
    ]
    first_seen: Annotated[int, Meta(description="index of its first observation")]
    last_seen: int


class StateDictionary(_Versioned, tag="dictionary", frozen=True, kw_only=True):
    """The states that a sensor with ``model = "recurring"`` has been in, and how it went from one to another.

    It is on the states topic, under a key of its own, and replaces the one before.
    """

    sensor: str
    labels: dict[str, str | bool]
    generation: int
    index: Annotated[int, Meta(description="of the newest observation")]
    time: str
    states: Annotated[list[KnownState], Meta(description="oldest first; a state that made room for others is gone")]
    transitions: Annotated[list[list[int]], Meta(description="[from, to, how often], by ids")]
    interval_s: Annotated[
        float | None, Meta(description="seconds between readings, on average; null: not known yet")
    ] = None


class LikelyState(msgspec.Struct, frozen=True):
    """A state that may come next."""

    id: Annotated[int | None, Meta(description="null: a new one")]
    probability: float | None


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a sensor is in. With models in which states return it keeps its ``id`` and may have a name."""

    id: int
    name: str | None
    since: Place
    probability: float | None
    parameters: dict[str, float | None]
    visits: int
    # of model = "recurring" only
    readings: Annotated[int, Meta(description="in all of its visits")] | UnsetType = UNSET
    dwell: (
        Annotated[
            list[float | None],
            Meta(description="usual length of a visit in readings: 5%, 50% and 95% quantiles; null: not known yet"),
        ]
        | UnsetType
        | None
    ) = UNSET


class RunLength(msgspec.Struct, frozen=True, kw_only=True):
    """Quantiles of how many observations the current segment has."""

    low: Annotated[int, Meta(description="5%")]
    median: int
    high: Annotated[int, Meta(description="95%")]


class StateRecord(_Versioned, tag="state", frozen=True, kw_only=True):
    """Where a sensor stands. The topic is compacted by sensor: the last record is the present one."""

    sensor: str
    labels: dict[str, str | bool]
    generation: int
    index: Annotated[int, Meta(description="of the newest observation")]
    time: str
    state: Annotated[
        State | None,
        Meta(description="null before the first observation, and while a season's first period is learned"),
    ]
    run_length: RunLength
    change_probability: Annotated[
        float | None, Meta(description="that the current segment began within the last window of readings")
    ]
    n_states: int
    return_period: Annotated[
        float | None, Meta(description="readings: how seldom the sensor does what its newest reading does")
    ] = None
    constants: Annotated[
        int, Meta(description="the set of constants behind model = auto; sensors keep theirs until they are reset")
    ] = 0
    learning: Annotated[
        int, Meta(description="readings still to come before the sensor's habits are known well enough for alarms")
    ] = 0
    promised: Annotated[
        float | None,
        Meta(description="alarms that the sensor's budgets have allowed for all its readings so far; it only rises"),
    ] = None
    budget_s: Annotated[
        float | None,
        Meta(description="seconds: the budget in force allows one alarm in this time, on average; null: not known yet"),
    ] = None
    # of model = "recurring" only
    novelty: (
        Annotated[float, Meta(description="that the state is new: first entered less than 20 readings ago")]
        | UnsetType
        | None
    ) = UNSET
    next: (
        Annotated[list[LikelyState], Meta(description="what may come after this state, most probable first")]
        | UnsetType
    ) = UNSET
    remaining: (
        Annotated[
            float, Meta(description="readings until the state is left: as many as this, or more, with probability 1/2")
        ]
        | UnsetType
        | None
    ) = UNSET
    recent: Annotated[
        list[list[float | None]],
        Meta(description="[milliseconds since the epoch, value of each channel], oldest first", max_length=MOST_RECENT),
    ]


class Notice(_Versioned, tag="notice", frozen=True, kw_only=True):
    """Something about a sensor that is no change point: it fell silent, is back, its detector started afresh, or
    its behaviour was accepted."""

    sensor: str
    labels: dict[str, str | bool]
    generation: int
    kind: Literal["silent", "back", "new_generation", "accepted", "topic_recreated", "set_aside"]
    index: Annotated[
        int | None,
        Meta(
            description="of the sensor's newest observation in this generation, null before the first; of an "
            "acceptance: of the first observation that it holds for"
        ),
    ]
    time: str
    why: Annotated[str, Meta(description="in words")]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A sensor of an incident, with its first alarm or change in it."""

    sensor: str
    event: Annotated[str, Meta(description="the alarm's or change's id")]
    onset: str
    low: Annotated[str | None, Meta(description="5% quantile of when the change was")]
    high: Annotated[str | None, Meta(description="95% quantile of when the change was")]
    probability: float | None


class Incident(_Versioned, tag="incident", frozen=True, kw_only=True):
    """Sensors of one group that changed together, more of them than the group's usual rate explains.

    All messages about an incident have its ``id``; ``revision`` counts them from 0, and the highest one holds. A
    ``retracted`` incident is none after all, or is part of the one that ``merged_into`` names.
    """

    id: str
    group: str
    revision: int
    status: Literal["open", "closed", "retracted"]
    opened: Annotated[str, Meta(description="the first onset")]
    until: Annotated[str, Meta(description="the last onset that is not usual")]
    at: Annotated[str | None, Meta(description="the newest observation that had a part in this")]
    sensors: Annotated[int, Meta(description="how many there are")]
    members: Annotated[
        list[Member], Meta(description="in order of onset; the first where there are more", max_length=MOST_MEMBERS)
    ]
    merged_into: str | None
    summary: Annotated[str, Meta(description="in words, such as: 12 sensors within 8 s")]


class Summary(_Versioned, tag="summary", frozen=True, kw_only=True):
    """What a sink with ``at_most`` was not sent: one message per day if there is anything. On no topic."""

    id: str
    revision: int
    sink: str
    at_most: str
    since: Annotated[str, Meta(description="when the first of these was held back")]
    until: str
    held_back: Annotated[int, Meta(description="raised alarms and incidents that were less unusual than others")]
    in_incidents: Annotated[int, Meta(description="raised alarms that are part of an incident that was sent")]
    summary: Annotated[str, Meta(description="in words")]


class DeadLetter(_Versioned, tag="dead_letter", frozen=True, kw_only=True):
    """A record that was not taken, or one reading of it. ``reason`` is from a fixed list, ``detail`` is for people."""

    reason: Literal[tuple(REASONS)]  # type: ignore[valid-type]
    detail: str
    topic: str
    partition: int
    offset: int
    timestamp: Annotated[int | None, Meta(description="the record's, in milliseconds since the epoch")]
    reading: Annotated[int | None, Meta(description="which of the record's readings, from 0; null: the whole record")]
    key: Annotated[str | None, Meta(description="base64 of the original bytes")]
    value: Annotated[str | None, Meta(description="base64 of the original bytes")]


MESSAGES = {
    "change": ChangeEvent,
    "alarm": AlarmEvent,
    "state_event": StateEvent,
    "dictionary": StateDictionary,
    "state": StateRecord,
    "notice": Notice,
    "incident": Incident,
    "summary": Summary,
    "dead_letter": DeadLetter,
}
# Incidents have a topic, and so a decoder, of their own.
Message = ChangeEvent | AlarmEvent | StateEvent | StateRecord | StateDictionary | Notice | DeadLetter
# What stands on the events topic.
Event = ChangeEvent | AlarmEvent | StateEvent | Notice

# Structures in the order of their fields, tables by key.
_encoder = msgspec.json.Encoder(order="deterministic")
_decode_message: Callable[[bytes], Message] = msgspec.json.Decoder(Message).decode
_decode_event: Callable[[bytes], Event] = msgspec.json.Decoder(Event).decode


def encode(message: Message | Incident | Summary) -> bytes:
    """The message as it goes to a topic."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """The message that ``encode`` wrote; msgspec.DecodeError for anything else."""
    return _decode_message(data)


def decode_event(data: bytes) -> Event:
    """The event that ``encode`` wrote; msgspec.DecodeError for anything else."""
    return _decode_event(data)


def decode_incident(data: bytes) -> Incident:
    """The incident that ``encode`` wrote; msgspec.DecodeError for anything else."""
    return msgspec.json.decode(data, type=Incident)


def schemas(kinds: Mapping[str, Any] = MESSAGES) -> dict[str, Any]:
    """The JSON Schema of each message by its type."""
    return {name: tidy(msgspec.json.schema(message)) for name, message in kinds.items()}


def schema_components(kinds: Mapping[str, Any] = MESSAGES) -> dict[str, Any]:
    """The JSON Schemas of all structures by their names, for a document that keeps them under components/schemas."""
    _, components = msgspec.json.schema_components(kinds.values(), ref_template="#/components/schemas/{name}")
    return {name: tidy(component) for name, component in components.items()}


def tidy(schema: Any) -> Any:
    """The schema with the docstrings in it as running text."""
    if isinstance(schema, list):
        return [tidy(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: " ".join(part.split()) if key == "description" and isinstance(part, str) else tidy(part)
        for key, part in schema.items()
    }


def event_id(sensor: str, generation: int, number: int) -> str:
    """The id of a sensor's change: the same whenever and wherever it is computed.

    >>> event_id("boiler-1", 0, 3)
    'c401598f5e5fddc2d49290da'
    """
    text = msgspec.json.encode([sensor, generation, number])
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def alarm_id(sensor: str, generation: int, number: int) -> str:
    """Return the id of a sensor's alarm: the same whenever and wherever it is computed.

    >>> alarm_id("boiler-1", 0, 3)
    'a46084d719c7d94b9c9f499b'
    """
    text = msgspec.json.encode(["alarm", sensor, generation, number])
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def state_event_id(sensor: str, generation: int, status: str, at: int) -> str:
    """Return the id of news about a state: the same whenever and wherever it is computed.

    >>> state_event_id("boiler-1", 0, "entered", 312)
    '492696faa6e72b48e489fd6a'
    """
    text = msgspec.json.encode([status, sensor, generation, at])
    return hashlib.blake2b(text, digest_size=12).hexdigest()


_DICTIONARY = b"\x1fdictionary"  # no sensor's name has this character


def dictionary_key(sensor: str) -> bytes:
    """Return the key of a sensor's state dictionary on the states topic."""
    return sensor.encode() + _DICTIONARY


def is_dictionary_key(key: bytes) -> bool:
    """Return whether a key of the states topic is that of a state dictionary, not of a sensor."""
    return key.endswith(_DICTIONARY)


def as_states(values: Iterable[bytes]) -> tuple[StateRecord | None, StateDictionary | None]:
    """Return the state record and the state dictionary among the encoded messages about a sensor."""
    found = [decode(value) for value in values]
    records = [message for message in found if isinstance(message, StateRecord)]
    dictionaries = [message for message in found if isinstance(message, StateDictionary)]
    return records[-1] if records else None, dictionaries[-1] if dictionaries else None


def status_of(event: Event) -> str:
    """Return the status of a change, an alarm or news about a state, or the kind of a notice."""
    return event.kind if isinstance(event, Notice) else event.status


def time_of(event: Event) -> str | None:
    """Return the time of the observation that caused an event."""
    return event.time if isinstance(event, Notice) else event.at.time


def unusual_now(alarm: AlarmEvent | None, state: StateRecord | None) -> tuple[float, float]:
    """Return how unusual a sensor is now, as a key to sort by: the time of its open alarm in microseconds, then the
    return period of its newest reading. While its habits are being learned, nothing is unusual."""
    at = None if alarm is None else alarm.at.time
    raised = 0.0 if at is None else float(from_rfc3339(at))
    if state is None:
        return raised, 0.0
    period = None if state.learning else state.return_period
    # what a sensor does more often than once in 100 readings is not told apart
    return raised, max(period or 0.0, 100.0)


def incident_id(group: str, period: int) -> str:
    """The id of the incident of a group that began in a period of time; there is at most one.

    >>> incident_id("north/boiler-1", 491520)
    'adfd75af774a34f0ebd7f331'
    """
    text = msgspec.json.encode(["incident", group, period])
    return hashlib.blake2b(text, digest_size=12).hexdigest()


# Contents


def rounded(number: float) -> float | None:
    """Six significant digits; None for what JSON has no number for.

    >>> rounded(2.0 / 3.0), rounded(123456789.0), rounded(math.nan)
    (0.666667, 123457000.0, None)
    """
    return float(SHORT % number) if math.isfinite(number) else None


def rounded_parameters(parameters: Mapping[str, float]) -> dict[str, float | None]:
    """Parameters as messages have them."""
    return {name: rounded(number) for name, number in parameters.items()}


def place(index: int, time: int | None) -> Place:
    """An observation and its time in microseconds since the epoch, if that is known."""
    return Place(index, None if time is None else rfc3339(time))


def segment(parameters: Mapping[str, float]) -> Segment:
    """What a state's parameters say: the level is the mean or rate, the noise the standard deviation."""
    level = parameters.get("mean", parameters.get("rate", math.nan))
    return Segment(rounded(level), rounded(parameters.get("sd", math.nan)), rounded_parameters(parameters))


def dead_letter(
    reason: str,
    detail: str,
    *,
    topic: str,
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    reading: int | None = None,
) -> DeadLetter:
    """The dead letter of a record, with its bytes as they came."""
    return DeadLetter(
        reason=reason,
        detail=detail,
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=timestamp if timestamp >= 0 else None,
        reading=reading,
        key=_base64(key),
        value=_base64(value),
    )


def shortened(letter: DeadLetter, most: int) -> bytes:
    """A dead letter in at most so many bytes: where it is longer the end of its value goes, and it says so."""
    encoded = encode(letter)
    if len(encoded) <= most:
        return encoded
    value = letter.value or ""
    note = "only the beginning of the value is kept; "
    kept = max(0, len(value) - (len(encoded) + len(note) - most)) // 4 * 4  # four letters are three bytes
    return encode(msgspec.structs.replace(letter, value=value[:kept], detail=note + letter.detail))


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
