"""Guards against faults of kafka-python 3.0.12. They lean on its private names, hence the exact version."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import kafka
import kafka.errors
from kafka.consumer.fetcher import Fetcher
from kafka.structs import TopicPartition

CLIENT_VERSION = "3.0.12"


def require_client_version() -> None:
    """Refuse another version of the client: what the guards lean on may have moved, and hide that."""
    if kafka.__version__ != CLIENT_VERSION:
        raise ImportError(
            f"kafka-python {kafka.__version__} is installed, the service needs {CLIENT_VERSION} exactly: "
            f"pip install kafka-python=={CLIENT_VERSION}"
        )


def survive_refused_connections(producer: kafka.KafkaProducer) -> None:
    """Keep commit, abort and send_offsets from hanging for ever when the coordinator refuses connections.

    The producer's IO thread takes such a request off its queue and waits for the connection. When that raises, the
    request is dropped, and the caller waits for its answer for good, even when the broker is back. When it returns
    False instead, the request is put back and tried again.
    """
    client = producer._sender._client
    await_ready = client.await_ready

    def patient(node: Any, *args: Any, **options: Any) -> bool:
        try:
            return bool(await_ready(node, *args, **options))
        except Exception:
            time.sleep(0.1)  # in the IO thread: it has nothing better to do while its coordinator is away
            return False

    client.await_ready = patient


def finish_rejoining(consumer: kafka.KafkaConsumer) -> None:
    """Keep a leader whose topics have changed from being a member that does nothing.

    It joins its group anew, and at the next poll asks whether it has to: by then it has shared the partitions out with
    the topics as they are, so that the answer is no, and what the group decided is never looked at. Neither heartbeats
    nor records come any more, and the group goes on without it.
    """
    coordinator = consumer._coordinator
    need_rejoin = coordinator.need_rejoin
    coordinator.need_rejoin = lambda: coordinator.rejoining or need_rejoin()


def keep_late_answers(consumer: kafka.KafkaConsumer) -> None:
    """Keep what the group decided where that is known only after the poll that asked has ended.

    The client's next poll finds its question answered, does not look at the answer, and joins anew: as often as joining
    takes longer than a poll, and each time all members have to.
    """
    coordinator = consumer._coordinator
    join, complete = coordinator._do_join_and_sync_async, coordinator._on_join_complete_async
    unheard: tuple[Any, bytes] | None = None  # the generation, and what we were given in it

    async def join_once() -> bytes:
        nonlocal unheard
        if unheard is None or unheard[0] is not coordinator._generation:
            unheard = None
            given = await join()
            unheard = coordinator._generation, given
        return unheard[1]

    async def heard(*outcome: Any) -> None:
        nonlocal unheard
        unheard = None
        await complete(*outcome)

    coordinator._do_join_and_sync_async, coordinator._on_join_complete_async = join_once, heard


def ask_leaders(consumer: kafka.KafkaConsumer) -> None:
    """Let a question about offsets find the partitions' leaders.

    The client asks the node again that said it is not the leader, without a pause and without looking who is, until
    its time is up: minutes long after leaders have moved. Partitions without a leader it leaves out of its answer, if
    others have one. Told that what it knows is out of date, it looks.
    """
    fetcher = consumer._fetcher
    ask = fetcher._send_list_offsets_requests

    async def ask_all(timestamps: Any) -> Any:
        by_leader = fetcher._group_list_offset_requests(timestamps)
        found, refused = {}, set(timestamps).difference(*by_leader.values())
        if not refused:
            found, refused = await ask(timestamps)
        if refused:
            raise kafka.errors.NotLeaderForPartitionError(sorted(refused))
        return found, refused

    fetcher._send_list_offsets_requests = ask_all


class Unreadable(kafka.errors.KafkaError):
    """What a partition holds at an offset cannot be read; that is not this process's fault."""

    def __init__(self, place: TopicPartition, offset: int, reason: Exception) -> None:
        super().__init__(f"{place.topic}[{place.partition}] at offset {offset}: {type(reason).__name__}: {reason}")
        self.place = place


class PartitionRecords(Fetcher.PartitionRecords):
    """What came of a partition, with two faults of the client mended.

    It goes on asking what is left of a batch for records that turned out to be damaged, for ever. And it dies of the
    mark of a transaction's end that compaction has emptied, which is a batch without a record.
    """

    def take(self, n: int | None = None) -> list[Any]:
        """The next records."""
        try:
            taken: list[Any] = super().take(n)
        except Exception as error:
            self.drain()
            raise Unreadable(self.topic_partition, self.next_fetch_offset, error) from error
        return taken

    def _contains_abort_marker(self, batch: Any) -> bool:
        return batch.records_count > 0 and bool(super()._contains_abort_marker(batch))


def read_whatever_comes(consumer: kafka.KafkaConsumer) -> None:
    """See ``PartitionRecords``."""
    consumer._fetcher.PartitionRecords = PartitionRecords


def position(consumer: kafka.KafkaConsumer, place: TopicPartition) -> int | None:
    """The offset of the next record of a partition that is ours, past the marks at the end of transactions. The
    client's own answer may wait for brokers, and may raise what the next poll has to hear."""
    found = consumer._subscription.assignment[place].position
    return None if found is None else int(found.offset)


def forget_refused_offsets(producer: kafka.KafkaProducer) -> None:
    """Drop the offsets of a cycle that was refused: the client keeps them, and commits them with the next cycle."""
    producer._transaction_manager._pending_txn_offset_commits.clear()


def close(producer: kafka.KafkaProducer, seconds: float) -> None:
    """End a producer, whether or not its records arrive: the client gives up closing when they do not, and goes on."""
    try:
        producer.close(timeout=seconds)
    except kafka.errors.KafkaError:
        producer._sender.force_close()
        producer._closed = True  # or it would try once more when it is collected


def require_private_names(producer: kafka.KafkaProducer) -> None:
    """Fail at start, not in the middle of an outage, when the client is not the one the guards were written for."""
    sender = getattr(producer, "_sender", None)
    for owner, name in (
        (sender, "_client"),
        (sender, "_maybe_send_pending_request"),
        (sender, "force_close"),
        (producer, "_transaction_manager"),
    ):
        if not hasattr(owner, name):
            raise ImportError(f"kafka-python {kafka.__version__} has no {name}: the guards need {CLIENT_VERSION}")
    if not callable(getattr(sender._client, "await_ready", None)):  # type: ignore[union-attr]
        raise ImportError(f"kafka-python {kafka.__version__} has no await_ready: the guards need {CLIENT_VERSION}")


def note_replacement(consumer: kafka.KafkaConsumer, replaced: Callable[[], None]) -> None:
    """Call ``replaced`` when a heartbeat is refused because another member has joined under our instance id. The client
    stops its heartbeats then, and its poll returns nothing, for ever."""
    coordinator = consumer._coordinator
    send = coordinator._send_heartbeat_request

    async def send_noting() -> Any:
        try:
            return await send()
        except kafka.errors.FencedInstanceIdError:
            replaced()
            raise

    coordinator._send_heartbeat_request = send_noting


def is_in_touch(consumer: kafka.KafkaConsumer) -> bool:
    """Whether the group's coordinator has answered within the session timeout. The client's poll returns nothing in
    either case."""
    return not consumer._coordinator.heartbeat.session_timeout_expired()


def topic_id(consumer: kafka.KafkaConsumer, topic: str) -> bytes:
    """The topic's id as of the last metadata (KIP-516), which is another one when the topic was deleted and created
    again; empty where the brokers give none, or the topic is not there. The client does not show it."""
    found = consumer._client.cluster.topic_id(topic)
    return b"" if found is None or found.int == 0 else bytes(found.bytes)
