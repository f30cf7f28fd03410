"""Read the header of a CSV file: find the column of the sensor, the column of the time, and the columns of values.

A long file has a line for each reading of a sensor (``sensor,time,value``). A wide file has a line for each moment
and a column for each sensor (``time,boiler-1,boiler-2``).
"""

from __future__ import annotations

import csv

from service.settings.sources import FileSource
from service.wire.mapping import RecordMapping

_DELIMITERS = ",;\t|"
# Upper bounds of times in seconds, milliseconds and microseconds since the epoch, up to the year 5138.
_SIZES = ((1e11, "s"), (1e14, "ms"), (1e17, "us"))


def mapping_of(header: bytes, first: bytes, source: FileSource) -> RecordMapping:
    """Return the mapping that decodes the lines under ``header``. ``first`` is the first line; it shows the unit of
    times.

    Raises ValueError if the header lacks columns that the settings name.
    """
    line = header.decode("utf-8-sig", errors="replace").strip()
    delimiter = source.delimiter or max(_DELIMITERS, key=line.count)
    names = tuple(name.strip() for name in _cells(line, delimiter))
    named = [name for name in names if name]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise ValueError(f"two columns are named {twice!r}: columns take different names")

    def number(key: str, name: str) -> str:
        if name not in names:
            hint = ', or "" for the moment at which each line is read' if key == "time" else ""
            raise ValueError(f"there is no column {name!r} ({key}): it takes one of {', '.join(named)}{hint}")
        return str(names.index(name))

    is_long = source.layout == "long" or (source.layout == "auto" and source.sensor in names)
    time = number("time", source.time) if source.time else ""
    others = {source.time, *([source.sensor] if is_long else [])}
    values = source.values or tuple(name for name in named if name not in others)
    if not values:
        raise ValueError(f"there is no column of values beside {', '.join(named)}")
    several = len(values) > 1 or not is_long
    return RecordMapping(
        format="csv",
        # Columns are given by their numbers, since names may contain dots and slashes. These names are for messages.
        columns=() if any(name.isdecimal() for name in names) or len(named) < len(names) else names,
        delimiter=delimiter,
        sensor=number("sensor", source.sensor) if is_long else "",
        time=time,
        time_unit=_unit(source, _cells(first.decode(errors="replace"), delimiter), time),  # type: ignore[arg-type]
        values=tuple(number("values", name) for name in values),
        names=values if several and not source.together else (),
        together=source.together,
        optional=several and not source.together,
    )


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _unit(source: FileSource, cells: list[str], time: str) -> str:
    if source.time_unit != "auto":
        return source.time_unit
    if not time or int(time) >= len(cells):
        return "s"
    try:
        size = abs(float(cells[int(time)]))
    except ValueError:
        return "utc"
    return next((unit for below, unit in _SIZES if size < below), "ns")
