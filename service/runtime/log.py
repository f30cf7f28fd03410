"""The log that a worker reads from and commits to. Kafka and SQLite implement it (``kafka/log.py``,
``embedded/log.py``). One test suite runs over both.

A log assigns partitions of records to the worker and revokes them. The worker commits a cycle as one value, all or
nothing, together with the positions it has reached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from service.operations.control import ControlBook
from service.runtime.forwarding import Forwarder
from service.sensors.crashes import CrashJournal
from service.sensors.envelope import Origin
from service.sensors.records import InputRecord, Outbound, RecordDecoder
from service.sensors.saved import Saved, SavedStates
from service.wire.readings import Reading

TopicPartition = tuple[str, int]
AnyRecord = TypeVar("AnyRecord")
Records = Mapping[TopicPartition, Sequence[InputRecord]]
Snapshots = dict[int, list[tuple[str, Saved]]]  # by partition: sensors and their states


class CycleAborted(Exception):
    """The log committed nothing of the cycle."""


class OutcomeUnknown(Exception):
    """It is not known whether the log committed the cycle. ``RecordLog.settle`` finds out."""


class Polled(NamedTuple):
    """Records of restored partitions."""

    records: Records
    member: Any = None  # membership token; the commit carries it, so that a member that was shut out cannot commit


class Assignment(NamedTuple):
    """Changes to the worker's partitions since the last call."""

    revoked: Collection[int] = ()
    replaced: Collection[TopicPartition] = ()  # their records are gone; others exist under the same name


class Restored(NamedTuple):
    """A partition as its last commit left it. See ``Partition.begin``."""

    number: int
    next_offset: int
    clock: int
    unsaved_from: int
    replayed: Iterable[InputRecord]  # from ``unsaved_from`` to the next offset
    began: float  # when the restore began (monotonic)
    origin: Origin = Origin()
    moved: Collection[str] = ()
    end: float = float("inf")


class StoredSensor(NamedTuple, Generic[AnyRecord]):
    """A sensor's stored data: its last snapshot, and the input since the oldest unsaved reading."""

    saved: Saved | None  # None: the sensor is in no snapshot
    decode: Callable[[AnyRecord], list[Reading]]
    records: Iterable[AnyRecord]  # up to the next offset
    number: int  # of the partition
    next_offset: int
    clock: int  # of the partition
    place: str  # where its state is stored, for messages to people
    events: Callable[[], Iterable[bytes]]  # published events, perhaps with those of other sensors


class Position(NamedTuple):
    """The position that a partition has reached."""

    next_offset: int
    unsaved_from: int | None = None  # a restore replays from here to the next offset; None: nothing to replay
    clock: int = 0  # stream time, microseconds


class Cycle(NamedTuple):
    """Everything that one cycle commits."""

    outputs: Sequence[tuple[int, Outbound]]  # with their partitions, in order
    snapshots: Snapshots
    forgotten: Sequence[tuple[int, str]]  # forgotten sensors: delete their data, except what this cycle publishes
    positions: Mapping[TopicPartition, Position]
    member: Any


class Control(Protocol):
    """The control records: mutes, resets and the like."""

    @property
    def book(self) -> ControlBook: ...

    def poll(self) -> object:
        """Bring the book up to date."""
        ...


class RecordLog(Protocol):
    """The log of a worker. One thread uses it. Other threads may call ``lags``, ``is_in_touch``, and what the API
    needs."""

    @property
    def topic(self) -> str:
        """The topic whose partitions the detectors follow. Records of other topics are forwarded."""
        ...

    @property
    def decode(self) -> RecordDecoder: ...

    @property
    def forwarder(self) -> Forwarder | None: ...

    @property
    def states(self) -> SavedStates: ...

    @property
    def control(self) -> Control: ...

    @property
    def journal(self) -> CrashJournal: ...

    @property
    def away(self) -> tuple[type[Exception], ...]:
        """The exceptions that the methods raise while the log does not answer."""
        ...

    @property
    def retry_s(self) -> float:
        """Seconds to wait before a retry while the log does not answer."""
        ...

    def check(self) -> None:
        """Raise an error with the reason if the service cannot use this log. Called before anything is started."""
        ...

    def open(self, is_stopping: Callable[[float], bool], beat: Callable[[], None]) -> None:
        """Connect. While ``open`` waits for a broker, it calls both functions.

        ``is_stopping`` waits for this many seconds and returns whether the worker is to stop. ``beat`` marks the
        worker as alive.
        """
        ...

    def start(self) -> None:
        """Let records come. Called when all partitions are restored for the first time."""
        ...

    def poll(self, seconds: float) -> Polled:
        """Return new records as soon as there are any, or none after this many seconds."""
        ...

    @property
    def is_vanishing(self) -> bool:
        """Whether partitions will be revoked soon whose records can never be replayed: save their states now."""
        ...

    def follow_assignment(self) -> Assignment:
        """Apply changes of the assignment and return them."""
        ...

    def begin_anew(self, replaced: Collection[TopicPartition]) -> None:
        """Begin again with the records that now exist under the partitions' names."""
        ...

    def restore(self, open_partition: Callable[[Restored], None], until: float) -> None:
        """Restore newly assigned partitions, one after the other, until none is due or it is later than ``until``."""
        ...

    @property
    def is_restored(self) -> bool:
        """Whether all partitions are restored and can be read."""
        ...

    @property
    def has_to_restore(self) -> bool:
        """Whether a partition is due to be restored."""
        ...

    @property
    def starts(self) -> Mapping[TopicPartition, int]:
        """Offsets at which partitions begin that are in no commit yet. The next commit has to contain them."""
        ...

    def commit(self, cycle: Cycle) -> None:
        """Commit a cycle. Raises CycleAborted, OutcomeUnknown or one of ``away`` unless it is committed."""
        ...

    def settle(self) -> None:
        """Make sure that the pending commit either is done or can never be done. Waits for brokers."""
        ...

    def roll_back(self) -> None:
        """Go back to the last commit. All partitions have to be restored."""
        ...

    def lags(self) -> Mapping[TopicPartition, int]:
        """Return the number of uncommitted records by partition. Any thread may call it."""
        ...

    @property
    def is_in_touch(self) -> bool:
        """Whether the log answers. Any thread may read it."""
        ...

    @property
    def is_at_end(self) -> bool:
        """Whether the input has ended or failed, and all of it is committed."""
        ...

    def stop(self) -> None:
        """Let no more records come."""
        ...

    def close(self) -> None: ...
