"""Pieces of the hierarchy's update against their laws; the whole of it is in the joint-distribution tests."""

import math

import numpy as np
import pytest
from scipy import special

from ishsmm_stream.batch.hierarchy import draw_tables


@pytest.mark.parametrize("customers", [10, 300, 301, 10_000, 10**12])
@pytest.mark.parametrize("concentration", [0.1, 2.0, 50.0])
def test_tables_have_their_mean_and_variance(customers, concentration):
    """Customer j + 1 opens one with probability a / (a + j), independently. 2,000 draws, 5 standard errors."""
    rng = np.random.default_rng(7)
    draws = np.array([draw_tables(rng, customers, concentration) for _ in range(2_000)])
    ends = np.array([concentration, concentration + customers])
    mean = concentration * np.diff(special.digamma(ends))[0]
    variance = mean + concentration**2 * np.diff(special.polygamma(1, ends))[0]
    assert abs(draws.mean() - mean) < 5.0 * math.sqrt(variance / len(draws))
    assert draws.var() == pytest.approx(variance, rel=0.3)


def test_nobody_opens_no_table_and_one_customer_opens_one():
    rng = np.random.default_rng(7)
    assert draw_tables(rng, 0, 2.0) == 0
    assert draw_tables(rng, 1, 1e-300) == 1
