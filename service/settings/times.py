"""``[rules.time]``: what happens to readings that are late, repeated, missing or from the future."""

from __future__ import annotations

from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0.0, le=1e9)]


class TimePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a sensor's reading times are judged.

    The defaults lose as little as possible: a reading that comes late still says where the sensor's level is, and a
    clock of whole seconds gives several readings one time. Only what carries no news is refused, a reading with the
    time and the values of the one before it (a producer that sent twice), and what would spoil the sensor's time for
    days, a clock far in the future.
    """

    late: Literal["accept", "reject"] = "accept"
    duplicate: Literal["reject_identical", "reject", "accept"] = "reject_identical"
    # seconds between readings, where the sensor has a beat
    interval_s: Seconds | None = None
    gap: Literal["ignore", "insert"] = "ignore"
    # None: never too far
    max_ahead_s: Seconds | None = 86_400.0
    # reported as silent after this long without a reading; None: never
    silent_after_s: Seconds | None = None
    # readings wait this long, in the sensor's own time, for older ones that come later; None: they do not wait
    reorder_within_s: Seconds | None = None
    # in which alarms learn what is usual at an hour of the day and of the week
    zone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"zone takes a name such as 'Europe/Berlin', got {self.zone!r}: {error}") from None
        if self.gap == "insert" and self.interval_s is None:
            raise ValueError("gap = 'insert' needs interval_s, the seconds between readings, got none")
