"""A fleet's budget of false alarms: its arithmetic, what a rule makes of it, and whether it is kept."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import ishsmm_stream as hs
from service import settings
from service.settings.alarm_budget import LOOSEST, STRICTEST, AlarmBudget, threshold
from service.settings.rules import Alarms, Rule
from service.settings.settings import Settings
from service.settings.times import TimePolicy
from service.tools.settings_report import described


def policy_of(rule: Rule, **alarms) -> hs.AlarmPolicy:
    return Settings(rules=(rule,), alarms=AlarmBudget(**alarms)).rule_for("x").policy()


def test_more_readings_a_day_take_a_stricter_threshold_and_only_their_number_counts():
    found = [threshold(5.0, sensors, 1.0) for sensors in (10, 100, 1000, 10_000)]
    assert all(low < high for low, high in itertools.pairwise(found))
    assert threshold(5.0, 1000, 1.0) == threshold(5.0, 100, 0.1) == pytest.approx(threshold(50.0, 10_000, 1.0))
    assert threshold(5.0, 1000, None) == threshold(5.0, 1000, 1.0)
    assert threshold(1e-6, 10**8, 1e-3) == STRICTEST
    assert threshold(1e6, 1, 3600.0) == LOOSEST


def test_a_rule_without_a_threshold_takes_the_fleets():
    assert policy_of(Rule()).threshold == threshold(5.0, 1000, None)
    assert policy_of(Rule(), expected_sensors=5000).threshold == threshold(5.0, 5000, None)
    slow = Rule(time=TimePolicy(interval_s=60.0))
    assert policy_of(slow).threshold == threshold(5.0, 1000, 60.0) < policy_of(Rule()).threshold
    assert Settings().rule_for("x").policy() == policy_of(Rule())


def test_critical_sensors_have_a_budget_of_their_own_and_speak_up_sooner():
    critical = Rule(labels={"critical": True})
    assert policy_of(critical).threshold == threshold(1.0, 20, None) < policy_of(Rule()).threshold
    assert policy_of(Rule(labels={"critical": False})) == policy_of(Rule())


def test_a_rules_own_word_comes_before_the_fleets():
    assert policy_of(Rule(alarms=Alarms(threshold=0.9))) == hs.AlarmPolicy(threshold=0.9, every=604_800)
    own = policy_of(Rule(alarms=Alarms(false_alarms_per_day=0.1, expected_sensors=7)))
    assert own.threshold == threshold(0.1, 7, None)
    assert policy_of(Rule(alarms=Alarms(false_alarms_per_day=0.1))).threshold == threshold(0.1, 1000, None)
    effects = [policy_of(Rule(alarms=Alarms(min_effect_sd=sd)), min_effect_sd=2.0).min_effect_sd for sd in (None, 0.0)]
    assert effects == [2.0, 0.0]


def test_two_words_for_the_same_thing_are_one_too_many():
    with pytest.raises(ValueError, match="threshold and false_alarms_per_day are given"):
        Alarms(threshold=0.9, false_alarms_per_day=1.0)


def test_the_budget_is_no_part_of_the_fingerprint():
    fingerprints = {
        Settings(alarms=AlarmBudget(expected_sensors=sensors)).rule_for("x").inference_fingerprint()
        for sensors in (1, 9999)
    }
    assert fingerprints == {Rule().inference_fingerprint()}


def test_the_environment_and_check_config_say_what_follows():
    rules = json.dumps([{"match": "a", "alarms": {"threshold": 0.99, "min_effect_sd": 1.5}}])
    found = settings.load(None, {"ISHSMM_ALARMS__EXPECTED_SENSORS": "5000", "ISHSMM_RULES": rules})
    lines = described(found)
    assert any(
        line.startswith("alarms        1 per week and sensor, 5 false changes per day over 5,000 sensors")
        for line in lines
    )
    assert "alarm above 0.99, of 1.5 noise standard deviations or more" in lines[-2]
    assert "alarm above 0.999999911" in lines[-1]


@pytest.mark.parametrize("noise", ["normal", "heavy tails"])
def test_the_budget_is_kept_on_noise_and_changes_are_still_found(noise):
    """A budget of 2 false alarms for what is run here; on the worst noise measured a tenth of it is used."""
    sensors, length = 8, 20_000
    policy = hs.AlarmPolicy(threshold=threshold(2.0, sensors, 86_400.0 / length))
    rng = np.random.default_rng(5)
    shape = (sensors, length)
    values = rng.normal(size=shape) if noise == "normal" else rng.standard_t(4, size=shape) / np.sqrt(2.0)
    values[:, -100:] += 4.0
    raised = [
        [event.at for event in hs.OnlineDetector(alarm_policy=policy).update_many(row) if event.kind == "raised"]
        for row in values
    ]
    assert sum(at < length - 100 for found in raised for at in found) <= 2
    assert sum(any(at >= length - 100 for at in found) for found in raised) == sensors


def test_thresholds_next_to_certainty_can_be_reached():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=500), rng.normal(6.0, 1.0, size=100)])
    at = []
    for rest in (1e-2, 1e-6, 1e-9):
        policy = hs.AlarmPolicy(threshold=1.0 - rest)
        events = hs.OnlineDetector(alarm_policy=policy).update_many(values)
        (change,) = [event for event in events if event.kind == "raised"]
        assert change.index == 500
        at.append(change.at)
    assert at[0] <= at[1] <= at[2] < 520
    assert at[0] < at[2]


def test_the_old_budget_becomes_the_limit_of_sinks_and_changes_stay_as_they_were():
    sink = {"kind": "stdout", "name": "pipe"}
    own = {"kind": "lines", "name": "all", "path": "x", "at_most": "unlimited"}
    given = {"ISHSMM_SINKS": json.dumps([sink, own]), "ISHSMM_ALARMS__FALSE_ALARMS_PER_DAY": "2.5"}
    found = settings.load(None, given)
    assert [one.at_most for one in found.sinks_in_force] == ["2.5 per day", "unlimited"]
    assert [one.limit for one in found.sinks_in_force] == [(2.5, 86400.0), None]
    assert found.rule_for("x").policy().threshold == threshold(2.5, 1000, None)
    assert "is taken as at_most = '2.5 per day'" in found.deprecations[0]
    both = settings.load(None, {**given, "ISHSMM_ALARMS__AT_MOST": "20 per day"})
    assert both.sinks_in_force[0].at_most == "20 per day"
    assert "is taken" not in both.deprecations[0]
    assert any(line.startswith("deprecated    alarms.false_alarms_per_day") for line in described(both))


def test_without_either_sinks_are_sent_everything_and_nothing_is_deprecated():
    found = settings.load(None, {"ISHSMM_SINKS": json.dumps([{"kind": "stdout", "name": "pipe"}])})
    assert found.sinks_in_force == found.sinks
    assert found.sinks[0].limit is None
    assert found.deprecations == found.notes == []
    assert found.rule_for("x").policy().threshold == threshold(5.0, 1000, None)


@pytest.mark.parametrize("name", ["threshold", "false_alarms_per_day"])
def test_check_config_notes_that_old_keys_of_a_rule_govern_changes(name):
    found = settings.load(None, {"ISHSMM_RULES": json.dumps([{"match": "a", "alarms": {name: 0.9}}])})
    assert found.deprecations == []
    noted = f"note          rules[0].alarms.{name} governs changes only"
    assert any(line.startswith(noted) for line in described(found))
