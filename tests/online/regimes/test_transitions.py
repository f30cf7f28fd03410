"""Transitions: probabilities that add up, and the counts behind them."""

import itertools

import numpy as np
import pytest

from ishsmm_stream.online.regimes import transitions
from ishsmm_stream.online.regimes.chains import ALL_TABLES, make_chains


def visited(path):
    """One chain that went through the states of ``path``, numbered in the order of their first visits."""
    chains = make_chains(1, 8, 0, room=12)
    chains.weight[0] = 1.0
    for k in path:
        if k == chains.count[0]:
            chains.count[0] += 1
            transitions.record_birth(chains, 0, k)
        else:
            transitions.record_move(chains, 0, k)
        chains.state[0] = k
    return chains


PATHS = [[0], [0, 1], [0, 1, 0, 1, 0], [0, 1, 2, 0, 2, 1, 2, 0, 3, 2], [*range(10), 0, 1, 0, 2, 0, 3]]


@pytest.mark.parametrize("path", PATHS)
def test_something_comes_next(path):
    chains = visited(path)
    new = transitions.new_probability(chains, 0)
    known = [
        transitions.known_probability(chains, 0, k) for k in range(chains.count[0]) if k != chains.state[0]
    ]  # fmt: skip
    assert 0.0 < new <= 1.0
    assert sum(known) == pytest.approx(1.0 if known else 0.0)
    assert min(known, default=1.0) > 0.0


@pytest.mark.parametrize("path", PATHS)
def test_counts_are_those_of_the_path(path):
    chains = visited(path)
    expected = np.zeros((12, 12))
    for before, after in itertools.pairwise(path):
        expected[before, after] += 1.0
    assert np.array_equal(chains.moves[0], expected)
    assert np.array_equal(chains.leavings[0], expected.sum(axis=1))
    assert chains.tables[0].sum() == pytest.approx(chains.totals[0, ALL_TABLES])


def test_expected_tables_follow_the_chinese_restaurant():
    """The second customer of a dish in a row sits at a table of its own with probability c / (1 + c)."""
    chains = visited([0, 1, 0, 1, 0])  # rows: 0 -> 1 twice, 1 -> 0 twice
    tables = np.array([1.0, 1.0])  # one each for their births
    moves = np.zeros((2, 2))
    moves[0, 1] = 1.0
    for before, after in ((1, 0), (0, 1), (1, 0)):
        above = transitions.ALPHA * tables[after] / (tables.sum() - tables[before])
        tables[after] += above / (moves[before, after] + above)
        moves[before, after] += 1.0
    assert chains.tables[0, :2] == pytest.approx(tables)


def test_new_states_become_less_likely_the_more_a_state_was_left_for_known_ones():
    young, old = visited([0, 1, 0, 1, 0]), visited([0, 1] * 40 + [0])
    assert transitions.new_probability(old, 0) < 0.3 * transitions.new_probability(young, 0)
