"""Late, repeated, missing and future readings."""

import random

import pytest

from service.sensors.arrival import MOST_INSERTED, judge
from service.settings import TimePolicy
from service.wire.readings import REASONS, Reading

SECOND = 1_000_000
NOW = 1_700_000_000  # s


def reading(seconds, *values):
    return Reading("a", round((NOW + seconds) * SECOND), values or (1.0,))


def judged(policy, *readings, timestamp=(NOW + 3600) * 1000):
    """The judgements of readings, one after another."""
    newest, found = None, []
    for one in readings:
        arrival = judge(policy, newest, one, timestamp)
        newest = arrival.newest
        found.append(arrival)
    return found


def reasons(policy, *readings):
    return [arrival.reason for arrival in judged(policy, *readings)]


def test_late_readings_are_accepted_unless_rejected():
    stream = reading(0), reading(2), reading(1), reading(3)
    assert reasons(TimePolicy(), *stream) == [None] * 4
    assert reasons(TimePolicy(late="reject"), *stream) == [None, None, "late", None]


def test_a_late_reading_does_not_move_the_newest_back():
    found = judged(TimePolicy(), reading(0), reading(5), reading(1))
    assert found[-1].newest.time == reading(5).time


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("accept", [None, None, None, None]),
        ("reject", [None, "duplicate", "duplicate", None]),
        ("reject_identical", [None, "duplicate", None, None]),
    ],
)
def test_readings_of_the_same_time(policy, expected):
    stream = reading(0, 1.0), reading(0, 1.0), reading(0, 2.0), reading(1, 2.0)
    assert reasons(TimePolicy(duplicate=policy), *stream) == expected


def test_by_default_only_what_is_sent_twice_is_refused():
    assert TimePolicy().duplicate == "reject_identical"
    assert reasons(TimePolicy(), reading(0), reading(1), reading(0)) == [None, None, None]


def test_the_latest_of_one_time_is_the_one_that_is_compared():
    stream = reading(0, 1.0), reading(0, 2.0), reading(0, 2.0)
    assert reasons(TimePolicy(), *stream) == [None, None, "duplicate"]


@pytest.mark.parametrize(
    ("elapsed", "missing", "restarted"),
    [(1, 0, False), (0.2, 0, False), (1.4, 0, False), (1.6, 1, False), (2, 1, False), (10, 9, False),
     (MOST_INSERTED + 1, MOST_INSERTED, False), (MOST_INSERTED + 2, 0, True), (1e7, 0, True)],
)  # fmt: skip
def test_missing_steps_are_inserted_for_a_known_interval(elapsed, missing, restarted):
    policy = TimePolicy(interval_s=1.0, gap="insert", max_ahead_s=None)
    found = judged(policy, reading(0), reading(elapsed))[-1]
    assert (found.reason, found.missing, found.restarted) == (None, missing, restarted)


def test_nothing_is_inserted_where_gaps_are_ignored_or_a_reading_is_the_first_or_late():
    assert judged(TimePolicy(interval_s=1.0), reading(0), reading(9))[-1].missing == 0
    policy = TimePolicy(interval_s=1.0, gap="insert")
    found = judged(policy, reading(9), reading(0), reading(10))
    assert [arrival.missing for arrival in found] == [0, 0, 0]


def test_a_clock_in_the_future_is_refused_and_leaves_no_trace():
    policy = TimePolicy(max_ahead_s=60.0)
    first, ahead, after = judged(policy, reading(0), reading(61), reading(1), timestamp=NOW * 1000)
    assert (first.reason, ahead.reason, after.reason) == (None, "clock_ahead", None)
    assert ahead.newest == first.newest
    assert judge(policy, None, reading(60), NOW * 1000).reason is None


def test_without_a_timestamp_or_a_limit_no_clock_is_ahead():
    far = reading(1e9)
    assert judge(TimePolicy(), None, far, -1).reason is None
    assert judge(TimePolicy(max_ahead_s=None), None, far, 0).reason is None
    assert judge(TimePolicy(), None, far, 0).reason == "clock_ahead"


def test_any_stream_under_any_policy():
    """Seeded: what is refused changes nothing, the newest never goes back, insertions are bounded."""
    rng = random.Random(3)
    for _ in range(300):
        policy = TimePolicy(
            late=rng.choice(["accept", "reject"]),
            duplicate=rng.choice(["accept", "reject", "reject_identical"]),
            interval_s=rng.choice([0.001, 1.0, 1e9]),
            gap=rng.choice(["ignore", "insert"]),
            max_ahead_s=rng.choice([None, 1.0, 1e9]),
        )
        newest = None
        for _ in range(30):
            one = Reading("a", rng.randrange(-(10**17), 10**17) if rng.random() < 0.2 else rng.randrange(9), (0.0,))
            arrival = judge(policy, newest, one, rng.choice([-1, 0, NOW * 1000]))
            assert 0 <= arrival.missing <= MOST_INSERTED
            if arrival.reason is not None:
                assert arrival.reason in REASONS
                assert arrival.newest == newest
            elif newest is not None:
                assert arrival.newest is not None
                assert arrival.newest.time == max(newest.time, one.time)
            newest = arrival.newest
