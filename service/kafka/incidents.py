"""A view's incidents on their topic. Of several views one speaks: the one to which the views' group gives the topic's
only partition. The others stand by: when it is gone the next one goes on from what was published."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec
from kafka.errors import KafkaError

from service.kafka.changelog import ChangelogReader, ReadStalled
from service.kafka.connection import Connection, ConnectionProblem
from service.kafka.consumer import Subscription
from service.kafka.producer import ProducerLost, Transactions
from service.runtime.log import CycleAborted
from service.settings import Settings
from service.wire import messages
from service.wire.messages import Incident

log = logging.getLogger(__name__)

_TRY_AGAIN = 2.0
# Seconds; a poll that takes no time does not join a group. Once it has joined nobody waits: the page wants its news.
_POLL = 0.1


def group_of(settings: Settings) -> str:
    """The consumer group in which views agree on who speaks."""
    return f"{settings.kafka.group}-view"


def transactional_id_of(settings: Settings) -> str:
    """Of whoever speaks: a view that lost its turn without knowing it cannot write any more."""
    return f"{settings.kafka.group}-incidents"


class IncidentWriter:
    """Writes what it is told to while it is this view's turn.

    ``catch_up``: given the last message of each incident that was published, the view says what is different now.
    """

    def __init__(
        self, connection: Connection, settings: Settings, catch_up: Callable[[list[Incident]], list[Incident]]
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._catch_up = catch_up
        self._topic = settings.topics.incidents
        self._subscription = Subscription(connection, group_of(settings), [self._topic])
        self._producer: Transactions | None = None  # while it speaks
        self._waiting: list[Incident] = []
        self._try_at = 0.0

    @property
    def speaks(self) -> bool:
        """Whether it is this view's turn."""
        return self._producer is not None

    def note(self, revisions: list[Incident]) -> None:
        """These are to be published; whoever speaks says them, in this order."""
        if self.speaks:
            self._waiting += revisions

    def turn(self) -> None:
        """Find out whose turn it is, and say what there is to be said."""
        try:
            self._subscription.poll(0.0 if self._subscription.is_stable else _POLL)
        except KafkaError as error:
            log.warning("incidents are not published for now: %s: %s", type(error).__name__, error)
            return
        if self._subscription.take_changes().revoked:
            self._fall_silent()
        try:
            if not self.speaks and self._subscription.assignment() and time.monotonic() >= self._try_at:
                self._take_over()
            if self._waiting:
                self._publish()
        except (ProducerLost, CycleAborted, ReadStalled, ConnectionProblem) as problem:
            log.warning("incidents are not published for now: %s", problem)
            self._fall_silent()

    def close(self) -> None:
        """Leave: another view's turn."""
        self._fall_silent()
        self._subscription.close()

    def _take_over(self) -> None:
        self._producer = Transactions(self._connection, transactional_id_of(self._settings))
        published: dict[bytes, Incident] = {}
        with ChangelogReader(self._connection) as reader:
            for key, value, _ in reader.read(self._topic, 0):
                try:
                    if key is not None and value is not None:
                        published[key] = messages.decode_incident(value)
                except msgspec.DecodeError:
                    continue  # other things may stand on a topic
        self._waiting = self._catch_up(list(published.values()))
        log.info("publishing incidents: %d were, %d are different now", len(published), len(self._waiting))

    def _publish(self) -> None:
        assert self._producer is not None
        self._producer.begin()
        for incident in self._waiting:
            self._producer.send(self._topic, incident.id.encode(), messages.encode(incident), 0)
        self._producer.commit({}, self._subscription.group_metadata())
        self._waiting = []

    def _fall_silent(self) -> None:
        self._waiting = []
        self._try_at = time.monotonic() + _TRY_AGAIN
        if self._producer is not None:
            self._producer.close()
            self._producer = None
            log.info("standing by")
