"""Streams whose values are multiples of a step."""

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.online import lattice
from ishsmm_stream.online.renewal import adaptive


def columns(values):
    return np.asarray(values, dtype=float).reshape(-1, 1)


def step_in_units(detector):
    return detector._engine.memory.stream[adaptive.STEP] * detector._intake.scaling.scale[0]


def changes(detector, values):
    return [event.index for event in detector.update_many(values) if event.kind == "raised"]


@pytest.mark.parametrize(("values", "step"), [
    ([0.0, 3.0, 9.0, 6.0], 3.0),
    ([0.0, 6.0, 15.0, 1.0], 1.0),
    ([0.1, 0.3, 0.7, 1.1], 0.2),
    ([5.0, np.nan, 5.5, 8.0], 0.5),
    ([-2.0, 2.0, 1.0], 1.0),
    ([7.0, 7.0], lattice.UNKNOWN),
    ([np.nan], lattice.UNKNOWN),
    ([0.0, 1.0, 1.0 + np.pi / 7.0, 2.0, 3.3], lattice.CONTINUOUS),
    ([0.0, 1.0, 0.01, 0.02], lattice.CONTINUOUS),
])  # fmt: skip
def test_the_step_is_the_greatest_common_divisor_of_the_moves(values, step):
    assert lattice.step_of(columns(values)) == pytest.approx(step)


def test_ten_values_of_a_continuous_stream_have_no_step():
    rng = np.random.default_rng(0)
    assert all(lattice.step_of(rng.normal(size=(10, 1))) == lattice.CONTINUOUS for _ in range(2_000))


def test_parts_of_a_step_are_as_good_as_uniform_and_independent():
    parts = np.array([lattice.part_of_step(time) for time in range(50_000)])
    assert -0.5 < parts.min() < -0.4999
    assert 0.4999 < parts.max() < 0.5
    counts = np.histogram(parts, 50, (-0.5, 0.5))[0]
    assert ((counts - 1_000) ** 2 / 1_000).sum() < 85.4  # chi-squared with 49 degrees of freedom: .001 are above
    for lag in (1, 2, 7):
        assert abs(np.corrcoef(parts[lag:], parts[:-lag])[0, 1]) < 0.015


@pytest.mark.parametrize("step", [1.0, 0.1, 250.0])
@pytest.mark.parametrize("offset", [0.0, -37.0, 1e5])
def test_step_and_offset_do_not_matter(step, offset):
    counts = np.random.default_rng(1).poisson(2.0, 400).astype(float)
    counts[250:] += 8.0
    plain, other = hs.OnlineDetector(), hs.OnlineDetector()
    assert changes(plain, counts) == changes(other, offset + step * counts) != []
    assert step_in_units(other) == pytest.approx(step)


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_rare_ones_among_zeros_are_no_changes(share):
    """Fewer than .5 false changes per 1,000 readings, where the set of constants without this has 2 to 8."""
    found = before = 0
    for seed in range(10):
        values = (np.random.default_rng(seed).random(1_000) < share).astype(float)
        found += len(changes(hs.OnlineDetector(), values))
        second = hs.OnlineDetector()
        second._constants = 2
        before += len(changes(second, values))
    assert found <= 5
    assert before > 2 * found + 8


def test_a_change_of_a_rate_is_found():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found = changes(
            hs.OnlineDetector(), np.concatenate([rng.poisson(1.0, 300), rng.poisson(6.0, 60)]).astype(float)
        )
        assert any(abs(index - 300) <= 3 for index in found)


def test_a_constant_stream_that_moves_has_the_size_of_its_first_move_as_step():
    detector = hs.OnlineDetector()
    found = changes(detector, [20.0] * 300 + [20.5] * 40)
    assert found == [300]
    assert step_in_units(detector) == 0.5


def test_a_value_off_the_lattice_is_survived():
    rng = np.random.default_rng(2)
    detector = hs.OnlineDetector()
    detector.update_many(rng.poisson(2.0, 300).astype(float))
    assert step_in_units(detector) == pytest.approx(1.0)
    detector.update(2.0 + np.pi / 100.0)
    assert detector._engine.memory.stream[adaptive.STEP] == lattice.CONTINUOUS
    assert changes(detector, rng.normal(2.0, 1.4, 300)) == []
    assert changes(detector, rng.normal(12.0, 1.4, 50)) != []


def test_an_absurd_value_leaves_the_step_alone():
    detector = hs.OnlineDetector()
    detector.update_many(np.random.default_rng(3).poisson(2.0, 300).astype(float))
    detector.update(1.2345e9)
    assert step_in_units(detector) == pytest.approx(1.0)


def test_continuous_streams_have_the_answers_of_the_second_set_of_constants():
    values = np.random.default_rng(4).normal(size=500)
    values[300:] += 4.0
    third, second = hs.OnlineDetector(), hs.OnlineDetector()
    second._constants = 2
    assert third.update_many(values) == second.update_many(values)
    assert third.log_evidence == second.log_evidence


def test_a_snapshot_keeps_the_step_and_batches_do_not_matter():
    values = np.random.default_rng(5).poisson(2.0, 400).astype(float)
    whole, parts = hs.OnlineDetector(), hs.OnlineDetector()
    whole.update_many(values)
    for first in range(0, 400, 7):
        parts.update_many(values[first : first + 7])
        parts = hs.OnlineDetector.restore(parts.snapshot())
    assert parts.snapshot() == whole.snapshot()
    assert step_in_units(parts) == pytest.approx(1.0)
