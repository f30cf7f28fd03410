"""Forecasts and the state: marginals of the mixture over starts, in the units of the stream."""

import math

import numpy as np
import pytest
from online import engines
from scipy import stats

import ishsmm_stream as hs

NORMAL = hs.emissions.Normal(1.0, 0.2, 2.0, 3.0)
SCALE = 19.0  # hazard 1 / (1 + SCALE)
MODEL = hs.ilr(NORMAL, hs.durations.Poisson(1.0, SCALE))
# The forecast's quantiles come from 2,000 draws; four standard errors are 6e-5 false alarms each.
DRAWS = 2000


def student(values):
    """The predictive law of a segment that holds ``values``."""
    values = values[~np.isnan(values)]
    mean, weight, shape, scale = NORMAL
    n = len(values)
    average = values.mean() if n else 0.0
    total = weight + n
    a = shape + 0.5 * n
    b = scale + 0.5 * n * np.var(values) if n else scale
    b += 0.5 * weight * n * (average - mean) ** 2 / total
    return stats.t(2.0 * a, (weight * mean + n * average) / total, math.sqrt(b * (total + 1.0) / (a * total)))


@pytest.mark.parametrize("step", [1, 5, 400])
def test_a_forecast_is_the_mixture_over_starts_and_changes_to_come(step):
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(0.0, 1.0, 40), rng.normal(6.0, 2.0, 7)])
    y[[5, 44]] = np.nan
    detector = hs.OnlineDetector(MODEL, max_hypotheses=len(y))
    detector.update_many(y)
    starts, weights = detector._engine.starts()
    stays = (SCALE / (1.0 + SCALE)) ** step
    forecast = detector.forecast(step)
    for quantiles, level in ((forecast.low, 0.05), (forecast.median, 0.5), (forecast.high, 0.95)):
        at = quantiles[step - 1]
        below = sum(w * student(y[s:]).cdf(at) for s, w in zip(starts, weights, strict=True))
        below = stays * below + (1.0 - stays) * student(y[:0]).cdf(at)
        assert abs(below - level) < 4.0 * math.sqrt(level * (1.0 - level) / DRAWS)


def _answers(y):
    detector = hs.OnlineDetector(seed=3)
    detector.update_many(y)
    return detector.forecast(5), detector.state


@pytest.mark.parametrize(("factor", "offset"), [(1e-9, 0.0), (2.5, -1e4), (1e9, 1e12)])
@pytest.mark.parametrize("kind", ["steps", "vectors", "constant", "first values", "one value"])
def test_forecasts_and_states_are_in_units_of_the_stream(kind, factor, offset):
    rng = np.random.default_rng(1)
    y = engines.levels(rng, 200, 60) + rng.normal(size=200)
    if kind == "vectors":
        y = np.stack([y, rng.normal(size=200)], axis=1)
    if kind == "constant":
        y = np.full(200, 3.0)
    if kind == "first values":
        y = y[:6]
    if kind == "one value":
        y = y[:1]
    plain, state = _answers(y)
    moved, moved_state = _answers(factor * y + offset)
    spread = float(np.max(np.abs(plain.high - plain.low))) + 1e-9
    for a, b in zip(moved, plain, strict=True):
        np.testing.assert_allclose(a, factor * b + offset, rtol=1e-7, atol=1e-6 * factor * spread)
    for name, value in state.parameters.items():
        expected = value * factor + (offset if name.startswith("mean") else 0.0)
        if name.startswith(("mean", "sd", "drift")):
            assert moved_state.parameters[name] == pytest.approx(expected, rel=1e-6, abs=1e-6 * factor * spread), name


def test_a_constant_stream_is_expected_to_stay_constant():
    for value in (1e-9, 5.0, 1e12):
        forecast, state = _answers(np.full(500, value))
        assert forecast.median == pytest.approx([value] * 5, rel=0.05)
        assert forecast.low == pytest.approx([value] * 5, rel=0.05)
        assert state.parameters["mean"] == pytest.approx(value, rel=0.05)


def test_the_state_names_the_current_segment():
    rng = np.random.default_rng(2)
    y = np.concatenate([rng.normal(0.0, 1.0, 100), rng.normal(500.0, 10.0, 100)])
    detector = hs.OnlineDetector()
    detector.update_many(y)
    state = detector.state
    assert (state.id, state.since, state.visits) == (100, 100, 1)
    assert state.probability > 0.95
    assert state.parameters["mean"] == pytest.approx(500.0, abs=5.0)
    assert state.parameters["sd"] == pytest.approx(10.0, rel=0.4)


def test_answers_are_the_same_whenever_they_are_asked_for():
    y = np.random.default_rng(3).normal(size=80)
    one, two = hs.OnlineDetector(seed=1), hs.OnlineDetector(seed=1)
    one.update_many(y)
    for value in y:
        two.update(value)
        two.forecast(2)
    for a, b in zip(one.forecast(4), two.forecast(4), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.state == two.state
    restored = hs.OnlineDetector.restore(one.snapshot())
    np.testing.assert_array_equal(restored.forecast(4).high, one.forecast(4).high)


def test_before_the_first_observation_there_is_no_state_and_no_forecast():
    detector = hs.OnlineDetector()
    assert detector.state is None
    with pytest.raises(ValueError, match="at least one observation"):
        detector.forecast()
    detector.update(1.0)
    assert detector.state.since == 0
    with pytest.raises(ValueError, match="h must be at least 1"):
        detector.forecast(0)
