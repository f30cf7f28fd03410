"""Plain twins of the streaming detector: every sum over segmentations written out, nothing dropped, nothing clever.

``log_marginal[s, e]`` is ln p(y[s:e] | one segment) throughout, and a segmentation is given by its starts.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy import special


class Smoothed(NamedTuple):
    """What a stream of T observations says about its starts."""

    log_evidence: float
    last_start: np.ndarray  # P(the current segment started at s | y), s < T
    change_probability: np.ndarray  # P(a segment starts at s | y), s < T
    path: tuple[int, ...]  # starts of the most probable segmentation, 0 first


def log_sum(logs, axis=None):
    """ln of the sum of numbers given by their logarithms: scipy's logsumexp without what it costs."""
    top = np.max(logs, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(logs - top), axis=axis, keepdims=True)) + top
    return total.item() if axis is None else np.squeeze(total, axis=axis)


def student_t(y, freedom, location, scale):
    """The density of a Student t."""
    half = 0.5 * (freedom + 1.0)
    log_factor = math.lgamma(half) - math.lgamma(0.5 * freedom) - 0.5 * math.log(freedom * math.pi) - math.log(scale)
    return math.exp(log_factor - half * math.log1p(((y - location) / scale) ** 2 / freedom))


def cauchy(y, location, scale):
    """The density of a Cauchy."""
    return 1.0 / (math.pi * scale * (1.0 + ((y - location) / scale) ** 2))


def block_marginals(y, prior, outliers=0.0):
    """log_marginal of a Normal prior with an outlier branch: the sequential density, one observation at a time.

    p(y_t | s) = (1 - p) Student t + p Cauchy(prior mean, 20 prior sds); the statistics take y_t with the probability
    that it is no outlier; the first reading of a segment counts in full, and where the Cauchy explains it better, the
    segment's mean is expected there.
    """
    mean, weight, shape, scale = prior
    width = 20.0 * math.sqrt(scale / shape)
    length = len(y)
    result = np.full((length, length + 1), -np.inf)
    for start in range(length):
        result[start, start] = 0.0
        m, k, a, b = mean, weight, shape, scale
        is_first = True
        total = 0.0
        for t in range(start, length):
            if not math.isnan(y[t]):
                usual = (1.0 - outliers) * student_t(y[t], 2.0 * a, m, math.sqrt(b * (k + 1.0) / (a * k)))
                outlier = outliers * cauchy(y[t], mean, width)
                total += math.log(usual + outlier)
                counts = usual / (usual + outlier)
                if is_first:
                    if counts < 0.5:
                        m = y[t]
                    counts, is_first = 1.0, False
                a += 0.5 * counts
                b += 0.5 * counts * k * (y[t] - m) ** 2 / (k + counts)
                m += counts * (y[t] - m) / (k + counts)
                k += counts
            result[start, t + 1] = total
    return result


def renewal(log_marginal, log_pmf, log_survival):
    """Independent dwells: ln P(dwell = d) and ln P(dwell >= d) in entry d."""
    length = len(log_marginal)
    ahead, best = np.full(length, -np.inf), np.full(length, -np.inf)
    parent = np.zeros(length, dtype=int)
    ahead[0] = best[0] = 0.0
    for e in range(1, length):
        steps = log_pmf[e - np.arange(e)] + log_marginal[:e, e]
        ahead[e] = log_sum(ahead[:e] + steps)
        parent[e] = np.argmax(best[:e] + steps)
        best[e] = (best[:e] + steps)[parent[e]]
    last = log_survival[length - np.arange(length)] + log_marginal[:, length]
    log_evidence = log_sum(ahead + last)
    behind = np.full(length, -np.inf)
    for s in range(length - 1, -1, -1):
        ends = np.arange(s + 1, length)
        behind[s] = log_sum(np.append(log_pmf[ends - s] + log_marginal[s, ends] + behind[ends], last[s]))
    path = [int(np.argmax(best + last))]
    while path[-1]:
        path.append(int(parent[path[-1]]))
    return Smoothed(
        float(log_evidence),
        np.exp(ahead + last - log_evidence),
        np.exp(ahead + behind - log_evidence),
        tuple(path[::-1]),
    )


def constant_hazard(log_marginal, grid, weights):
    """A constant hazard with prior ``weights`` on a ``grid``: the mixture of renewal models."""
    dwell = np.arange(len(log_marginal) + 1)
    parts = []
    for g in grid:
        log_survival = (np.maximum(dwell, 1) - 1) * math.log1p(-g)
        parts.append(renewal(log_marginal, math.log(g) + log_survival, log_survival))
    logs = np.log(weights) + [part.log_evidence for part in parts]
    log_evidence = log_sum(logs)
    share = np.exp(logs - log_evidence)
    return Smoothed(
        float(log_evidence),
        sum(w * part.last_start for w, part in zip(share, parts, strict=True)),
        sum(w * part.change_probability for w, part in zip(share, parts, strict=True)),
        (),
    )


def beta_hazard(log_marginal, a, b):
    """A constant hazard g ~ Beta(a, b), integrated out: sums over (start, number of changes), no grid.

    p(y, n changes) = B(a + n, b + T - 1 - n) / B(a, b) x the sum over segmentations with n changes of their marginals.
    """
    length = len(log_marginal)
    ahead = np.full((length, length), -np.inf)  # [s, n]: y[:s] in n segments, another one starting at s
    behind = np.full((length, length), -np.inf)  # [s, n]: y[s:] in n + 1 segments
    ahead[0, 0] = 0.0
    for e in range(1, length):
        ahead[e, 1:] = log_sum(ahead[:e, :-1] + log_marginal[:e, e, np.newaxis], axis=0)
    for s in range(length - 1, -1, -1):
        behind[s, 0] = log_marginal[s, length]
        if s + 1 < length:
            behind[s, 1:] = log_sum(behind[s + 1 :, :-1] + log_marginal[s, s + 1 : length, np.newaxis], axis=0)
    n = np.arange(length)
    log_prior = special.betaln(a + n, b + length - 1 - n) - special.betaln(a, b)
    log_evidence = log_sum(behind[0] + log_prior)
    last = log_sum(ahead + log_marginal[:, length, np.newaxis] + log_prior, axis=1)
    both = np.empty(length)
    for s in range(length):
        counts = n[:, np.newaxis] + n
        terms = ahead[s][:, np.newaxis] + behind[s] + np.where(counts < length, log_prior[counts % length], -np.inf)
        both[s] = log_sum(terms)
    return Smoothed(float(log_evidence), np.exp(last - log_evidence), np.exp(both - log_evidence), ())


def enumerate_segmentations(log_marginal, log_prior):
    """``log_prior(starts)`` of every segmentation, by brute force: for a dozen observations."""
    length = len(log_marginal)
    terms = {}
    for count in range(length):
        for changes in itertools.combinations(range(1, length), count):
            starts = (0, *changes)
            ends = (*changes, length)
            data = sum(log_marginal[s, e] for s, e in zip(starts, ends, strict=True))
            terms[starts] = log_prior(starts) + data
    log_evidence = log_sum(list(terms.values()))
    last_start, change_probability = np.zeros(length), np.zeros(length)
    for starts, log_p in terms.items():
        last_start[starts[-1]] += math.exp(log_p - log_evidence)
        change_probability[list(starts)] += math.exp(log_p - log_evidence)
    return Smoothed(float(log_evidence), last_start, change_probability, max(terms, key=terms.__getitem__))


def risks(starts, length, min_dwell):
    """How often a segmentation could have ended a segment and did not, if none can be shorter than ``min_dwell``;
    None where one is."""
    survived = 0
    for s, e in itertools.pairwise((*starts, length)):
        if e < length and e - s < min_dwell:
            return None
        survived += max(e - s - min_dwell, 0)
    return survived
