"""Where the records of a batch lie."""

import numpy as np

import ishsmm_stream as hs


@hs.kernel
def find_records(data, at, places):
    """Find records from ``at`` on, one a row of ``places``: timestamp and offset, after those of the batch, where key
    and value begin and end (where there is none: the end before the beginning). Returns where the last record ends,
    -1 - i where record i does not fit.

    Record: length, attributes, timestamp delta, offset delta, key, value, headers; numbers are zigzag varints.
    """
    for i in range(places.shape[0]):
        length, at = _varint(data, at)
        end = at + length
        if at < 0 or not at < end <= data.shape[0]:
            return -1 - i
        at += 1  # past the attributes, of which there are none
        for column in range(2):
            places[i, column], at = _varint(data, at)
        for column in (2, 4):
            size, at = _varint(data, at)
            if size > end - at:
                return -1 - i
            places[i, column] = at
            places[i, column + 1] = at + max(size, -1)
            at += max(size, 0)
        if not 0 <= at < end:
            return -1 - i
        at = end  # past the headers
    return at


@hs.kernel
def _varint(data, at):
    """The zigzag number at ``at``, and where the next thing begins: before the data where they end within it."""
    number, shift = np.uint64(0), np.uint64(0)
    while 0 <= at < data.shape[0] and shift < np.uint64(64):
        byte = np.uint64(data[at])
        at += 1
        number |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), -(2**40)
