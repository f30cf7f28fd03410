"""The demo plant: what it says it plants is in the readings."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import service.embedded
from service.settings import load
from service.sources.plant import FALLS_SILENT, PLANT, ticks

ROOT = Path(__file__).parents[2]


def played(count, seed=3):
    """By sensor: its values, and (index, words) of the changes; and how many records are no reading."""
    values = {kind.name: [] for kind in PLANT}
    planted = {kind.name: [] for kind in PLANT}
    bad = 0
    for step in itertools.islice(ticks(seed), count):
        for sensor, value, change in step:
            if value is None:
                bad += 1
                continue
            if change is not None:
                planted[sensor].append((len(values[sensor]), change.words))
            values[sensor].append(value)
    return values, planted, bad


def test_it_sends_what_it_says():
    values, planted, bad = played(2600)
    assert bad == 4
    checked = dict.fromkeys(("level", "noise", "drifts", "sticks", "mode"), 0)
    for kind in PLANT:
        assert len(planted[kind.name]) >= 2
        for at, words in planted[kind.name]:
            after = np.array(values[kind.name][at : at + 90])
            what = words.split()[0]
            if len(after) < 90 or what not in checked:
                continue
            if what in ("level", "mode"):
                # five standard errors of ninety readings at three times the noise
                error = 5 * 3 * kind.noise / 90**0.5
                assert np.mean(after) == pytest.approx(float(words.split()[-1]), abs=error)
            elif what == "noise":
                before = np.array(values[kind.name][at - 90 : at])
                assert np.std(after) / np.std(before) == pytest.approx(float(words.split("x")[1]), rel=0.5)
            elif what == "drifts":
                slope = np.polyfit(np.arange(90), after, 1)[0]
                assert slope == pytest.approx(float(words.split()[2]), abs=0.01)
            else:
                assert len(set(after)) == 1
            checked[what] += 1
    assert all(count > 0 for count in checked.values()), checked


def test_the_first_change_comes_within_five_seconds_for_every_seed():
    for seed in range(20):
        assert any(change for step in itertools.islice(ticks(seed), 20) for _, _, change in step)


def test_a_plant_that_was_stopped_goes_on_where_it_was():
    whole = list(itertools.islice(ticks(7), 1000))
    assert list(itertools.islice(ticks(7, 900), 100)) == whole[900:]
    assert list(itertools.islice(ticks(8), 10)) != whole[:10]


def test_one_falls_silent_and_comes_back():
    sends = [any(sensor == FALLS_SILENT for sensor, _, _ in step) for step in itertools.islice(ticks(0), 320)]
    assert sends == [True] * 240 + [False] * 60 + [True] * 20


def test_both_demos_have_the_same_rules():
    embedded = load(Path(service.embedded.__file__).with_name("default.toml"), {})
    assert embedded.rules == load(ROOT / "deploy" / "demo.toml", {}).rules
    assert all(embedded.rule_for(kind.name).labels for kind in PLANT)
