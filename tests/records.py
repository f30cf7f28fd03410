"""Records of an input topic, made by hand."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    topic: str = "sensors"
    partition: int = 0
