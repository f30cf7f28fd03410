"""How a sensor's state is stored, in the changelog topic and in the state file: numbers about it, then the track.

The value of a changelog record is a head (next offset, newest reading time, generation) and the track in MessagePack.
The last two fields of the track are its origin (the id of the topic that it was read from, and a hash of the consumer
group) and a checksum of everything before it, bound to the sensor's name and its partition. They are fields of the
track, not bytes around it, so that workers of earlier versions, which skip fields that they do not know, read what this
version writes. States that those versions wrote have no checksum and are read too.

The checksum finds accidents. It does not stop somebody who may write to the topic.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from service.sensors.saved import Saved
from service.wire.messages import MOST_GENERATIONS
from service.wire.readings import EARLIEST, LATEST

# next offset, newest reading time, generation
_HEAD = struct.Struct(">qqi")
# MessagePack: two empty byte strings, byte strings of 24 and of 8 bytes, an array of up to 65,535 items
_UNSEALED = b"\xc4\x00\xc4\x00"
_ORIGIN, _CHECKSUM, _ARRAY = b"\xc4\x18", b"\xc4\x08", 0xDC
_ID_BYTES, _GROUP_BYTES, _CHECKSUM_BYTES = 16, 8, 8
_END_BYTES = len(_CHECKSUM) + _CHECKSUM_BYTES
# The first version with a checksum writes so many fields.
_SEALED_FIELDS = 24


class Damaged(ValueError):
    """A stored state that is not what was written."""


class Origin(NamedTuple):
    """Where a sensor's readings were read; empty: not known, or not from Kafka."""

    topic_id: bytes = b""
    group: bytes = b""  # a hash of its name

    @classmethod
    def of(cls, topic_id: bytes, group: str) -> Origin:
        """The origin of what a consumer group reads from a topic."""
        return cls(topic_id, hashlib.blake2b(group.encode(), digest_size=_GROUP_BYTES).digest())


def seal(partition: int, sensor: str, saved: Saved, origin: Origin = Origin()) -> Saved:
    """Put the origin and the checksum into a state that ``Track.dump`` has made."""
    if not saved.state.endswith(_UNSEALED):
        raise ValueError("the state is sealed already, or is none")
    packed = origin.topic_id.ljust(_ID_BYTES, b"\0") + origin.group.ljust(_GROUP_BYTES, b"\0")
    state = saved.state[: -len(_UNSEALED)] + _ORIGIN + packed
    return saved._replace(state=state + _CHECKSUM + _checksum(partition, sensor, saved, state))


def origin_of(partition: int, sensor: str, saved: Saved) -> Origin:
    """Return where a state was read; Damaged if it is not what was written for this sensor and partition."""
    state = saved.state
    if not is_plausible(saved):
        raise Damaged("its offset, time or generation is out of range")
    if len(state) < 3 or state[0] != _ARRAY or int.from_bytes(state[1:3], "big") < _SEALED_FIELDS:
        return Origin()  # written before there were checksums
    body, end = state[:-_END_BYTES], state[-_END_BYTES:]
    if end != _CHECKSUM + _checksum(partition, sensor, saved, body):
        raise Damaged("its checksum does not match: the state is damaged, or is another sensor's")
    packed = body[-_ID_BYTES - _GROUP_BYTES :]
    topic_id, group = packed[:_ID_BYTES], packed[_ID_BYTES:]
    return Origin(topic_id if any(topic_id) else b"", group if any(group) else b"")


def is_plausible(saved: Saved) -> bool:
    """Whether the numbers about a state can be those of a sensor."""
    numbers = (saved.next_offset, saved.newest, saved.generation)
    return (
        all(type(number) is int for number in numbers)
        and type(saved.state) is bytes
        and saved.next_offset >= 0
        and EARLIEST <= saved.newest <= LATEST
        and 0 <= saved.generation < MOST_GENERATIONS
    )


def next_generation(saved: Saved) -> int:
    """The generation after one whose state cannot be used; after the first, where the number itself is damaged."""
    return saved.generation + 1 if is_plausible(saved) else 1


def changelog_value(saved: Saved) -> bytes:
    """A sensor's state as it stands in the changelog."""
    return _HEAD.pack(saved.next_offset, saved.newest, saved.generation) + saved.state


def read_changelog_value(value: bytes) -> Saved:
    """What ``changelog_value`` wrote. A value that is too short is a state that cannot be used."""
    if len(value) < _HEAD.size:
        return Saved(0, 0, 0, b"")
    next_offset, newest, generation = _HEAD.unpack_from(value)
    return Saved(next_offset, newest, generation, value[_HEAD.size :])


def _checksum(partition: int, sensor: str, saved: Saved, state: bytes) -> bytes:
    name = sensor.encode()
    digest = hashlib.blake2b(digest_size=_CHECKSUM_BYTES)
    digest.update(struct.pack(">qi", partition, len(name)) + name)
    digest.update(_HEAD.pack(saved.next_offset, saved.newest, saved.generation))
    digest.update(state)
    return digest.digest()
