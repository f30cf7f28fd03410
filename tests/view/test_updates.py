"""Followers have a place in a list that is bounded; one that is too slow is told so."""

from view_helpers import ShownFleet, change, state_record

from service.view.updates import Update, Updates


def updates(count, first=0):
    return [Update("sensor", str(i)) for i in range(first, first + count)]


def test_a_follower_gets_everything_once_in_order():
    made = Updates()
    made.add(*updates(3))
    found, place = made.after(0)
    assert found == updates(3)
    made.add(*updates(2, 3))
    assert made.after(place) == (updates(2, 3), 5)
    assert made.after(5) == ([], 5)


def test_who_is_too_slow_is_told_so_and_nothing_grows():
    made = Updates(most=10)
    made.add(*updates(10))
    assert made.after(0) is not None
    made.add(*updates(1))
    assert made.after(0) is None
    assert made.after(1) is not None
    assert len(made._kept) == 10


def test_a_mark_is_of_one_life():
    made = Updates()
    made.add(*updates(7))
    assert made.place_of(made.mark(5)) == 5
    assert Updates().place_of(made.mark(5)) is None
    for mark in ("", "x", f"{made.life}-", f"{made.life}-8", f"{made.life}--1", f"{made.life}-{'9' * 30}"):
        assert made.place_of(mark) is None


def test_a_batch_has_each_sensor_once_as_it_is_now_and_says_where_there_are_more():
    fleet = ShownFleet()
    fleet.take(state_record("a", level=1.0), state_record("b"), state_record("a", index=119, level=2.0), change("b"))
    found, _ = fleet.view.updates.after(0)
    batch = fleet.view.batch(found, most_sensors=10)
    assert [(one.sensor, one.level) for one in batch.sensors] == [("a", 2.0), ("b", 20.0)]
    assert [one.event.sensor for one in batch.events] == ["b"]
    assert not batch.many
    few = fleet.view.batch(found, most_sensors=1)
    assert ([one.sensor for one in few.sensors], few.many) == (["a"], True)
