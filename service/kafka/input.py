"""The topics that readings come from: how they are reached, which of them detectors follow, and what a commit says."""

from __future__ import annotations

import msgspec

from service.kafka.connection import Connection, ConnectionProblem
from service.settings import Settings


class Commit(msgspec.Struct, frozen=True):
    """What travels with a partition's committed offset. A later version may add fields, which this one ignores."""

    unsaved_from: int  # from here to the committed offset the input is replayed at a restore
    clock: int  # stream time, microseconds
    began: int  # where the group began to read the partition, for audits


def read_commit(metadata: str, where: str, group: str) -> Commit:
    """What a commit carries; ConnectionProblem where it was not written by a worker."""
    try:
        return msgspec.json.decode(metadata, type=Commit)
    except msgspec.DecodeError:
        raise ConnectionProblem(
            f"the committed offset of {where} in group {group!r} carries metadata that is not ours ({metadata!r}): "
            "use another kafka.group"
        ) from None


def connection_of(settings: Settings) -> Connection:
    """How the configuration says that brokers are reached; ValueError where it reads no Kafka."""
    settings.source.require_kafka()
    security = settings.kafka.security
    with_password = security.protocol.startswith("sasl")
    return Connection(
        settings.kafka.bootstrap,
        security_protocol=security.protocol.upper(),
        mechanism=security.mechanism if with_password else None,
        username=security.username,
        password=security.read_password(),
        ca_file=security.ca_file,
        certificate_file=security.certificate_file,
        key_file=security.key_file,
    )


def reads_directly(settings: Settings) -> bool:
    """Whether detectors read the input topic itself: one topic, all readings of a sensor in one of its partitions."""
    return (
        settings.mapping.is_keyed_by_sensor
        and settings.kafka.topics_pattern is None
        and len(settings.kafka.topics) == 1
    )


def sensor_topic(settings: Settings) -> str:
    """The topic whose partitions detectors follow."""
    return settings.kafka.topics[0] if reads_directly(settings) else settings.topics.readings
