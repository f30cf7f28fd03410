import numpy as np
import pytest

from ishsmm_stream.batch.change_points import ChangePoint, list_change_points


def by_definition(starts, probability, at_least=0.5):
    """The basins written out index by index."""
    basins = {start: [] for start in starts}
    for t in range(1, len(probability)):
        if starts:
            basins[min(starts, key=lambda start: (abs(t - start), start))].append(t)
    result = []
    for start, basin in basins.items():
        total = sum(probability[t] for t in basin)
        if min(1.0, total) >= at_least:
            own, left = {}, 1.0
            for t in sorted(basin, key=lambda t: (abs(t - start), t)):
                own[t] = min(left, probability[t])
                left -= own[t]
            share = {t: sum(own[u] for u in basin if u <= t) / sum(own.values()) for t in basin}
            low = min(t for t in basin if share[t] >= 0.05)
            high = min(t for t in basin if share[t] >= 0.95)
            result.append(ChangePoint(start, pytest.approx(min(1.0, total)), low, high))
    return tuple(result)


def test_agrees_with_the_definition_on_random_input():
    rng = np.random.default_rng(1)
    for _ in range(200):
        length = int(rng.integers(2, 40))
        probability = rng.beta(0.2, 2.0, size=length)
        starts = sorted(rng.choice(np.arange(1, length), size=rng.integers(0, min(length, 6)), replace=False).tolist())
        assert list_change_points(starts, probability) == by_definition(starts, probability)


def test_an_uncertain_place_adds_up_to_a_certain_change():
    probability = np.array([1.0, 0, 0, 0.1, 0.2, 0.4, 0.2, 0.1, 0, 0])
    (point,) = list_change_points([5], probability)
    assert point == ChangePoint(5, pytest.approx(1.0), 3, 7)


def test_the_start_of_the_series_is_no_change():
    probability = np.array([1.0, 0.0, 0.9, 0.0])
    assert list_change_points([0, 2], probability) == list_change_points([2], probability)
    assert list_change_points([0], probability) == ()
    assert list_change_points([], probability) == ()


def test_an_index_halfway_belongs_to_the_earlier_start():
    probability = np.array([1.0, 0.0, 0.6, 0.0, 0.3, 0.0, 0.6, 0.0])
    first, second = list_change_points([2, 6], probability)
    assert (first.probability, second.probability) == (pytest.approx(0.9), pytest.approx(0.6))


def test_improbable_changes_are_left_out_and_more_than_one_is_one():
    probability = np.array([1.0, 0.0, 0.4, 0.0, 0.0, 0.0, 0.0, 0.7, 0.7])
    (point,) = list_change_points([2, 7], probability)
    assert (point.index, point.probability) == (7, 1.0)
    assert [point.index for point in list_change_points([2, 7], probability, at_least=0.1)] == [2, 7]


def test_the_interval_of_a_certain_change_does_not_reach_for_another_one():
    probability = np.zeros(100)
    probability[[3, 59, 60, 61, 90]] = 0.6, 0.1, 0.8, 0.1, 0.4  # only 60 is in the most probable segmentation
    assert list_change_points([60], probability) == (ChangePoint(60, 1.0, 59, 61),)


def test_a_basin_without_mass_keeps_its_own_index():
    assert list_change_points([2], np.array([1.0, 0.0, 0.0, 0.0]), at_least=0.0) == (ChangePoint(2, 0.0, 2, 2),)


@pytest.mark.parametrize("starts", [[3, 2], [2, 2], [4], [-1]])
def test_starts_that_are_no_segmentation_are_refused(starts):
    with pytest.raises(ValueError, match="starts must ascend"):
        list_change_points(starts, np.array([1.0, 0.1, 0.1, 0.1]))
