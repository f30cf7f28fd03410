"""How a group's members share partitions out: those with detectors evenly and the others evenly, or all to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment


class SharedApart(CooperativeStickyAssignor):
    """The client's cooperative assignor, but for one topic apart from all others.

    It counts partitions, whatever they cost: a second worker was given all of one topic, perhaps the one whose records
    are only sent on, while the first one went on inferring for everybody. Its name is the client's, so that workers
    with either of them are of one group.
    """

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, ConsumerProtocolAssignment]:
        """Partitions by members' ids."""
        with_detectors = self._assign_some(cluster, members, lambda topic: topic == self._topic)
        # where members cannot be given equally many, those that get more of the topic get fewer of the others
        names = sorted(member.member_id for member in members)
        other = dict(zip(names, reversed(names), strict=True))
        turned = [SimpleNamespace(member_id=other[one.member_id], metadata=one.metadata) for one in members]
        without = self._assign_some(cluster, turned, lambda topic: topic != self._topic)
        return {
            name: ConsumerProtocolAssignment(self.version, with_detectors[name] + without[other[name]], b"")
            for name in names
        }

    def _assign_some(
        self, cluster: Any, members: Sequence[Any], is_meant: Callable[[str], bool]
    ) -> dict[str, list[Any]]:
        """Partitions of some topics."""
        restricted = [
            SimpleNamespace(
                member_id=member.member_id,
                metadata=SimpleNamespace(
                    topics=[topic for topic in member.metadata.topics if is_meant(topic)],
                    owned_partitions=[one for one in member.metadata.owned_partitions or () if is_meant(one.topic)],
                    generation_id=member.metadata.generation_id,
                ),
            )
            for member in members
        ]
        seen = SimpleNamespace(
            topics=lambda: {topic for topic in cluster.topics() if is_meant(topic)},
            partitions_for_topic=cluster.partitions_for_topic,
        )
        assigned = super().assign(seen, restricted)
        return {name: list(one.assigned_partitions) for name, one in assigned.items()}


class OneMember(CooperativeStickyAssignor):
    """All partitions to the member that has most of them; the others stand by.

    For a sink with ``at_most``: two members could not spend one allowance. Its name is the client's, as above.
    """

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, ConsumerProtocolAssignment]:
        """Partitions by members' ids."""

        def owned(member: Any) -> tuple[int, str]:
            held = member.metadata.owned_partitions or ()
            return sum(len(one.partitions) for one in held), member.member_id

        chosen = max(members, key=owned)
        for_one = [
            SimpleNamespace(
                member_id=member.member_id,
                metadata=SimpleNamespace(
                    topics=member.metadata.topics if member is chosen else [],
                    owned_partitions=member.metadata.owned_partitions,
                    generation_id=member.metadata.generation_id,
                ),
            )
            for member in members
        ]
        assigned: dict[str, ConsumerProtocolAssignment] = super().assign(cluster, for_one)
        return assigned
