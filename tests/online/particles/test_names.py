"""Chains agree on the names of young states."""

import numpy as np

from ishsmm_stream.online.particles.names import agree, free_uid


def agreed(recent_uid, weights, first_seen):
    """uids of the chains' states, after they have agreed; states in the order in which they were seen."""
    recent_uid = np.array(recent_uid)
    uids = [list(dict.fromkeys(row.tolist())) for row in recent_uid]
    uid = np.array([row + [-1] * (4 - len(row)) for row in uids])
    first = np.zeros_like(uid)
    for i, row in enumerate(first_seen):
        first[i, : len(row)] = row
    count = np.array([len(row) for row in uids])
    agree(np.log(weights), uid, count, first, recent_uid, recent_uid.shape[1])
    return [uid[i, : count[i]].tolist() for i in range(len(uids))], recent_uid


def test_a_state_born_a_little_later_takes_the_heavier_chains_name():
    uids, recent = agreed([[0, 0, 2, 2, 2, 2], [0, 0, 0, 3, 3, 3]], [0.6, 0.4], [[0, 2], [0, 3]])
    assert uids == [[0, 2], [0, 2]]
    assert recent[1].tolist() == [0, 0, 0, 2, 2, 2]


def test_a_name_that_the_chain_uses_for_another_state_is_not_taken():
    uids, _ = agreed([[2, 0, 0, 0, 0, 0], [0, 0, 3, 3, 3, 3]], [0.6, 0.4], [[0, 1], [0, 2]])
    assert uids[1] == [0, 3]


def test_an_old_state_keeps_its_name():
    uids, _ = agreed([[5, 5, 5, 5, 5, 5], [0, 0, 0, 0, 0, 0]], [0.6, 0.4], [[0], [-100]])
    assert uids == [[5], [0]]


def test_a_state_that_most_do_not_see_keeps_its_name():
    uids, _ = agreed([[0, 0, 1, 1, 4, 4], [0, 0, 3, 3, 3, 3]], [0.6, 0.4], [[0, 2, 4], [0, 2]])
    assert uids[1] == [0, 3]  # half of its observations are called 1, half 4: no majority


def test_a_free_name_is_the_next_number_that_is_not_taken():
    uids = np.array([3, 4, 7])
    assert free_uid(uids, 3, -1, 3) == 5
    assert free_uid(uids, 3, 0, 3) == 3
    assert free_uid(uids, 2, -1, 7) == 7
