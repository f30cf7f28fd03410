"""Records of topics that are not keyed by sensor, on their way to the internal topic that is."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Sequence

from service.sensors.counts import CycleCounts
from service.sensors.records import InputRecord, Outbound, dead_letter
from service.wire.decoding import Decoder
from service.wire.readings import BadRecord


def partition_of(sensor: str, partitions: int) -> int:
    """The partition of the internal topic that a sensor's readings go to."""
    return zlib.crc32(sensor.encode()) % partitions


class Forwarder:
    """Decodes records and sends their readings to so many ``partitions``."""

    def __init__(self, decode: Decoder, partitions: int) -> None:
        self._decode = decode
        self._partitions = partitions

    def forward(self, batches: Sequence[Sequence[InputRecord]]) -> tuple[list[tuple[int, Outbound]], CycleCounts]:
        """What is to be published, with its partitions, for records of several partitions."""
        outputs: list[tuple[int, Outbound]] = []
        n_records = bad_ones = 0
        # a sensor's readings may be in several partitions, which are polled one after the other
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
