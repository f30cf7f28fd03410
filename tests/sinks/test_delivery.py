"""CommittedEvent events on their way to a sink: which are sent, how often, in which order, and after a crash."""

from __future__ import annotations

import io
import json
import random
import threading
import typing

import msgspec
import prometheus_client
import pytest
from events import alarm, change, incident, notice
from view_helpers import state_event

from service.operations.control import ControlBook, Mute, as_change
from service.settings.sinks import SinkSettings, Status
from service.sinks import DeliveryRefused, StdoutSink, TryAgain
from service.sinks.delivery import CommittedEvent, Deliveries, Delivery, SinkMetrics, is_wanted
from service.sinks.sink import outgoing
from service.wire import messages
from service.wire.readings import rfc3339

NOW = 1_700_000_100.0
EVERYTHING = typing.get_args(Status)


class ListReader:
    """Events in memory; ``place`` and ``records`` are what a crash leaves."""

    def __init__(self, events, batch=100, records=None):
        self.records = {} if records is None else records
        self._is_new = True
        self.events = [CommittedEvent(value, int(at * 1000), i) for i, (value, at) in enumerate(events)]
        self.batch = batch
        self.place = 0

    def read(self, timeout):
        return self.events[self.place : self.place + self.batch]

    def done(self, events, changes):
        self.place += len(events)
        self.save(changes)

    def save(self, changes):
        for key, value in changes.items():
            self.records.pop(key, None) if value is None else self.records.update({key: value})

    def remembered(self):
        is_new, self._is_new = self._is_new, False
        return dict(self.records) if is_new else None

    def close(self):
        pass


class ListSink:
    """Takes what it is told to take: an answer of None is delivered, others are raised."""

    def __init__(self, answers=None):
        self.seen = []
        self._answers = answers or {}

    def send(self, event):
        self.seen.append((event.sensor, event.id, event.revision))
        answers = self._answers.get(event.sensor, [])
        answer = answers.pop(0) if answers else None
        if answer is not None:
            raise answer

    def close(self):
        pass


def published(*events, at=NOW - 10):
    return [(messages.encode(event), at) for event in events]


def delivery(reader, sink, book=None, now=lambda: NOW, **options):
    settings = SinkSettings(**{"kind": "stdout", "name": "test", "only": EVERYTHING, **options})
    made = Delivery(
        settings, sink, reader, book or ControlBook(), SinkMetrics(prometheus_client.CollectorRegistry()),
        rng=random.Random(1), now=now, wait=waits.append,
    )  # fmt: skip
    waits.clear()
    return made


waits: list[float] = []


def sensors(sink):
    return [sensor for sensor, _, _ in sink.seen]


def recent(*names):
    return published(*(change(name, seconds=NOW - 20) for name in names))


def test_events_are_sent_in_their_order():
    reader, sink = ListReader(recent(*"abcde"), batch=2), ListSink()
    one = delivery(reader, sink)
    for _ in range(4):
        one.step()
    assert sensors(sink) == list("abcde")
    assert reader.place == 5


def test_old_events_are_not_sent_and_that_is_counted(caplog):
    """Published long ago; or just now, from readings of long ago: what a replay of old input gives."""
    old = published(change("old", seconds=NOW - 1000), at=NOW - 1000)
    replayed = published(change("replayed", seconds=NOW - 1000))
    reader, sink = ListReader(old + recent("new") + replayed), ListSink()
    assert delivery(reader, sink).step() == {"too_old": 2, "sent": 1}
    assert sensors(sink) == ["new"]
    assert reader.place == 3
    assert "2 events older than 900 s not sent" in caplog.text


def test_the_age_may_be_that_of_the_publication_alone():
    events = published(change("slow clock", seconds=NOW - 1e6)) + published(change("old"), at=NOW - 1000)
    sink = ListSink()
    delivery(ListReader(events), sink, age="publication").step()
    assert sensors(sink) == ["slow clock"]


def test_muted_events_are_not_sent():
    book = ControlBook()
    book.apply(
        as_change(Mute(pattern="m*", since="2023-11-14T22:14:00Z", until="2023-11-14T22:15:00Z"))  # NOW is 22:15:00
    )
    reader, sink = ListReader(recent("mixer", "boiler")), ListSink()
    assert delivery(reader, sink, book).step() == {"muted": 1, "sent": 1}
    assert sensors(sink) == ["boiler"]
    # published after the maintenance was over
    late, after = ListReader(published(change("mixer", seconds=NOW), at=NOW)), ListSink()
    delivery(late, after, book).step()
    assert sensors(after) == ["mixer"]


def test_what_may_go_better_is_tried_again_with_growing_pauses():
    sink = ListSink({"a": [TryAgain("busy")] * 3})
    assert delivery(ListReader(recent("a", "b")), sink, backoff_s=1.0).step() == {"sent": 2}
    assert sensors(sink) == ["a"] * 4 + ["b"]
    assert len(set(sink.seen)) == 2  # the same id and revision every time
    assert [low <= pause <= 2 * low for low, pause in zip((0.5, 1.0, 2.0), waits, strict=True)] == [True] * 3


def test_attempts_are_bounded_and_the_next_event_is_not_held_up(caplog):
    sink = ListSink({"a": [TryAgain("busy")] * 100})
    reader = ListReader(recent("a", "b"))
    one = delivery(reader, sink, attempts=3)
    assert one.step() == {"given_up": 1, "sent": 1}
    assert sensors(sink) == ["a"] * 3 + ["b"]
    assert reader.place == 2
    assert "given up: 3 attempts, the last: busy" in caplog.text
    counted = one._metrics.registry.get_sample_value
    assert counted("ishsmm_sink_events_total", {"sink": "test", "outcome": "given_up"}) == 1
    assert counted("ishsmm_sink_retries_total", {"sink": "test"}) == 2


def test_what_is_refused_is_not_tried_again(caplog):
    sink = ListSink({"a": [DeliveryRefused("the answer is 400")]})
    assert delivery(ListReader(recent("a", "b")), sink).step() == {"given_up": 1, "sent": 1}
    assert sensors(sink) == ["a", "b"]
    assert messages.event_id("a", 0, 0) in caplog.text


def test_a_receiver_says_how_long_to_wait_and_is_heard_within_reason():
    sink = ListSink({"a": [TryAgain("later", 7.0), TryAgain("much later", 1e6)]})
    delivery(ListReader(recent("a")), sink).step()
    assert waits == [7.0, 30.0]


def test_a_crash_before_the_place_is_noted_sends_again_with_the_same_id_and_revision():
    class Crash(Exception):
        pass

    reader, first, second = ListReader(recent("a", "b")), ListSink(), ListSink()

    def dies(events, changes):
        raise Crash

    noting, reader.done = reader.done, dies
    with pytest.raises(Crash):
        delivery(reader, first).step()
    reader.done = noting
    delivery(reader, second).step()
    assert first.seen == second.seen
    assert sensors(second) == ["a", "b"]


def test_told_to_stop_it_gives_nothing_up():
    stopping = threading.Event()
    reader, sink = ListReader(recent("a", "b", "c")), ListSink({"b": [TryAgain("busy")] * 9})
    one = delivery(reader, sink)
    one._stopping, one._wait = stopping, lambda _: stopping.set()
    assert one.step() == {"sent": 1}
    assert reader.place == 1  # b comes again


def test_records_that_are_no_events_are_passed_over(caplog):
    reader, sink = ListReader([(b"{}", NOW), (b"\xff", NOW), (b"", NOW), *recent("a")]), ListSink()
    assert delivery(reader, sink).step() == {"unreadable": 3, "sent": 1}
    assert "3 records are no events of ours" in caplog.text


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ["c", "d"]),  # alarms and notices
        ({"only": EVERYTHING}, ["a", "b", "c", "d", "e", "f", "g"]),
        ({"only": ("raised",)}, ["d"]),
        ({"only": ("entered",)}, ["e"]),
        ({"only": ("new_state", "spike")}, ["f", "g"]),
        ({"only": ("confirmed",)}, ["a"]),
        ({"only": ("provisional", "silent")}, ["b", "c"]),
        ({"only": EVERYTHING, "labels": {"critical": True}}, ["a"]),
        ({"only": EVERYTHING, "labels": {"critical": True, "site": "south"}}, []),
        ({"only": EVERYTHING, "sensors": "[bc]"}, ["b", "c"]),
    ],
)
def test_only_what_is_wanted_is_sent(options, wanted):
    events = [
        change("a", critical=True, site="north"), change("b", status="provisional", site="north"), notice("c"),
        alarm("d"), state_event("e", status="entered"), state_event("f"), state_event("g", status="spike"),
    ]  # fmt: skip
    settings = SinkSettings(kind="stdout", name="x", **options)
    assert [event.sensor for event in events if is_wanted(settings, event)] == wanted


def test_news_about_a_state_has_its_own_id_and_goes_out_as_it_is():
    event = state_event("a")
    value = messages.encode(event)
    assert outgoing(event, value) == (event.id, 0, "a", value)
    assert outgoing(state_event("a", status="spike"), value).key != outgoing(event, value).key


def test_every_line_has_an_id_and_a_revision():
    out = io.BytesIO()
    sink = StdoutSink(out)
    first, told = change("a", revision=2), notice("b")
    for event in (first, told, told):
        sink.send(outgoing(event, messages.encode(event)))
    lines = out.getvalue().splitlines()
    assert lines[0] == messages.encode(first)  # as it stands on the topic
    found = [json.loads(line) for line in lines]
    assert [(one["type"], one["revision"]) for one in found] == [("change", 2), ("notice", 0), ("notice", 0)]
    assert found[1] == found[2]
    assert msgspec.convert({k: v for k, v in found[1].items() if k != "id" and k != "revision"}, messages.Notice)
    other = notice("b", seconds=1_700_000_001.0)
    assert outgoing(other, messages.encode(other)).id != found[1]["id"]


def test_a_sink_that_fails_for_a_reason_of_its_own_ends_all():
    class Broken(ListSink):
        def send(self, event):
            raise BrokenPipeError

    stopping = threading.Event()
    idle = delivery(ListReader([]), ListSink())
    broken = delivery(ListReader(recent("a")), Broken())
    idle._reader.read = lambda timeout: (stopping.wait(0.01) and []) or []
    idle._stopping = broken._stopping = stopping
    both = Deliveries(stopping)
    both.start(idle)
    both.start(broken)
    assert stopping.wait(10)
    both.join(10)
    assert not both.all_run()
    with pytest.raises(BrokenPipeError):
        both.raise_failure()


def test_a_clear_is_sent_exactly_if_its_raise_was():
    """A mute that begins or ends in between changes nothing about it."""
    muted = ControlBook()
    until = rfc3339(int((NOW - 30) * 1e6))
    muted.apply(as_change(Mute(pattern="muted*", since="2023-11-14T22:10:00Z", until=until)))
    told = [alarm(name, seconds=NOW - 40 + i) for i, name in enumerate(("muted-then", "heard"))]
    ended = [alarm(name, status="cleared", seconds=NOW - 20) for name in ("muted-then", "heard")]
    events = published(*told, at=NOW - 35) + published(*ended, at=NOW - 10)
    sink = ListSink()
    one = delivery(ListReader(events), sink, book=muted, only=())
    assert one.step() == {"muted": 1, "sent": 2, "unwanted": 1}
    assert [(sensor, revision) for sensor, _, revision in sink.seen] == [("heard", 0), ("heard", 1)]


def test_a_sink_without_only_says_that_it_gets_no_changes(caplog):
    one = delivery(ListReader([]), ListSink(), only=())
    one._stopping.set()
    one.run()
    assert 'only = ["provisional", "confirmed", "relocated", "retracted"]' in caplog.text


# What a sink remembers, and at_most


class Crash(Exception):
    pass


LIMITED = {"only": (), "at_most": "20 per day"}


def flood(count, sensor="s{}", **more):
    return published(*(alarm(sensor.format(i), seconds=NOW - 20, **more) for i in range(count)))


def clears(count, sensor="s{}"):
    return published(*(alarm(sensor.format(i), status="cleared", seconds=NOW - 20) for i in range(count)))


def heard(sink):
    return [(sensor, revision) for sensor, _, revision in sink.seen]


def test_a_clear_is_sent_after_a_restart_exactly_if_its_raise_was():
    """Also if the sensor is muted by then, and its rule's labels are others."""
    records = {}
    book = ControlBook()
    book.apply(as_change(Mute(pattern="*", since="2023-11-14T22:14:00Z", until="2023-11-14T22:15:00Z")))
    options = {"only": (), "labels": {"site": "a"}}
    raised = published(alarm("heard", seconds=NOW - 70, site="a"), at=NOW - 70)
    raised += published(alarm("muted", seconds=NOW - 20, site="a"))
    assert delivery(ListReader(raised, records=records), ListSink(), book, **options).step() == {"sent": 1, "muted": 1}
    assert list(records) == [f"open/{messages.alarm_id('heard', 0, 0)}"]
    sink = ListSink()
    ended = published(alarm("heard", status="cleared"), alarm("muted", status="cleared", site="a"))
    again = delivery(ListReader(ended, records=records), sink, book, **options)
    assert again.step() == {"sent": 1, "unwanted": 1}
    assert heard(sink) == [("heard", 1)]
    assert records == {}


def test_a_raise_that_was_sent_before_a_crash_is_sent_again_even_if_it_would_be_held_back_now():
    records, first, second = {}, ListSink(), ListSink()
    reader = ListReader(flood(1), records=records)
    reader.done = lambda events, changes: (_ for _ in ()).throw(Crash)
    with pytest.raises(Crash):
        delivery(reader, first, only=(), at_most="1 per day").step()
    later = ListReader(flood(1) + clears(1), records=records)
    assert delivery(later, second, now=lambda: NOW + 1e5, only=(), at_most="1 per day").step() == {"sent": 2}
    assert heard(first) == [("s0", 0)]
    assert heard(second) == [("s0", 0), ("s0", 1)]


def test_a_raise_that_is_given_up_is_not_spent_and_its_clear_is_not_sent():
    sink = ListSink({"s0": [DeliveryRefused("no")]})
    one = delivery(ListReader(flood(2) + clears(2)), sink, only=(), at_most="1 per day")
    assert one.step() == {"given_up": 1, "sent": 2, "unwanted": 1}
    assert heard(sink) == [("s0", 0), ("s1", 0), ("s1", 1)]


def test_in_a_flood_no_more_is_sent_than_allowed_and_the_clears_follow_their_raises():
    """500 ordinary alarms, then one that is very unusual; a restart in the middle gives nothing back."""
    records, sink = {}, ListSink()
    events = flood(300, ratio=1.2) + flood(1, "rare{}", ratio=1e4) + flood(200, "t{}", ratio=1.2)
    for part in (events[:250], events[250:]):
        one = delivery(ListReader(part, batch=1000, records=records), sink, **LIMITED)
        outcomes = one.step()
        assert outcomes["held_back"] >= 230
    sent = [sensor for sensor, _ in heard(sink)]
    assert "rare0" in sent
    assert 5 <= len(sent) <= 20
    after = ListSink()
    ended = clears(300) + clears(1, "rare{}") + clears(200, "t{}")
    delivery(ListReader(ended, batch=1000, records=records), after, **LIMITED).step()
    assert heard(after) == [(sensor, 1) for sensor in sent]
    assert list(records) == ["tally"]


def test_critical_sensors_are_exempt_and_spend_nothing():
    sink = ListSink()
    events = flood(50, "c{}", critical=True) + flood(1, "plain{}")
    assert delivery(ListReader(events), sink, only=(), at_most="1 per day").step() == {"sent": 51}


def test_notices_and_changes_are_not_limited():
    events = published(*(notice(f"n{i}", seconds=NOW - 20) for i in range(30))) + recent(*map(str, range(30)))
    assert delivery(ListReader(events), ListSink(), at_most="1 per day").step() == {"sent": 60}


def test_what_was_held_back_is_counted_and_reported_once_a_day_across_restarts(caplog):
    records, clock, sink = {}, [NOW], io.BytesIO()
    one = delivery(ListReader(flood(5), records=records), StdoutSink(sink), now=lambda: clock[0], only=(),
                   at_most="1 per day")  # fmt: skip
    assert one.step() == {"sent": 1, "held_back": 4}
    counted = one._metrics.registry.get_sample_value
    assert counted("ishsmm_sink_events_total", {"sink": "test", "outcome": "held_back"}) == 4
    clock[0] += 86_000
    one.step()
    assert len(sink.getvalue().splitlines()) == 1
    clock[0] += 500
    again = delivery(ListReader([], records=records), StdoutSink(sink), now=lambda: clock[0], only=(),
                     at_most="1 per day")  # fmt: skip
    again.step()
    again.step()
    _, said = sink.getvalue().splitlines()
    summary = msgspec.json.decode(said, type=messages.Summary)
    assert (summary.held_back, summary.in_incidents, summary.sink) == (4, 0, "test")
    assert summary.since == rfc3339(int(NOW * 1e6))
    assert "4 alarms were held back by at_most = 1 per day" in caplog.text


def test_an_incident_counts_as_one_and_stands_for_its_group_while_it_is_open():
    records, sink = {}, ListSink()
    first = flood(2, "g/{}") + published(incident("g", seconds=NOW - 20))
    more = published(alarm("g/2", seconds=NOW - 20), alarm("other/1", seconds=NOW - 20))
    more += published(incident("g", revision=1, sensors=4, seconds=NOW - 20))
    more += published(alarm("g/3", seconds=NOW - 20, critical=True))
    outcomes = delivery(ListReader(first, records=records), sink, **LIMITED).step()
    outcomes += delivery(ListReader(more, records=records), sink, **LIMITED).step()
    assert outcomes == {"sent": 5, "in_incident": 2}
    over = published(incident("g", revision=2, status="closed", seconds=NOW - 20), alarm("g/4", seconds=NOW - 20))
    over += clears(3, "g/{}")
    assert delivery(ListReader(over, records=records), sink, **LIMITED).step() == {"sent": 4, "unwanted": 1}
    assert heard(sink) == [
        ("g/0", 0), ("g/1", 0), ("g", 0), ("other/1", 0), ("g/3", 0), ("g", 2), ("g/4", 0), ("g/0", 1), ("g/1", 1),
    ]  # fmt: skip


def test_an_incident_that_was_not_sent_stands_for_nothing_and_its_end_is_not_sent():
    sink = ListSink()
    events = flood(1) + published(incident("g", seconds=NOW - 20)) + flood(1, "g/{}")
    events += published(incident("g", revision=1, status="closed", seconds=NOW - 20))
    one = delivery(ListReader(events), sink, only=(), at_most="1 per day")
    assert one.step() == {"sent": 1, "held_back": 2, "unwanted": 1}


def test_a_sink_without_a_limit_gets_incidents_only_if_it_asks_and_then_all_revisions():
    events = published(*(incident("g", i, seconds=NOW - 20) for i in range(3)), alarm("g/1", seconds=NOW - 20))
    assert delivery(ListReader(events), ListSink(), only=()).step() == {"unwanted": 3, "sent": 1}
    assert delivery(ListReader(events), ListSink(), only=("raised", "incident")).step() == {"sent": 4}


def test_an_incident_that_nobody_closes_does_not_silence_its_group_for_ever():
    records = {}
    delivery(ListReader(published(incident("g", seconds=NOW - 20)), records=records), ListSink(), **LIMITED).step()
    late = published(alarm("g/1", seconds=NOW + 3590), at=NOW + 3595)
    one = delivery(ListReader(late, records=records), ListSink(), now=lambda: NOW + 3600, **LIMITED)
    assert one.step() == {"sent": 1}
