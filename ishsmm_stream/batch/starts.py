"""Where chains begin: trajectories guessed from the data.

A chain leaves a poor guess slowly where durations are explicit: peaked durations keep segments that are too short, and
states that are one do not merge. So several kinds of guesses are made, which compete: see ``burn_in.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import owning_kernel
from ishsmm_stream._special import draw_index
from ishsmm_stream.batch import segmentations
from ishsmm_stream.batch.segments import segment_end
from ishsmm_stream.model.durations import Fixed
from ishsmm_stream.model.durations import Poisson as PoissonDuration
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.presets import Model

MOST_STATES = 20  # of a guess
# A series is segmented in blocks of this length, since the work grows with the square.
_BLOCK = 500
# A reading is an outlier at first if none of its neighbours is nearer than this many standard deviations of the noise.
_ISOLATED = 10.0


class Trajectory(NamedTuple):
    """Segments: the first index and the state of each."""

    starts: np.ndarray
    labels: np.ndarray


def from_labels(labels: np.ndarray, model: Model) -> Trajectory:
    """Return the segments of a series whose observations have the states ``labels``."""
    begins = np.ones(len(labels), dtype=np.bool_)
    if not isinstance(model.duration, Fixed):
        begins[1:] = labels[1:] != labels[:-1]
    starts = np.flatnonzero(begins)
    return Trajectory(starts, labels[starts])


def by_observation(rng: np.random.Generator, model: Model, y: np.ndarray, known: np.ndarray, most: int) -> Trajectory:
    """Return segments of observations that were clustered one by one, into ``most`` states at most.

    The first observations have the states ``known``.
    """
    return from_labels(_cluster_observations(rng, model.emission, y, known, most), model)


def by_segment(rng: np.random.Generator, model: Model, y: np.ndarray, mean_dwell: float, most: int) -> Trajectory:
    """Return a draw of the segments as if no state returned, clustered into ``most`` states at most.

    Segments are drawn from their exact posterior with geometric durations of mean ``mean_dwell``, block by block.
    """
    duration = PoissonDuration(1.0, max(mean_dwell - 1.0, 1e-3))
    begins = np.zeros(len(y), dtype=np.bool_)
    for first in range(0, len(y), _BLOCK):
        block = y[first : first + _BLOCK]
        log_f, log_s = segmentations.dwell_marginals(duration, len(block))
        log_b, _, _ = segmentations.backward(model.emission, block, log_f, log_s)
        begins[first : first + len(block)] = segmentations.draw_segmentations(
            rng, model.emission, block, log_f, log_s, log_b, 1
        )[0]
    starts = np.flatnonzero(begins)
    order = rng.permutation(len(starts))
    labels = _cluster_segments(rng, model.emission, model.duration, y, starts, order, most)
    return from_labels(np.repeat(labels, np.diff(starts, append=len(y))), model)


def without_isolated(y: np.ndarray) -> np.ndarray:
    """Return the series without the readings that are far from the two before them and the two after them.

    As a first guess only: a reading that has a state of its own seldom leaves it, an outlier that fits a state does.
    """
    if np.isnan(y).all():
        return y.copy()
    padded = np.pad(y, ((2, 2), (0, 0)), constant_values=np.nan)
    distances = [np.abs(y - padded[2 + lag : len(y) + 2 + lag]) for lag in (-2, -1, 1, 2)]
    is_isolated = np.fmin.reduce(distances) > _ISOLATED * np.sqrt(emissions.value_scale(y).noises)
    return np.where(is_isolated, np.nan, y)


@owning_kernel
def _cluster_observations(rng, emission, y, known, most_states):
    """Each observation joins a state with probability proportional to its predictive times the state's size, or opens a
    new one, as in a Dirichlet process mixture seen once."""
    labels = np.zeros(y.shape[0], dtype=np.int64)
    stats = np.empty((most_states, emissions.stats_size(emission)))
    sizes = np.zeros(most_states)
    weights = np.empty(most_states)
    for k in range(most_states):
        emissions.clear(emission, stats[k])
    used = 0
    for t in range(y.shape[0]):
        if t < known.shape[0]:
            chosen = known[t]
        else:
            options = min(used + 1, most_states)
            top = -np.inf
            for k in range(options):
                if t > 0 and k != labels[t - 1]:
                    emissions.begin_segment(emission, stats[k])
                weights[k] = emissions.log_predictive(emission, stats[k], y, t)
                top = max(top, weights[k])
            for k in range(options):
                size = sizes[k] if k < used else 1.0
                weights[k] = size * np.exp(weights[k] - top)
            chosen = draw_index(rng, weights, options)
        used = max(used, chosen + 1)
        sizes[chosen] += 1.0
        emissions.add(emission, stats[chosen], y, t)
        labels[t] = chosen
    return labels


@owning_kernel
def _cluster_segments(rng, emission, duration, y, starts, order, most_states):
    """Whole segments, in this order, join a state or open a new one, by the marginal likelihoods of their observations
    and their length, times the number of the state's segments."""
    count = starts.shape[0]
    labels = np.zeros(count, dtype=np.int64)
    stats = np.empty((most_states, emissions.stats_size(emission)))
    dwells = np.empty((most_states, durations.stats_size(duration)))
    known = np.zeros(most_states)  # ln marginal of what a state has
    sizes = np.ones(most_states)
    work = np.empty(emissions.stats_size(emission))
    weights = np.empty(most_states)
    for k in range(most_states):
        emissions.clear(emission, stats[k])
        durations.clear(duration, dwells[k])
    used = 0
    for n in range(count):
        i = order[n]
        end = segment_end(starts, i, y.shape[0])
        r = end - starts[i] - 1
        options = min(used + 1, most_states)
        top = -np.inf
        for k in range(options):
            work[:] = stats[k]
            emissions.begin_segment(emission, work)
            for t in range(starts[i], end):
                emissions.add(emission, work, y, t)
            weights[k] = emissions.log_marginal(emission, work) - known[k] + np.log(sizes[k])
            if i + 1 < count:
                weights[k] += durations.log_predictive_pmf(duration, dwells[k], r)
            top = max(top, weights[k])
        for k in range(options):
            weights[k] = np.exp(weights[k] - top)
        chosen = draw_index(rng, weights, options)
        if chosen == used:
            used += 1
        else:
            sizes[chosen] += 1.0
        emissions.begin_segment(emission, stats[chosen])
        for t in range(starts[i], end):
            emissions.add(emission, stats[chosen], y, t)
        known[chosen] = emissions.log_marginal(emission, stats[chosen])
        if i + 1 < count:
            durations.add(duration, dwells[chosen], r)
        labels[i] = chosen
    return labels
