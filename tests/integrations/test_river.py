"""The drift detectors as river uses them."""

import copy
import inspect
import math
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
from river import base, drift, forest, naive_bayes, tree
from river.checks import common

import ishsmm_stream as hs
from ishsmm_stream.integrations.river import ChangePointDetector, ErrorRateDetector

DETECTORS = [ChangePointDetector(), ErrorRateDetector(threshold=0.9, warning_threshold=0.3)]
# river's checks that take no data set, which is all that a drift detector can be given
CHECKS = [
    check
    for name, check in inspect.getmembers(common, inspect.isfunction)
    if name.startswith("check_") and list(inspect.signature(check).parameters) == ["model"]
]


def flags(detector, values):
    """What is detected at each value: "drift", "warning" or nothing."""
    found = []
    for value in values:
        detector.update(value)
        assert not (detector.drift_detected and detector.warning_detected)
        found.append("drift" if detector.drift_detected else "warning" if detector.warning_detected else "")
    return found


def step(size=1.5, before=200, after=100, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0.0, 1.0, before), rng.normal(size, 1.0, after)]).tolist()


# What river asks of it


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: type(detector).__name__)
def test_rivers_own_checks_pass(detector, check):
    if check is common.check_tags:  # for estimators: river's own detectors have no tags
        assert not hasattr(drift.ADWIN(), "_tags")
        return
    check(detector.clone())


def test_the_checks_are_those_that_river_runs():
    assert len(CHECKS) >= 14


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: type(detector).__name__)
def test_it_is_a_drift_and_warning_detector_with_nothing_detected_yet(detector):
    assert isinstance(detector, base.DriftAndWarningDetector)
    assert (detector.drift_detected, detector.warning_detected) == (False, False)


def test_a_clone_has_the_settings_and_none_of_the_data():
    model = hs.ilr(hs.emissions.Normal(), hs.durations.Geometric(1.0, 100.0))
    detector = ChangePointDetector(threshold=0.9, warning_threshold=0.3, model=model, seed=4)
    flags(detector, step())
    clone = detector.clone()
    own = {"threshold": 0.9, "warning_threshold": 0.3, "model": model, "seed": 4}
    assert clone._get_params() == {**own, "signal": "change", "every": 1000.0}
    assert clone.detector.time == 0
    before = pickle.dumps(clone)
    flags(detector, step())
    assert pickle.dumps(clone) == before
    assert detector.clone({"threshold": 0.8}).threshold == 0.8


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda detector: pickle.loads(pickle.dumps(detector))])
@pytest.mark.parametrize("at", [0, 5, 150, 205])
def test_a_pickled_detector_goes_on_as_if_nothing_had_happened(copied, at):
    values = step()
    whole, first = ChangePointDetector(), ChangePointDetector()
    expected = flags(whole, values)
    assert flags(first, values[:at]) + flags(copied(first), values[at:]) == expected


# What it detects


def test_drift_is_where_alarms_are_raised_and_a_warning_comes_before():
    values = step() + step(-1.5, 0, 200, seed=1)
    reference = hs.OnlineDetector(threshold=0.99)
    raised = [event.at for event in reference.update_many(values) if event.kind == "raised"]
    found = flags(ChangePointDetector(threshold=0.99), values)
    assert [t for t, flag in enumerate(found) if flag == "drift"] == raised
    assert len(raised) == 2
    assert all(found[t - 1] == "warning" for t in raised)
    assert all(start <= t < start + 30 for start, t in zip((200, 300), raised, strict=True))


def test_a_warning_is_the_probability_of_a_recent_change():
    detector = ChangePointDetector(threshold=0.99, warning_threshold=0.2)
    reference = hs.OnlineDetector(threshold=0.99)
    shortest = hs.AlarmPolicy().min_segment
    for t, value in enumerate(step(size=1.0)):
        detector.update(value)
        reference.update(value)
        if reference.announced_changes:
            break
        last = min(t + 1 - shortest, 50)
        expected = last > 0 and reference.change_probability(last) > 0.2
        assert detector.warning_detected == expected
    assert detector.drift_detected


@pytest.mark.parametrize("size", [0.0, 4.0])
def test_missing_values_detect_nothing_and_change_little(size):
    values = step(size, 200, 40)
    gaps = [math.nan] * 3 + values[:100] + [math.nan] * 50 + values[100:] + [math.nan] * 5
    found = flags(ChangePointDetector(), gaps)
    assert found[:3] == [""] * 3
    assert "drift" not in found[103:153]
    drifts = [t for t, flag in enumerate(found) if flag == "drift"]
    assert (len(drifts) == 1 and 253 <= drifts[0] < 263) if size else not drifts


def test_rare_errors_are_no_drift_and_more_of_them_are():
    rng = random.Random(3)
    found = flags(ErrorRateDetector(), [rng.random() < (0.03 if t < 2000 else 0.4) for t in range(2200)])
    drifts = [t for t, flag in enumerate(found) if flag == "drift"]
    assert len(drifts) == 1
    assert 2000 <= drifts[0] < 2050


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1.0}, "threshold must lie between 0 and 1"),
        ({"warning_threshold": 0.0}, "warning_threshold must lie between 0 and 1"),
        ({"model": "ilr"}, "model must be one of 'auto'"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        ChangePointDetector(**settings)


def test_errors_are_0_or_1():
    with pytest.raises(ValueError, match="whole numbers from 0 to 1"):
        ErrorRateDetector().update(2)


# Inside river's models


def reversed_concept(length=1600, change=800, seed=0):
    """Two features of which one says the class; from ``change`` on it says the other one."""
    rng = random.Random(seed)
    for t in range(length):
        x = {"a": rng.uniform(-1.0, 1.0), "b": rng.uniform(-1.0, 1.0)}
        yield x, (x["a"] > 0.0) == (t < change)


def accuracy_after(model, change=800, settled=1000):
    """The share of right answers from some time after the change on."""
    right = []
    for t, (x, y) in enumerate(reversed_concept(change=change)):
        if t >= settled:
            right.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    return sum(right) / len(right)


@pytest.mark.parametrize("in_background", [True, False])
def test_a_retraining_classifier_recovers_from_a_drift(in_background):
    alone = accuracy_after(naive_bayes.GaussianNB())
    retrained = drift.DriftRetrainingClassifier(naive_bayes.GaussianNB(), ErrorRateDetector(), in_background)
    assert accuracy_after(retrained) > 0.9 > 0.7 > alone
    assert any(abs(alarm.index - 800) <= 10 for alarm in retrained.drift_detector.detector.announced_changes)


def test_a_forest_replaces_its_trees_after_a_drift():
    detector = ErrorRateDetector()
    model = forest.ARFClassifier(
        n_models=3, seed=1, drift_detector=detector, warning_detector=ErrorRateDetector(threshold=0.5)
    )
    alone = forest.ARFClassifier(n_models=3, seed=1, drift_detector=drift.NoDrift(), warning_detector=drift.NoDrift())
    assert accuracy_after(model) > max(0.85, accuracy_after(alone))
    assert model.n_drifts_detected() >= 2
    assert detector.detector.time == 0  # each tree has a clone


def test_a_forest_of_regressors_takes_real_numbers():
    rng = random.Random(0)
    model = forest.ARFRegressor(n_models=2, seed=1, drift_detector=ChangePointDetector())
    for t in range(600):
        x = {"a": rng.uniform(-1.0, 1.0)}
        model.learn_one(x, (3.0 if t < 300 else -3.0) * x["a"] + rng.gauss(0.0, 0.1))
    assert model.n_drifts_detected() >= 1


def test_an_adaptive_tree_takes_it():
    model = tree.HoeffdingAdaptiveTreeClassifier(drift_detector=ErrorRateDetector(), grace_period=50, seed=1)
    assert accuracy_after(model) > 0.7


def test_without_river_one_line_says_what_to_install():
    code = "import sys\nsys.modules['river'] = None\nimport ishsmm_stream.integrations.river"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: drift detectors need river: pip install 'ishsmm-stream[river]'"
    )


def test_it_can_signal_alarms_in_place_of_changes():
    """A stream that switches all the time: changes are ordinary, a level that it never had is not."""
    rng = np.random.default_rng(5)
    levels = np.repeat(rng.permutation(np.tile([0.0, 6.0], 20)), 50)
    values = np.concatenate([levels, np.full(60, 40.0)]) + rng.normal(size=2060)
    changes, alarms = ChangePointDetector(), ChangePointDetector(signal="alarm", every=5000)
    seen = {"change": [], "alarm": []}
    for t, value in enumerate(values):
        for name, detector in (("change", changes), ("alarm", alarms)):
            detector.update(value)
            if detector.drift_detected:
                seen[name].append(t)
    assert len(seen["change"]) > 10
    assert len(seen["alarm"]) == 1
    assert 2000 <= seen["alarm"][0] < 2010
    with pytest.raises(ValueError, match="signal must be one of"):
        ChangePointDetector(signal="other")
