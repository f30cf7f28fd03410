"""``[source]``: where readings come from when it is not Kafka, and where the state is then."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

AtLeastOne = Annotated[int, Meta(ge=1)]
KAFKA = "kafka"


class FileSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file, and how its lines are read; the latter goes for stdin as well."""

    path: Path | None = None
    # wait for more at the end, through truncation and rotation
    follow: bool = False
    # "csv": a header, then rows; "lines": each decoded by [mapping]; "auto": by the name, .csv and .tsv are CSV
    format: Literal["auto", "csv", "lines"] = "auto"
    # the rest is for CSV. "long": a column names the sensor; "wide": each column is one; "auto": long if there is one
    layout: Literal["auto", "long", "wide"] = "auto"
    sensor: Annotated[str, Meta(min_length=1)] = "sensor"
    # "": the moment at which a line was read
    time: str = "time"
    # "auto": seconds, milliseconds ... by the size of the first, "utc" where it is text
    time_unit: Literal["auto", "s", "ms", "us", "ns", "rfc3339", "utc"] = "auto"
    # the columns that are values; none: all others
    values: tuple[str, ...] = ()
    # long: several value columns are the channels of one sensor
    together: bool = False
    # "": the one of , ; tab | that the header has most of
    delimiter: str = ""

    def __post_init__(self) -> None:
        if len(self.delimiter) > 1 or self.delimiter in ('"', "\r", "\n"):
            raise ValueError(f"delimiter takes one character, got {self.delimiter!r}")
        if self.layout == "wide" and self.together:
            raise ValueError("together is for layout = 'long': in a wide file every column is a sensor of its own")

    @property
    def is_csv(self) -> bool:
        """Whether a header says what the columns are."""
        by_name = self.path is not None and self.path.suffix.lower() in (".csv", ".tsv")
        return self.format == "csv" or (self.format == "auto" and by_name)
