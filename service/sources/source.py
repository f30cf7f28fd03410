"""The interface of a source, and the batches that it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from service.wire.mapping import RecordMapping

if TYPE_CHECKING:
    from service.sources.plant import Planted


class SourceBatch(NamedTuple):
    """Records that are appended together, with the source's position after them."""

    values: Sequence[bytes]
    mapping: RecordMapping  # decodes the records
    position: bytes | None = None  # None: the source has no position to continue at
    planted: Sequence[Planted] = ()  # faults of the demo plant


class Source(Protocol):
    """A source of records. Its position is stored under ``name``."""

    name: str
    blocks: bool  # whether a read cannot be interrupted

    def batches(self, position: bytes | None, pause: Callable[[float], object]) -> Iterator[SourceBatch]:
        """Yield batches from a position on, or from the start, until the source ends.

        A source that has nothing for now calls ``pause`` and yields an empty batch.
        """
        ...
