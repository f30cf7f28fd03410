"""The benchmarks' scores, against cases small enough to be worked out by hand."""

import math

import pytest
from metrics import average_run_length, covering, detections, f1_annotated, f1_located, matched, matched_in_turn, mean


def test_a_found_point_serves_one_true_point_only():
    assert matched([10, 14], [12], margin=5) == 1
    assert matched([10, 14], [12, 13], margin=5) == 2


def test_matching_is_the_largest_possible():
    # nearest-first would give 10 the 12 that alone is within reach of 15, and leave 5 unused
    assert matched([10, 15], [5, 12], margin=5) == 2


def test_matching_in_turn_takes_the_nearest_even_where_that_is_not_the_largest():
    assert matched_in_turn({10, 15}, {5, 12}, margin=5) == 1
    assert matched_in_turn({10, 14}, {12, 13}, margin=5) == 2


@pytest.mark.parametrize("count", [matched, matched_in_turn])
def test_the_margin_is_inclusive(count):
    assert count({10}, {15}, margin=5) == 1
    assert count({10}, {16}, margin=5) == 0


def test_f1_annotated_is_one_where_the_answer_is_in_everybodys_marks():
    assert f1_annotated({"a": [10, 20], "b": [10, 20]}, [10, 20]) == 1.0


def test_f1_annotated_takes_precision_from_the_union_and_recall_from_the_mean():
    marks: dict[str, list[int]] = {"a": [], "b": [30], "c": [70]}
    # answer {0, 30}: precision 2/2 against {0, 30, 70}; recalls 1, 1, 1/2
    assert f1_annotated(marks, [30]) == pytest.approx(2 * 1 * (5 / 6) / (1 + 5 / 6))
    # answer {0}: precision 1; recalls 1, 1/2, 1/2
    assert f1_annotated(marks, []) == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))
    # answer {0, 50}: precision 1/2; recalls 1, 1/2, 1/2
    assert f1_annotated(marks, [50]) == pytest.approx(2 * (1 / 2) * (2 / 3) / (1 / 2 + 2 / 3))


def test_index_zero_is_everybodys_and_counts_once():
    assert f1_annotated({"a": [0, 30]}, [0, 30]) == f1_annotated({"a": [30]}, [30]) == 1.0


def test_an_answer_near_the_start_is_matched_to_zero_only_if_zero_is_free():
    # {0, 3} against {0}: 0 is taken by the 0 that is added to the answer, so 3 is wrong
    assert f1_annotated({"a": []}, [3]) == pytest.approx(2 * (1 / 2) * 1 / (1 / 2 + 1))


def test_covering_weighs_each_annotated_segment_by_its_length():
    # segments of 4 and 6; the answer's are 5 and 5: 4/5 of the first, 5/6 of the second
    assert covering({"a": [4]}, [5], 10) == pytest.approx((4 * 4 / 5 + 6 * 5 / 6) / 10)


def test_covering_is_the_mean_over_annotators():
    # b marked nothing: the best half covers half of the whole
    assert covering({"a": [5], "b": []}, [5], 10) == pytest.approx((1 + 1 / 2) / 2)


def test_covering_without_an_answer_is_that_of_one_segment():
    assert covering({"a": [2]}, [], 10) == pytest.approx((2 * 2 / 10 + 8 * 8 / 10) / 10)


def test_f1_located():
    assert f1_located([100, 200], [95, 300], tolerance=10) == pytest.approx(2 * 1 / 4)
    assert f1_located([], [], tolerance=10) == 1.0
    assert f1_located([], [7], tolerance=10) == 0.0
    assert f1_located([7], [], tolerance=10) == 0.0


def test_two_answers_at_one_place_are_one_too_many():
    assert f1_located([100], [100, 100], tolerance=10) == pytest.approx(2 / 3)


def test_delay_counts_from_zero_and_the_second_alarm_of_a_segment_is_false():
    found = detections([100, 200, 300], [50, 100, 120, 299], length=400)
    assert found.delays == [0, 99]
    assert found.missed == 1
    assert found.false_alarms == 2  # 50, before any change, and 120


def test_without_a_change_every_alarm_is_false():
    assert detections([], [5, 6], length=10) == ([], 0, 2)


def test_average_run_length_counts_what_unfinished_streams_lived_through():
    assert average_run_length([9, 19], length=100) == 15.0
    assert average_run_length([9, None], length=100) == 110.0
    assert average_run_length([None], length=100) == math.inf


def test_mean_leaves_out_what_is_unknown_and_gives_its_standard_error():
    known = mean([1.0, 3.0, math.nan])
    assert known.value == 2.0
    assert known.error == pytest.approx(math.sqrt(2) / math.sqrt(2))
    assert f"{known:.1f}" == "2.0 ± 1.0"
    assert math.isnan(mean([]).value)
