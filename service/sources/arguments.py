"""Options of commands that read a file. They are the options of ``[source.file]`` and override them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from service.settings import Settings
    from service.settings.sources import FileSource
    from service.wire.decoding import Decoder

_OPTIONS = ("format", "layout", "sensor", "time", "time_unit", "delimiter")


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("the file (default: as [source.file] of the configuration says)")
    group.add_argument(
        "--format", choices=("auto", "csv", "lines"), help="csv: with a header; lines: each a record by [mapping]"
    )
    group.add_argument(
        "--layout", choices=("auto", "long", "wide"), help="long: a column names the sensor; wide: each is one"
    )
    group.add_argument("--sensor-column", dest="sensor", metavar="NAME", help="column that names the sensor")
    group.add_argument("--time-column", dest="time", metavar="NAME", help="column of the time")
    group.add_argument("--time-unit", metavar="UNIT", help="s, ms, us, ns, rfc3339, or utc: dates without a zone")
    group.add_argument("--column", dest="values", action="append", metavar="NAME", help="column of values; repeatable")
    group.add_argument("--delimiter", metavar="CHARACTER", help="between the columns")


def file_source(arguments: argparse.Namespace, path: Path, configured: FileSource) -> FileSource:
    """Return the configured file source, with the options of the command line on top. It is read to its end, not
    followed."""
    import msgspec

    given: dict[str, Any] = {
        name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name) is not None
    }
    if arguments.values:
        given["values"] = tuple(name for text in arguments.values for name in text.split(","))
    try:
        made = msgspec.convert(msgspec.structs.asdict(configured) | given | {"path": None}, type(configured))
    except msgspec.ValidationError as error:
        raise ValueError(f"the file's options: {error}") from None
    return msgspec.structs.replace(made, path=path, follow=False)


class FileRecord(NamedTuple):
    """A line in the form of a partition's record. Its offset is its line number in the file."""

    offset: int
    key: bytes | None
    value: bytes | None
    topic: str
    partition: int = 0
    timestamp: int = -1  # a line has no timestamp besides a time in its text


class FileRecords:
    """The lines of a file as records. They can be iterated over repeatedly."""

    def __init__(self, source: FileSource, settings: Settings) -> None:
        from service.sources.file_reader import FileReader
        from service.wire.decoding import decoder

        assert source.path is not None
        self._source, self._settings = source, settings
        self.name = source.path.name
        reader = FileReader(source, settings.mapping, settings.limits.record_bytes)
        try:
            reader.read(1)  # the header
            self.decode: Decoder = decoder(reader.mapping, settings.limits.record_bytes)
        finally:
            reader.close()

    def __iter__(self) -> Iterator[FileRecord]:
        from service.sources.file_reader import FileReader

        reader = FileReader(self._source, self._settings.mapping, self._settings.limits.record_bytes)
        try:
            for line in reader.lines():
                yield FileRecord(line.position.line, None, line.value, self.name)
        finally:
            reader.close()
