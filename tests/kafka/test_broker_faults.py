"""Brokers that die, hang and come back in the middle of a cycle: nothing hangs, nothing is half committed."""

from __future__ import annotations

import threading
import time

import local_broker
import pytest
from kafka_helpers import after, committed_values, join, poll_until, produce, receive
from worker_helpers import Service, eventually

from service.kafka import consumer
from service.kafka.changelog import ReadStalled
from service.kafka.connection import Connection, ConnectionProblem
from service.kafka.consumer import Subscription
from service.kafka.producer import CycleAborted, Producer, ProducerLost, Transactions

SHORT = {"request_timeout_ms": 1_500}
NO_HANG = 30.0


@pytest.fixture
def cycle(fragile_connection, fragile_topic, group, transactional_id):
    """A subscription with three records read, an output topic, and a producer with one record sent."""
    source, output = fragile_topic(), fragile_topic()
    produce(fragile_connection, source, [b"0", b"1", b"2"])
    subscription = Subscription(fragile_connection, group, [source], start_from="earliest")
    join(subscription, 1)
    receive(subscription, 3)
    producer = Transactions(fragile_connection, transactional_id, **SHORT)
    producer.begin()
    producer.send(output, None, b"v", partition=0)
    producer._outbox.settle()
    yield producer, subscription, source, output
    producer.close()
    subscription.close(1)


def commit_in_time(producer: Producer, offsets, member) -> BaseException | None:
    """Commit in a thread of its own, as only there a hang can be told from a failure; returns what it raised."""
    raised: list[BaseException | None] = []

    def work() -> None:
        try:
            producer.commit(offsets, member)
            raised.append(None)
        except (CycleAborted, ProducerLost) as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(NO_HANG)
    assert raised, "the commit hangs"
    return raised[0]


def settled(connection: Connection, transactional_id: str) -> None:
    """What a worker does after ``ProducerLost``: a new producer with the same id, as soon as one can be had."""
    deadline = time.monotonic() + 30
    while True:
        try:
            Transactions(connection, transactional_id, **SHORT).close()
            return
        except (ProducerLost, ConnectionProblem):
            assert time.monotonic() < deadline


def all_or_nothing(connection, subscription, source, output) -> bool:
    committed = bool(subscription.committed([(source, 0)]))
    assert committed_values(connection, output) == ([b"v"] if committed else [])
    return committed


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_commit_while_the_broker_restarts(fragile, fragile_connection, cycle, transactional_id, end):
    """A killed broker and an orderly restart: the client alone would wait for ever."""
    producer, subscription, source, output = cycle
    member = subscription.group_metadata()
    getattr(fragile, end)()
    returning = after(1.0, fragile.start)
    raised = commit_in_time(producer, {(source, 0): (3, "")}, member)
    returning.join()
    if raised is not None:
        settled(fragile_connection, transactional_id)
    committed = all_or_nothing(fragile_connection, subscription, source, output)
    assert committed or raised is not None


def test_transaction_commit_and_abort_survive_a_refused_connection(fragile, fragile_connection, cycle):
    """The two calls that come after the offsets, each met by a dead coordinator."""
    producer, _, _, output = cycle
    fragile.kill()
    returning = after(0.5, fragile.start)
    assert commit_in_time(producer, {}, None) is None
    returning.join()
    producer.begin()
    producer.send(output, None, b"dropped", partition=0)
    producer._outbox.settle()
    fragile.kill()
    returning = after(0.5, fragile.start)
    done = threading.Event()
    threading.Thread(target=lambda: (producer.abort(), done.set()), daemon=True).start()
    assert done.wait(NO_HANG), "the abort hangs"
    returning.join()
    assert committed_values(fragile_connection, output) == [b"v"]


def test_broker_stopped_during_commit_leaves_the_outcome_open_until_a_new_producer_settles_it(
    fragile, fragile_connection, cycle, transactional_id
):
    producer, subscription, source, output = cycle
    member = subscription.group_metadata()
    fragile.pause()
    raised = commit_in_time(producer, {(source, 0): (3, "")}, member)
    fragile.resume()
    assert isinstance(raised, ProducerLost)
    settled(fragile_connection, transactional_id)
    all_or_nothing(fragile_connection, subscription, source, output)


def test_records_sent_while_the_broker_is_stopped_all_arrive(fragile, fragile_connection, cycle):
    """With the client's own delivery timeout one of them would be lost, and the transaction committed without it."""
    producer, subscription, source, output = cycle
    fragile.pause()
    after(4.0, fragile.resume)
    for value in (b"a", b"b"):
        producer.send(output, None, value, partition=0)
        time.sleep(1.0)
    raised = commit_in_time(producer, {(source, 0): (3, "")}, subscription.group_metadata())
    assert raised is None
    assert committed_values(fragile_connection, output) == [b"v", b"a", b"b"]


def test_reader_goes_on_soon_after_a_restart(fragile, fragile_connection, cycle):
    _, subscription, source, _ = cycle
    fragile.kill()
    subscription.poll(1.0)
    fragile.start()
    started = time.monotonic()
    produce(fragile_connection, source, [b"3"])
    assert [record.value for record in receive(subscription, 1, seconds=30)] == [b"3"]
    assert time.monotonic() - started < 6.0


def test_waiting_for_room_ends_when_the_broker_is_away(fragile, fragile_connection, fragile_topic, monkeypatch):
    """No memory is filled for a broker that is down."""
    monkeypatch.setattr("service.kafka.producer.SETTLE_SECONDS", 2.0)
    output = fragile_topic()
    producer = Transactions(fragile_connection, "room", max_bytes_in_flight=50_000, **SHORT)
    producer.begin()
    producer.send(output, None, b"x", partition=0)
    fragile.pause()

    def fill() -> None:
        for _ in range(100):
            producer.send(output, None, b"x" * 5_000, partition=0)

    with pytest.raises(ProducerLost, match="did not arrive"):
        fill()
    assert producer.bytes_in_flight <= 50_000
    fragile.resume()
    producer.close()


@pytest.mark.parametrize("quickly", [True, False])
def test_damage_on_a_brokers_disk_stops_its_partition_alone(
    fragile, fragile_connection, fragile_topic, group, monkeypatch, caplog, quickly
):
    monkeypatch.setattr(consumer, "UNREADABLE_AGAIN", 0.5)
    name = fragile_topic(2)
    produce(fragile_connection, name, [b"whole"], 0)
    produce(fragile_connection, name, [b"damaged"], 0)
    produce(fragile_connection, name, [b"other"], 1)
    (log,) = fragile.nodes[0].properties.parent.rglob(f"{name}-0/*.log")
    kept = log.read_bytes()

    def write(data: bytes) -> None:
        with log.open("r+b") as file:  # in place: the broker has it open
            file.write(data)

    write(kept[:-3] + b"!" + kept[-2:])
    subscription = Subscription(fragile_connection, group, [name], start_from="earliest", quickly=quickly)
    join(subscription, 2)
    came = poll_until(subscription, lambda: (name, 0) in subscription.unreadable)
    came += receive(subscription, 2 - len(came))
    assert {one.value for one in came} == {b"whole", b"other"}
    assert f"{name}[0] at offset 1: CorruptRecordError" in caplog.text
    produce(fragile_connection, name, [b"further"], 1)
    assert [one.value for one in receive(subscription, 1)] == [b"further"]
    with pytest.raises(ReadStalled, match="at offset 1"):
        committed_values(fragile_connection, name)
    write(kept)
    assert [one.value for one in receive(subscription, 1)] == [b"damaged"]
    assert not subscription.unreadable
    subscription.close(1)


def test_an_idle_worker_is_not_ready_while_brokers_are_away(fragile, compiled, tmp_path):
    port = local_broker.free_ports(1)[0]
    with Service(fragile.bootstrap, tmp_path, f"idle-{port}", http={"port": port}) as service:
        service.create_topics(1)
        worker = service.start()
        eventually(lambda: worker.get(port, "/readyz")[0] == 200, 60, "readiness")
        fragile.kill()
        eventually(lambda: worker.get(port, "/readyz")[0] == 503, 30, "it is not ready")
        assert worker.get(port, "/healthz")[0] == 200  # a restart would not help
        fragile.start()
        eventually(lambda: worker.get(port, "/readyz")[0] == 200, 60, "readiness")
        assert worker.stop() == 0
