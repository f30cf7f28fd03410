"""Synthetic backgrounds, and faults planted in them."""

import backgrounds
import numpy as np
import pytest
from backgrounds import BLOCK, KINDS, WITH_HABITS, stream
from planting import Background, Fault, describe, plant

ALL = KINDS | WITH_HABITS


@pytest.mark.parametrize("name", ALL)
def test_a_kind_is_one_endless_stream_for_each_seed(name):
    length = BLOCK + 1_000
    values = stream(ALL[name], 1, length)
    assert values.shape == (length,)
    assert values.dtype == np.float64
    assert np.isfinite(values).all()
    assert values.std() > 0.0
    assert np.array_equal(values[:5_000], stream(ALL[name], 1, 5_000))
    assert not np.array_equal(values, stream(ALL[name], 2, length))


def test_there_are_20_kinds():
    assert len(KINDS) == 20


@pytest.mark.parametrize(("name", "most"), [("AR(.99)", 1.0), ("random walk", 5.0), ("quantised drift", 1.0)])
def test_slow_streams_do_not_jump_between_blocks(name, most):
    values = stream(KINDS[name], 3, 2 * BLOCK)
    assert abs(values[BLOCK] - values[BLOCK - 1]) < most


def test_autoregressions_have_unit_spread_and_the_lag_that_they_claim():
    for phi in (0.5, 0.9):
        values = stream(backgrounds.autoregression(phi), 4, 4 * BLOCK)
        assert values.std() == pytest.approx(1.0, abs=0.03)  # 6 standard errors at least
        assert np.corrcoef(values[1:], values[:-1])[0, 1] == pytest.approx(phi, abs=0.02)


def test_cycles_repeat():
    days = stream(KINDS["daily cycle"], 5, 288 * 100).reshape(100, 288).mean(axis=0)
    assert np.ptp(days) > 5.0
    weeks = stream(KINDS["weekly cycle"], 5, 2_016 * 20).reshape(-1, 288)
    assert weeks[np.arange(len(weeks)) % 7 >= 5].mean() < weeks[np.arange(len(weeks)) % 7 < 5].mean() - 1.0


HISTORY = Background(spread=2.0, step=0.5, last=7.0)


def planted(fault, values):
    return plant(values, HISTORY, fault, np.random.default_rng(0))


def test_the_history_gives_the_size_of_a_fault():
    values = np.random.default_rng(1).normal(size=20_000)
    found = describe(np.append(values, (np.nan, 3.0)))
    assert found is not None
    assert found == pytest.approx((1.349, np.sqrt(2.0), 3.0), abs=0.05)
    assert describe(np.full(100, 4.0)) is None
    mostly_constant = np.where(np.arange(1_000) % 10 == 0, 1.0, 0.0)
    assert describe(mostly_constant).spread == pytest.approx(0.3)  # interquartile range 0: standard deviation


def test_faults_are_what_they_are_called():
    quiet = np.arange(300.0)
    assert np.array_equal(planted(Fault("none"), quiet), quiet)
    assert np.unique(np.abs(planted(Fault("shift", 4.0), quiet) - quiet)).tolist() == [8.0]
    spike = planted(Fault("spike", 8.0), quiet) - quiet
    assert abs(spike[0]) == 16.0
    assert not spike[1:].any()
    ramp = np.abs(planted(Fault("drift", 4.0, 200), quiet) - quiet)
    assert ramp[[0, 99, 199, 299]] == pytest.approx([0.04, 4.0, 8.0, 8.0])
    stuck = planted(Fault("stuck", length=200), quiet)
    assert np.unique(stuck[:200]).tolist() == [7.0]
    assert np.array_equal(stuck[200:], quiet[200:])


def test_noise_multiplies_the_spread_of_first_differences():
    rng = np.random.default_rng(2)
    walk = np.cumsum(rng.normal(scale=HISTORY.step, size=100_000))
    assert np.diff(planted(Fault("noise", 3.0), walk)).std() == pytest.approx(3 * HISTORY.step, rel=0.02)


def test_planting_leaves_the_background_alone_and_refuses_unknown_faults():
    values = np.zeros(10)
    planted(Fault("shift", 1.0), values)
    assert not values.any()
    with pytest.raises(ValueError, match="melted"):
        planted(Fault("melted"), values)
