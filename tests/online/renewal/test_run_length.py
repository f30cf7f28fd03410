"""What bounding the work costs: the cap on hypotheses, the lag's memory, the learned hazard's grid."""

import numpy as np
import pytest
from online import engines

import ishsmm_stream as hs
from ishsmm_stream.online.build import LEAST_SHARE, PARENTS
from ishsmm_stream.online.renewal.engine import RenewalEngine, Size
from ishsmm_stream.online.renewal.hazard import duration_hazard, learned_hazard

NORMAL = hs.emissions.Normal(0.0, 0.1, 1.0, 1.0)
HAZARD = learned_hazard(hs.priors.Beta(1.0, 500.0))
LAG = 64


def capped(cap=32, lag=LAG, hazard=HAZARD, duration=engines.NO_DURATION):
    """As a detector builds it."""
    return RenewalEngine(
        NORMAL, duration, hazard, Size(len(hazard.prior), cap, lag, PARENTS, channels=1), least_share=LEAST_SHARE
    )


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    return engines.levels(rng, 2000, 100, 3.0) + rng.normal(size=2000)


@pytest.fixture(scope="module")
def whole(stream):
    """(ln p(y), change probabilities of the last 64 observations) of the filter that drops nothing, over time."""
    engine = engines.build(NORMAL, engines.NO_DURATION, HAZARD, len(stream))
    answers = {}
    for seen, length in zip((0, 500, 1000, 1500), (500, 1000, 1500, 2000), strict=True):
        engines.feed(engine, stream[:length], seen)
        answers[length] = engine.log_evidence, engine.change_probability()[-LAG:]
    assert engine.discarded == 0.0
    return answers


def errors(stream, whole, cap):
    """Largest error of a change probability in the lag, and how much of ln p(y) is lost, over time."""
    engine, seen = capped(cap), 0
    apart, lost = [], []
    for length, (log_evidence, probability) in whole.items():
        engines.feed(engine, stream[:length], seen)
        seen = length
        apart.append(np.abs(engine.change_probability() - probability).max())
        lost.append(log_evidence - engine.log_evidence)
    return np.array(apart), np.array(lost)


def test_the_default_cap_costs_little_on_a_long_stream(stream, whole):
    """Measured at a cap of 32 on streams like this one: change probabilities off by .004 on average and .11 at worst,
    .5 to .8 of ln p(y) = -3,000 lost. What is dropped is never gained: the evidence is a lower bound."""
    apart, lost = errors(stream, whole, 32)
    assert apart.max() < 0.12
    assert np.all(lost > -1e-9)
    assert lost.max() < 1.0


def test_a_larger_cap_is_nearer_to_the_whole(stream, whole):
    (near, near_lost), (far, far_lost) = errors(stream, whole, 128), errors(stream, whole, 16)
    assert near.max() < 0.02
    assert near_lost[-1] < 0.3 * far_lost[-1]
    assert near.max() < far.max()


def test_discarded_mass_is_reported_from_the_first_drop_on(stream):
    engine = capped(cap=20)
    seen = []
    for t in range(300):
        engines.feed(engine, stream[: t + 1], t)
        seen.append(engine.discarded)
    assert seen[:20] == [0.0] * 20
    assert np.all(np.diff(seen) >= 0.0)
    assert seen[20] > 0.0
    assert 0.01 < seen[-1] < 0.5


def test_what_is_dropped_is_the_lightest_and_never_the_newest(stream):
    engine = capped(cap=8)
    for t in range(400):
        before = dict(zip(*engine.starts(), strict=True)) if t else {}
        discarded = engine.discarded
        engines.feed(engine, stream[: t + 1], t)
        starts, weights = engine.starts()
        assert starts[-1] == t
        assert np.all(np.diff(starts) > 0)
        assert sum(weights) == pytest.approx(1.0, abs=1e-12)
        gone = set(before) - set(starts)
        if t >= 8:
            assert len(gone) == 1
            assert engine.discarded - discarded <= min(before.values()) + 1e-15


@pytest.mark.parametrize("cap", [2, 3, 5])
@pytest.mark.parametrize("lag", [8, 9, 70])
def test_the_smallest_bounds_hold(cap, lag):
    """Far too few hypotheses for the stream: still probabilities, still ascending paths."""
    rng = np.random.default_rng(1)
    y = engines.levels(rng, 1500, 20, 5.0) + rng.normal(size=1500)
    engine, seen = capped(cap, lag), 0
    for length in range(37, 1500, 37):
        engines.feed(engine, y[:length], seen)
        seen = length
        probability = engine.change_probability()
        assert len(probability) == min(length, lag)
        assert np.all((probability >= 0.0) & (probability <= 1.0))
        assert np.all(np.diff(engines.path(engine)) > 0)
        assert np.isfinite(engine.log_evidence)


def test_what_is_remembered_of_parents_is_enough_for_smoothing():
    """As many of a start's parents as a detector remembers against all of them: 40 streams of 64 observations. What is
    forgotten are short segments, so that changes are missing on the whole."""
    rng = np.random.default_rng(3)
    duration = hs.durations.Poisson(1.0, 24.0)
    hazard = duration_hazard(duration)
    apart, missing = [], []
    for _ in range(40):
        y = engines.levels(rng, 64, 25.0, 3.0) + rng.normal(size=64)
        all_of_them = engines.build(NORMAL, duration, hazard, 64)
        some = capped(64, 64, hazard, duration)
        for engine in (all_of_them, some):
            engines.feed(engine, y)
        difference = some.change_probability() - all_of_them.change_probability()
        apart.append(np.abs(difference).max())
        missing.append(-difference.sum())
    assert max(apart) < 0.15
    assert np.mean(apart) < 0.015
    assert np.mean(missing) < 0.12


@pytest.mark.parametrize("busy", [100, 3000])
def test_the_learned_hazard_follows_the_stream_out_of_a_busy_time(busy):
    """Segments of 8, then none: changes of ten standard deviations leave no doubt about their number, so that the
    hazard has the mean of Beta(1 + n, 500 + the rest), but for the grid's spacing of a factor 2. What speaks against a
    hazard beyond the range of doubles is forgotten, so that after a very busy time it falls even further."""
    rng = np.random.default_rng(2)
    levels = 10.0 * (np.arange(busy) % 2)
    y = np.concatenate([np.repeat(levels, 8), np.full(50_000, levels[-1])])
    engine = capped()
    engines.feed(engine, y + rng.normal(size=len(y)))
    mass = engine.filter.mass[: engine.filter.clock[1]].sum(axis=0)
    expected = busy / (501 + len(y))
    found = mass @ HAZARD.grid / mass.sum()
    assert found < 1.5 * expected
    if busy == 100:
        assert found > expected / 1.5
