"""What the run-length filter knows about the past: change probabilities over the lag, the most probable path, and the
change points on it."""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream.online.change_points import LEAST_PROBABILITY, describe_change, write_change
from ishsmm_stream.online.renewal.hazard import risks_survived
from ishsmm_stream.online.renewal.run_length import CONSIDERED, COUNT, GAP_BEGAN, GAP_ENDED, NOBODY, TIME, may_reach

LEAST_PROBABILITY_LATE = 0.99  # of one that is listed although it lies before the lag


@owning_kernel
def _pass_to_parents(hazard, filter, start, record, posterior):
    """Give the posterior mass of a start, at every hazard, to its parents by their shares."""
    slot = filter.record_slot[record]
    parents = filter.parent_count[record]
    reference = filter.record_reference[record]
    grid = filter.mass.shape[1]
    weights = np.empty((parents, grid))
    total = np.zeros(grid)
    ratio = np.empty(grid)
    for g in range(grid):
        ratio[g] = math.log1p(-hazard.grid[g]) - math.log1p(-hazard.grid[reference])
    for i in range(parents):
        parent = filter.parent_slot[record, i]
        survived = risks_survived(hazard, start - filter.slot_start[parent])
        for g in range(grid):
            weight = float(filter.parent_share[record, i])
            if g != reference:
                birth = filter.slot_birth[parent]
                # as doubles: numpy and compiled code differ in what they make of a float times a double
                weight *= float(birth[g]) / max(float(birth[reference]), 1e-30) * math.exp(survived * ratio[g])
            weights[i, g] = weight
            total[g] += weight
    for i in range(parents):
        for g in range(grid):
            if total[g] > 0.0:
                posterior[filter.parent_slot[record, i], g] += posterior[slot, g] * weights[i, g] / total[g]


@owning_kernel
def change_probability(hazard, filter):
    """P(a segment starts at t | y) for the last observations, oldest first, as many as the lag holds."""
    time = filter.clock[TIME]
    lag = filter.record_slot.shape[0]
    length = min(time, lag)
    posterior = np.zeros((filter.slot_start.shape[0], filter.mass.shape[1]))
    for i in range(filter.clock[COUNT]):
        posterior[filter.slot[i]] += filter.mass[i]
    result = np.zeros(length)
    for back in range(length):
        start = time - 1 - back
        record = start % lag
        probability = 0.0
        for g in range(posterior.shape[1]):
            probability += posterior[filter.record_slot[record], g]
        result[length - 1 - back] = min(probability, 1.0)
        if probability > 0.0:
            _pass_to_parents(hazard, filter, start, record, posterior)
    return result


@kernel
def longest_path(lag):
    """How many starts a path within the lag can have, with the one before it."""
    return lag + 1


@kernel
def _trace_path(filter, path):
    """Write the starts of the most probable segmentation, the last one first; returns how many there are."""
    time = filter.clock[TIME]
    oldest = max(0, time - filter.record_slot.shape[0])
    heaviest = 0
    for i in range(filter.clock[COUNT]):
        if filter.weight[i] > filter.weight[heaviest]:
            heaviest = i
    floor = -np.inf
    if filter.weight[heaviest] > 0.0:
        floor = math.log(filter.weight[heaviest]) + float(filter.slot_log[filter.slot[heaviest]])
    best, chosen = -np.inf, 0
    for i in range(filter.clock[COUNT]):
        if filter.weight[i] > 0.0 and may_reach(floor, filter.weight[i], float(filter.slot_log[filter.slot[i]])):
            value = math.log(filter.weight[i]) + float(filter.slot_log[filter.slot[i]])
            if value > best or (value == best and filter.weight[i] > filter.weight[chosen]):
                best, chosen = value, i
    slot = filter.slot[chosen]
    length = 0
    while slot != NOBODY:
        path[length] = filter.slot_start[slot]
        length += 1
        if filter.slot_start[slot] < oldest:
            break
        slot = filter.slot_parent[slot]
    return length


@owning_kernel
def most_probable_path(filter):
    """The starts of the most probable segmentation within the lag, ascending; the one before the lag comes first. Never
    empty: where data beyond doubles leave only paths of probability 0, the heaviest hypothesis is on it."""
    path = np.empty(longest_path(filter.record_slot.shape[0]), dtype=np.int64)
    return path[: _trace_path(filter, path)][::-1].copy()


@owning_kernel
def open_changes(hazard, filter, path, changes):
    """Write the change points of the most probable ``path`` that are not settled yet to ``changes``; returns how many
    rows are filled."""
    first = max(0, filter.clock[TIME] - filter.record_slot.shape[0])
    probability = np.zeros(0)
    written = 0
    for i in range(path.shape[0]):
        if path[i] > max(filter.clock[CONSIDERED], first - 1, 0):
            if probability.shape[0] == 0:  # often there is nothing to describe, and this is most of the work
                probability = change_probability(hazard, filter)
            total, low, high = describe_change(probability, first, path, i)
            if total >= LEAST_PROBABILITY:
                write_change(changes, written, path[i], total, low, high)
                written += 1
    return written


@kernel
def _describe_late(filter, index):
    """(probability, low, high) of the change at ``index``, which lies before the lag, from the posterior of the current
    segment's start."""
    considered = filter.clock[CONSIDERED]
    total = 0.0
    for i in range(filter.clock[COUNT]):
        if filter.start[i] > considered:
            total += filter.weight[i]
    low, high = index, index
    running = 0.0
    for i in range(filter.clock[COUNT]):
        position = filter.order[i]
        if filter.start[position] > considered:
            if running < 0.05 * total:
                low = min(index, filter.start[position])
            if running < 0.95 * total:
                high = max(index, filter.start[position])
            running += filter.weight[position]
    return min(total, 1.0), low, high


@kernel
def settle(hazard, filter, path, settled, written):
    """Freeze the change points of the most probable path that are about to leave the lag.

    They are written to rows ``written`` and on of ``settled``; returns the rows filled. A start that is older than
    three quarters of the lag is looked at once and never again. One that lies in a long gap comes to light when it has
    left the lag; it is settled as soon as it is all but certain. ``path``: room for the longest path.
    """
    lag = filter.record_slot.shape[0]
    horizon = filter.clock[TIME] - 1 - (lag - lag // 4)
    for i in range(_trace_path(filter, path)):
        if filter.clock[CONSIDERED] < path[i] <= horizon:
            return _settle_until(horizon, hazard, filter, settled, written)
    return written


@owning_kernel
def _settle_until(horizon, hazard, filter, settled, written):
    path = most_probable_path(filter)
    first = max(0, filter.clock[TIME] - filter.record_slot.shape[0])
    probability = np.zeros(0)
    for i in range(path.shape[0]):
        if filter.clock[CONSIDERED] < path[i] <= horizon:
            if path[i] < first:
                if not filter.clock[GAP_BEGAN] < path[i] <= filter.clock[GAP_ENDED]:
                    continue
                total, low, high = _describe_late(filter, path[i])
                if total < LEAST_PROBABILITY_LATE:
                    continue
            else:
                if probability.shape[0] == 0:
                    probability = change_probability(hazard, filter)
                total, low, high = describe_change(probability, first, path, i)
            filter.clock[CONSIDERED] = max(path[i], high)  # should its place still move, it is the same change
            if total >= LEAST_PROBABILITY:
                write_change(settled, written, path[i], total, low, high)
                written += 1
    return written
