"""``[mapping]``: where people's own records hold sensor, time and values."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

KEY = "key"
ROOT = "$."
_UNESCAPED = {"/": re.compile(r"(?<!\\)/"), ".": re.compile(r"(?<!\\)\.")}


def split_unescaped(text: str, separator: str) -> list[str]:
    r"""Split at ``/`` or ``.`` unless a backslash stands before it.

    >>> split_unescaped(r"a.b\.c", ".")
    ['a', 'b.c']
    """
    return [part.replace("\\" + separator, separator) for part in _UNESCAPED[separator].split(text)]


class RecordMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    r"""Where a record holds its sensor, its time and its values. All defaults: our own format.

    A place is a path of field names joined by dots (numbers count list entries, ``\.`` is a dot in a name). It starts
    at the reading; with ``$.`` in front it starts at the record, which differs where ``readings`` names a list.
    """

    format: Literal["ishsmm", "json", "number", "csv"] = "ishsmm"
    # "key", a place, or several joined with "/"; "": the values' own names are the sensors
    sensor: str = KEY
    # a place; "" is the record's own timestamp
    time: str = ""
    # "utc": as rfc3339, and UTC where a time has no zone
    time_unit: Literal["s", "ms", "us", "ns", "rfc3339", "utc"] = "s"
    # places; several are sensors of their own, named sensor/field. "" is the reading itself
    values: tuple[str, ...] = ("value",)
    # in place of the fields' own names
    names: tuple[str, ...] = ()
    # the values are channels of one sensor
    together: bool = False
    # a field that is absent, in CSV also an empty one, is passed over, so long as one is there
    optional: bool = False
    # the place of a list of readings; a list at the top needs none
    readings: str = ""
    # CSV: the columns' names in their order; without them columns are numbers from 0
    columns: tuple[str, ...] = ()
    delimiter: str = ","
    # every sensor's records are in one partition although the sensor is not the key
    partitioned_by_sensor: bool = False

    def __post_init__(self) -> None:
        if self.format in ("ishsmm", "number"):
            self._refuse_places()
        if not self.values:
            raise ValueError("values takes at least one place, got none")
        if self.names and len(self.names) != len(self.values):
            raise ValueError(f"names takes one name for each of the {len(self.values)} values, got {len(self.names)}")
        if self.together and self.optional:
            raise ValueError("optional takes false where together = true: the channels of a sensor come together")
        if not self.together and len(set(self.fields)) < len(self.fields):
            raise ValueError(f"values takes fields of different names, or names for them, got {', '.join(self.fields)}")
        if self.together and not self.sensor:
            raise ValueError("sensor takes a place where together = true: the channels are one sensor's")
        if self.sensor and not all(split_unescaped(self.sensor, "/")):
            raise ValueError(f"sensor takes 'key', a place, or several joined with '/', got {self.sensor!r}")
        for place in (*split_unescaped(self.sensor, "/"), self.time, self.readings, *self.values):
            if place and not all(split_unescaped(place, ".")):
                raise ValueError(f"a place takes names joined by dots, got {place!r}")
        if self.format == "csv":
            self._check_columns()
        elif self.columns:
            raise ValueError("columns is for format = 'csv' only")

    def _refuse_places(self) -> None:
        default = {field.name: field.default for field in msgspec.structs.fields(type(self))}
        may_differ = ("format", "partitioned_by_sensor")
        for name in self.__struct_fields__:
            if name not in may_differ and getattr(self, name) != default[name]:
                raise ValueError(f"{name} has no meaning with format = {self.format!r}; say format = 'json' or 'csv'")

    def _check_columns(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise ValueError(f"delimiter takes one character, got {self.delimiter!r}")
        if self.readings:
            raise ValueError("readings is for format = 'json'; every CSV line is a reading")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns takes different names, got {', '.join(self.columns)}")
        sensor_columns = [part for part in split_unescaped(self.sensor, "/") if part and part != KEY]
        for column in [*sensor_columns, *([self.time] if self.time else []), *self.values]:
            if column not in self.columns and not column.isdecimal():
                takes = f"one of {', '.join(self.columns)} or a number from 0" if self.columns else "a number from 0"
                raise ValueError(f"a column takes {takes}, got {column!r}")

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the values: given, or the last parts of their places."""
        return self.names or tuple(split_unescaped(place, ".")[-1] for place in self.values)

    @property
    def is_keyed_by_sensor(self) -> bool:
        """Whether all readings of a sensor are in one partition. Otherwise they go through the internal topic."""
        from_key = self.format == "number" or (self.format != "ishsmm" and self.sensor == KEY)
        return from_key or self.partitioned_by_sensor
