"""The same name for the same state in all chains.

A state's uid is the index at which its chain gave birth to it. Chains that share a past share its uids, but where the
chains give birth to a state a few observations apart they name it differently, and such names can live side by side
for thousands of observations. So the chains come to an agreement from time to time: a state all of whose observations
are recent takes the name that most of them have in the heaviest chains, unless its chain uses that name for another
state. Names have no part in inference.
"""

from __future__ import annotations

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream.online.particles.beliefs import gather, heaviest

# Chains agree after every so many observations.
AGREE_EVERY = 16


@kernel
def free_uid(uids, count, skip, wanted):
    """``wanted``, or the next whole number that no state but the one in slot ``skip`` has."""
    k = 0
    while k < count:
        if k != skip and uids[k] == wanted:
            wanted += 1
            k = 0
        else:
            k += 1
    return wanted


@kernel
def _majority(recent, common, uid, columns):
    """The name that more than half of a state's recent observations have in common, the state's own where there is
    none (Boyer and Moore's vote)."""
    candidate, lead, total = uid, 0, 0
    for column in range(columns):
        if recent[column] == uid:
            total += 1
            if lead == 0:
                candidate = common[column]
            lead += 1 if common[column] == candidate else -1
    votes = 0
    for column in range(columns):
        if recent[column] == uid and common[column] == candidate:
            votes += 1
    return candidate if 2 * votes > total else uid


@owning_kernel
def agree(log_weight, uid, count, first_seen, recent_uid, time):
    """Let young states take the names that are most common; ``time``: observations so far."""
    columns = min(time, recent_uid.shape[1])
    found = np.empty(log_weight.shape[0], dtype=np.int64)
    masses = np.empty(log_weight.shape[0])
    common = np.empty(columns, dtype=np.int64)
    for column in range(columns):
        common[column], _ = heaviest(found, masses, gather(recent_uid[:, column], log_weight, found, masses))
    for i in range(log_weight.shape[0]):
        if log_weight[i] == -np.inf:
            continue
        for k in range(count[i]):
            if first_seen[i, k] < time - columns:
                continue
            old = uid[i, k]
            new = _majority(recent_uid[i], common, old, columns)
            if new != old and free_uid(uid[i], count[i], k, new) == new:
                uid[i, k] = new
                for column in range(columns):
                    if recent_uid[i, column] == old:
                        recent_uid[i, column] = new
