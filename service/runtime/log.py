"""The log that a worker reads from and commits to. Kafka and SQLite implement it (``kafka/log.py``,
``embedded/log.py``); one suite of tests runs over both.

A log gives partitions of records to the worker and takes them away. What a cycle has done is committed as one value,
all or nothing, together with how far each partition was read.
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
    """Nothing of the cycle was committed."""


class OutcomeUnknown(Exception):
    """Whether the cycle was committed is not known: ``RecordLog.settle`` finds out."""


class Polled(NamedTuple):
    """Records of the partitions that are restored."""

    records: Records
    member: Any = None  # who we were when these came: the commit carries it, so that one who was shut out cannot commit


class Assignment(NamedTuple):
    """What became of the worker's partitions since the last look."""

    revoked: Collection[int] = ()
    replaced: Collection[TopicPartition] = ()  # their records are gone, and others are there under the same name


class Restored(NamedTuple):
    """Where its last commit left a partition. See ``Partition.begin``."""

    number: int
    next_offset: int
    clock: int
    unsaved_from: int
    replayed: Iterable[InputRecord]  # from there to the next offset
    began: float  # when the restore did (monotonic)
    origin: Origin = Origin()
    moved: Collection[str] = ()
    end: float = float("inf")


class StoredSensor(NamedTuple, Generic[AnyRecord]):
    """What is stored of a sensor: its last snapshot, and the input since the oldest unsaved reading."""

    saved: Saved | None  # None: it is in no snapshot
    decode: Callable[[AnyRecord], list[Reading]]
    records: Iterable[AnyRecord]  # up to the next offset
    number: int  # of the partition
    next_offset: int
    clock: int  # of the partition
    place: str  # where its state is, in words
    events: Callable[[], Iterable[bytes]]  # that were published, perhaps with those of other sensors


class Position(NamedTuple):
    """How far a partition was read."""

    next_offset: int
    unsaved_from: int | None = None  # from here to the next offset a restore replays; None: from the next offset
    clock: int = 0  # stream time, microseconds


class Cycle(NamedTuple):
    """What a cycle commits."""

    outputs: Sequence[tuple[int, Outbound]]  # with their partitions, in order
    snapshots: Snapshots
    forgotten: Sequence[tuple[int, str]]  # sensors of which nothing is kept but what the cycle itself publishes
    positions: Mapping[TopicPartition, Position]
    member: Any


class Control(Protocol):
    """What people want of sensors."""

    @property
    def book(self) -> ControlBook: ...

    def poll(self) -> object:
        """Bring the book up to date."""
        ...


class RecordLog(Protocol):
    """One thread uses it, but for ``lags``, ``is_in_touch`` and what the API asks of the implementation."""

    @property
    def topic(self) -> str:
        """The topic whose partitions detectors follow. Records of other topics are forwarded."""
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
        """What its methods raise while it does not answer."""
        ...

    @property
    def retry_s(self) -> float:
        """How long to wait then."""
        ...

    def check(self) -> None:
        """Raise an error that says why the service cannot work with it, before anything is started."""
        ...

    def open(self, is_stopping: Callable[[float], bool], beat: Callable[[], None]) -> None:
        """Connect. ``is_stopping`` waits so many seconds and says whether the worker is to stop, ``beat`` says that it
        is alive: an open that waits for a broker calls both."""
        ...

    def start(self) -> None:
        """Let records come; called when all partitions are restored for the first time."""
        ...

    def poll(self, seconds: float) -> Polled:
        """Return new records as soon as there are any, or none after so long."""
        ...

    @property
    def is_vanishing(self) -> bool:
        """Whether partitions will soon be taken whose records nobody can replay: their states have to be saved now."""
        ...

    def follow_assignment(self) -> Assignment:
        """Take note of partitions that came and went."""
        ...

    def begin_anew(self, replaced: Collection[TopicPartition]) -> None:
        """Go on with what is there now under the partitions' names."""
        ...

    def restore(self, open_partition: Callable[[Restored], None], until: float) -> None:
        """Restore partitions that came, one after the other, until none is due or it is later than ``until``."""
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
        """Offsets of partitions that were begun and are in no commit: the next commit has to contain them."""
        ...

    def commit(self, cycle: Cycle) -> None:
        """Commit; raises CycleAborted, OutcomeUnknown or one of ``away`` unless it is done."""
        ...

    def settle(self) -> None:
        """Make sure that what was under way is either committed or will never be. Waits for brokers."""
        ...

    def roll_back(self) -> None:
        """Go back to the last commit: all partitions have to be restored."""
        ...

    def lags(self) -> Mapping[TopicPartition, int]:
        """Records that are not committed. Any thread may ask."""
        ...

    @property
    def is_in_touch(self) -> bool:
        """Whether the log answers. Any thread may ask."""
        ...

    @property
    def is_at_end(self) -> bool:
        """Whether the input has ended or failed, and all of it is committed."""
        ...

    def stop(self) -> None:
        """Let no more records come."""
        ...

    def close(self) -> None: ...
