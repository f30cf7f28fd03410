"""Committed events of a topic, read by a consumer group of a sink's own."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from kafka.errors import KafkaError, RebalanceInProgressError

from service.kafka.changelog import ReadStalled
from service.kafka.connection import Connection
from service.kafka.consumer import BrokersAway, Subscription
from service.kafka.sink_records import SinkRecords
from service.operations.control import Changes
from service.runtime.log import TopicPartition
from service.sinks.delivery import CommittedEvent

log = logging.getLogger(__name__)

_ASK_AGAIN = 1.0
_MOST_EVENTS = 100


class KafkaEvents:
    """Events in the order of their partitions. Several readers of one group share them; with ``one_member`` one of them
    gets all, and the others stand by. ``records``: what the sink remembers, read again whenever partitions come.

    A group that has not read before begins ``since`` seconds ago: what is older is not sent anyway.
    """

    def __init__(
        self, connection: Connection, topics: Sequence[str], group: str, since: float, records: SinkRecords,
        one_member: bool = False,
    ) -> None:  # fmt: skip
        self._records = records
        self._remembered: dict[str, bytes] | None = None
        self._to_locate: set[TopicPartition] = set()
        self._read: list[CommittedEvent] = []
        self._to_commit: dict[TopicPartition, tuple[int, str]] = {}
        self._subscription = Subscription(
            connection, group, topics, start_from=int((time.time() - since) * 1000), max_poll_records=_MOST_EVENTS,
            one_member=one_member,
        )  # fmt: skip

    def read(self, timeout: float) -> Sequence[CommittedEvent]:
        """The next events; those of one partition in their order."""
        found = self._subscription.poll(timeout)
        self._follow_assignment()
        self._commit()
        self._read = [
            CommittedEvent(record.value or b"", record.timestamp, (place, record.offset))
            for place, records in found.items()
            for record in records
        ]
        return self._read

    def done(self, events: Sequence[CommittedEvent], changes: Changes) -> None:
        """Write the sink's records, commit the place after these, and go back to the first of the others."""
        self._records.write(changes)
        left = _firsts(self._read[len(events) :])
        ours = self._subscription.assignment()
        for place, offset in left.items():
            if place in ours:
                self._subscription.seek(place, offset)
        self._to_commit |= {place: (offset + 1, "") for place, offset in (event.place for event in events)}
        self._commit()

    def save(self, changes: Changes) -> None:
        """Write the sink's records."""
        self._records.write(changes)

    def remembered(self) -> Mapping[str, bytes] | None:
        """Return the sink's records if partitions have come since the last call."""
        found, self._remembered = self._remembered, None
        return found

    def _commit(self) -> None:
        """What could not be committed while the group was deciding who has what is committed later, if it is ours."""
        ours = self._subscription.assignment()
        self._to_commit = {place: at for place, at in self._to_commit.items() if place in ours}
        if not self._to_commit or not self._records.write(
            {}
        ):  # the records first: the position says that they are there
            return
        try:
            self._subscription.commit(self._to_commit)
            self._to_commit = {}
        except RebalanceInProgressError:
            return
        except KafkaError as error:
            # These events may be sent once more.
            log.warning("the place in the events could not be committed: %s: %s", type(error).__name__, error)

    def close(self) -> None:
        self._commit()
        self._subscription.close()
        self._records.close()

    def _follow_assignment(self) -> None:
        changes = self._subscription.take_changes()
        self._to_locate = (self._to_locate - changes.revoked) | changes.assigned
        if not self._to_locate:
            return
        try:
            self._subscription.locate(self._to_locate)
            self._remembered = self._records.read()
        except (BrokersAway, ReadStalled) as away:
            log.warning("where the events were left is not known yet: %s", away)
            time.sleep(_ASK_AGAIN)
            return
        self._subscription.resume(self._to_locate)
        self._to_locate = set()


def _firsts(events: Sequence[CommittedEvent]) -> dict[TopicPartition, int]:
    """The first offset of each partition."""
    firsts: dict[TopicPartition, int] = {}
    for event in events:
        place, offset = event.place
        firsts.setdefault(place, offset)
    return firsts
