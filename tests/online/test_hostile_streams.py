"""Streams that nobody designed for: no crash, nothing published that is not a number, and sensible answers."""

import math

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.online import rarity
from online import engines


def published(detector, events=()):
    """Every number that a detector says; probabilities are checked to be some."""
    probabilities = [event.probability for event in events]
    probabilities += [change.probability for change in detector.change_points]
    probabilities += [detector.change_probability(last) for last in (1, 20, 10**6)]
    numbers = [detector.time, detector.log_evidence, detector.discarded, detector.n_states]
    numbers += [*detector.run_length(), *detector.run_length(0.0, 0.5, 1.0)]
    for change in detector.change_points:
        numbers += [change.index, change.low, change.high]
        assert 1 <= change.low <= change.high < detector.time
    for alarm in detector.announced_changes:
        numbers += [alarm.number, alarm.index, alarm.raised_at]
        assert 0 < alarm.index < detector.time
        assert alarm.raised_at < detector.time
    for event in events:
        numbers += [*event[1:9], event.change]
        assert set(event.reasons) <= set(rarity.REASONS)
    state = detector.state
    if state is not None:
        probabilities.append(state.probability)
        numbers += [state.id, state.since, state.visits, *state.parameters.values()]
    assert all(0.0 <= p <= 1.0 + 1e-9 for p in probabilities), probabilities
    assert all(0 <= length <= detector.time for length in detector.run_length())
    return np.array([*probabilities, *numbers], dtype=float)


def fed(y, model="auto", **settings):
    """The detector and the events of its changes; everything that it published on the way was a number."""
    detector = hs.OnlineDetector(model, **settings)
    events = []
    for rows in np.array_split(np.asarray(y, dtype=float), 8):
        found = detector.update_many(rows)
        events += [event for event in found if event.kind not in ("alarm", "cleared")]
        assert np.isfinite(published(detector, found)).all()
    if detector.state is not None:
        forecast = detector.forecast(3)
        assert all(np.isfinite(part).all() for part in forecast)
        assert (forecast.low <= forecast.median).all()
        assert (forecast.median <= forecast.high).all()
    restored = hs.OnlineDetector.restore(detector.snapshot())
    assert restored.change_points == detector.change_points
    return detector, events


def raised(events):
    return [event.index for event in events if event.kind == "raised"]


def noise(length, seed=0):
    return np.random.default_rng(seed).normal(size=length)


# Nothing happens


@pytest.mark.parametrize("value", [0.0, 7.3, -1e300, 5e-324])
def test_a_constant_stream_is_quiet(value):
    detector, events = fed(np.full(3000, value))
    assert events == []
    assert detector.change_points == ()
    assert detector.run_length()[0] > 2900


def test_two_values_that_alternate_are_quiet():
    assert fed(np.tile([0.0, 1.0], 2000))[1] == []
    assert fed(np.tile([-1.0, 1.0], 2000) * (5.0 + noise(4000)))[1] == []


def test_whole_numbers_with_many_ties_are_quiet():
    rng = np.random.default_rng(0)
    for y in (rng.integers(0, 2, 3000), rng.integers(0, 5, 3000), rng.poisson(2.0, 3000), np.round(noise(3000))):
        assert raised(fed(y)[1]) == []


def test_a_very_slow_drift_is_no_row_of_alarms():
    detector, events = fed(noise(5000) + 1e-3 * np.arange(5000))
    assert len(raised(events)) <= 5
    assert len(detector.change_points) <= 5


@pytest.mark.parametrize("size", [30.0, 1e6, 1e160, 1e300, -1e300])
def test_one_reading_far_off_is_an_outlier_and_no_change(size):
    y = noise(300)
    y[150] = size
    detector, events = fed(y)
    assert events == []
    assert detector.change_points == ()
    assert detector.run_length()[1] == 300


def test_spikes_among_the_first_readings_do_not_spoil_the_units():
    y = noise(300)
    y[[2, 5]] = 1e300, -1e160
    y[200:] += 6.0
    assert raised(fed(y)[1]) == pytest.approx([200], abs=2)


# Something happens


@pytest.mark.parametrize("step", [60.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_huge_step_is_found_at_once_and_a_small_one_after_it_too(step, sign):
    y = noise(500, seed=1) + sign * np.repeat([0.0, step, step + 2.0], (200, 150, 150))
    detector, events = fed(y)
    first, second = [event for event in events if event.kind == "raised"]
    assert first.index == 200
    assert first.at <= 205
    assert second.index == pytest.approx(350, abs=5)
    assert second.at <= 400
    assert [change.index for change in detector.change_points] == [200, pytest.approx(350, abs=5)]


@pytest.mark.parametrize("length", [50, 500, 5000])
@pytest.mark.parametrize("level", [0.0, 5.0])
def test_a_constant_stream_that_begins_to_move_has_changed_there(length, level):
    y = np.concatenate([np.full(length, 3.0), 3.0 + level + noise(200)])
    detector, events = fed(y)
    assert raised(events) == [length]
    assert events[0].at <= length + 5
    assert detector.change_points[-1].index == length


def test_a_sensor_that_sticks_for_ten_thousand_readings_and_recovers():
    y = np.concatenate([noise(300), np.full(10_000, 0.3), noise(300, seed=2)])
    detector, events = fed(y)
    assert raised(events) == [pytest.approx(300, abs=3), pytest.approx(10_300, abs=2)]
    assert detector.announced_changes[-1].index == pytest.approx(10_300, abs=2)
    assert detector.run_length()[1] == pytest.approx(300, abs=2)


def test_a_change_of_noise_alone_is_found():
    y = np.concatenate([noise(300), 6.0 * noise(200, seed=3)])
    assert raised(fed(y)[1]) == [pytest.approx(300, abs=10)]


def test_tiny_and_denormal_numbers_are_numbers():
    for unit in (1e-300, 1e-310):
        y = unit * (noise(400) + np.repeat([0.0, 8.0], 200))
        assert raised(fed(y)[1]) == [200]
    fed(5e-324 * np.random.default_rng(0).integers(0, 50, 500))


@pytest.mark.parametrize("unit", [1e150, 1e300, 1.7e307])
def test_huge_numbers_are_numbers(unit):
    y = unit * np.clip((noise(400) + np.repeat([0.0, 8.0], 200)) / 10.0, -10.0, 10.0)
    assert raised(fed(y)[1]) == [200]


def test_magnitudes_that_jump_between_the_ends_of_doubles():
    fed(np.concatenate([noise(100), 1e300 * noise(100), noise(100), 1e-300 * noise(100)]))
    fed(np.tile([1.7e308, -1.7e308], 200))
    fed(np.full(200, 1.7e308))
    fed(1.05 ** np.arange(4000.0))


# Readings are missing


@pytest.mark.parametrize("model", ["auto", "normal"])
def test_missing_readings_are_taken_wherever_they_are(model):
    settings = {} if model == "auto" else {"model": hs.ilr(hs.emissions.Normal(), hs.durations.Poisson(1.0, 100.0))}
    step = noise(200) + np.repeat([0.0, 6.0], 100)
    gap = np.full(40, np.nan)
    assert raised(fed(np.concatenate([gap, step]), **settings)[1]) == [140]
    assert raised(fed(np.concatenate([step, gap]), **settings)[1]) == [100]
    assert raised(fed(np.concatenate([step[:50], gap, step[50:]]), **settings)[1]) == [140]
    sparse = np.where(np.arange(400) % 2, np.repeat(step, 2), np.nan)
    assert raised(fed(sparse, **settings)[1]) == [pytest.approx(200, abs=1)]


def test_nothing_but_missing_readings_says_nothing():
    detector, events = fed(np.full(500, np.nan))
    assert events == []
    assert detector.change_points == ()
    assert detector.time == 500


def test_one_reading_among_missing_ones():
    y = np.full(600, np.nan)
    y[300] = 3.0
    detector, events = fed(y)
    assert (events, detector.change_points) == ([], ())


@pytest.mark.parametrize("gap", [20, 200])
def test_a_change_while_readings_are_missing_is_listed_and_lies_in_the_gap(gap):
    """Also where the gap is longer than the lag."""
    y = np.concatenate([noise(100), np.full(gap, np.nan), 6.0 + noise(100, seed=1)])
    detector, events = fed(y)
    assert len(raised(events)) == 1
    assert 99 <= detector.announced_changes[-1].index <= 100 + gap
    assert len(detector.change_points) == 1
    assert 99 <= detector.change_points[0].index <= 100 + gap


def test_missing_channels_make_the_row_missing():
    y = np.random.default_rng(0).normal(size=(300, 2))
    y[150:] += 4.0
    y[::3, 0] = np.nan
    y[100:120, 1] = np.nan
    assert raised(fed(y)[1]) == [pytest.approx(150, abs=2)]


# Several channels


def test_a_channel_that_is_constant_or_a_copy_of_another():
    y = np.random.default_rng(1).normal(size=(400, 2))
    y[200:, 0] += 5.0
    constant, twin = y.copy(), np.repeat(y[:, :1], 2, axis=1)
    constant[:, 1] = 2.0
    for rows in (constant, twin):
        assert raised(fed(rows)[1]) == [pytest.approx(200, abs=1)]


@pytest.mark.parametrize("size", [1e6, 1e160, 1e300])
def test_a_spike_in_one_channel_is_survived(size):
    y = np.random.default_rng(2).normal(size=(300, 2))
    y[100, 0] = size
    y[200:] += 4.0
    detector, _ = fed(y)
    assert detector.change_points[-1].index == pytest.approx(200, abs=1)


# Priors that are given do not know the stream's units

DWELL = hs.durations.Poisson(1.0, 100.0)
FIXED = {
    "normal": ({"model": hs.ilr(hs.emissions.Normal(), DWELL)}, 1),
    "normal, outliers": ({"model": hs.ilr(hs.emissions.Normal(), DWELL), "outliers": 0.01}, 1),
    "vectors": (
        {"model": hs.ilr(hs.emissions.MultivariateNormal((0.0, 0.0), 0.1, 4.0, ((1.0, 0.0), (0.0, 1.0))), DWELL)},
        2,
    ),
    "autoregression": ({"model": hs.ilr(hs.emissions.Autoregressive(), DWELL)}, 1),
    "auto without outliers": ({"outliers": 0.0}, 1),
}


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("size", [1e9, 1e100, 1e160, -1e300])
def test_a_spike_under_given_priors_is_survived(name, size):
    settings, channels = FIXED[name]
    y = np.random.default_rng(3).normal(size=(160, channels))
    without, _ = fed(y, **settings)
    y[40, 0] = size
    y[100:] += 6.0
    detector, _ = fed(y, **settings)
    assert detector.log_evidence < without.log_evidence, "a spike is not likely"
    if settings != {"outliers": 0.0}:  # there the spike takes part in what the noise is learned from
        assert detector.change_points[-1].index == pytest.approx(100, abs=3)


def test_counts_of_any_size_are_survived():
    y = np.random.default_rng(4).poisson(3.0, 200).astype(float)
    y[50] = 1e15
    y[120:] += 20.0
    detector, _ = fed(y, model=hs.ilr(hs.emissions.Poisson(1.0, 1.0), DWELL))
    assert detector.change_points[-1].index == 120


@pytest.mark.parametrize("emission", [hs.emissions.Poisson(1.0, 1.0), hs.emissions.Categorical((1.0, 1.0, 1.0))])
def test_counts_and_letters_cannot_be_standardised(emission):
    """They have no units: a standardised count is none any more."""
    with pytest.raises(ValueError, match="prior"):
        hs.OnlineDetector(hs.ilr(emission, DWELL), prior="auto").update_many([0, 1, 2, 1] * 10)


# What is refused


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinite_reading_is_refused_by_its_index(value):
    detector = hs.OnlineDetector()
    detector.update_many(noise(50))
    with pytest.raises(ValueError, match="infinite at index 7"):
        detector.update_many([*noise(7), value, 0.0])
    with pytest.raises(ValueError, match="infinite at index 0"):
        detector.update(value)
    with pytest.raises(ValueError, match="infinite at index 2"):
        hs.OnlineDetector().update_many([[0.0, 1.0], [0.0, 1.0], [0.0, value]])
    assert detector.time == 50


@pytest.mark.parametrize(("settings", "message"), [
    ({"model": "automatic"}, "model must be one of 'auto', 'recurring', got 'automatic'; did you mean 'auto'"),
    ({"model": 3}, "model must be 'auto' or made by a preset"),
    ({"seed": -1}, "seed must be at least 0"),
    ({"threshold": 1.5}, "threshold must lie between 0 and 1, got 1.5"),
    ({"threshold": 0.9, "alarm_policy": hs.AlarmPolicy()}, "threshold or alarm_policy, not both"),
    ({"alarm_policy": 0.9}, "alarm_policy must be an AlarmPolicy"),
    ({"prior": "flat"}, "prior must be one of 'auto', 'model'"),
    ({"hazard": 0.1}, r"hazard must be ishsmm_stream.priors.Beta\(a, b\) or None"),
    ({"min_dwell": 0}, "min_dwell must be at least 1"),
    ({"outliers": 1.0}, "outliers must be a probability below 1"),
    ({"outliers": math.nan}, "outliers must be finite"),
    ({"lag": 4}, "lag must be at least 8"),
    ({"max_hypotheses": 1}, "max_hypotheses must be at least 2"),
    ({"keep": 0}, "keep must be at least 1"),
    ({"warm_up": 1}, "warm_up must be at least 2"),
    ({"model": hs.ilr(hs.emissions.Normal(), DWELL), "min_dwell": 5}, "min_dwell.*hazard"),
    ({"model": hs.ilr(hs.emissions.Poisson(1.0, 1.0), DWELL), "outliers": 0.01}, "outliers are for emissions.Normal"),
])  # fmt: skip
def test_settings_that_cannot_be_are_refused_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        hs.OnlineDetector(**settings)


@pytest.mark.parametrize("quantile", [-0.1, 1.1, math.nan, "half"])
def test_a_quantile_that_is_none_is_refused(quantile):
    detector, _ = fed(noise(50))
    with pytest.raises(ValueError, match="quantile"):
        detector.run_length(quantile)


def test_a_stream_keeps_its_channels():
    detector = hs.OnlineDetector()
    detector.update_many(np.zeros((5, 2)))
    with pytest.raises(ValueError, match="values have 1 channels, the stream has 2"):
        detector.update_many(np.zeros(3))
    with pytest.raises(ValueError, match="values have 2 channels, but the model's emission takes 1"):
        hs.OnlineDetector(hs.ilr(hs.emissions.Normal(), DWELL)).update_many(np.zeros((5, 2)))


# What is said over a long time


def test_the_place_of_an_alarm_does_not_jump_when_the_next_one_is_raised():
    """It is refined until then, in ``alarms`` as in the events, and stays where it was."""
    rng = np.random.default_rng(5)
    y = engines.levels(rng, 6000, 120, 1.2) + rng.normal(size=6000)
    detector = hs.OnlineDetector(hs.ilr(hs.emissions.Normal(0.0, 0.3, 2.0, 2.0), hs.durations.Poisson(1.0, 120.0)))
    jumped, before = [], ()
    for value in y:
        events = detector.update(value)
        now = detector.announced_changes
        is_next = [event.kind for event in events] == ["raised"] and before and before[-1].status == "confirmed"
        if is_next and now[-2].index != before[-1].index:
            jumped.append((before[-1], now[-2]))
        before = now
    assert len(before) > 20
    assert jumped == []


def test_alarms_ascend():
    for seed in range(3):
        y = np.random.default_rng(seed).exponential(size=5000)
        detector, _ = fed(y)
        stood = [alarm.index for alarm in detector.announced_changes if alarm.status != "retracted"]
        assert stood == sorted(stood)


def test_the_number_of_states_counts_changes_that_are_no_longer_kept():
    y = np.repeat(np.arange(40) % 2 * 20.0, 30) + noise(1200)
    detector, _ = fed(y, keep=5)
    assert len(detector.announced_changes) == 5
    assert detector.n_states == 40


@pytest.mark.parametrize("settings", [{"hazard": hs.priors.Beta(1.0, 500.0), "min_dwell": 4}, {}])
def test_data_that_rule_out_every_path_leave_answers(settings):
    """A jump beyond doubles while no segment may end yet: every segmentation has probability 0."""
    duration = hs.durations.Geometric(1.0, 10.0) if settings else hs.durations.Fixed(5)
    detector = hs.OnlineDetector(hs.ilr(hs.emissions.Poisson(1.0, 1.0), duration), **settings)
    for value in (3000.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0):
        detector.update(value)
        state = detector.state
        assert 0 <= state.since < detector.time
        assert 0.0 <= state.probability <= 1.0
        assert 1 <= min(detector.run_length()) <= max(detector.run_length()) <= detector.time
        assert 0.0 <= detector.change_probability(3) <= 1.0
        assert detector.n_states >= 1
