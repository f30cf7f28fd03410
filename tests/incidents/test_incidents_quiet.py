"""How many incidents chance opens in weeks in which nothing happens, against the one a week that is promised.

Every run begins with a fleet that nothing is known of.
"""

from __future__ import annotations

import numpy as np
import pytest
from incident_streams import BEGIN, HOUR, WEEK, Stream, names
from scipy.stats import chi2

from service.incidents import Incidents
from service.settings import IncidentPolicy
from service.wire.readings import from_rfc3339

LAYOUTS = {"one group of 300": (1, 300), "30 of 10": (30, 10), "300 of 3": (300, 3)}


def background(seed, layout, per_day, kind, weeks):
    """Changes by chance: ``per_day`` of each sensor."""
    stream = Stream(seed)
    groups = names(*layout)
    end = BEGIN + weeks * WEEK
    for group in groups:
        if kind == "by day and night":
            for hour in range(weeks * 168):
                swing = 1.0 + 0.8 * np.sin(2.0 * np.pi * hour / 24.0)
                stream.background(group, swing * per_day / 24.0, BEGIN + hour * HOUR, BEGIN + (hour + 1) * HOUR)
        else:
            # a median of a third of the mean, and one in twenty has four times the mean or more
            factor = stream.rng.lognormal(-1.125, 1.5) if kind == "unequal groups" else 1.0
            stream.background(group, factor * per_day / 24.0, BEGIN, end)
    if kind == "flapping sensors":
        for _ in range(10 * weeks):
            group = groups[stream.rng.integers(len(groups))]
            stream.flapping(str(stream.rng.choice(group)), BEGIN + stream.rng.uniform(0, weeks * WEEK), 60, 1.0)
    return stream.in_time


def false_incidents(events):
    """How many there were, as a view has them: retracted ones are counted as well."""
    found, ids = Incidents(IncidentPolicy()), set()
    for i in range(0, len(events), 50):
        batch = events[i : i + 50]
        ids |= {one.id for one in found.observe_many(batch)}
        found.advance(from_rfc3339(batch[-1].at.time))
    return len(ids)


def upper_limit(count, weeks):
    """What the rate a week is below, with 95%."""
    return chi2.ppf(0.95, 2 * (count + 1)) / 2.0 / weeks


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_a_quiet_week_has_no_incident(layout, seed):
    """At what [alarms] promises, 5 false alarms a day of 1,000 sensors, and at 40 times that."""
    for per_day in (0.005, 0.2):
        assert false_incidents(background(seed, LAYOUTS[layout], per_day, "alike", 1)) == 0


@pytest.mark.parametrize("kind", ["unequal groups", "flapping sensors"])
def test_few_incidents_come_by_chance_however_the_changes_do(kind):
    """Nine weeks that may have nine; with one a week, more than 16 come in one of 90 such tests. Measured: one."""
    found = sum(
        false_incidents(background(seed, layout, 0.5, kind, 1)) for layout in LAYOUTS.values() for seed in range(3)
    )
    assert found <= 16


@pytest.mark.long
@pytest.mark.parametrize("kind", ["alike", "unequal groups", "flapping sensors", "by day and night"])
@pytest.mark.parametrize(("per_day", "weeks"), [(0.005, 60), (0.2, 40), (2.0, 16), (24.0, 6)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_chance_opens_at_most_one_incident_a_week(layout, per_day, weeks, kind):
    """Rates that swing by 80% over the day are no constant rates: the promise does not hold for them, and within
    three a week it stays."""
    promised = 3.0 if kind == "by day and night" else 1.0
    count = sum(false_incidents(background(seed, LAYOUTS[layout], per_day, kind, weeks // 2)) for seed in (100, 101))
    print(f"\n{layout}, {per_day:g} a day, {kind}: {count} in {weeks} weeks, below {upper_limit(count, weeks):.2f}")
    assert count / weeks <= promised
    if upper_limit(0, weeks) < 0.2:
        assert upper_limit(count, weeks) < promised
