"""Snapshots: a detector as bytes and back. No pickle: a header in JSON, then arrays as they lie in memory, compressed.

magic (8 bytes), version (2), crc32 of the rest (4), length of the header (4), header, arrays (zlib)

Version 1, which is still read, had a header without a dictionary: five times as long.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import Any

import numpy as np

_MAGIC = b"ishsmm\x00\x1a"
VERSION = 2
_FIXED = struct.Struct("<8sHI")
_LENGTH = struct.Struct("<I")
_LEVEL = 3  # of compression; the highest takes five times as long for a snapshot that is one percent smaller
# What headers are made of, for their compression. Part of the format: it never changes, whatever becomes of settings.
_WORDS = (
    b'{"header":{"settings":{"model":"auto","seed":0,"threshold":null,"alarm_policy":[0.98,0.5,20,10,0.0,0.0],"prior":'
    b'null,"hazard":null,"min_dwell":null,"outliers":null,"lag":64,"max_hypotheses":32,"chains":100,"move_every":0,'
    b'"keep":100,"warm_up":10},"time":600,"channels":1,"log_first":-16.84,"counted":590,"settled":1,"alarms":[[0,137,'
    b'139,"raised"],[1,"retracted"],[2,"confirmed"]],"repeats":0,"is_warm":true},"arrays":[["places","<i8",[7]],['
    b'"amounts_watched","<f8",[2]],["recent","<f8",[0,1]],["latest","<f8",[1]],["settled","<f8",[1,4]],["location",'
    b'"<f8",[1]],["units","<f8",[1]],["held","<f8",[0,1]],["engine.clock","<i8",[7]],["engine.amounts","<f8",[2]],['
    b'"engine.start","<i8",[32]],["engine.order","<i8",[32]],["engine.mass","<f8",[32,16]],["engine.slot","<i4",[32]],'
    b'["engine.slot_start","<i8",[68]],["engine.slot_birth","<f4",[68,16]],["engine.slot_parent","<i4",[68]],['
    b'"engine.slot_before","<i8",[68]],["engine.slot_log","<f4",[68]],["engine.record_slot","<i4",[64]],['
    b'"engine.record_reference","<i4",[64]],["engine.parent_count","<i4",[64]],["engine.parent_slot","<i4",[142]],['
    b'"engine.parent_share","<f4",[142]],["engine.table","<f8",[2,19,32]],["engine.common","<f8",[4,32]],['
    b'"engine.stream","<f8",[3]]]}'
)
_DTYPES = {name: np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "<i2", "|b1", "|u1", "<u8")}
# Limits of what a snapshot may unpack to, in bytes: a few bytes of zlib can ask for gigabytes.
_LARGEST_HEADER = 1 << 24
_LARGEST_BODY = 1 << 29
_MOST_ARRAYS = 1000


class SnapshotError(ValueError):
    """The bytes are not a snapshot that this version can read."""


def write(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """``header`` (anything JSON can hold) and ``arrays`` as bytes."""
    described = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    text = json.dumps({"header": header, "arrays": described}, separators=(",", ":"))
    packing = zlib.compressobj(level=_LEVEL, zdict=_WORDS)
    head = packing.compress(text.encode()) + packing.flush()
    body = zlib.compress(b"".join(_shuffled(array) for array in arrays.values()), _LEVEL)
    rest = _LENGTH.pack(len(head)) + head + body
    return _FIXED.pack(_MAGIC, VERSION, zlib.crc32(rest)) + rest


def read(data: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What ``write`` was given; SnapshotError where the bytes are anything else."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise SnapshotError(f"a snapshot is bytes, got {type(data).__name__}")
    data = bytes(data)
    if len(data) < _FIXED.size or not data.startswith(_MAGIC):
        raise SnapshotError(f"these {len(data)} bytes are not a snapshot of a detector: they begin differently")
    _, version, checksum = _FIXED.unpack_from(data)
    if not 1 <= version <= VERSION:
        raise SnapshotError(f"the snapshot has version {version}, this library reads up to version {VERSION}")
    rest = data[_FIXED.size :]
    if zlib.crc32(rest) != checksum:
        raise SnapshotError(f"the snapshot is damaged or cut off: its {len(data)} bytes do not match their checksum")
    try:
        return _unpacked(rest, version)
    except SnapshotError:
        raise
    except (zlib.error, struct.error, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SnapshotError(f"the snapshot's {len(data)} bytes hold something else: {error}") from error


def _unpacked(rest: bytes, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    (head_length,) = _LENGTH.unpack_from(rest)
    rest = rest[_LENGTH.size :]
    unpacking = zlib.decompressobj(zdict=_WORDS) if version > 1 else zlib.decompressobj()
    described = json.loads(_inflated(unpacking, rest[:head_length], _LARGEST_HEADER, "header"))
    header, entries = described["header"], described["arrays"]
    if not isinstance(header, dict) or not isinstance(entries, list) or len(entries) > _MOST_ARRAYS:
        raise SnapshotError("the snapshot's header is not one of a snapshot")
    sizes = [_size(name, dtype, shape) for name, dtype, shape in entries]
    length = sum(sizes)
    if length > _LARGEST_BODY:
        raise SnapshotError(f"the snapshot asks for {length} bytes of arrays, at most {_LARGEST_BODY} are read")
    body = _inflated(zlib.decompressobj(), rest[head_length:], length, "body")
    if len(body) != length:
        raise SnapshotError(f"the snapshot's arrays take {length} bytes, but it has {len(body)}")
    arrays: dict[str, np.ndarray] = {}
    offset = 0
    for (name, dtype, shape), size in zip(entries, sizes, strict=True):
        width = _DTYPES[dtype].itemsize
        planes = np.frombuffer(body, np.uint8, size, offset).reshape(width, size // width)
        arrays[name] = planes.T.copy(order="C").view(_DTYPES[dtype]).reshape(shape)
        offset += size
    if len(arrays) < len(entries):
        raise SnapshotError("the snapshot holds two arrays of one name")
    return header, arrays


def _inflated(unpacking: Any, data: bytes, most: int, part: str) -> bytes:
    """Return the unpacked ``data``, which must not be longer than ``most``."""
    found: bytes = unpacking.decompress(data, most + 1)
    if len(found) > most:
        raise SnapshotError(f"the snapshot's {part} unpacks to more than {most} bytes")
    if not unpacking.eof or unpacking.unused_data:
        raise SnapshotError(f"the snapshot's {part} is cut off or too long")
    return found


def _size(name: Any, dtype: Any, shape: Any) -> int:
    """Return how many bytes an array takes, after a check of what the header tells about it."""
    if dtype not in _DTYPES:
        raise SnapshotError(f"the snapshot holds an array of type {dtype!r}, which no detector writes")
    size = math.prod(shape) * _DTYPES[dtype].itemsize
    if type(size) is not int or size < 0 or type(name) is not str:
        raise SnapshotError(f"the snapshot holds an array {name!r} of shape {shape!r}, which is none")
    return size


def _shuffled(array: np.ndarray) -> bytes:
    """All first bytes of the numbers, then all second bytes and so on: exponents next to exponents compress better."""
    data = np.ascontiguousarray(array)
    return data.view(np.uint8).reshape(-1, data.dtype.itemsize).T.tobytes() if data.size else b""
