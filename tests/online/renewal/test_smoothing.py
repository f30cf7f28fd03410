"""What the filter says about the past: change points described as the batch layer describes them, and settled once."""

import itertools

import numpy as np
import pytest
from online import engines

import ishsmm_stream as hs
from ishsmm_stream.batch.change_points import list_change_points
from ishsmm_stream.online.build import LEAST_SHARE, PARENTS
from ishsmm_stream.online.renewal import smoothing
from ishsmm_stream.online.renewal.engine import RenewalEngine, Size
from ishsmm_stream.online.renewal.hazard import duration_hazard

NORMAL = hs.emissions.Normal(0.0, 0.1, 2.0, 2.0)
DWELL = hs.durations.Poisson(1.0, 20.0)


def default(emission=NORMAL, duration=DWELL):
    """An engine with a detector's default bounds."""
    hazard = duration_hazard(duration)
    return RenewalEngine(
        emission, duration, hazard, Size(len(hazard.prior), 32, 64, PARENTS, channels=1), least_share=LEAST_SHARE
    )


def random_input(rng):
    """A path and change probabilities that belong to nothing in particular: sharp, spread, sums above and below 1."""
    length = int(rng.integers(3, 40))
    changes = np.flatnonzero(rng.random(length) < rng.choice([0.05, 0.2, 0.5]))
    path = np.array([0, *changes[changes > 0]], dtype=np.int64)
    probability = rng.random(length) ** rng.choice([1.0, 4.0, 30.0])
    probability[rng.random(length) < 0.3] = 0.0
    probability[0] = 1.0
    return path, probability


@pytest.mark.parametrize("seed", range(5))
def test_a_change_is_described_as_the_batch_layer_lists_it(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        path, probability = random_input(rng)
        expected = list_change_points(path, probability, at_least=0.0)
        assert len(expected) == len(path) - 1
        for i, change in enumerate(expected, start=1):
            total, low, high = smoothing.describe_change(probability, 0, path, i)
            assert (int(path[i]), low, high) == (change.index, change.low, change.high), (path, i)
            assert total == pytest.approx(change.probability, abs=1e-12)


def test_the_first_change_owns_everything_before_it():
    """As in the batch layer: the stream's own beginning is no change and takes no probability away."""
    probability = np.zeros(30)
    probability[[0, 5, 20]] = 1.0, 0.3, 0.6
    total, low, high = smoothing.describe_change(probability, 0, np.array([0, 20]), 1)
    assert (total, low, high) == (pytest.approx(0.9), 5, 20)


def test_a_change_that_lies_before_the_lag_ends_the_neighbourhood_of_the_next():
    probability = np.full(20, 0.04)  # observations 100 to 119
    total, low, _ = smoothing.describe_change(probability, 100, np.array([96, 110]), 1)
    assert total == pytest.approx(16 * 0.04)  # 104 to 119: 103 is as near to 96
    assert low == 104


def test_the_window_does_not_matter_where_the_lag_holds_it_all():
    probability = np.zeros(60)
    probability[[0, 35, 40, 41, 50]] = 1.0, 0.1, 0.6, 0.3, 0.8
    path = np.array([0, 40, 50])
    for i in (1, 2):
        whole = smoothing.describe_change(probability, 0, path, i)
        window = smoothing.describe_change(probability[25:], 25, path, i)
        assert whole == pytest.approx(window)


@pytest.mark.parametrize("lag", [8, 12, 16, 24, 31, 64, 100])
def test_every_clear_change_is_settled_once_whatever_the_lag(lag):
    """Changes of 20 standard deviations at every offset to the rhythm at which change points are settled."""
    rng = np.random.default_rng(lag)
    dwells = np.tile(np.arange(30, 46), 3)
    y = np.repeat(np.arange(len(dwells)) % 2 * 20.0, dwells) + rng.normal(size=dwells.sum())
    detector = hs.OnlineDetector(hs.ilr(NORMAL, DWELL), lag=lag)
    detector.update_many(y)
    listed = [change.index for change in detector.change_points]
    assert [listed.count(index) for index in np.cumsum(dwells)[:-1]] == [1] * 47
    assert len(listed) <= 47 + (3 if lag < 32 else 0), "a short lag settles before it can know better"


@pytest.mark.parametrize("lag", [32, 64])
def test_a_change_is_not_listed_twice_when_its_place_moves(lag):
    """Weak changes are still moving when they are settled. Two that are listed side by side stood together on the most
    probable path at some time: else they are one change in two places."""
    rng = np.random.default_rng(0)
    y = engines.levels(rng, 8000, 150, 1.0) + rng.normal(size=8000)
    detector = hs.OnlineDetector(hs.ilr(NORMAL, hs.durations.Poisson(1.0, 150.0)), lag=lag, keep=1000)
    together = set()
    for value in y:
        detector.update(value)
        together.update(itertools.combinations(engines.path(detector._engine), 2))
    listed = [change.index for change in detector.change_points]
    assert len(listed) > 25
    assert [(a, b) for a, b in itertools.pairwise(listed) if b - a < lag // 2 and (a, b) not in together] == []


def test_settled_change_points_never_change():
    rng = np.random.default_rng(1)
    y = engines.levels(rng, 3000, 60, 2.0) + rng.normal(size=3000)
    detector = hs.OnlineDetector(hs.ilr(NORMAL, DWELL), keep=10_000)
    before = []
    for rows in np.array_split(y, 60):
        detector.update_many(rows)
        settled = [change for change in detector.change_points if change.index < detector.time - 64]
        assert settled[: len(before)] == before
        before = settled
    assert len(before) > 20


def test_every_start_remembers_a_parent():
    """Also where more starts are equally good than there is room for: slow drift, a sine, a random walk."""
    rng = np.random.default_rng(2)
    for y in (
        np.sin(np.arange(1500) / 50.0) + 0.1 * rng.normal(size=1500),
        0.02 * np.arange(800) + 0.3 * rng.normal(size=800),
        np.full(300, np.nan),
    ):
        detector = hs.OnlineDetector(min_dwell=1)
        detector.update_many(y[:20])
        without = []
        for t in range(20, len(y)):
            detector.update(y[t])
            filter = detector._engine.filter
            if filter.parent_count[t % len(filter.parent_count)] == 0:
                without.append(t)
        assert without == []


def test_the_most_probable_path_does_not_depend_on_how_long_the_stream_is():
    """After a change that is certain nothing depends on what came before it: not on 400,000 observations either."""
    rng = np.random.default_rng(3)
    length = 400_000
    old = default()
    engines.feed(old, engines.levels(rng, length, 12, 1.5) + rng.normal(size=length))
    remembered = old.arrays()
    wrong = 0
    for _ in range(100):
        certain = 40.0 + 0.5 * rng.normal(size=8)
        tail = np.concatenate([certain, engines.levels(rng, 52, 8, 1.2) + rng.normal(size=52)])
        young, old = default(), default()
        old.load(remembered)
        engines.feed(young, tail)
        engines.feed(old, tail)
        path = [s - length for s in engines.path(old) if s >= length]
        wrong += path != list(engines.path(young))
    assert wrong == 0
