"""The piece of readings in a state record: few of many, and the peaks among them."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.sensors.recent import downsample
from service.wire.messages import rounded


def down(readings):
    """Of (time, values)."""
    times = np.array([time for time, _ in readings], dtype=np.int64)
    rows = np.array([values for _, values in readings], dtype=float) if readings else np.empty((0, 1))
    return downsample(times, rows)


def by_hand(readings, most=60):
    """The same as a plain loop."""
    if len(readings) > most:
        edges = [len(readings) * i // (most // 2) for i in range(most // 2 + 1)]
        kept = []
        for first, end in itertools.pairwise(edges):
            inside = [values[0] for _, values in readings[first:end]]
            kept += sorted({first + inside.index(min(inside)), first + inside.index(max(inside))})
        readings = [readings[i] for i in kept]
    return [[time // 1000, *map(rounded, values)] for time, values in readings]


def test_few_readings_stay_as_they_are():
    assert down([(1_500_000, (1.0, 2.0)), (2_000_000, (1 / 3, 0.0))]) == [[1500, 1.0, 2.0], [2000, 0.333333, 0.0]]
    assert down([]) == []


@pytest.mark.parametrize("count", [60, 61, 100, 119, 120, 128, 1000])
def test_downsampled_readings_keep_order_and_extremes(count):
    rng = random.Random(count)
    readings = [(i * 1_000_000 - 7, (rng.gauss(0, 1), rng.gauss(0, 1e9))) for i in range(count)]
    found = down(readings)
    assert found == by_hand(readings)
    assert 30 < len(found) <= 60
    values = [rounded(values[0]) for _, values in readings]
    assert {min(values), max(values)} <= {point[1] for point in found}


def test_of_equal_readings_the_first_stays():
    readings = [(i * 1_000_000, (float(i // 50),)) for i in range(100)]
    assert down(readings) == by_hand(readings)


def near_ties(digits, exponent):
    """Numbers whose seventh digit is a five: their doubles lie above or below, and rounding has to know."""
    return float(f"{digits}5e{exponent}")


sizes = st.floats(allow_nan=False, allow_infinity=False) | st.builds(
    near_ties, st.integers(-999_999, 999_999), st.integers(-25, 12)
)


@given(st.lists(sizes, min_size=1, max_size=20))
@settings(deadline=None)
def test_values_are_rounded_as_everywhere_else_in_messages(values):
    found = down([(i * 1_000_000, (value,)) for i, value in enumerate(values)])
    assert [value for _, value in found] == [rounded(value) for value in values]
