"""Records in, readings out: our own format, and foreign ones by a mapping.

Whatever bytes come in, a decoder returns readings or raises ``BadRecord``. One bad reading refuses the whole record, so
that records can be counted: each is accepted or is a dead letter.
"""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from service.wire.mapping import KEY, ROOT, RecordMapping, split_unescaped
from service.wire.readings import (
    EARLIEST,
    LATEST,
    LONGEST_SENSOR,
    MOST_VALUES,
    BadRecord,
    Reading,
    microseconds,
)

# (key, value, the record's timestamp in ms) -> readings
Decoder = Callable[[bytes | None, bytes | None, int], list[Reading]]

_PER_SECOND = 1_000_000
_MICROSECONDS = {"s": (_PER_SECOND, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
# What JSON calls a number, and the leading + or . that other writers use; float() would take nan and 1_000 as well.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MOST_DIGITS = 400  # beyond these no finite float begins, and Python refuses to convert thousands of them
_LARGEST_ID = 10**40  # 128-bit identifiers written as numbers
_ABSENT: Any = object()
_NO_VALUE = ("", "nan", "na", "n/a", "null", "none")

_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


def decoder(mapping: RecordMapping, record_bytes_limit: int) -> Decoder:
    """The function that reads the records of a topic."""
    read = {"ishsmm": _own_format, "number": _bare_number, "json": _json_mapping, "csv": _csv_mapping}[mapping.format]
    return read(mapping, record_bytes_limit)


# Our own format


class _Own(msgspec.Struct, gc=False):
    sensor: str | UnsetType = UNSET
    time: int | float | _Moment | UnsetType = UNSET
    value: float | UnsetType = UNSET
    values: tuple[float, ...] | UnsetType = UNSET


def _own_format(mapping: RecordMapping, limit: int) -> Decoder:
    """{"sensor", "time", "value" | "values"}: the hot loop, so that the usual record passes few tests."""
    decode_own = msgspec.json.Decoder(_Own).decode
    make_reading = tuple.__new__  # a named tuple's own constructor takes twice the time

    def decode(key: bytes | None, value: bytes | None, timestamp: int) -> list[Reading]:
        if value is None:
            raise BadRecord("empty", "the record has no value")
        if len(value) > limit:
            raise _oversized(value, limit)
        try:
            own = decode_own(value)
        except (ValueError, RecursionError) as error:
            _explain_own(value, error)
        sensor, time, number = own.sensor, own.time, own.value
        if sensor is UNSET:
            sensor = _key_text(key)
        if not sensor.isprintable() or not 0 < len(sensor) <= LONGEST_SENSOR:
            check_sensor(sensor)
        if type(time) is float:
            # finite, since JSON has no other and 1e999 is refused; the product need not be
            micros = round(time * 1e6) if -1e13 < time < 1e13 else LATEST + 1
        else:
            micros = _own_time(time, timestamp)
        if not EARLIEST <= micros <= LATEST:
            raise BadRecord("bad_time", "outside of the years 1 to 9999")
        if number is UNSET or own.values is not UNSET:
            return [Reading(sensor, micros, _own_values(own))]
        return [make_reading(Reading, (sensor, micros, (number,)))]

    return decode


def _own_time(time: Any, timestamp: int) -> int:
    if time is UNSET:
        return _record_time(timestamp)
    return time * _PER_SECOND if isinstance(time, int) else microseconds(time)


def _own_values(own: _Own) -> tuple[float, ...]:
    if own.value is not UNSET:
        raise BadRecord("wrong_type", "the record has both value and values")
    if own.values is UNSET or len(own.values) == 0:
        raise BadRecord("no_value", "the record has neither value nor values")
    return _bounded(own.values)


def _explain_own(value: bytes, error: Exception) -> NoReturn:
    """Raise BadRecord for bytes that are no reading in our own format."""
    document = _json(value)
    if not isinstance(document, dict):
        raise BadRecord("wrong_type", f"a reading is an object, got {_shown(document)}") from None
    if not isinstance(document.get("sensor", ""), str):
        raise BadRecord("wrong_type", f"sensor is a text, got {_shown(document['sensor'])}") from None
    if "value" in document:
        _number(document["value"], "value")
    if "values" in document:
        if not isinstance(document["values"], list):
            raise BadRecord("wrong_type", f"values is a list, got {_shown(document['values'])}") from None
        for i, number in enumerate(document["values"]):
            _number(number, f"values.{i}")
    if "time" in document:
        if isinstance(document["time"], str):
            _moment(document["time"])
        raise BadRecord(
            "bad_time", f"time is a number of seconds or RFC 3339, got {_shown(document['time'])}"
        ) from None
    raise BadRecord("wrong_type", str(error)) from None


# Bare numbers


def _bare_number(mapping: RecordMapping, limit: int) -> Decoder:
    def decode(key: bytes | None, value: bytes | None, timestamp: int) -> list[Reading]:
        text = _text(_present(value, limit)).strip()
        if not text:
            raise BadRecord("empty", "the record's value is empty")
        sensor = _key_text(key)
        check_sensor(sensor)
        return [Reading(sensor, _checked_time(_record_time(timestamp)), (_parsed_number(text, "the value"),))]

    return decode


# JSON by a mapping


class _JsonPath:
    """Where something stands: a path from the reading or, where it begins with ``$.``, from the record."""

    def __init__(self, text: str) -> None:
        self.from_record = text.startswith(ROOT)
        path = text.removeprefix(ROOT)
        self.text = path or "the reading"
        self._parts = [(part, int(part) if part.isdecimal() else -1) for part in split_unescaped(path, ".") if path]

    def find(self, record: Any, reading: Any) -> Any:
        """What stands there, ``_ABSENT`` if nothing does."""
        found = record if self.from_record else reading
        for name, number in self._parts:
            if isinstance(found, dict):
                found = found.get(name, _ABSENT)
            elif isinstance(found, list) and 0 <= number < len(found):
                found = found[number]
            else:
                return _ABSENT
        return found


def _json_mapping(mapping: RecordMapping, limit: int) -> Decoder:
    list_place = _JsonPath(mapping.readings) if mapping.readings else None
    extract = _extractor(mapping, _JsonPath, _number)

    def decode(key: bytes | None, value: bytes | None, timestamp: int) -> list[Reading]:
        record = _json(_present(value, limit))
        readings = record if list_place is None else list_place.find(record, record)
        if not isinstance(readings, list):
            if list_place is not None:
                raise BadRecord("wrong_type", f"{list_place.text} is a list of readings, got {_shown(readings)}")
            readings = [readings]
        found = [reading for entry in readings for reading in extract(key, record, entry, timestamp)]
        if not found:
            raise BadRecord("empty", "the list of readings is empty")
        return found

    return decode


# CSV by a mapping


class _Column:
    """A column by its name or number; has the interface of ``_JsonPath``."""

    def __init__(self, text: str, columns: tuple[str, ...]) -> None:
        self._number = columns.index(text) if text in columns else int(text)
        self.text = f"column {columns[self._number] if self._number < len(columns) else text}"

    def find(self, record: Any, reading: list[str]) -> Any:
        return reading[self._number] if self._number < len(reading) else _ABSENT


class _OptionalColumn(_Column):
    """A column of values that may be empty, in any of the usual spellings."""

    def find(self, record: Any, reading: list[str]) -> Any:
        found = super().find(record, reading)
        return _ABSENT if found is _ABSENT or found.strip().lower() in _NO_VALUE else found


def _csv_mapping(mapping: RecordMapping, limit: int) -> Decoder:
    value_column = _OptionalColumn if mapping.optional else _Column
    extract = _extractor(
        mapping,
        lambda text: _Column(text, mapping.columns),
        _parsed_number,
        lambda text: value_column(text, mapping.columns),
    )

    def decode(key: bytes | None, value: bytes | None, timestamp: int) -> list[Reading]:
        text = _text(_present(value, limit))
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mapping.delimiter, strict=True))
        except csv.Error as error:
            raise BadRecord("not_csv", str(error)) from None
        found = [reading for row in rows if row for reading in extract(key, None, row, timestamp)]
        if not found:
            raise BadRecord("empty", "the record has no line")
        return found

    return decode


# What JSON and CSV have in common


def _extractor(
    mapping: RecordMapping,
    place: Callable[[str], Any],
    number: Callable[[Any, str], float],
    value_place: Callable[[str], Any] | None = None,
) -> Callable[[bytes | None, Any, Any, int], list[Reading]]:
    """The function that takes the readings out of one entry: one, or one for each field."""
    parts = split_unescaped(mapping.sensor, "/") if mapping.sensor else []
    sensor_places: list[Any] = [None if part == KEY else place(part) for part in parts]
    time_place = place(mapping.time) if mapping.time else None
    value_places = [(value_place or place)(text) for text in mapping.values]
    fields = mapping.fields
    several = (len(value_places) > 1 or bool(mapping.names) or not sensor_places) and not mapping.together

    def sensor_of(key: bytes | None, record: Any, entry: Any) -> str:
        parts = [
            _key_text(key) if part is None else _sensor_part(part.find(record, entry), part.text)
            for part in sensor_places
        ]
        return "/".join(parts)

    def time_of(record: Any, entry: Any, timestamp: int) -> int:
        if time_place is None:
            return _checked_time(_record_time(timestamp))
        return _foreign_time(time_place.find(record, entry), mapping.time_unit, time_place.text)

    def numbers_of(record: Any, entry: Any) -> list[float | None]:
        found = [value_place.find(record, entry) for value_place in value_places]
        if mapping.optional and any(value is not _ABSENT for value in found):
            return [
                None if value is _ABSENT else number(value, value_place.text)
                for value, value_place in zip(found, value_places, strict=True)
            ]
        return [number(value, value_place.text) for value, value_place in zip(found, value_places, strict=True)]

    def extract(key: bytes | None, record: Any, entry: Any, timestamp: int) -> list[Reading]:
        sensor = sensor_of(key, record, entry)
        time = time_of(record, entry, timestamp)
        numbers = numbers_of(record, entry)
        if not several:
            check_sensor(sensor)
            present = tuple(value for value in numbers if value is not None)
            return [Reading(sensor, time, _bounded(present))]
        found = []
        for field, value in zip(fields, numbers, strict=True):
            if value is not None:
                name = f"{sensor}/{field}" if sensor_places else field
                check_sensor(name)
                found.append(Reading(name, time, (value,)))
        return found

    return extract


def _sensor_part(value: Any, place: str) -> str:
    if value is _ABSENT:
        raise BadRecord("no_sensor", f"nothing at {place}")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID:
        return str(value)  # devices are numbered often enough
    if not isinstance(value, str):
        raise BadRecord("wrong_type", f"{place} is a text or a whole number, got {_shown(value)}")
    if not value:
        raise BadRecord("bad_sensor", f"{place} is empty")
    return value


def _foreign_time(value: Any, unit: str, place: str) -> int:
    if value is _ABSENT:
        raise BadRecord("no_time", f"nothing at {place}")
    if unit in ("rfc3339", "utc"):
        if not isinstance(value, str):
            raise BadRecord("bad_time", f"{place} is RFC 3339, got {_shown(value)}")
        return _moment(value) if unit == "rfc3339" else _moment_in_utc(value)
    if isinstance(value, str):  # 64-bit times are often written as text, since JavaScript has no such numbers
        value = int(value) if _is_whole(value) else _timed(value, place)
    if type(value) is not int and type(value) is not float:
        raise BadRecord("bad_time", f"{place} is a number, got {_shown(value)}")
    if not -1e21 < value < 1e21:  # beyond all years in any unit; a product with it need not be finite
        raise BadRecord("bad_time", "outside of the years 1 to 9999")
    times, parts = _MICROSECONDS[unit]
    return _checked_time(value * times // parts if isinstance(value, int) else round(value * times / parts))


def _is_whole(text: str) -> bool:
    return len(text) < 30 and text.isascii() and text.removeprefix("-").isdecimal()


def _timed(text: str, place: str) -> float:
    try:
        return _parsed_number(text, place)
    except BadRecord as bad:
        raise BadRecord("bad_time", bad.detail) from None


# Pieces


def _present(value: bytes | None, limit: int) -> bytes:
    if value is None:
        raise BadRecord("empty", "the record has no value")
    if len(value) > limit:
        raise _oversized(value, limit)
    return value


def _oversized(value: bytes, limit: int) -> BadRecord:
    return BadRecord("oversized", f"{len(value)} bytes, the limit is {limit}")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise BadRecord("not_utf8", f"byte {error.start} cannot be decoded") from None


def _json(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.ValidationError as error:  # the one thing refused without a type: a number such as 1e999
        raise BadRecord("not_a_number", str(error)) from None
    except RecursionError:
        raise BadRecord("not_json", "nested too deeply") from None
    except ValueError as error:
        _text(value)
        raise BadRecord("not_json", str(error)) from None


def _key_text(key: bytes | None) -> str:
    if not key:
        raise BadRecord("no_sensor", "the record names no sensor and has no key")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise BadRecord("not_utf8", "the key is not UTF-8") from None


def check_sensor(sensor: str) -> None:
    """Raise BadRecord for what cannot name a sensor."""
    if not sensor:
        raise BadRecord("bad_sensor", "the name is empty")
    if len(sensor) > LONGEST_SENSOR:
        raise BadRecord("bad_sensor", f"the name has {len(sensor)} characters, at most {LONGEST_SENSOR} are taken")
    # Cs: lone surrogates, which cannot be written as UTF-8
    if not sensor.isprintable() and any(unicodedata.category(character) in ("Cc", "Cs") for character in sensor):
        raise BadRecord("bad_sensor", f"the name has a control character: {sensor[:80]!r}")


def _record_time(timestamp: int) -> int:
    if timestamp < 0:  # Kafka's -1: no timestamp
        raise BadRecord("no_time", "neither the record's value nor the record has a time")
    return timestamp * 1000


def _checked_time(micros: int) -> int:
    if not EARLIEST <= micros <= LATEST:
        raise BadRecord("bad_time", "outside of the years 1 to 9999")
    return micros


def _moment(text: str) -> int:
    try:
        return _checked_time(microseconds(msgspec.convert(text, _Moment)))
    except msgspec.ValidationError:
        raise BadRecord("bad_time", f"no RFC 3339 time with its zone: {_shown(text)}") from None


def _moment_in_utc(text: str) -> int:
    """As ``_moment``; a time without a zone is one in UTC, and a date alone its beginning."""
    text = text.strip()
    try:
        moment = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        try:
            moment = datetime.fromisoformat(text)  # takes longer; also dates alone, and times without their seconds
        except ValueError:
            raise BadRecord("bad_time", f"no RFC 3339 time: {_shown(text)}") from None
    return _checked_time(microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC)))


def _number(value: Any, place: str) -> float:
    """A number that JSON holds, as a float."""
    if value is _ABSENT:
        raise BadRecord("no_value", f"nothing at {place}")
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    raise BadRecord("not_a_number", f"{place} is {_shown(value)}")


def _parsed_number(value: Any, place: str) -> float:
    """A number that is written as text."""
    if value is _ABSENT:
        raise BadRecord("not_csv", f"the line has no {place}")
    text = value.strip()
    if not text:
        raise BadRecord("no_value", f"{place} is empty")
    if len(text) <= _MOST_DIGITS and _NUMBER.fullmatch(text):
        number = float(text)
        if math.isfinite(number):
            return number
    raise BadRecord("not_a_number", f"{place} is {_shown(value)}")


def _bounded(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) > MOST_VALUES:
        raise BadRecord("too_many_values", f"{len(values)} values, at most {MOST_VALUES} are taken")
    return values


def _shown(value: Any) -> str:
    """A value for a person, short whatever it is."""
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."
