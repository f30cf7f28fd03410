"""What a source is, and what it hands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from service.wire.mapping import RecordMapping

if TYPE_CHECKING:
    from service.sources.plant import Planted


class SourceBatch(NamedTuple):
    """Records that are appended together, with the source's position after them."""

    values: Sequence[bytes]
    mapping: RecordMapping  # decodes them
    position: bytes | None = None  # None: the source cannot go back
    planted: Sequence[Planted] = ()  # faults of the demo plant


class Source(Protocol):
    """A way in. ``name`` is what its position is kept under."""

    name: str
    blocks: bool  # whether a read cannot be ended

    def batches(self, position: bytes | None, pause: Callable[[float], object]) -> Iterator[SourceBatch]:
        """Yield batches from a position on, or from the start. Ends where the source does.

        A source that has nothing for the moment calls ``pause`` and yields an empty batch.
        """
        ...
