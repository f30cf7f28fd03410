"""Every block of the sampler at once, for every model: the joint-distribution test.

False alarms: about 20 correlated quantities a model; standard errors from 50 batch means, which are a little small in a
short run (c and alpha0 take about a hundred sweeps to forget), hence |z| < 5 there and |z| < 4 in the long one.
"""

import joint_distribution
import pytest
from joint_cases import CASES

# These take a minute even in the short run; their blocks are in other cases too, but for the discount's.
ONLY_LONG = ("ied with discount", "ilr with discount", "ied, mixed families")


@pytest.mark.parametrize("name", [name for name in CASES if name not in ONLY_LONG])
def test_the_sampler_leaves_the_joint_distribution_as_it_is(name):
    model, settings = CASES[name]
    scores = joint_distribution.z_scores(model, length=10, sweeps=5_000, seed=20, **settings)
    assert max(map(abs, scores.values())) < 5.0, scores


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_sampler_leaves_the_joint_distribution_as_it_is_in_a_long_run(name):
    model, settings = CASES[name]
    scores = joint_distribution.z_scores(model, length=12, sweeps=60_000, seed=21, **settings)
    assert max(map(abs, scores.values())) < 4.0, scores
