"""Which sensors a process was inferring for when it crashed, so that one of them cannot stop all others for good.

A worker whose readings crash the inference starts again, reads the same readings, and crashes again. The journal is a
memory-mapped file, which outlives the process: it names the sensors whose readings are with the detectors. A second
file holds the cause: ``faulthandler`` writes to it on a fatal signal, the watchdog when it ends the process. A process
that was killed (``kill -9``, out of memory) leaves it empty, and nobody is suspected.

After a crash the sensors in the journal are suspects: their readings are inferred one sensor at a time. A suspect that
was alone with the detectors at the next crash is set aside: see ``Partition.begin``.
"""

from __future__ import annotations

import faulthandler
import fcntl
import logging
import mmap
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from service import files

log = logging.getLogger(__name__)

_SIZE = 1 << 18  # bytes of the journal
_FRAME = struct.Struct("<II")  # length, checksum


class Stretch(NamedTuple):
    """Readings of a sensor, by the offsets of their first and last record."""

    partition: int
    sensor: str
    first: int
    last: int

    def overlaps(self, other: Stretch) -> bool:
        """Whether both are about the same sensor and have an offset in common."""
        is_same = self.partition == other.partition and self.sensor == other.sensor
        return is_same and self.first <= other.last and other.first <= self.last


class _Content(msgspec.Struct, array_like=True):
    suspects: list[Stretch] = []
    condemned: list[Stretch] = []
    at_work: list[list[Stretch]] = []


class CrashJournal:
    """The journal of this process at ``path``; what ``others`` hold, of processes that are gone, is taken over."""

    def __init__(self, path: Path, others: Iterable[Path] = ()) -> None:
        self._path, self._fault_path = path, _fault_path(path)
        self._content = _Content()
        self.taken_over: list[Path] = []  # journals of processes that are gone
        for other in {*others, path}:
            self._take_over(other)
        for file in (path, self._fault_path):
            files.create(file, files.STATE)
        self._file = open(path, "wb+")  # noqa: SIM115 - held as long as we run
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file.truncate(_SIZE)
        self._map = mmap.mmap(self._file.fileno(), _SIZE)
        self.fault = open(self._fault_path, "w")  # noqa: SIM115 - likewise
        self._write()
        faulthandler.enable(self.fault)

    def _take_over(self, path: Path) -> None:
        try:
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left = _decoded(file.read())
        except OSError:  # not there, or of a process that lives
            return
        fault = _fault_path(path)
        cause = fault.read_text(errors="replace") if fault.exists() else ""
        self._content.suspects += left.suspects
        self._content.condemned += left.condemned
        if cause and left.at_work:
            log.error("the process before this one crashed while it inferred. What it left:\n%s", cause.strip())
            self._judge(left)
        path.unlink()
        fault.unlink(missing_ok=True)
        self.taken_over.append(path)

    def _judge(self, left: _Content) -> None:
        (stretches, *more) = left.at_work
        if not more and len(stretches) == 1 and any(stretches[0].overlaps(one) for one in left.suspects):
            self._content.condemned += stretches
            log.error("sensor %r is set aside: the second crash on its readings", stretches[0].sensor)
            return
        self._content.suspects += [stretch for group in left.at_work for stretch in group]

    def set_aside(self, partition: int) -> set[str]:
        """The sensors of a partition that have to be set aside."""
        return {one.sensor for one in self._content.condemned if one.partition == partition}

    def is_suspect(self, stretch: Stretch) -> bool:
        """Whether the readings were with the detectors at a crash."""
        return any(stretch.overlaps(one) for one in self._content.suspects)

    def begin(self, group: list[Stretch]) -> None:
        """Readings are handed to the detectors."""
        self._content.at_work.append(group)
        self._write()

    def end(self, group: list[Stretch]) -> None:
        """The detectors are done with them."""
        self._content.at_work.remove(group)
        self._write()

    def committed(self, next_offsets: Mapping[int, int], saved: Mapping[int, Collection[str]]) -> None:
        """Partitions are committed up to these offsets: their suspects are cleared, and what was set aside is written
        down once it is ``saved``."""
        content = self._content
        if not content.suspects and not content.condemned:
            return
        content.suspects = [one for one in content.suspects if next_offsets.get(one.partition, 0) <= one.last]
        content.condemned = [one for one in content.condemned if one.sensor not in saved.get(one.partition, ())]
        self._write()

    def _write(self) -> None:
        text = msgspec.json.encode(self._content)
        if len(text) > _SIZE - _FRAME.size:  # thousands of sensors at once: what is decided already is kept
            text = msgspec.json.encode(_Content(self._content.suspects, self._content.condemned))
        framed = _FRAME.pack(len(text), zlib.crc32(text)) + text
        self._map[: len(framed)] = framed

    def close(self) -> None:
        """Done with; what is not settled yet is kept for the next process."""
        faulthandler.disable()
        self.fault.close()
        self._fault_path.unlink(missing_ok=True)
        self._map.close()
        if not self._content.suspects and not self._content.condemned:
            self._path.unlink(missing_ok=True)
        self._file.close()


def _fault_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.cause")


def _decoded(data: bytes) -> _Content:
    """What a journal holds; nothing where it was cut off or is none."""
    try:
        length, checksum = _FRAME.unpack_from(data)
        text = data[_FRAME.size : _FRAME.size + length]
        if zlib.crc32(text) != checksum:
            return _Content()
        return msgspec.json.decode(text, type=_Content)
    except (struct.error, msgspec.DecodeError):
        return _Content()
