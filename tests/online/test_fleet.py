"""Many detectors at once give what each would give alone."""

import copy
import gc
import math
import pickle

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.online.renewal.pool import Pool


def stream(seed):
    """Levels that jump, with missing values, an outlier, and a sensor that sticks."""
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.normal(level, 1.0, rng.integers(20, 120)) for level in rng.normal(0.0, 6.0, 6)])
    values[rng.integers(0, len(values), 5)] = math.nan
    values[rng.integers(30, len(values))] = 500.0
    values[-90:] = values[-91]
    return values


def normal():
    emission = hs.emissions.Normal(mean=0.0, mean_weight=0.1, shape=2.0, scale=1.0)
    return hs.ilr(emission=emission, duration=hs.durations.Poisson(shape=1.0, scale=100.0))


def recurring():
    emission = hs.emissions.Normal(mean=0.0, mean_weight=0.1, shape=2.0, scale=1.0)
    return hs.ied(emission=emission, duration=hs.durations.Poisson(shape=2.0, scale=5.0))


def detectors():
    """Kinds that go together and kinds that do not."""
    return [
        *(hs.OnlineDetector() for _ in range(5)),
        hs.OnlineDetector(threshold=0.6),
        hs.OnlineDetector(hazard=hs.priors.Beta(1.0, 20.0)),
        hs.OnlineDetector(min_dwell=2),
        hs.OnlineDetector(lag=32),
        hs.OnlineDetector(alarm_policy=hs.AlarmPolicy(min_effect=3.0)),
        hs.OnlineDetector(normal()),
        hs.OnlineDetector(normal(), prior="auto"),
        hs.OnlineDetector(normal(), prior="auto"),
        hs.OnlineDetector(recurring(), chains=10),
        hs.OnlineDetector("recurring"),
        hs.OnlineDetector("recurring"),
    ]


STREAMS = [stream(seed) for seed in range(len(detectors()))]


def same(one, other):
    assert one.snapshot() == other.snapshot()
    assert one.announced_changes == other.announced_changes
    assert one.change_points == other.change_points
    assert one.log_evidence == other.log_evidence


@pytest.mark.parametrize("threads", [1, 3])
def test_a_fleet_gives_what_its_detectors_would_alone(threads):
    fleet, alone = detectors(), detectors()
    at, together = 0, [[] for _ in fleet]
    for size in (1, 3, 9, 40, 150, 1000):
        for i, events in enumerate(hs.update_fleet(fleet, [y[at : at + size] for y in STREAMS], threads=threads)):
            together[i] += events
        at += size
    assert together == [one.update_many(y) for one, y in zip(alone, STREAMS, strict=True)]
    assert sum(map(len, together)) > len(fleet)
    for one, other in zip(fleet, alone, strict=True):
        same(one, other)


def test_up_to_an_event_it_is_the_same_too():
    fleet, alone = detectors(), detectors()
    left = [list(y) for y in STREAMS]
    heard = [[] for _ in fleet]
    while any(left):
        at_once = [i for i, rest in enumerate(left) if rest]
        pieces = [left[i][:70] for i in at_once]
        for i, (taken, events) in zip(
            at_once, hs.update_fleet_to_event([fleet[i] for i in at_once], pieces), strict=True
        ):
            assert taken == len(pieces[at_once.index(i)]) or events
            left[i] = left[i][taken:]
            heard[i] += [(fleet[i].time, event, fleet[i].state) for event in events]
    for one, y, told in zip(alone, STREAMS, heard, strict=True):
        rest, expected = y, []
        while len(rest):
            taken, events = one.update_to_event(rest)
            rest = rest[taken:]
            expected += [(one.time, event, one.state) for event in events]
        assert told == expected


def test_readings_come_in_any_shape_and_bad_ones_are_refused():
    fleet = [hs.OnlineDetector() for _ in range(3)]
    hs.update_fleet(fleet, [STREAMS[0][:50]] * 3)
    assert hs.update_fleet_to_event(fleet, [[1.0, 2.0], np.ones((2, 1)), []]) == [(2, []), (2, []), (0, [])]
    assert [one.time for one in fleet] == [52, 52, 50]
    with pytest.raises(ValueError, match="infinite at index 1"):
        hs.update_fleet(fleet, [[1.0], [1.0, math.inf], [1.0]])
    with pytest.raises(ValueError, match="2 channels"):
        hs.update_fleet(fleet, [[1.0], [[1.0, 2.0]], [1.0]])
    with pytest.raises(ValueError, match="same length"):
        hs.update_fleet(fleet, [[1.0]])
    with pytest.raises(ValueError, match="twice"):
        hs.update_fleet([fleet[0], fleet[0]], [[1.0], [1.0]])


def test_copies_have_a_room_of_their_own():
    detector = hs.OnlineDetector()
    detector.update_many(STREAMS[0][:100])
    twins = [copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))]
    twins.append(hs.OnlineDetector.restore(detector.snapshot()))
    detector.update_many(STREAMS[1])
    for twin in twins:
        twin.update_many(STREAMS[0][100:])
    alone = hs.OnlineDetector()
    alone.update_many(STREAMS[0])
    for twin in twins:
        same(twin, alone)


def test_a_slot_is_free_again_when_its_detector_is_gone():
    pool = Pool(lambda: State(np.ones(3), Inner(np.zeros((2, 2), dtype=np.int32))))
    held = [pool.take_slot() for _ in range(10)]
    held[4].state[0][:] = 7.0
    slabs = {id(slot.slab) for slot in held}
    del held[3:6]
    gc.collect()
    again = [pool.take_slot() for _ in range(3)]
    assert {id(slot.slab) for slot in again} <= slabs
    assert all((slot.state[0] == 1.0).all() for slot in again)  # as new, whoever was there before


class Inner(tuple):
    def __new__(cls, *parts):
        return super().__new__(cls, parts)


class State(Inner):
    pass
