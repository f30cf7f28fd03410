"""Published probabilities are honest: over streams from the prior, what is claimed happens as often as claimed.

Discrete intervals cover more than they promise, so not coverage is tested but an identity. For every listed change, the
number of true starts inside its interval has, given the data, the expectation that the published probabilities add up
to. Averages over independent streams of the difference are compared with 0, |z| < 4: one false alarm in 16,000 tests.
"""

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.online.renewal.hazard import duration_hazard
from online import engines

NORMAL = hs.emissions.Normal(0.0, 0.1, 3.0, 3.0)
SCALE = 24.0  # of the dwell's exponential rate: a segment goes on with probability SCALE / (1 + SCALE)
MODEL = hs.ilr(NORMAL, hs.durations.Poisson(1.0, SCALE))
HAZARD = duration_hazard(MODEL.duration)
LENGTH = 64  # the lag: nothing is settled, everything is still revised


def from_the_prior(rng, length=LENGTH):
    """(y, starts), drawn by hand: geometric dwells, inverse-gamma variances, normal means and values."""
    is_start = rng.random(length) < 1.0 / (1.0 + SCALE)
    is_start[0] = True
    segment = np.cumsum(is_start) - 1
    count = segment[-1] + 1
    variance = NORMAL.scale / rng.gamma(NORMAL.shape, size=count)
    mean = NORMAL.mean + np.sqrt(variance / NORMAL.mean_weight) * rng.normal(size=count)
    return mean[segment] + np.sqrt(variance[segment]) * rng.normal(size=length), np.flatnonzero(is_start)


def z_score(differences):
    return float(np.mean(differences) / (np.std(differences) / np.sqrt(len(differences))))


def in_intervals(change_points, probability, changes):
    """True changes in the listed intervals less the probabilities there."""
    difference = 0.0
    for change in change_points:
        difference += np.sum((changes >= change.low) & (changes <= change.high))
        difference -= probability[change.low : change.high + 1].sum()
    return difference


def at_alarms(events, starts, min_segment):
    """Whether a segment that began since the last announced one goes on when an alarm is raised, less the claim."""
    difference, announced = 0.0, 0
    for event in events:
        if event.kind == "raised":
            current = starts[starts <= event.at][-1]
            difference += (current >= announced + min_segment) - event.probability
        announced = event.index
    return difference


def compare(streams, seed):
    """Differences between what happened and what was claimed, one number a stream, by what was claimed."""
    rng = np.random.default_rng(seed)
    found = {name: [] for name in ("intervals", "number", "intervals, bounded", "alarms", "run length")}
    for _ in range(streams):
        y, starts = from_the_prior(rng)
        changes = starts[starts > 0]
        whole = engines.build(NORMAL, MODEL.duration, HAZARD, LENGTH)
        engines.feed(whole, y)
        probability = whole.change_probability()
        found["intervals"].append(in_intervals(whole.open_change_points(), probability, changes))
        found["number"].append(len(changes) - probability[1:].sum())
        detector = hs.OnlineDetector(MODEL)
        events = detector.update_many(y)
        probability = detector._engine.change_probability()
        found["intervals, bounded"].append(in_intervals(detector.change_points, probability, changes))
        found["alarms"].append(at_alarms(events, starts, detector._policy.min_segment))
        recent = starts[-1] >= LENGTH - 15 and starts[-1] > 0
        found["run length"].append(recent - detector.change_probability(15))
    return found


def check(streams, seed):
    for name, differences in compare(streams, seed).items():
        assert np.std(differences) > 0.0, name
        assert abs(z_score(differences)) < 4.0, name


def test_claims_hold_over_a_hundred_streams():
    check(100, seed=1)


@pytest.mark.long
def test_claims_hold_over_two_thousand_streams():
    check(2000, seed=2)


@pytest.mark.long
def test_claims_hold_with_the_default_bounds_on_long_streams():
    """Settled and open change points of 400 streams of 600: an interval leaves out a tenth of its probability, and less
    where places are whole numbers."""
    rng = np.random.default_rng(3)
    differences = []
    for _ in range(400):
        y, starts = from_the_prior(rng, 600)
        detector = hs.OnlineDetector(MODEL, keep=1000)
        detector.update_many(y)
        difference = 0.0
        for change in detector.change_points:
            inside = np.sum((starts >= change.low) & (starts <= change.high))
            difference += min(inside, 1) - change.probability
        differences.append(difference / max(len(detector.change_points), 1))
    assert -0.1 < np.mean(differences) < 0.02
