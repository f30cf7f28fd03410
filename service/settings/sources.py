"""``[source]``: where readings come from, and where the state is when it is not Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from service.settings.sections import AtLeastOne

# Of all but Kafka and posted readings there is a module in ``service.sources``.
SourceKind = Literal["kafka", "file", "stdin", "http", "simulate"]
POSTED = "http"


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


class Simulate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The demo plant."""

    # readings a second of each sensor
    rate: Annotated[float, Meta(gt=0.0, le=1000.0)] = 4.0
    # another seed, other changes
    seed: Annotated[int, Meta(ge=0)] = 0


class SourceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Kafka, or any of the others together: then one process does everything and a SQLite file holds it."""

    kinds: tuple[SourceKind, ...] = ("kafka",)
    # of all but Kafka: the file that holds readings on their way, sensors' states, events
    state: Path = Path("ishsmm-state.sqlite")
    # readings that wait for the detectors; with more of them sources pause, and HTTP answers 429
    backlog: AtLeastOne = 100_000
    # events and dead letters that are kept, the newest
    keep_events: AtLeastOne = 100_000
    keep_dead_letters: AtLeastOne = 10_000
    # end in order when file and stdin are read and everything is done
    until_end: bool = False
    file: FileSource = FileSource()
    simulate: Simulate = Simulate()

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ValueError("kinds takes at least one of kafka, file, stdin, http, simulate, got none")
        if len(set(self.kinds)) < len(self.kinds):
            raise ValueError(f"kinds takes each once, got {', '.join(self.kinds)}")
        if "kafka" in self.kinds and len(self.kinds) > 1:
            raise ValueError(
                f"kinds takes kafka alone, got {', '.join(self.kinds)}; POST /v1/readings then writes to the topic"
            )
        if "file" in self.kinds and self.file.path is None:
            raise ValueError("kinds names file, which needs source.file.path")
        if self.until_end and (self.file.follow or not set(self.kinds) <= {"file", "stdin"}):
            raise ValueError("until_end takes sources with an end: stdin, and file without follow")

    @property
    def is_kafka(self) -> bool:
        """Whether readings come from Kafka."""
        return "kafka" in self.kinds

    def require_kafka(self) -> None:
        """Raise ValueError unless readings come from Kafka."""
        if not self.is_kafka:
            kinds = ", ".join(self.kinds)
            raise ValueError(f"this needs Kafka, but the configuration's readings come from {kinds} (source.kinds)")
