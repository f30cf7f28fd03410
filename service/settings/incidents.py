"""``[incidents]``: when alarms or changes of many sensors are one incident."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class IncidentPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which sensors belong together, and how rarely chance may open an incident."""

    # what incidents are made of
    of: Literal["alarms", "changes"] = "alarms"
    # the label that names a sensor's group; None, or a sensor without it: its name up to the last /
    group_by: Annotated[str, Meta(min_length=1)] | None = None
    # in the whole fleet
    false_per_week: Annotated[float, Meta(gt=0.0, le=1e6)] = 1.0
    # the longest time within which one cause moves its sensors
    span_s: Annotated[float, Meta(ge=1.0, le=3600.0)] = 600.0
    # fewer are no incident
    min_sensors: Annotated[int, Meta(ge=2, le=10_000)] = 3
