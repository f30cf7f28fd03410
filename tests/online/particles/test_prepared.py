"""Predictions from prepared numbers are the families' own."""

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.model.emissions import family
from ishsmm_stream.online.particles import prepared

CASES = {
    "normal": (hs.emissions.Normal(1.0, 0.2, 1.5, 2.0), 1),
    "counts": (hs.emissions.Poisson(2.0, 0.5), 1),
    "categories": (hs.emissions.Categorical((1.0, 2.0, 0.5)), 1),
    "vectors": (hs.emissions.MultivariateNormal((0.0, 1.0), 0.5, 4.0, ((1.0, 0.2), (0.2, 2.0))), 2),
    "autoregression": (hs.emissions.Autoregressive(order=2), 1),
    "mixed": (hs.emissions.Mixed((hs.emissions.Normal(), hs.emissions.Autoregressive())), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_every_family_predicts_as_it_does_unprepared(name):
    emission, channels = CASES[name]
    y = np.random.default_rng(0).integers(0, 3, (60, channels)).astype(float)
    y[7] = np.nan
    stats = np.empty(family.stats_size(emission))
    numbers = np.empty(prepared.prepared_size(emission))
    family.clear(emission, stats)
    for t in range(len(y)):
        prepared.prepare(emission, stats, numbers)
        expected = family.log_predictive(emission, stats, y, t)
        assert prepared.log_predictive(emission, stats, numbers, y, t) == pytest.approx(expected, rel=1e-11, abs=1e-11)
        family.add(emission, stats, y, t)
