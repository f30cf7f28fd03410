"""Units: causal, equivariant, indifferent to batches."""

import math

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.online.scaling import Scaling, location_and_scale, standardise
from online import engines


def standardised(y, sizes=None, warm_up=10):
    """All rows that come out, fed in batches of the given sizes (the last one repeated)."""
    y = np.reshape(np.asarray(y, dtype=float), (len(y), -1))
    scaling = Scaling(y.shape[1], warm_up)
    out, muted, at = [], 0, 0
    sizes = list(sizes or [len(y)])
    while at < len(y):
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        end = min(at + size, len(y))
        if not scaling.is_warm:
            rows, taken, are_first = scaling.take(y[at:end])
            out.append(rows)
            muted += len(rows) if are_first else 0
            at += taken
        if scaling.is_warm:
            rows = np.empty_like(y[at:end])
            standardise(y[at:end], scaling.location, scaling.scale, rows)
            out.append(rows)
            at = end
    return np.concatenate(out), muted, scaling


def test_later_values_change_nothing():
    rng = np.random.default_rng(0)
    y = rng.normal(50.0, 3.0, 100)
    other = np.concatenate([y[:40], 1e6 * rng.normal(size=60)])
    np.testing.assert_array_equal(standardised(y)[0][:40], standardised(other)[0][:40])


def test_the_first_values_set_median_and_spread():
    y = np.arange(10.0) * 2.0
    _, _, scaling = standardised(np.concatenate([y, [1e9]]))
    assert scaling.location[0] == 9.0
    assert scaling.scale[0] == pytest.approx(1.482602 * 5.0)


@pytest.mark.parametrize("sizes", [[1], [7], [3, 1, 50], [64]])
@pytest.mark.parametrize("kind", ["plain", "missing at the start", "mostly missing", "constant start", "vectors"])
def test_batches_do_not_matter(kind, sizes):
    rng = np.random.default_rng(1)
    y = rng.normal(5.0, 2.0, 200)
    if kind == "missing at the start":
        y[:13] = np.nan
    if kind == "mostly missing":
        y[(np.arange(200) % 20) != 3] = np.nan
    if kind == "constant start":
        y[:60] = 5.0
    if kind == "vectors":
        y = rng.normal(size=(200, 3))
        y[5, 1] = y[40, 2] = np.nan
        y[:50, 0] = 2.0
    np.testing.assert_array_equal(standardised(y)[0], standardised(y, sizes)[0])


def test_only_what_was_held_back_is_caught_up_on_in_silence():
    """Rows before the first value pass, the ten first values are caught up on, and the next one can raise an alarm."""
    y = np.concatenate([np.full(5, np.nan), np.random.default_rng(2).normal(size=100)])
    rows, muted, _ = standardised(y)
    assert len(rows) == 105
    assert muted == 5 + 10


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1.0, 7.3, 1e9])
@pytest.mark.parametrize("offset", [0.0, 1e6, -1e6])
def test_units_do_not_matter(factor, offset):
    y = np.random.default_rng(3).normal(size=300)
    moved, _, _ = standardised(factor * y + offset * factor)
    np.testing.assert_allclose(moved, standardised(y)[0], rtol=0.0, atol=1e-8)


@pytest.mark.parametrize(("values", "scale"), [
    ([3.0] * 10, 0.0),
    ([3.0] * 9 + [4.0], 1.482602),  # one move of 1
    ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 5.0, 0.0], 1.482602 * 3.0),  # moves of 1, 1, 5, 5: their median
    ([7.0], 0.0),
])  # fmt: skip
def test_where_the_median_deviation_is_zero_the_moves_say_the_scale(values, scale):
    location, found = location_and_scale(np.array(values))
    assert location == np.median(values)
    assert found == pytest.approx(scale, rel=1e-5)


def test_a_constant_start_is_zero_and_the_first_value_that_differs_sets_the_scale():
    out, _, scaling = standardised(np.concatenate([np.full(50, 4.0), [4.25, 3.0, 4.0]]))
    np.testing.assert_array_equal(out[:, 0], [0.0] * 50 + [1.0, -4.0, 0.0])
    assert scaling.scale[0] == 0.25


@pytest.mark.parametrize("values", [
    np.array([1.7e308, -1.7e308] * 10),
    np.array([5e-324, 0.0] * 10),
    np.array([0.0] * 12 + [5e-324, 1.0]),
    np.array([1e-320, 2e-320, 3e-320, 4e-320] * 5),
    np.array([1e308] * 15 + [-1e308]),
])  # fmt: skip
def test_the_edges_of_doubles_stay_finite(values):
    out, _, _ = standardised(values)
    assert np.isfinite(out).all()


def test_patience_ends_where_most_readings_are_missing():
    """One value in 50: the units are set after ten times the warm-up, from what there is."""
    y = np.full(300, np.nan)
    y[::50] = np.arange(6.0)
    out, _, scaling = standardised(y)
    assert scaling.is_warm
    assert len(out) == 300


def _auto(y):
    detector = hs.OnlineDetector()
    events = detector.update_many(y)
    return detector, events


STREAM = engines.levels(np.random.default_rng(4), 400, 80) + np.random.default_rng(5).normal(size=400)
STREAM[[50, 51]] = np.nan


@pytest.mark.parametrize("factor", [1e-9, 1e-4, 3.7, 1e4, 1e9])
@pytest.mark.parametrize("offset", [0.0, 1e3, -1e6, 1e6])
def test_the_detector_gives_the_same_answers_in_any_units(factor, offset):
    """a y + b: an offset of 1e6 scales leaves ten digits of a reading, and nine of an answer."""
    plain, plain_events = _auto(STREAM)
    moved, moved_events = _auto(factor * STREAM + offset * factor)
    assert len(plain.change_points) >= 3
    tolerance = 1e-9
    assert [event[:4] for event in moved_events] == [event[:4] for event in plain_events]
    for a, b in zip(moved_events, plain_events, strict=True):
        assert a.probability == pytest.approx(b.probability, abs=tolerance)
    for a, b in zip(moved.change_points, plain.change_points, strict=True):
        assert (a.index, a.low, a.high) == (b.index, b.low, b.high)
        assert a.probability == pytest.approx(b.probability, abs=tolerance)
    assert moved.announced_changes == plain.announced_changes
    assert moved.run_length() == plain.run_length()
    assert moved.change_probability(30) == pytest.approx(plain.change_probability(30), abs=tolerance)


@pytest.mark.parametrize("factor", [1e-6, 0.5, 1e3])
def test_the_evidence_is_a_density_per_unit_of_the_stream(factor):
    """Of the values after the ten that set the units: it shifts by -ln a for each of them, missing ones not counted."""
    plain, _ = _auto(STREAM)
    moved, _ = _auto(factor * STREAM)
    counted = np.sum(~np.isnan(STREAM)) - 10
    assert moved.log_evidence == pytest.approx(plain.log_evidence - counted * math.log(factor), abs=1e-6)


def test_the_evidence_adds_up_over_the_stream():
    """ln p of the first values does not count: it is 0 until they are complete, then grows by one term a value."""
    detector = hs.OnlineDetector()
    seen = []
    for value in 1e6 * STREAM[:40]:
        detector.update(value)
        seen.append(detector.log_evidence)
    assert seen[:10] == [0.0] * 10
    terms = np.diff(seen)[10:]
    assert np.all(np.abs(terms + math.log(1e6)) < 15.0)


def test_the_least_effect_is_in_units_of_the_data():
    """A step of 5 in noise of 1, in other units: quiet below a least effect of 6 of them, told below one of 4."""
    rng = np.random.default_rng(6)
    y = np.repeat([0.0, 5.0], 60) + rng.normal(size=120)
    for unit in (1e-3, 1.0, 1e4):
        told = [
            bool(hs.OnlineDetector(alarm_policy=hs.AlarmPolicy(min_effect=least * unit)).update_many(unit * y))
            for least in (4.0, 6.0)
        ]
        assert told == [True, False], unit
