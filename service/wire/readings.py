"""A reading, why one is refused, and how readings are written in our own format."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

# Microseconds since the epoch that have a date of four digits: the years 1 to 9999.
EARLIEST = -62_135_596_800_000_000
LATEST = 253_402_300_799_999_999

LONGEST_SENSOR = 249
# A multivariate model's cost grows with the cube of these, so a record must not be able to choose them freely.
MOST_VALUES = 64

# Why a record or a reading is refused: the whole list, as it stands in dead letters.
REASONS = {
    "empty": "the record has no value (a tombstone), or no reading in it",
    "oversized": "the record is longer than limits.record_bytes",
    "not_utf8": "the text is not UTF-8",
    "not_json": "the value is no JSON document",
    "not_csv": "the value is no CSV line, or a line has too few columns",
    "wrong_type": "something stands where an object, a list or a text belongs",
    "no_sensor": "neither the record nor its key names the sensor",
    "bad_sensor": f"the sensor's name is empty, longer than {LONGEST_SENSOR} characters, or has control characters",
    "no_time": "the record holds no time where the mapping says, or has no timestamp",
    "bad_time": "the time is no number or RFC 3339 text, or outside of the years 1 to 9999",
    "no_value": "the record holds no value where one belongs",
    "not_a_number": "a value is null, true, false, a text, infinite, or no number",
    "too_many_values": f"the reading has more than {MOST_VALUES} values",
    "wrong_channels": "the reading has another number of values than the sensor's earlier ones or its model",
    "out_of_domain": "the rule's transform or emission cannot take the value: log of a negative number, a count of 1.5",
    "late": "older than the sensor's newest reading, and its rule rejects these",
    "duplicate": "the same time as the sensor's newest reading, and its rule rejects these",
    "clock_ahead": "further ahead of the record's timestamp than the rule's max_ahead_s",
    "too_many_sensors": "a new sensor beyond limits.sensors",
    "set_aside": "the sensor's readings crashed the worker twice; a reset lets it start afresh",
}

# Seconds below this, written with six decimals, are read back to the microsecond: a float has the digits until 2106.
_EXACT_SECONDS = 2**32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Reading(NamedTuple):
    """What a sensor measured at a time."""

    sensor: str
    time: int  # microseconds since the epoch
    values: tuple[float, ...]  # finite numbers, one a channel


class BadRecord(Exception):
    """A record that cannot be read, or a reading that is not taken. ``reason`` is one of ``REASONS``."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


def encode_reading(reading: Reading) -> bytes:
    """The reading in our own format; decoding gives an equal one."""
    seconds, micros = divmod(reading.time, 1_000_000)
    if abs(seconds) < _EXACT_SECONDS - 1:
        time = str(seconds) if micros == 0 else _decimal_seconds(reading.time)
    else:
        time = f'"{rfc3339(reading.time)}"'
    if len(reading.values) == 1:
        measured = f'"value":{reading.values[0]!r}'
    else:
        measured = f'"values":[{",".join(map(repr, reading.values))}]'
    return f'{{"sensor":{json.dumps(reading.sensor)},"time":{time},{measured}}}'.encode()


def _decimal_seconds(time: int) -> str:
    seconds, micros = divmod(abs(time), 1_000_000)
    return f"{'-' if time < 0 else ''}{seconds}.{micros:06d}"


def rfc3339(time: int) -> str:
    """Microseconds since the epoch as text in UTC, with milliseconds, or microseconds where there are any.

    >>> rfc3339(1_700_000_000_000_000), rfc3339(1_700_000_000_000_250)
    ('2023-11-14T22:13:20.000Z', '2023-11-14T22:13:20.000250Z')
    """
    moment = _EPOCH + timedelta(microseconds=time)
    digits = "milliseconds" if time % 1000 == 0 else "microseconds"
    # isoformat ends with +00:00, which is longer than Z
    return moment.isoformat(timespec=digits)[:-6] + "Z"


def from_rfc3339(text: str, zone: Literal["utc", "local"] | None = None) -> int:
    """Return a time as microseconds since the epoch. A text without a zone is read in ``zone``, if that is given.

    Raises ValueError or TypeError for anything that is no time with a zone.

    >>> from_rfc3339("2023-11-14T22:13:20Z"), from_rfc3339("2023-11-14", "utc")
    (1700000000000000, 1699920000000000)
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None and zone is not None:
        moment = moment.replace(tzinfo=UTC) if zone == "utc" else moment.astimezone()
    return microseconds(moment)


def microseconds(moment: datetime) -> int:
    """An aware datetime as microseconds since the epoch."""
    return (moment - _EPOCH) // _MICROSECOND
