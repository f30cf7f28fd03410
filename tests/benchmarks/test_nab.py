"""NAB's scoring rules, against cases small enough to be worked out by hand."""

import gzip
import json
import math
from datetime import datetime, timedelta

import nab
import numpy as np
import pytest
from nab import File, Window, best_threshold, tally, total
from peers import windowed_gaussian

LONG = File("realKnownCause/a.csv", np.zeros(1_000), [Window(400, 499), Window(700, 709)])  # probation: 150 rows


def reward(position):
    """The rule of the benchmark, before it is divided by its value at -1."""
    return 2.0 / (1.0 + math.exp(5.0 * position)) - 1.0


def test_silence_scores_zero_and_an_alarm_at_the_start_of_every_window_scores_100():
    for profile in nab.FALSE_WEIGHTS:
        assert tally(LONG, []).score(profile) == 0.0
        assert tally(LONG, [400, 700]).score(profile) == pytest.approx(100.0)


def test_one_hit_of_two_windows_scores_half():
    found = tally(LONG, [400])
    assert (found.hits, found.windows) == (1, 2)
    assert found.score("standard") == pytest.approx(50.0)


def test_an_alarm_later_in_a_window_earns_less_and_the_first_alarm_counts():
    late = tally(LONG, [450])
    assert late.reward == pytest.approx(reward(-0.5) / reward(-1.0))
    assert tally(LONG, [450, 499, 460]) == late
    assert tally(LONG, [499]).reward == pytest.approx(reward(-0.01) / reward(-1.0))


def test_a_false_alarm_costs_its_weight_before_the_first_window_and_far_behind_one():
    for row in (300, 399, 699, 999):  # 699 is 200 rows behind a window of 100: less than its weight, but nearly
        cost = tally(LONG, [row]).cost
        assert cost == pytest.approx(1.0, abs=1e-3), row
    assert tally(LONG, [300]).score("standard") == pytest.approx(-100 * 0.11 / 4)
    assert tally(LONG, [300]).score("low_fp") == pytest.approx(-100 * 0.22 / 4)


def test_a_false_alarm_shortly_after_a_window_costs_less():
    assert tally(LONG, [509]).cost == pytest.approx(-reward(10 / 99))
    assert tally(LONG, [509]).false_alarms == 1


def test_alarms_in_the_probation_are_ignored():
    assert LONG.probation == 150
    assert tally(LONG, range(150)) == tally(LONG, [])
    assert tally(LONG, [150]).false_alarms == 1
    assert File("b.csv", np.zeros(10_000), []).probation == 750


def test_a_window_inside_the_probation_is_not_counted_as_missed():
    early = LONG._replace(windows=[Window(100, 120), Window(400, 499)])
    assert tally(early, [400]).score("standard") == pytest.approx(100.0)


def test_false_alarms_are_counted_per_1000_rows_after_the_probation():
    assert tally(LONG, [200, 300]).false_per_1000 == pytest.approx(1_000 * 2 / 850)


def test_without_windows_there_is_no_score():
    assert math.isnan(tally(LONG._replace(windows=[]), [300]).score("standard"))


def test_totals_and_groups_add_up():
    other = LONG._replace(name="realTweets/b.csv")
    tallies = [tally(LONG, [400]), tally(other, [300, 700])]
    assert total(tallies)[:3] == pytest.approx((2.0, 2, 4))
    assert nab.by_group([LONG, other], tallies)["realTweets"] == tallies[1]


def test_the_best_threshold_is_the_best_of_all():
    rng = np.random.default_rng(1)
    files = [LONG, LONG._replace(name="x/b.csv")]
    scores = [np.round(rng.random(1_000) + 0.3 * np.isin(np.arange(1_000), (410, 702)), 2) for _ in files]
    for profile in nab.FALSE_WEIGHTS:
        chosen, best = best_threshold(files, scores, profile)
        tried = {
            threshold: total(
                tally(file, np.flatnonzero(score >= threshold)) for file, score in zip(files, scores, strict=True)
            ).score(profile)
            for threshold in np.unique(scores)
        }
        assert best.score(profile) == pytest.approx(max(*tried.values(), 0.0))
        assert best.score(profile) == pytest.approx(tried[chosen])


def test_windowed_gaussian_is_that_of_a_plain_sliding_window():
    rng = np.random.default_rng(2)
    values = rng.normal(3.0, 2.0, 200)
    window, step = 50, 7
    sample: list[float] = []
    waiting: list[float] = []
    expected = []
    for value in values:
        deviation = float(np.std(sample)) or 1e-6 if sample else 1.0
        tail = 0.5 * math.erfc(abs(value - np.mean(sample)) / deviation / math.sqrt(2)) if sample else 1.0
        expected.append(1.0 - tail)
        if len(sample) < window:
            sample.append(value)
        else:
            waiting.append(value)
            if len(waiting) == step:
                sample, waiting = sample[step:] + waiting, []
    assert windowed_gaussian(values, window, step) == pytest.approx(expected, abs=1e-9)


def test_windowed_gaussian_leaves_missing_values_out():
    values = np.random.default_rng(3).normal(size=60)
    gaps = np.insert(values, [10, 30], np.nan)
    assert np.delete(windowed_gaussian(gaps), [10, 31]) == pytest.approx(windowed_gaussian(values))
    assert windowed_gaussian(gaps)[10] == 0.0


def write_files(folder):
    """Write two files of 1,000 rows, one a minute; the clock of the second is set back by an hour at row 600."""
    times = [datetime(2020, 1, 1) + timedelta(minutes=i) for i in range(1_000)]
    back = times[:600] + [time - timedelta(hours=1) for time in times[600:]]
    windows = {}
    for name, clock, rows in (("realX/a.csv", times, (400, 499)), ("artificialY/b.csv", back, (550, 620))):
        file = folder / f"{name}.gz"
        file.parent.mkdir(parents=True)
        with gzip.open(file, "wt") as lines:
            lines.write("timestamp,value\n" + "".join(f"{time},{i % 7}\n" for i, time in enumerate(clock)))
        windows[name] = [[f"{clock[row]}.000000" for row in rows]]
    windows["realX/held_back.csv"] = []
    (folder / "windows.json").write_text(json.dumps(windows))


def test_files_are_loaded_with_windows_as_rows(tmp_path):
    write_files(tmp_path)
    second, first = nab.load(tmp_path)
    assert (first.name, first.group, first.is_real, second.is_real) == ("realX/a.csv", "realX", True, False)
    assert first.values[:8].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    assert first.windows == [(400, 499)]
    assert second.windows == [(550, 560)]  # row 620 has the time that row 560 had first
    assert nab.published(tmp_path) == {}
