"""Kernels that go through the segments of a trajectory with a model's emission and duration families."""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions


@kernel
def segment_end(starts, i, length):
    """One past the last observation of segment ``i``."""
    return starts[i + 1] if i + 1 < starts.shape[0] else length


@kernel
def fill_tables(emission, duration, theta, lam, y, beam, first, last):
    """Likelihood and duration tables of the states in slots ``first`` to ``last - 1``."""
    for k in range(first, last):
        total = 0.0
        cumulative = beam.cumulative[k]
        cumulative[0] = 0.0
        for t in range(y.shape[0]):
            density = emissions.log_density(emission, theta[k], y, t)
            if emissions.has_first_law(emission):
                beam.opening[k, t] = total + (density - emissions.log_first_density(emission, theta[k], y, t))
            total += density
            cumulative[t + 1] = total
    fill_durations(duration, lam, beam, first, last)


@kernel
def fill_durations(duration, lam, beam, first, last):
    """Duration tables of the states in slots ``first`` to ``last - 1``."""
    for k in range(first, last):
        beam.low[k], beam.high[k] = durations.tabulate(duration, lam[k], beam.pmf[k], beam.survival[k])


@kernel
def longest_table(duration, lam, log_threshold, first, last):
    """Entries that a duration table needs to hold every r with ln F(r) >= ``log_threshold``."""
    longest = 1
    for k in range(first, last):
        longest = max(longest, durations.table_length(duration, lam[k], log_threshold))
    return longest


@kernel
def _summarise(emission, y, starts, labels, stats):
    """The statistics of what each state emitted."""
    for k in range(stats.shape[0]):
        emissions.clear(emission, stats[k])
    for i in range(starts.shape[0]):
        emissions.begin_segment(emission, stats[labels[i]])
        for t in range(starts[i], segment_end(starts, i, y.shape[0])):
            emissions.add(emission, stats[labels[i]], y, t)


@owning_kernel
def _draw_emission_parameters(rng, emission, y, starts, labels, theta, filled):
    stats = np.empty((filled, emissions.stats_size(emission)))
    _summarise(emission, y, starts, labels, stats)
    for k in range(filled):
        emissions.draw_parameters(emission, stats[k], rng, theta[k])


@kernel
def _summarise_dwells(duration, starts, labels, stats):
    """The statistics of each state's complete dwells."""
    for k in range(stats.shape[0]):
        durations.clear(duration, stats[k])
    for i in range(starts.shape[0] - 1):
        durations.add(duration, stats[labels[i]], starts[i + 1] - starts[i] - 1)


@owning_kernel
def _draw_duration_parameters(rng, duration, length, starts, labels, lam, filled):
    stats = np.empty((filled, durations.stats_size(duration)))
    _summarise_dwells(duration, starts, labels, stats)
    last = starts.shape[0] - 1
    censored = length - starts[last] - 1
    for k in range(filled):
        durations.draw_parameters(duration, stats[k], censored if k == labels[last] else -1, rng, lam[k])
    return durations.draw_beyond(duration, lam[labels[last]], censored, rng)


@owning_kernel
def draw_parameters(rng, emission, duration, y, starts, labels, theta, lam, filled):
    """theta and lambda of every slot below ``filled`` from their posteriors; a state without data gets its prior.

    The last segment is censored; returns a remaining count for it.
    """
    _draw_emission_parameters(rng, emission, y, starts, labels, theta, filled)
    return _draw_duration_parameters(rng, duration, y.shape[0], starts, labels, lam, filled)


@owning_kernel
def draw_parameters_and_tables(rng, emission, duration, y, starts, labels, theta, lam, beam, filled):
    """As ``draw_parameters``, with the beam's tables filled for them."""
    last_r = draw_parameters(rng, emission, duration, y, starts, labels, theta, lam, filled)
    fill_tables(emission, duration, theta, lam, y, beam, 0, filled)
    return last_r


@owning_kernel
def draw_priors_and_tables(rng, emission, duration, y, theta, lam, beam, first, last):
    """theta and lambda of the slots ``first`` to ``last - 1`` from their priors, with the beam's tables."""
    stats = np.empty(emissions.stats_size(emission))
    emissions.clear(emission, stats)
    for k in range(first, last):
        emissions.draw_parameters(emission, stats, rng, theta[k])
    stats = np.empty(durations.stats_size(duration))
    durations.clear(duration, stats)
    for k in range(first, last):
        durations.draw_parameters(duration, stats, -1, rng, lam[k])
    fill_tables(emission, duration, theta, lam, y, beam, first, last)


@owning_kernel
def draw_outliers(rng, emission, theta, starts, labels, readings, log_odds, y):
    """Whether each reading is an outlier given all others: ``y`` has NaN in the place of those that are.

    ``log_odds``: ln(prior odds x p(reading | outlier)). The law of a reading may depend on the one before it in its
    segment, so that a reading counts in the density of the next one, too.
    """
    for i in range(starts.shape[0]):
        params = theta[labels[i]]
        end = segment_end(starts, i, y.shape[0])
        for t in range(starts[i], end):
            if np.isnan(readings[t, 0]):
                continue
            score = log_odds[t]
            y[t, 0] = np.nan
            if t + 1 < end:
                score += emissions.log_density(emission, params, y, t + 1)
            y[t, 0] = readings[t, 0]
            if t + 1 < end:
                score -= emissions.log_density(emission, params, y, t + 1)
            if t == starts[i]:
                score -= emissions.log_first_density(emission, params, y, t)
            else:
                score -= emissions.log_density(emission, params, y, t)
            if rng.random() * (1.0 + math.exp(min(-score, 700.0))) < 1.0:
                y[t, 0] = np.nan


@owning_kernel
def log_data(emission, y, starts, labels, count):
    """ln p(y | segments, labels), theta integrated out."""
    stats = np.empty((count, emissions.stats_size(emission)))
    _summarise(emission, y, starts, labels, stats)
    total = 0.0
    for k in range(count):
        total += emissions.log_marginal(emission, stats[k])
    return total


@owning_kernel
def log_dwells(duration, length, starts, labels, count):
    """ln p(dwell times | labels), lambda integrated out, the last one censored."""
    stats = np.empty((count, durations.stats_size(duration)))
    for k in range(count):
        durations.clear(duration, stats[k])
    total = 0.0
    last = starts.shape[0] - 1
    for i in range(last):
        r = starts[i + 1] - starts[i] - 1
        total += durations.log_predictive_pmf(duration, stats[labels[i]], r)
        durations.add(duration, stats[labels[i]], r)
    return total + durations.log_predictive_survival(duration, stats[labels[last]], length - starts[last] - 1)
