"""Events as they stand on the topic, made by hand."""

from __future__ import annotations

from service.wire import messages
from service.wire.readings import rfc3339


def change(sensor="a", number=0, revision=0, status="confirmed", seconds=1_700_000_000.0, **labels):
    """A change that could be said at a time."""
    at = messages.Place(7, rfc3339(int(seconds * 1e6)))
    return messages.ChangeEvent(
        id=messages.event_id(sensor, 0, number), sensor=sensor, labels=labels, generation=0, revision=revision,
        status=status, index=5, time=None, probability=0.99, low=at, high=at, at=at, before=None, after=None,
        summary="level 1 -> 2",
    )  # fmt: skip


def notice(sensor="a", kind="silent", seconds=1_700_000_000.0):
    """Another message about a sensor."""
    return messages.Notice(
        sensor=sensor, labels={}, generation=0, kind=kind, index=3, time=rfc3339(int(seconds * 1e6)), why="no reading"
    )


def alarm(
    sensor="a", number=0, status="raised", seconds=1_700_000_000.0, reasons=("level",), ratio=2e6 / 604800.0, **labels
):
    """An alarm that was raised, or cleared."""
    at = messages.Place(9, rfc3339(int(seconds * 1e6)))
    return messages.AlarmEvent(
        id=messages.alarm_id(sensor, 0, number), sensor=sensor, labels=labels, generation=0,
        revision=int(status == "cleared"), status=status, index=9, time=at.time, at=at, return_period=604800.0 * ratio,
        return_period_s=604800.0 * ratio, frequency="about once in 3 weeks", budget_s=604800.0, reasons=list(reasons),
        change=None, summary="unusual level, about once in 3 weeks",
    )  # fmt: skip


def incident(group="g", revision=0, status="open", seconds=1_700_000_000.0, sensors=3):
    """Sensors of a group with alarms at the same time."""
    at = rfc3339(int(seconds * 1e6))
    members = [
        messages.Member(sensor=f"{group}/{i}", event=str(i), onset=at, low=None, high=None, probability=None)
        for i in range(sensors)
    ]
    return messages.Incident(
        id=messages.incident_id(group, 0), group=group, revision=revision, status=status, opened=at, until=at, at=at,
        sensors=sensors, members=members, merged_into=None, summary=f"{sensors} sensors within 1 s",
    )  # fmt: skip
