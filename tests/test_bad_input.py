"""Whatever a caller gets wrong is a ValueError that names the argument, what it got and what it takes."""

import numpy as np
import pytest

import ishsmm_stream as hs

NORMAL, DWELL = hs.emissions.Normal(), hs.durations.Poisson()
IED, ILR = hs.ied(NORMAL, DWELL), hs.ilr(NORMAL, DWELL)
COUNTS = hs.ilr(hs.emissions.Poisson(1.0, 1.0), DWELL)
LETTERS = hs.ilr(hs.emissions.Categorical((1.0, 1.0, 1.0)), DWELL)

CASES = {
    "empty series": (lambda: hs.sample([], IED), "y is empty: at least one observation"),
    "empty series, exact": (lambda: hs.exact_posterior([], ILR), "y is empty"),
    "three dimensions": (lambda: hs.sample(np.zeros((2, 2, 2)), IED), r"1 or 2 dimensions.*\(2, 2, 2\)"),
    "too many channels": (lambda: hs.sample(np.zeros((5, 2)), IED), "y has 2 channels, but Normal takes 1"),
    "not numbers": (lambda: hs.sample(["a", "b"], IED), "y must be an array of numbers"),
    "ragged": (lambda: hs.sample([[1.0], [1.0, 2.0]], IED), "y must be an array of numbers"),
    "infinity": (lambda: hs.sample([0.0, np.inf], IED), "infinite at index 1; use NaN"),
    "negative count": (lambda: hs.exact_posterior([1, -2], COUNTS), r"y\[1\] is -2"),
    "fraction as a count": (lambda: hs.exact_posterior([1, 0.5], COUNTS), r"y\[1\] is 0\.5"),
    "category out of range": (lambda: hs.exact_posterior([0, 3], LETTERS), r"y\[1\] is 3.*from 0 to 2"),
    "K below 1": (lambda: hs.bayesian_hmm(0, NORMAL), "states must be at least 1, got 0"),
    "K of 1 without self": (lambda: hs.bayesian_hsmm(1, NORMAL, DWELL), "states must be at least 2"),
    "K not whole": (lambda: hs.bayesian_hmm(2.5, NORMAL), "states must be a whole number, got 2.5"),
    "emission": (lambda: hs.ied("normal", DWELL), "emission must be one of ishsmm_stream.emissions, got 'normal'"),
    "duration": (lambda: hs.ied(NORMAL, 5.0), "duration must be one of ishsmm_stream.durations, got 5.0"),
    "emission as duration": (lambda: hs.ied(NORMAL, hs.emissions.Poisson(1.0, 1.0)), "duration must be one of"),
    "topology": (lambda: hs.structured(NORMAL, DWELL, "banded"), "topology must be one of"),
    "alpha": (lambda: hs.ied(NORMAL, DWELL, alpha0=-1.0), "alpha0 must be greater than 0, got -1.0"),
    "alpha prior": (lambda: hs.ied(NORMAL, DWELL, alpha1=hs.priors.Beta()), "alpha1 must be a positive number or"),
    "discount": (lambda: hs.ied(NORMAL, DWELL, d=1.0), r"d must be a number in \[0, 1\)"),
    "discount prior": (lambda: hs.ied(NORMAL, DWELL, d=hs.priors.Gamma()), r"d must be a number in \[0, 1\)"),
    "prior": (lambda: hs.priors.Gamma(0.0, 1.0), "shape must be greater than 0"),
    "model": (lambda: hs.sample([1.0], "ied"), "model must be made by a preset"),
    "model, exact": (lambda: hs.exact_posterior([1.0], "ilr"), "model must be made by a preset"),
    "model, generate": (lambda: hs.generate("ilr", 5), "model must be made by a preset"),
    "length": (lambda: hs.generate(IED, 0), "length must be at least 1"),
    "draws": (lambda: hs.sample([1.0], IED, draws=0), "draws must be at least 1, got 0"),
    "burn_in": (lambda: hs.sample([1.0], IED, burn_in=-1), "burn_in must be at least 0"),
    "chains": (lambda: hs.sample([1.0], IED, chains=1.5), "chains must be a whole number"),
    "temperature": (lambda: hs.sample([1.0], IED, temperature=0.0), "temperature must be greater than 0"),
    "method": (lambda: hs.sample([1.0], IED, method="beem"), "method must be one of.*did you mean 'beam'"),
    "slice": (lambda: hs.sample([1.0], IED, slice="papers"), "slice must be one of.*did you mean 'paper'"),
    "trend where states return": (
        lambda: hs.sample([1.0, 2.0], hs.ied(hs.emissions.Autoregressive(trend=True), DWELL)),
        "Autoregressive with a trend inside segments can only be used where no state returns",
    ),
    "dead end": (
        lambda: hs.sample([1.0], hs.structured(NORMAL, DWELL, hs.topology.Topology("x", lambda m, k: k < m))),
        "no state can follow state 0",
    ),
    "reach too small": (
        lambda: hs.sample(
            [1.0], hs.structured(NORMAL, DWELL, hs.topology.Topology("x", lambda m, k: 0 < abs(k - m) < 3))
        ),
        "reach = 0 is too small",
    ),
    "width": (lambda: hs.topology.banded(0), "width must be at least 1"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_message_says_what_was_wrong(name):
    call, message = CASES[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_complex_numbers_are_refused_and_masked_values_are_missing():
    values = np.random.default_rng(0).normal(size=60)
    with pytest.raises(ValueError, match="complex"):
        hs.OnlineDetector().update_many(values + 1j)
    with pytest.raises(ValueError, match="complex"):
        hs.OnlineDetector().update(1j)
    warm, masked, missing = (hs.OnlineDetector() for _ in range(3))
    warm.update_many(values)
    with pytest.raises(ValueError, match="complex"):
        hs.update_fleet([warm], [values + 1j])
    is_missing = np.arange(60) % 7 == 3
    masked.update_many(np.ma.masked_array(np.where(is_missing, 1e9, values), is_missing))
    missing.update_many(np.where(is_missing, np.nan, values))
    assert masked.snapshot() == missing.snapshot()
    hs.update_fleet([masked], [np.ma.masked_array([1, 999, 2], [False, True, False])])
    missing.update_many([1.0, np.nan, 2.0])
    assert masked.snapshot() == missing.snapshot()


def test_no_values_with_no_times_are_nothing_and_missing_hours_are_named():
    assert hs.OnlineDetector().update_many([], []) == []
    with pytest.raises(ValueError, match="times"):
        hs.OnlineDetector().update_many([1.0, 2.0], [0.0])
    with pytest.raises(ValueError, match=r"detectors and hours .* 1 and 2"):
        hs.update_fleet_to_event([hs.OnlineDetector()], [[1.0]], hours=[3, 4])
