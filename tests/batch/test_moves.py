"""Moves of segments and states: against enumeration, and as part of the whole sampler."""

import joint_distribution
import numpy as np
import pytest
from eight_observations import CHANGE8, MODEL8, STATES8, Y8
from joint_cases import CASES

from ishsmm_stream.batch import hierarchy, moves
from ishsmm_stream.batch.chain import Chain

MANY = 8  # moves per sweep, so that a wrong ratio outweighs what the beam mends


KINDS = ("split or merge", "relabel", "shift", "cut or join")


def move(chain, kind):
    """Try one move of this kind, as ``move_and_update`` does. Returns ln target before and after."""
    model = chain.model
    common = (chain.rng, chain.emission, model.duration, chain.rules, chain.weights)
    chain.count = hierarchy.compact(chain.rules, chain.weights, chain.rows, chain.labels, chain.count)
    before = moves.log_target(*common[1:], chain.y, chain.starts, chain.labels, chain.count)
    state = (chain.y, chain.starts, chain.labels, chain.count, before)
    if kind == "shift":
        after = moves.shift(*common, *state)
    elif kind == "cut or join":
        after, chain.count, chain.starts, chain.labels = moves.cut_or_join(*common, chain.rows, *state)
    else:
        step = moves.relabel if kind == "relabel" else moves.split_or_merge
        after, chain.count = step(*common, chain.rows, *state)
    return before, after


@pytest.mark.parametrize("kind", KINDS)
def test_the_posterior_is_that_of_enumeration_when_a_kind_of_move_dominates(kind):
    """60 moves of one kind per sweep. Errors of a chain of this length stay below .02; with a factor of its ratio left
    out, each kind but the shift, which has none, is off by more."""
    chain = Chain(MODEL8, np.array(Y8)[:, np.newaxis], np.random.default_rng(3), moves=0)
    sweeps = 8_000
    change, states = np.zeros(len(Y8)), np.zeros(len(Y8) + 1)
    for _ in range(sweeps):
        chain._update_trajectory()
        for _ in range(60):
            move(chain, kind)
        chain._update_hierarchy()
        chain._update_parameters()
        change[chain.starts[1:]] += 1.0 / sweeps
        states[len(np.unique(chain.labels))] += 1.0 / sweeps
    np.testing.assert_allclose(change[1:], CHANGE8, atol=0.02)
    np.testing.assert_allclose(states[1:6], STATES8, atol=0.02)


@pytest.mark.parametrize("name", ["ied", "hdp_hsmm", "unrestricted, with durations"])
def test_moves_leave_the_joint_distribution_as_it_is(name):
    model, settings = CASES[name]
    scores = joint_distribution.z_scores(model, length=10, sweeps=5_000, seed=22, moves=MANY, **settings)
    assert max(map(abs, scores.values())) < 5.0, scores


def test_states_of_many_segments_are_split_and_merged_rightly():
    """Enough segments of a state for the order in which a split deals them out to count: without ln P(allocation) in
    the ratio, the number of states is off by six standard errors."""
    model, settings = CASES["ied"]
    scores = joint_distribution.z_scores(model, length=30, sweeps=15_000, seed=24, moves=40, **settings)
    assert max(map(abs, scores.values())) < 5.0, scores


@pytest.mark.long
@pytest.mark.parametrize("name", ["ied", "ied with discount", "ied, other durations", "hdp_hsmm",
                                  "hdp_hsmm, mean reverting, outliers", "unrestricted, with durations"])  # fmt: skip
def test_moves_leave_the_joint_distribution_as_it_is_in_a_long_run(name):
    model, settings = CASES[name]
    scores = joint_distribution.z_scores(model, length=12, sweeps=60_000, seed=23, moves=MANY, **settings)
    assert max(map(abs, scores.values())) < 4.0, scores


def test_every_kind_of_move_is_accepted_and_keeps_count_of_its_target():
    """What a move returns as its target is the target of what it returns."""
    model, _ = CASES["ied"]
    rng = np.random.default_rng(5)
    y = rng.normal(size=(30, 1)) + np.repeat([0.0, 3.0, 0.0], 10)[:, np.newaxis]
    chain = Chain(model, y, rng, moves=0)
    accepted = dict.fromkeys(KINDS, 0)
    for _ in range(300):
        chain.sweep()
        for kind in KINDS:
            starts = chain.starts.copy()
            before, after = move(chain, kind)
            again = moves.log_target(
                chain.emission, model.duration, chain.rules, chain.weights, y, chain.starts, chain.labels, chain.count
            )
            assert after == pytest.approx(again, abs=1e-8)
            accepted[kind] += not np.array_equal(starts, chain.starts) or after != before
        assert (np.diff(chain.starts) > 0).all()
        assert (chain.labels[1:] != chain.labels[:-1]).all()
        chain._update_hierarchy()
        chain._update_parameters()
    assert min(accepted.values()) > 4, accepted
