"""Remembered hazards against the families' own."""

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.model.durations import family
from ishsmm_stream.online.particles import dwell_hazards
from ishsmm_stream.online.particles.dwell_hazards import BLOCK, ENDS, STAYS

FAMILIES = {
    "poisson": hs.durations.Poisson(2.0, 5.0),
    "geometric": hs.durations.Poisson(1.0, 30.0),
    "negative binomial": hs.durations.NegativeBinomial((1.0, 4.0), 2.0, 3.0),
    "delayed geometric": hs.durations.DelayedGeometric(2.0, 2.0, 5),
    "fixed": hs.durations.Fixed(3),
}


def stats_of(duration, dwells):
    stats = np.empty(family.stats_size(duration))
    family.clear(duration, stats)
    for r in dwells:
        family.add(duration, stats, r)
    return stats


@pytest.mark.parametrize("name", FAMILIES)
def test_hazards_are_ratios_of_pmf_and_survival(name):
    duration = FAMILIES[name]
    keys, values = dwell_hazards.make_table(duration)
    dwells = (3, 3) if name == "fixed" else (4, 9, 6)
    for stats in (stats_of(duration, ()), stats_of(duration, dwells)):
        for r in (*range(40), 300):
            row = dwell_hazards.find_block(duration, stats, r // BLOCK, keys, values)
            log_pmf = family.log_predictive_pmf(duration, stats, r)
            log_tail = family.log_predictive_survival(duration, stats, r)
            ends, stays = np.exp(values[row, r % BLOCK, ENDS]), np.exp(values[row, r % BLOCK, STAYS])
            assert ends + stays == pytest.approx(1.0)
            if log_tail == -np.inf:
                assert ends == 1.0
            else:
                assert ends == pytest.approx(np.exp(log_pmf - log_tail), rel=1e-7)


def test_what_the_table_holds_makes_no_difference():
    duration = FAMILIES["poisson"]
    full, empty = dwell_hazards.make_table(duration), dwell_hazards.make_table(duration)
    rng = np.random.default_rng(0)
    for _ in range(3_000):  # six times as many as there is room for
        stats = stats_of(duration, rng.integers(0, 30, rng.integers(0, 4)))
        block = int(rng.integers(0, 6))
        used = full[1][dwell_hazards.find_block(duration, stats, block, *full)]
        empty[0][:] = np.nan
        fresh = empty[1][dwell_hazards.find_block(duration, stats, block, *empty)]
        assert np.array_equal(used, fresh)
