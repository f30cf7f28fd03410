"""Sums over all segmentations of a series: what the exact posterior and the sampler's first guess are made of.

With f and S the dwell's marginal pmf and survival, and m(s, e) the marginal likelihood of the block y[s:e], segments
that share nothing have the joint law prod f(D_i) m(block_i) x S(D_last) m(block_last). See ``exact.py``.
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import log_add
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions

# Fewer than one in 1e18: such counts of change points are left out of the sums.
_NEGLIGIBLE = 1e-18


@owning_kernel
def dwell_marginals(duration, length):
    """(ln f(D), ln S(D)) for dwells D = 0..length; S(D) = P(dwell >= D)."""
    stats = np.empty(durations.stats_size(duration))
    durations.clear(duration, stats)
    log_f = np.full(length + 1, -np.inf)
    log_s = np.full(length + 1, -np.inf)
    for dwell in range(1, length + 1):
        log_f[dwell] = durations.log_predictive_pmf(duration, stats, dwell - 1)
    log_s[length] = durations.log_predictive_survival(duration, stats, length - 1)
    for dwell in range(length - 1, 0, -1):
        log_s[dwell] = min(0.0, log_add(log_s[dwell + 1], log_f[dwell]))
    return log_f, log_s


@kernel
def _block_marginals(emission, y, start, stats, out):
    """out[e] = ln m(start, e) for e = start + 1..T."""
    emissions.clear(emission, stats)
    total = 0.0
    for t in range(start, y.shape[0]):
        total += emissions.log_predictive(emission, stats, y, t)
        emissions.add(emission, stats, y, t)
        out[t + 1] = total


@owning_kernel
def forward(emission, y, log_f):
    """A[e] for e = 0..T-1."""
    length = y.shape[0]
    stats = np.empty((length, emissions.stats_size(emission)))
    blocks = np.zeros(length)
    log_a = np.full(length, -np.inf)
    log_a[0] = 0.0
    for t in range(length - 1):
        emissions.clear(emission, stats[t])
        top = -np.inf
        for s in range(t + 1):
            blocks[s] += emissions.log_predictive(emission, stats[s], y, t)
            emissions.add(emission, stats[s], y, t)
            top = max(top, log_a[s] + log_f[t + 1 - s] + blocks[s])
        if top > -np.inf:
            total = 0.0
            for s in range(t + 1):
                total += math.exp(log_a[s] + log_f[t + 1 - s] + blocks[s] - top)
            log_a[t + 1] = top + math.log(total)
    return log_a


@owning_kernel
def backward(emission, y, log_f, log_s):
    """(B, best, successor): B[s]; the weight of the best segmentation from s on and where its next segment starts
    (T where the segment is the last)."""
    length = y.shape[0]
    stats = np.empty(emissions.stats_size(emission))
    blocks = np.empty(length + 1)
    log_b = np.empty(length)
    best = np.empty(length)
    successor = np.empty(length, dtype=np.int64)
    for s in range(length - 1, -1, -1):
        _block_marginals(emission, y, s, stats, blocks)
        best[s] = log_s[length - s] + blocks[length]
        successor[s] = length
        top = best[s]
        for e in range(s + 1, length):
            step = log_f[e - s] + blocks[e]
            if step + best[e] > best[s]:
                best[s] = step + best[e]
                successor[s] = e
            blocks[e] = step + log_b[e]
            top = max(top, blocks[e])
        total = math.exp(log_s[length - s] + blocks[length] - top)
        for e in range(s + 1, length):
            total += math.exp(blocks[e] - top)
        log_b[s] = top + math.log(total)
    return log_b, best, successor


@owning_kernel
def count_changes(emission, y, log_f, log_s, log_b):
    """P(k change points), k = 0..T-1: the number of changes carried along the chain of starts.

    Given that a segment starts at s, the next one starts at e with probability f m e^(B[e] - B[s]).
    """
    length = y.shape[0]
    stats = np.empty(emissions.stats_size(emission))
    blocks = np.empty(length + 1)
    arrivals = np.zeros((length, 8))  # arrivals[s, k - lowest[s]] = P(the k-th change is at s)
    lowest = np.zeros(length, dtype=np.int64)
    highest = np.full(length, -1, dtype=np.int64)
    result = np.zeros(length)
    arrivals[0, 0] = 1.0
    highest[0] = 0
    for s in range(length):
        if highest[s] < 0:
            continue
        _block_marginals(emission, y, s, stats, blocks)
        last = math.exp(log_s[length - s] + blocks[length] - log_b[s])
        for k in range(highest[s] + 1):
            result[k] += arrivals[s, k] * last
        for e in range(s + 1, length):
            step = math.exp(log_f[e - s] + blocks[e] + log_b[e] - log_b[s])
            if step > 0.0:
                for k in range(lowest[s], highest[s] + 1):
                    value = arrivals[s, k] * step
                    if value > _NEGLIGIBLE:
                        if k + 1 >= arrivals.shape[1]:
                            wider = np.zeros((length, 2 * arrivals.shape[1]))
                            wider[:, : arrivals.shape[1]] = arrivals
                            arrivals = wider
                        if highest[e] < 0:
                            lowest[e] = k + 1
                        lowest[e] = min(lowest[e], k + 1)
                        highest[e] = max(highest[e], k + 1)
                        arrivals[e, k + 1] += value
    return result


@owning_kernel
def draw_segmentations(rng, emission, y, log_f, log_s, log_b, draws):
    """``is_start[i, s]`` of ``draws`` independent segmentations, start by start for all draws at once."""
    length = y.shape[0]
    stats = np.empty(emissions.stats_size(emission))
    blocks = np.empty(length + 1)
    is_start = np.zeros((draws, length), dtype=np.bool_)
    is_start[:, 0] = True
    for s in range(length):
        prepared = False
        for i in range(draws):
            if not is_start[i, s]:
                continue
            if not prepared:  # blocks[e] becomes P(the next start is at most e)
                _block_marginals(emission, y, s, stats, blocks)
                total = 0.0
                for e in range(s + 1, length):
                    total += math.exp(log_f[e - s] + blocks[e] + log_b[e] - log_b[s])
                    blocks[e] = total
                prepared = True
            target = rng.random()
            if s + 1 < length and target < blocks[length - 1]:
                below, above = s, length - 1
                while above - below > 1:
                    middle = (below + above) // 2
                    if blocks[middle] > target:
                        above = middle
                    else:
                        below = middle
                is_start[i, above] = True
    return is_start
