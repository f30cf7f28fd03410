"""Times of readings: hours of the week in a time zone, and alarms that know what is usual at an hour."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import ishsmm_stream as hs

BEGIN = datetime(2026, 1, 5, tzinfo=UTC).timestamp()  # a Monday


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"])
def test_hours_of_the_week_are_those_of_the_calendar(zone):
    """Two years in steps of 37 minutes: all changes to and from daylight saving time."""
    times = BEGIN + np.arange(0.0, 2 * 366 * 86_400.0, 37 * 60.0)
    local = [datetime.fromtimestamp(time, ZoneInfo(zone)) for time in times]
    expected = [24 * moment.weekday() + moment.hour for moment in local]
    assert hs.hours_of_week(times, zone).tolist() == expected
    stamps = (times * 1e6).astype(np.int64).astype("datetime64[us]")
    assert hs.hours_of_week(stamps, zone).tolist() == expected


def test_times_that_are_missing_have_no_hour():
    assert hs.hours_of_week([np.nan, BEGIN]).tolist() == [-1, 0]
    assert hs.hours_of_week(np.array(["NaT", "2026-01-05"], dtype="datetime64[s]")).tolist() == [-1, 0]


@pytest.mark.parametrize("zone", ["Nowhere/Atall", "../etc/passwd", ""])
def test_a_zone_that_does_not_exist_is_named(zone):
    with pytest.raises(ValueError, match="Europe/Berlin"):
        hs.hours_of_week([BEGIN], zone)


def office(weeks, seed=0):
    """A sensor that is read every five minutes: busy on workdays from 8 to 18 in New York, else quiet."""
    rng = np.random.default_rng(seed)
    times = BEGIN + np.arange(weeks * 7 * 288) * 300.0
    hours = hs.hours_of_week(times, "America/New_York")
    is_busy = (hours < 120) & (hours % 24 >= 8) & (hours % 24 < 18)
    return times, 5.0 * is_busy + rng.normal(0.0, 0.5, len(times)), hours


def found(values, times, zone="America/New_York", every=1_500):
    detector = hs.OnlineDetector(alarm_policy=hs.AlarmPolicy(every=every))
    events = detector.update_many(values, times, zone) if times is not None else detector.update_many(values)
    return [event for event in events if event.kind == "alarm"]


def test_a_busy_night_is_unusual_only_to_those_who_know_the_time():
    hits = {"with": 0, "without": 0}
    for seed in range(5):
        times, values, hours = office(8, seed)
        night = np.flatnonzero(hours == 27)[-1]  # Tuesday, 3 o'clock, in the last week
        values[night : night + 24] += 5.0  # for two hours
        for name, known in (("with", times), ("without", None)):
            hits[name] += any(night <= alarm.at < night + 24 for alarm in found(values, known))
    assert hits["with"] >= 4
    assert hits["without"] <= 1


def test_a_course_of_the_week_raises_few_alarms():
    """The promise holds with times and without, also when the clocks change (in week 9)."""
    for known in (True, False):
        alarms = sum(
            len(found(values, times if known else None)) for times, values, _ in (office(12, s) for s in range(5))
        )
        assert alarms <= 5 * 12 * 2016 / 1_500


def test_times_do_not_matter_to_changes_nor_to_streams_without_a_course():
    rng = np.random.default_rng(1)
    values = np.cumsum(rng.normal(size=8_000)) * 0.1 + rng.normal(size=8_000)
    times = BEGIN + np.arange(8_000) * 600.0
    plain, timed = hs.OnlineDetector(), hs.OnlineDetector()
    changes = [e for e in plain.update_many(values) if e.kind not in ("alarm", "cleared")]
    assert len(changes) > 10
    timed_changes = [e for e in timed.update_many(values, times) if e.kind not in ("alarm", "cleared")]
    assert [(e.kind, e.at, e.index) for e in timed_changes] == [(e.kind, e.at, e.index) for e in changes]
    course = timed._engine.tracker.hours[0]
    share = course[8] / course[9]
    assert abs(share) < 0.3


@pytest.mark.parametrize("split", [1, 7, 100])
def test_batches_and_snapshots_do_not_matter(split):
    times, values, _ = office(3)
    times, values = times[:1_500], values[:1_500]
    values[1_200:1_230] += 7.0
    whole = hs.OnlineDetector(alarm_policy=hs.AlarmPolicy(every=1_000))
    expected = whole.update_many(values, times, "America/New_York")
    assert any(event.kind == "alarm" for event in expected)
    detector, events = hs.OnlineDetector(alarm_policy=hs.AlarmPolicy(every=1_000)), []
    for first in range(0, len(values), split):
        if first % 500 < split:
            detector = hs.OnlineDetector.restore(detector.snapshot())
        if split == 1:
            events += detector.update(values[first], times[first], "America/New_York")
        else:
            last = first + split
            events += detector.update_many(values[first:last], times[first:last], "America/New_York")
    assert events == expected
    assert detector.rarity == whole.rarity


def test_a_fleet_takes_one_hour_per_detector():
    times, values, _ = office(3)
    values[5_000:5_030] += 7.0
    hours = hs.hours_of_week(times, "America/New_York")
    alone = hs.OnlineDetector()
    expected = alone.update_many(values, times, "America/New_York")
    fleet, found = [hs.OnlineDetector(), hs.OnlineDetector()], []
    at = 0
    while at < len(values):
        end = at + int(np.argmax(np.append(hours[at:] != hours[at], True)))
        (taken, events), _ = hs.update_fleet_to_event(
            fleet, [values[at:end], values[at : at + 1]], hours=[hours[at], -1]
        )
        found += events
        at += taken
    assert found == expected
    assert fleet[0].rarity == alone.rarity


def test_what_does_not_fit_is_refused():
    detector = hs.OnlineDetector()
    with pytest.raises(ValueError, match="2 values need as many times"):
        detector.update_many([1.0, 2.0], [BEGIN])
    assert detector.time == 0


def test_datetimes_of_any_kind_are_times():
    moments = [datetime(2026, 1, 5, 12, tzinfo=UTC) + timedelta(hours=i) for i in range(3)]
    assert hs.hours_of_week([moment.timestamp() for moment in moments]).tolist() == [12, 13, 14]
