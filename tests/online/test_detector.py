"""The detector as its users meet it: batches, snapshots, units, hostile streams."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import ishsmm_stream as hs

STEP = np.concatenate([np.zeros(150), np.full(80, 4.0), np.full(120, 3.0)]) + np.random.default_rng(0).normal(size=350)
WITH_GAPS = np.where(np.arange(350) % 11 == 3, math.nan, STEP)


def run(values, sizes, restore=False, **settings):
    """(events, change points, alarms, evidence) of a stream fed in pieces, through a snapshot after each if asked."""
    detector, events, begin, turn = hs.OnlineDetector(**settings), [], 0, 0
    while begin < len(values):
        end = begin + sizes[turn % len(sizes)]
        events += detector.update_many(values[begin:end])
        begin, turn = end, turn + 1
        if restore:
            detector = hs.OnlineDetector.restore(detector.snapshot())
    return events, detector.change_points, detector.announced_changes, detector.log_evidence


@pytest.mark.parametrize("values", [STEP, WITH_GAPS, np.append(np.full(40, 7.0), STEP)], ids=["steps", "gaps", "stuck"])
def test_batches_make_no_difference(values):
    at_once = run(values, [len(values)])
    assert at_once[0]
    for sizes in ([1], [7], [64], [13, 1, 5]):
        assert run(values, sizes) == at_once


def test_a_restored_detector_goes_on_as_if_nothing_had_happened():
    at_once = run(STEP, [len(STEP)])
    assert run(STEP, [1], restore=True) == at_once
    assert run(STEP, [17], restore=True) == at_once


def test_a_snapshot_is_small_and_the_same_twice():
    detector = hs.OnlineDetector()
    detector.update_many(np.tile(STEP, 6))
    data = detector.snapshot()
    assert len(data) <= 18 * 1024
    assert hs.OnlineDetector.restore(data).snapshot() == data


def test_bytes_that_are_no_snapshot_are_refused():
    detector = hs.OnlineDetector()
    detector.update_many(STEP[:60])
    data = detector.snapshot()
    damaged = [data[:i] + bytes([data[i] ^ 0x55]) + data[i + 1 :] for i in range(0, len(data), len(data) // 40)]
    cut = [data[:i] for i in range(0, len(data), len(data) // 20)]
    for bad in (*damaged, *cut, b"", b"something else entirely", "text"):
        with pytest.raises(hs.SnapshotError):
            hs.OnlineDetector.restore(bad)


@pytest.mark.parametrize(("factor", "offset"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e6), (250.0, -2.5e8), (1e-6, 0.5)])
def test_units_make_no_difference(factor, offset):
    plain, scaled = hs.OnlineDetector(), hs.OnlineDetector()
    plain.update_many(STEP)
    scaled.update_many(factor * STEP + offset)
    assert [point.index for point in plain.change_points] == [point.index for point in scaled.change_points]
    for one, other in zip(plain.change_points, scaled.change_points, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-9)
    assert plain.announced_changes == scaled.announced_changes
    after = len(STEP) - 10  # the first values set the units
    assert scaled.log_evidence == pytest.approx(plain.log_evidence - after * math.log(factor), abs=1e-3)


def check_published(detector):
    """Nothing that is published is nan or infinite."""
    assert math.isfinite(detector.log_evidence)
    assert all(math.isfinite(number) for point in detector.change_points for number in point)
    assert all(0.0 <= point.probability <= 1.0 for point in detector.change_points)
    assert 0.0 <= detector.change_probability(last=20) <= 1.0
    assert all(length >= 0 for length in detector.run_length())
    state = detector.state
    assert state is None or all(math.isfinite(value) for value in state.parameters.values())
    assert detector.time == 0 or np.isfinite(detector.forecast(3).median).all()


NOISE = np.random.default_rng(1).normal(size=400)


def with_spikes(*values):
    spiked = NOISE.copy()
    spiked[200 : 200 + len(values)] = values
    return spiked


@pytest.mark.parametrize(
    "values",
    [
        np.full(500, 7.0), np.zeros(500), with_spikes(1e6), with_spikes(1e160), with_spikes(1e300, -1e300),
        np.full(60, math.nan), np.append(np.full(60, math.nan), NOISE), np.where(NOISE > 1.5, math.nan, NOISE),
        np.tile([5.0, -5.0], 200), NOISE * 1e-310, NOISE * 1e300, np.round(NOISE),
    ],
    ids=[
        "constant", "zero", "outlier", "1e160", "1e300", "nothing", "late", "gaps", "signs", "denormal", "huge", "ties",
    ],
)  # fmt: skip
def test_hostile_streams_raise_no_alarm_and_publish_numbers(values):
    detector = hs.OnlineDetector()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        events = detector.update_many(values)
        check_published(detector)
    assert [event for event in events if event.kind == "raised"] == []


@pytest.mark.parametrize("sigmas", [60.0, 1e3, 1e6, 1e9])
def test_a_great_step_is_found_within_five_observations_and_a_small_one_after_it(sigmas):
    values = NOISE + np.repeat([0.0, sigmas, sigmas + 3.0], (200, 100, 100))
    detector = hs.OnlineDetector()
    raised = [event for event in detector.update_many(values) if event.kind == "raised"]
    assert raised[0].index == 200
    assert raised[0].at < 205
    assert abs(raised[1].index - 300) <= 5
    check_published(detector)


def test_a_stuck_sensor_is_a_change_and_its_end_another():
    values = np.concatenate([NOISE[:200], np.full(10_000, 0.5), NOISE[200:]])
    detector = hs.OnlineDetector()
    detector.update_many(values)
    first, last = (point.index for point in detector.change_points)
    assert abs(first - 200) <= 5
    assert last == 10_200


def test_a_sensor_that_begins_stuck_has_its_first_move_noticed():
    events = hs.OnlineDetector().update_many(np.append(np.full(300, 7.0), 7.0 + NOISE[:100]))
    assert events[0].kind == "raised"
    assert events[0].index == 300


def test_infinite_values_are_refused_by_their_index():
    with pytest.raises(ValueError, match="infinite at index 2"):
        hs.OnlineDetector().update_many([1.0, 2.0, math.inf])


def test_the_number_of_channels_is_kept():
    detector = hs.OnlineDetector()
    detector.update(1.0)
    with pytest.raises(ValueError, match="2 channels, the stream has 1"):
        detector.update([1.0, 2.0])


def test_a_forecast_widens_where_a_change_is_possible_and_names_the_level():
    detector = hs.OnlineDetector()
    detector.update_many(100.0 + 20.0 * STEP[:230])
    forecast = detector.forecast(5)
    assert np.all((forecast.low < forecast.median) & (forecast.median < forecast.high))
    assert forecast.median[0] == pytest.approx(180.0, abs=15.0)
    assert detector.state.since == 150
    assert detector.state.parameters["mean"] == pytest.approx(180.0, abs=10.0)
    assert detector.state.parameters["sd"] == pytest.approx(20.0, rel=0.25)


def test_a_copy_goes_its_own_way():
    detector = hs.OnlineDetector()
    detector.update_many(STEP[:140])
    twin = pickle.loads(pickle.dumps(copy.deepcopy(detector)))
    assert twin.update_many(STEP[140:]) == detector.update_many(STEP[140:])
    assert twin.log_evidence == detector.log_evidence


def test_states_are_counted_beyond_the_change_points_that_are_kept():
    detector = hs.OnlineDetector(keep=2)
    detector.update_many(np.repeat(np.arange(6) * 10.0, 100) + np.tile(NOISE[:100], 6))
    assert len(detector.change_points) < 5
    assert detector.n_states == 6
