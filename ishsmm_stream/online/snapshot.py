"""Snapshots: a detector as bytes and back. No pickle: a header in JSON, then arrays as they lie in memory, compressed.

magic (8 bytes), version (2), crc32 of the rest (4), length of the header (4), header, arrays (zlib)
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import Any

import numpy as np

_MAGIC = b"ishsmm\x00\x1a"
VERSION = 1
_FIXED = struct.Struct("<8sHI")
_LENGTH = struct.Struct("<I")
_LEVEL = 3  # of compression; the highest takes five times as long for a snapshot that is one percent smaller
_DTYPES = ("<f8", "<f4", "<i8", "<i4", "<i2", "|b1", "|u1", "<u8")


class SnapshotError(ValueError):
    """The bytes are not a snapshot that this version can read."""


def write(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """``header`` (anything JSON can hold) and ``arrays`` as bytes."""
    described = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    head = zlib.compress(json.dumps({"header": header, "arrays": described}, separators=(",", ":")).encode(), _LEVEL)
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
    if version != VERSION:
        raise SnapshotError(f"the snapshot has version {version}, this library reads version {VERSION}")
    rest = data[_FIXED.size :]
    if zlib.crc32(rest) != checksum:
        raise SnapshotError(f"the snapshot is damaged or cut off: its {len(data)} bytes do not match their checksum")
    (head_length,) = _LENGTH.unpack_from(rest)
    rest = rest[_LENGTH.size :]
    described = json.loads(zlib.decompress(rest[:head_length]))
    body = zlib.decompress(rest[head_length:])
    arrays: dict[str, np.ndarray] = {}
    offset = 0
    for name, dtype, shape in described["arrays"]:
        if dtype not in _DTYPES:
            raise SnapshotError(f"the snapshot holds an array of type {dtype!r}, which no detector writes")
        count = math.prod(shape)
        width = np.dtype(dtype).itemsize
        planes = np.frombuffer(body, np.uint8, count * width, offset).reshape(width, count)
        arrays[name] = planes.T.copy(order="C").view(dtype).reshape(shape)
        offset += count * width
    return described["header"], arrays


def _shuffled(array: np.ndarray) -> bytes:
    """All first bytes of the numbers, then all second bytes and so on: exponents next to exponents compress better."""
    data = np.ascontiguousarray(array)
    return data.view(np.uint8).reshape(-1, data.dtype.itemsize).T.tobytes() if data.size else b""
