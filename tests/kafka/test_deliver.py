"""Events from a real broker to sinks: at least once, across restarts and among several readers."""

from __future__ import annotations

import json
import threading
import typing
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest
from events import alarm, change, incident
from kafka import KafkaProducer
from running import settings_for, wait_for

from service.kafka import groups
from service.kafka.consumer import Subscription
from service.kafka.control import KafkaControl
from service.kafka.deliver import deliver
from service.kafka.events import KafkaEvents
from service.kafka.sink_records import SinkRecords
from service.operations.actions import now
from service.operations.control import Mute, as_change
from service.settings.sinks import SinkSettings, Status
from service.wire import messages
from service.wire.readings import rfc3339

PARTITIONS = 2


@pytest.fixture
def settings(connection, tmp_path):
    lines = SinkSettings(kind="lines", name="archive", path=tmp_path / "events.jsonl", only=typing.get_args(Status))
    return msgspec.structs.replace(settings_for(connection, tmp_path, partitions=PARTITIONS), sinks=(lines,))


@contextmanager
def delivering(settings):
    stopping, failed = threading.Event(), []

    def work():
        try:
            deliver(settings, settings.sinks, stopping)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(30)
        assert not thread.is_alive()
        assert not failed


def publish(connection, settings, names, age=0.0, numbers=range(1)):
    """Events as a worker would publish them, so many seconds ago."""
    at = now() / 1e6 - age
    producer = connection.build(KafkaProducer)
    for number in numbers:
        for i, name in enumerate(names):
            event = messages.encode(change(name, number, seconds=at))
            producer.send(
                settings.topics.events, event, name.encode(), partition=i % PARTITIONS, timestamp_ms=int(at * 1000)
            )
    producer.flush()
    producer.close()


def events_of(connection, settings, group="x"):
    group = f"{settings.kafka.group}-{group}"
    records = SinkRecords(connection, settings.topics.sink_records, group)
    return KafkaEvents(connection, [settings.topics.events], group, 900.0, records)


def lines(settings):
    path = settings.sinks[0].path
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def sensors(settings):
    return sorted(line["sensor"] for line in lines(settings))


def test_a_new_sink_begins_with_what_is_news_and_goes_on_where_it_was(connection, settings):
    publish(connection, settings, ["old-0", "old-1"], age=1000.0)
    publish(connection, settings, ["a", "b"], age=60.0)
    with delivering(settings):
        wait_for(lambda: sensors(settings) == ["a", "b"])
    publish(connection, settings, ["c", "d"])  # while it does not run
    with delivering(settings):
        wait_for(lambda: sensors(settings) == ["a", "b", "c", "d"])
        publish(connection, settings, ["e"])
        wait_for(lambda: "e" in sensors(settings))
    assert sensors(settings) == ["a", "b", "c", "d", "e"]  # none twice
    places = groups.committed(connection, f"{settings.kafka.group}-archive")
    assert sum(offset for offset, _ in places.values()) == 7


def test_a_sensors_events_stay_in_their_order(connection, settings):
    with delivering(settings):
        publish(connection, settings, ["a", "b"], numbers=range(150))
        wait_for(lambda: len(lines(settings)) == 300)
    ids = {name: [line["id"] for line in lines(settings) if line["sensor"] == name] for name in "ab"}
    assert ids == {name: [messages.event_id(name, 0, number) for number in range(150)] for name in "ab"}


def test_what_is_muted_while_it_runs_is_not_sent(connection, settings):
    control = KafkaControl(connection, settings.topics.control)
    with delivering(settings):
        publish(connection, settings, ["a", "b"])
        wait_for(lambda: sensors(settings) == ["a", "b"])
        begin = now()
        mute = Mute(pattern="a", since=rfc3339(begin), until=rfc3339(begin + 60_000_000))
        control.write(as_change(mute))
        threading.Event().wait(1.5)  # it is read twice a second
        publish(connection, settings, ["a", "b"], numbers=[1])
        publish(connection, settings, ["c", "d"])  # behind them, in the same partitions
        wait_for(lambda: {"c", "d"} <= set(sensors(settings)))
    assert sensors(settings) == ["a", "b", "b", "c", "d"]


def test_what_was_not_done_comes_again(connection, settings):
    publish(connection, settings, ["a"], numbers=range(10))
    reader = events_of(connection, settings)

    def next_events():
        seen = []
        wait_for(lambda: not seen.extend(reader.read(0.2)) and bool(seen))
        return seen

    first = next_events()
    reader.done(first[:4], {})
    again = next_events()
    assert again[0].place == first[4].place
    reader.close()  # as if it had died: nothing more is committed
    reader = events_of(connection, settings)
    assert next_events()[0].place == first[4].place
    reader.close()


def test_one_sink_does_not_wait_for_another(connection, settings, tmp_path):
    """A webhook that only answers 503 is given up, event by event; the file has them all at once."""

    class Busy(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.headers["Idempotency-Key"])
            self.send_response(503)
            self.end_headers()

        def log_message(self, *_):
            pass

    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pager = SinkSettings(
        kind="webhook",
        name="pager",
        url=f"http://127.0.0.1:{server.server_address[1]}/",
        attempts=2,
        backoff_s=0.2,
        only=typing.get_args(Status),
    )
    settings = msgspec.structs.replace(settings, sinks=(*settings.sinks, pager))
    with delivering(settings):
        publish(connection, settings, ["a"], numbers=range(3))
        wait_for(lambda: len(lines(settings)) == 3)
        wait_for(lambda: len(asked) == 6)
    keys = [f"{messages.event_id('a', 0, number)}.0" for number in range(3)]
    assert asked == [key for key in keys for _ in range(2)]
    server.shutdown()
    server.server_close()


def send(connection, settings, *events, topic=None):
    producer = connection.build(KafkaProducer)
    for event in events:
        key = event.sensor if topic is None else event.id
        producer.send(topic or settings.topics.events, messages.encode(event), key.encode(), partition=0)
    producer.flush()
    producer.close()


def test_an_allowance_and_open_alarms_outlive_the_process(connection, settings, tmp_path):
    """Another host reads them from the brokers: nothing is shared but these."""
    limited = SinkSettings(kind="lines", name="pager", path=tmp_path / "pager.jsonl", at_most="2 per day")
    settings = msgspec.structs.replace(settings, sinks=(limited,))
    at = now() / 1e6
    with delivering(settings):
        send(connection, settings, *(alarm(name, seconds=at) for name in "abcd"))
        send(connection, settings, alarm("last", seconds=at, critical=True))
        wait_for(lambda: sensors(settings) == ["a", "b", "last"])
    send(connection, settings, *(alarm(name, status="cleared", seconds=at) for name in "abcd"))
    with delivering(settings):
        send(connection, settings, alarm("e", seconds=at), alarm("end", seconds=at, critical=True))
        wait_for(lambda: "end" in sensors(settings))
    cleared = [line["sensor"] for line in lines(settings) if line.get("status") == "cleared"]
    assert cleared == ["a", "b"]
    assert "e" not in sensors(settings)
    group = f"{settings.kafka.group}-pager"
    records = SinkRecords(connection, settings.topics.sink_records, group)
    assert set(records.read()) == {"tally", *(f"open/{messages.alarm_id(name, 0, 0)}" for name in ("last", "end"))}
    records.close()


def test_an_incident_comes_from_its_topic(connection, settings, tmp_path):
    limited = SinkSettings(kind="lines", name="pager", path=tmp_path / "pager.jsonl", at_most="20 per day")
    settings = msgspec.structs.replace(settings, sinks=(limited,))
    at = now() / 1e6
    with delivering(settings):
        send(connection, settings, incident("g", seconds=at), topic=settings.topics.incidents)
        wait_for(lambda: [line["type"] for line in lines(settings)] == ["incident"])
        send(connection, settings, alarm("g/1", seconds=at), alarm("h/1", seconds=at))
        wait_for(lambda: len(lines(settings)) == 2)
    assert lines(settings)[1]["sensor"] == "h/1"


def test_a_limited_sink_is_fed_by_one_process_and_another_takes_over(connection, settings):
    """Two members could not spend one allowance."""
    group = f"{settings.kafka.group}-one"
    first, second = (Subscription(connection, group, [settings.topics.events], one_member=True) for _ in range(2))

    def held():
        for member in (first, second):
            member.poll(0.1)
        is_settled = first.is_stable and second.is_stable
        return sorted(len(member.assignment()) for member in (first, second)) if is_settled else None

    settled = []
    # ten looks in a row: an unfinished rebalance has looked settled
    wait_for(lambda: settled.append(held()) or settled[-10:] == [[0, PARTITIONS]] * 10)
    holder, other = (first, second) if first.assignment() else (second, first)
    holder.close()
    wait_for(lambda: not other.poll(0.1) and len(other.assignment()) == PARTITIONS)
    other.close()
