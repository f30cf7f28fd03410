"""A change or an alarm as incidents see it: its group, and when it was."""

from __future__ import annotations

from typing import NamedTuple

from service.wire.messages import AlarmEvent, ChangeEvent, Member
from service.wire.readings import from_rfc3339

HOUR = 3_600_000_000  # all times are in microseconds since the epoch


class SensorChange(NamedTuple):
    """The latest that is known of a change. In order of onset, then of id."""

    onset: int
    id: str
    sensor: str
    low: int  # the interval, at most a span from the onset
    high: int
    at: int
    member: Member

    @property
    def hour(self) -> int:
        """Of the onset, counted from the epoch."""
        return self.onset // HOUR


def group_of(event: ChangeEvent | AlarmEvent, label: str | None) -> str:
    """The group that an event's sensor belongs to.

    A sensor without the label, or without a / in its name, has one too: its name up to the last /, which may be empty.
    """
    value = None if label is None else event.labels.get(label)
    if value is None:
        return event.sensor.rpartition("/")[0]
    return value if isinstance(value, str) else str(value).lower()


def change_of(event: ChangeEvent | AlarmEvent, span: int) -> SensorChange | None:
    """Return the change or the alarm of an event; None if it has no time.

    A change further back than its sensor remembers has none of its own: it takes the earliest time that is known.
    """
    if isinstance(event, AlarmEvent):
        low_text = high_text = onset_text = event.time or event.at.time
    else:
        onset_text = event.time or event.high.time or event.at.time
        low_text, high_text = event.low.time, event.high.time
    if onset_text is None:
        return None
    onset = from_rfc3339(onset_text)
    low = onset if low_text is None else from_rfc3339(low_text)
    high = onset if high_text is None else from_rfc3339(high_text)
    member = Member(
        sensor=event.sensor,
        event=event.id,
        onset=onset_text,
        low=low_text,
        high=high_text,
        probability=None if isinstance(event, AlarmEvent) else event.probability,
    )
    return SensorChange(
        onset,
        event.id,
        event.sensor,
        max(min(low, onset), onset - span),
        min(max(high, onset), onset + span),
        onset if event.at.time is None else from_rfc3339(event.at.time),
        member,
    )
