"""What alarms are worth against labels."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from service.tools.backtest.scoring import Label, Margin, read_labels, read_margin, score

TIMES = {"a": [1_000_000 * 60 * i for i in range(200)]}  # one a minute


class Alarm(NamedTuple):
    index: int
    raised_at: int

    @property
    def raised_time(self):
        return TIMES["a"][self.raised_at]


def scored(places, labels, margin=Margin(), days=2.0):
    alarms = {"a": [Alarm(index, index + delay) for index, delay in places]}
    return score(alarms, TIMES, {"a": labels}, margin, days)


def test_hits_misses_false_alarms_and_delays():
    found = scored([(50, 3), (82, 5), (150, 1)], [Label(50, None), Label(80, None), Label(100, None)])
    assert (found.hits, found.missed, found.false) == (2, 1, 1)
    assert found.precision == found.recall == found.f1 == pytest.approx(2 / 3)
    assert found.median_delay == 5  # 3 and 82 + 5 - 80
    assert found.median_delay_s == 300.0
    assert found.false_a_day == 0.5


def test_one_alarm_finds_one_label_and_one_label_is_found_once():
    assert scored([(50, 1)], [Label(48, None), Label(52, None)]).hits == 1
    assert scored([(50, 1), (51, 1)], [Label(50, None)]).hits == 1
    # greedy by nearness would give 58 to 55 and leave 62 without
    assert scored([(52, 1), (58, 1)], [Label(55, None), Label(62, None)], Margin(5)).hits == 2


def test_a_margin_in_seconds_is_by_the_clock():
    assert scored([(54, 1)], [Label(50, None)], read_margin("4min")).hits == 1
    assert scored([(55, 1)], [Label(50, None)], read_margin("4min")).hits == 0


def test_a_label_by_its_time_is_the_first_reading_then_or_later():
    found = scored([(50, 3)], [Label(None, 49_500_000 * 60)], Margin(0))
    assert (found.hits, found.median_delay) == (1, 3)


def test_labels_without_readings_are_left_out_not_missed():
    labels = {"a": [Label(10, None), Label(5000, None), Label(None, -5), Label(None, 10**18)], "b": [Label(1, None)]}
    found = score({"a": []}, TIMES, labels, Margin(), 1.0)
    assert (found.labels, found.left_out, found.missed) == (1, 4, 1)
    assert found.precision is None
    assert found.median_delay is None


def test_labels_are_read_by_time_and_by_index(tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("sensor,index\na,3\nb,4\na,7\n")
    assert read_labels(file) == {"a": [Label(3, None), Label(7, None)], "b": [Label(4, None)]}
    file.write_text("\ufeffwhat,time,sensor\nx,2026-01-01T00:00:00Z,a\ny,2026-01-01 00:00:01,a\nz,1767225602,a\n")
    assert [label.time for label in read_labels(file)["a"]] == [1767225600 * 10**6 + i * 10**6 for i in range(3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sensor,when\na,1\n", "takes a header with sensor, and time or index, got sensor, when"),
        ("", "got none"),
        ("sensor,index\n", "has no labels"),
        ("sensor,index\na,-1\n", r"line 2: an index is a whole number from 0, got '-1'"),
        ("sensor,time\na,1\n,2\n", "line 3: the sensor is empty"),
        ("sensor,time\na,noon\n", "line 2: a time is seconds since 1970 or RFC 3339"),
    ],
)
def test_a_file_that_is_no_labels_is_refused_in_one_line(tmp_path, text, message):
    file = tmp_path / "labels.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_labels(file)


@pytest.mark.parametrize("text", ["", "ten", "-3", "5 weeks"])
def test_a_margin_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="--margin takes readings, such as 10, or a time"):
        read_margin(text)
