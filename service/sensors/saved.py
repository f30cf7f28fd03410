"""A sensor's saved state, and the interface of the store for such states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Saved(NamedTuple):
    """A sensor's state."""

    next_offset: int  # of the input: the state has seen everything before it
    newest: int  # time of the newest reading, microseconds since the epoch
    generation: int
    state: bytes


class SavedStates(Protocol):
    """The store of sensors' states, as a partition uses it."""

    def put(self, partition: int, sensors: Iterable[tuple[str, Saved]]) -> None: ...

    def get(self, partition: int, sensor: str) -> Saved | None: ...

    def last_seen(self, partition: int) -> dict[str, int]: ...

    def next_offsets(self, partition: int) -> dict[str, int]: ...

    def delete(self, partition: int, sensor: str) -> None: ...
