"""What a sensor's state records come to: readings without repetition, segments that are revised, all bounded."""

from view_helpers import START, STEP, change, moment, notice, state_record

from service.settings import Settings
from service.view.history import MOST_PROBABILITIES, MOST_SEGMENTS, SegmentHistory
from service.view.sensor_index import MOST_CHANGES, SensorIndex


def history_of(*records, numbers=1200):
    made = SegmentHistory(numbers)
    for record in records:
        made.take(record)
    return made


def spans(history):
    """State, beginning and end of each segment, as indices of readings."""
    return [
        (one.state, None if one.since is None else (one.since - START) // STEP, (one.until - START) // STEP)
        for one in history.segments
    ]


def test_overlapping_records_give_every_reading_once():
    rows = [[START + i * STEP, float(i)] for i in range(200)]
    made = history_of(*(state_record(index=i, recent=rows[max(0, i - 59) : i + 1]) for i in range(39, 200, 40)))
    assert made.readings == rows


def test_a_later_record_knows_better():
    coarse = [[START + i * STEP, 1.0] for i in range(0, 60, 2)]
    fine = [[START + i * STEP, 2.0] for i in range(30, 90)]
    made = history_of(state_record(index=59, recent=coarse), state_record(index=89, recent=fine))
    assert made.readings == coarse[:15] + fine


def test_readings_that_came_late_stand_in_order():
    rows = [[START + i * STEP, float(i)] for i in (3, 1, 2)]
    assert [row[1] for row in history_of(state_record(recent=rows)).readings] == [1.0, 2.0, 3.0]


def test_readings_are_bounded_over_all_channels():
    def rows(first, channels):
        return [[START + i * STEP, *[float(i)] * channels] for i in range(first, first + 60)]

    one = history_of(*(state_record(index=i + 59, recent=rows(i, 1)) for i in range(0, 1200, 60)), numbers=300)
    assert [row[1] for row in one.readings] == [float(i) for i in range(900, 1200)]
    three = history_of(*(state_record(index=i + 59, recent=rows(i, 3)) for i in range(0, 1200, 60)), numbers=300)
    assert [row[1:] for row in three.readings] == [[float(i)] * 3 for i in range(1100, 1200)]


def test_a_missing_value_stays_missing():
    made = history_of(state_record(recent=[[START, None], [START + STEP, 1.0]]))
    assert made.readings == [[START, None], [START + STEP, 1.0]]
    assert made.spark(10) == [None, 1.0]


def test_other_channels_begin_a_new_history():
    made = history_of(
        state_record(recent=[[START, 1.0]]), state_record(index=60, generation=1, recent=[[START + STEP, 1.0, 2.0]])
    )
    assert made.readings == [[START + STEP, 1.0, 2.0]]


def test_segments_follow_each_other():
    made = history_of(
        state_record(index=59), state_record(index=119, since=80, level=26.0), state_record(index=179, since=80)
    )
    assert spans(made) == [(0, 0, 80), (80, 80, 179)]


def test_a_change_that_is_taken_back_leaves_no_segment():
    made = history_of(state_record(index=59), state_record(index=119, since=80), state_record(index=179, since=0))
    assert spans(made) == [(0, 0, 179)]


def test_a_change_that_is_seen_better_moves_its_segment():
    made = history_of(state_record(index=59), state_record(index=119, since=80), state_record(index=179, since=83))
    assert spans(made) == [(0, 0, 83), (83, 83, 179)]
    made.take(state_record(index=239, since=40))
    assert spans(made) == [(0, 0, 40), (40, 40, 239)]


def test_a_beginning_that_is_forgotten_is_remembered_here():
    made = history_of(
        state_record(index=59), state_record(index=119, since=80), state_record(index=300, since=80, knows_since=False)
    )
    assert spans(made) == [(0, 0, 80), (80, 80, 300)]


def test_a_state_that_is_said_to_begin_later_was_there_all_along():
    made = history_of(
        state_record(index=59, state=0), state_record(index=119, since=80, state=80),
        state_record(index=179, since=150, state=80),
    )  # fmt: skip
    assert spans(made) == [(0, 0, 80), (80, 80, 179)]


def test_a_state_that_returns_is_a_segment_of_its_own():
    made = history_of(
        state_record(index=59, state=0), state_record(index=119, since=80, state=80),
        state_record(index=179, since=140, state=0, visits=2),
    )  # fmt: skip
    assert spans(made) == [(0, 0, 80), (80, 80, 140), (0, 140, 179)]


def test_a_new_generation_does_not_undo_the_old_one():
    made = history_of(state_record(index=59), state_record(index=119, since=80), state_record(index=10, generation=1))
    assert [(one.generation, one.state) for one in made.segments] == [(0, 0), (0, 80), (1, 0)]


def test_everything_is_bounded():
    made = SegmentHistory(100)
    for i in range(2 * MOST_PROBABILITIES):
        made.take(state_record(index=i * 20, since=i * 20, recent=[[START + i * STEP, 1.0]]))
    assert len(made.readings) == 100
    assert len(made.segments) == MOST_SEGMENTS
    assert len(made.probabilities) == MOST_PROBABILITIES
    fleet = SensorIndex(Settings())
    for i in range(2 * MOST_CHANGES):
        fleet.take(change(number=i))
    fleet.take(state_record())
    assert fleet.look("a", lambda one: (len(one.changes), len(one.raised))) == (MOST_CHANGES, MOST_CHANGES)


# The fleet


def fleet_of(*found):
    made = SensorIndex(Settings())
    for message in found:
        made.take(message)
    return made


def names(fleet, **options):
    found, total = fleet.page(lambda one: one.name, **options)
    return found, total


def test_sensors_are_found_sorted_and_paged():
    fleet = fleet_of(
        state_record("north/b", probability=0.2, labels={"unit": "bar"}), state_record("north/a", probability=0.9),
        state_record("south/c", probability=None), change("south/c", index=20), change("north/b", index=40),
    )  # fmt: skip
    assert names(fleet) == (["north/a", "north/b", "south/c"], 3)
    assert names(fleet, sort="probability") == (["north/a", "north/b", "south/c"], 3)
    assert names(fleet, sort="changed") == (["north/b", "south/c", "north/a"], 3)
    assert names(fleet, search="NORTH b") == (["north/b"], 1)
    assert names(fleet, search="Bar") == (["north/b"], 1)
    assert names(fleet, offset=1, limit=1) == (["north/b"], 3)
    assert names(fleet, after="north/a", limit=1) == (["north/b"], 2)


def test_what_has_no_state_is_no_sensor():
    fleet = fleet_of(change("gone"), notice("gone"))
    assert names(fleet) == ([], 0)
    assert fleet.look("gone", lambda one: one) is None
    fleet.take(state_record("gone"))
    assert fleet.look("gone", lambda one: (one.is_silent, len(one.changes))) == (True, 1)
    fleet.forget("gone")
    assert names(fleet) == ([], 0)


def test_the_highest_revision_of_a_change_holds_whatever_comes_last():
    fleet = fleet_of(
        state_record(), change(revision=1, status="confirmed"), change(revision=0), change(number=1, index=50),
        change(number=1, revision=1, index=50, status="retracted"),
    )  # fmt: skip
    assert fleet.look("a", lambda one: (one.latest.status, one.changed)) == ("confirmed", START + 30 * STEP)


def test_counts_are_of_the_last_hour_before_the_newest_reading():
    fleet = fleet_of(state_record("a"), change("a", index=30), state_record("b"), notice("b"))
    assert fleet.counts() == (2, 0, 1, 1)
    fleet.take(state_record("a", index=30 + 3600))
    assert fleet.counts() == (2, 0, 0, 1)
    fleet.take(notice("b", "back"))
    assert fleet.counts() == (2, 0, 0, 0)
    assert moment(0) == "2026-01-01T00:00:00.000Z"
