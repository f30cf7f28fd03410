"""Forward records of topics that are not keyed by sensor to the internal topic, which is."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Sequence

from service.sensors.counts import CycleCounts
from service.sensors.records import InputRecord, Outbound, dead_letter
from service.wire.decoding import Decoder
from service.wire.readings import BadRecord


def partition_of(sensor: str, partitions: int) -> int:
    """Return the partition of the internal topic for a sensor's readings."""
    return zlib.crc32(sensor.encode()) % partitions


class Forwarder:
    """Decodes records and forwards their readings to the internal topic, which has this many ``partitions``."""

    def __init__(self, decode: Decoder, partitions: int) -> None:
        self._decode = decode
        self._partitions = partitions

    def forward(self, batches: Sequence[Sequence[InputRecord]]) -> tuple[list[tuple[int, Outbound]], CycleCounts]:
        """Return the outputs for records of several partitions, each with its partition, and the counts."""
        outputs: list[tuple[int, Outbound]] = []
        n_records = bad_ones = 0
        # A sensor's readings may be in several partitions, which are polled one after the other. So sort them by time.
        for record in heapq.merge(*batches, key=lambda record: record.timestamp):
            n_records += 1
            try:
                readings = self._decode(record.key, record.value, record.timestamp)
            except BadRecord as bad:
                outputs.append((record.partition % self._partitions, dead_letter(record, bad)))
                bad_ones += 1
                continue
            for reading in readings:
                number = partition_of(reading.sensor, self._partitions)
                outputs.append((number, Outbound("readings", reading.sensor.encode(), reading)))
        return outputs, CycleCounts(records=n_records, dead_letters=bad_ones, forwarded=len(outputs) - bad_ones)
