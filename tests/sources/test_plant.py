"""The demo plant: faults are in the readings when it says so, and ordinary life has none."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

import service.embedded
from service.settings import load
from service.sources.plant import DAY, FALLS_SILENT, HISTORY, PLANT, fault_at, ticks

ROOT = Path(__file__).parents[2]


def played(count, seed=3):
    """By sensor: its values by tick; (sensor, words, tick, lasts) of faults; and how many records are no reading."""
    values = {kind.name: {} for kind in PLANT}
    planted, bad = [], 0
    for tick, step in enumerate(itertools.islice(ticks(seed), count)):
        for sensor, value, fault in step:
            if value is None:
                bad += 1
                continue
            values[sensor][tick] = value
            if fault is not None:
                planted.append((sensor, fault.words, tick, fault.lasts))
    return values, planted, bad


def test_it_sends_what_it_says():
    values, planted, bad = played(HISTORY + 1400)
    assert bad == 2
    assert min(tick for _, _, tick, _ in planted) == HISTORY + 40, "the first fault comes ten seconds after the history"
    checked = dict.fromkeys(("level far off", "noise x12", "stuck at one value", "spikes", "drifts away"), 0)
    for sensor, words, begins, lasts in planted:
        if words == "repaired" or begins + lasts > HISTORY + 1400:
            continue
        kind = next(one for one in PLANT if one.name == sensor)
        usual = np.array([values[sensor][tick] for tick in range(begins - 2 * DAY, begins)])
        during = np.array([values[sensor][tick] for tick in range(begins, begins + lasts)])
        reach = np.abs(usual - kind.middle).max()
        if words == "stuck at one value":
            assert len(set(during)) == 1
        elif words == "noise x12":
            assert np.std(np.diff(during)) > 4.0 * np.std(np.diff(usual))
        elif words == "level far off":
            assert np.abs(during - kind.middle).min() > reach
        else:
            assert np.abs(during - kind.middle).max() > 2.0 * reach
        checked[words] += 1
    assert all(count > 0 for count in checked.values()), checked


def test_a_fault_ends_and_comes_in_another_sensor_each_time():
    for seed in range(5):
        faults = [fault_at(seed, number) for number in range(20)]
        assert len({sensor for sensor, _ in faults[1:]}) == 19
        assert all(60 < fault.ends - fault.begins < 400 for _, fault in faults)
    _, planted, _ = played(HISTORY + 1400)
    assert {words for _, words, _, lasts in planted if lasts == 0} == {"repaired"}


def test_a_plant_that_was_stopped_continues_where_it_was():
    at = HISTORY + 200  # in the middle of a fault
    whole = list(itertools.islice(ticks(7), at + 100))
    assert list(itertools.islice(ticks(7, at), 100)) == whole[at:]
    assert list(itertools.islice(ticks(8), 10)) != whole[:10]


def test_one_falls_silent_and_comes_back():
    begins = 4 * HISTORY - 5
    sends = [any(sensor == FALLS_SILENT for sensor, _, _ in step) for step in itertools.islice(ticks(0, begins), 85)]
    assert sends == [True] * 5 + [False] * 60 + [True] * 20


def test_both_demos_have_the_same_rules():
    embedded = load(Path(service.embedded.__file__).with_name("default.toml"), {})
    kafka = load(ROOT / "deploy" / "demo.toml", {})
    assert embedded.rules == kafka.rules
    assert embedded.alarms.per_sensor == kafka.alarms.per_sensor
    assert all(embedded.rule_for(kind.name).labels for kind in PLANT)
