"""What mutes, acknowledgements, resets and forgettings come to."""

from __future__ import annotations

import pytest

from service.operations.control import (
    Acknowledgement,
    ControlBook,
    Forget,
    Mute,
    Reset,
    as_change,
    key_of,
)
from service.wire.readings import from_rfc3339

T0 = "2026-01-01T00:00:00Z"
HOUR = 3_600_000_000


def mute(pattern, until="2026-01-01T02:00:00Z"):
    return Mute(pattern=pattern, since="2026-01-01T01:00:00Z", until=until, why="oil", by="ann")


def test_a_mute_holds_for_matching_sensors_in_its_time():
    book = ControlBook()
    book.apply(as_change(mute("north/*")))
    begin = from_rfc3339("2026-01-01T01:00:00Z")
    assert book.is_muted("north/boiler", begin) == mute("north/*")
    assert book.is_muted("north/boiler", begin - 1) is None
    assert book.is_muted("north/boiler", begin + HOUR - 1)
    assert book.is_muted("north/boiler", begin + HOUR) is None
    assert book.is_muted("south/boiler", begin) is None


def test_a_later_record_takes_the_place_of_one_with_the_same_key_and_none_takes_it_back():
    book = ControlBook()
    book.apply(as_change(mute("a")))
    book.apply(as_change(mute("a", "2026-01-01T03:00:00Z")))
    assert [one.until for one in book.mutes()] == ["2026-01-01T03:00:00Z"]
    book.apply({key_of(mute("a")): None})
    assert book.mutes() == []


def test_the_last_generation_that_is_over_counts():
    book = ControlBook()
    assert book.finished_generation("a") == -1
    book.apply(as_change(Forget(sensor="a", generation=4, time=T0), Reset(sensor="a", generation=2, time=T0)))
    assert book.finished_generation("a") == 4
    book.apply(as_change(Reset(sensor="a", generation=5, time=T0)))
    assert (book.finished_generation("a"), book.forgotten["a"]) == (5, 4)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mute:a", b"{"),
        ("mute:a", b"\xff"),
        ("mute:a", b'{"type":"mute","pattern":"a","from":"yesterday","until":"2026-01-01T00:00:00Z"}'),
        ("mute:a", b'{"type":"mute","pattern":"a","from":"2026-01-01T00:00:00","until":"2026-01-01T00:00:00Z"}'),
        ("reset:b", b'{"type":"reset","sensor":"a","generation":0,"time":"2026-01-01T00:00:00Z"}'),
        ("other", b'{"type":"other"}'),
    ],
)
def test_what_is_not_ours_is_passed_over_and_said(key, value, caplog):
    book = ControlBook()
    book.apply(as_change(mute("b")))
    book.apply({key: value})
    assert [one.pattern for one in book.mutes()] == ["b"]
    assert book.finished == {}
    assert repr(key) in caplog.text


def test_a_whole_takes_back_what_is_not_in_it():
    book = ControlBook()
    book.replace(as_change(mute("a"), mute("b")))
    book.replace(as_change(mute("b"), Reset(sensor="s", generation=0, time=T0)))
    assert [one.pattern for one in book.mutes()] == ["b"]
    assert book.finished == {"s": 0}
    book.replace({})
    assert (book.mutes(), book.finished) == ([], {})


def test_what_is_long_past_is_taken_back_and_resets_are_kept_for_good():
    seen = Acknowledgement(id="e", sensor="s", time=T0)
    book = ControlBook()
    book.apply(as_change(mute("a"), seen, Reset(sensor="s", generation=0, time=T0)))
    assert book.acknowledgement("e") == seen
    assert book.outdated(from_rfc3339("2026-01-05T00:00:00Z")) == {}
    assert book.outdated(from_rfc3339("2026-02-01T00:00:00Z")) == {"mute:a": None}
    assert book.outdated(from_rfc3339("2027-01-01T00:00:00Z")) == {"mute:a": None, "acknowledgement:e": None}


def test_forgetting_a_sensor_takes_what_was_said_of_it_along():
    book = ControlBook()
    own, other = Acknowledgement(id="e", sensor="s", time=T0), Acknowledgement(id="f", sensor="t", time=T0)
    book.apply(as_change(own, other, Reset(sensor="s", generation=0, time=T0), mute("s")))
    assert sorted(book.of_sensor("s")) == ["acknowledgement:e", "reset:s"]
