"""Process a cycle's readings: accept, infer, collect the outputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from service.sensors.counts import CycleCounts, add_up
from service.sensors.crashes import CrashJournal
from service.sensors.inference import Inference
from service.sensors.records import InputRecord, Outbound

if TYPE_CHECKING:
    from service.sensors.partition import Partition


def process(
    batches: Iterable[tuple[Partition, Iterable[InputRecord]]], *, threads: int = 0, publishes: bool = True,
    journal: CrashJournal | None = None,
) -> tuple[list[list[Outbound]], CycleCounts]:  # fmt: skip
    """Process records of several partitions, with the same results as for each partition alone.

    Returns the outputs of each partition, and the counts. If ``publishes`` is false, there are few outputs.
    Detectors infer on this many ``threads`` while the next partition's records are accepted.
    """
    under_way = []
    with Inference(threads, publishes, journal) as inference:
        for partition, records in batches:
            accepted = partition.accept(records)
            under_way.append((partition, accepted, inference.add(accepted.batches)))
        inference.finish()
    counts = [
        partition.collect_outputs(accepted, [pending.published for pending in inferred])
        for partition, accepted, inferred in under_way
    ]
    outputs = [accepted.outputs for _, accepted, _ in under_way]
    return outputs, add_up(counts)._replace(inference_seconds=inference.seconds)
