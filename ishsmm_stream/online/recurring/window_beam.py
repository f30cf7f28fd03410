"""Beam sampling of the last observations of a path, given all that came before.

The window may begin inside a segment: that segment keeps its true start, and with e observations of it before the
window it ends just before the window's observation j with weight F(e + j - 1) and covers a window of w with weight
P(r >= e + w - 1). One uniform slice u_j < p_j per observation, p_j = pi_mk where a segment starts, leaves finitely many
states possible. Forward variables, for states k:

    ended[k, j]      weight of "a segment of k ends just before j", given the data before j
    entered[k, j]    weight of "a segment of k starts at j"
    pending[k, j]    weight of segments of k that will end just before j, divided by scale[k]
    scale[k]         what the likelihood since has made of weights of state k
    mass[k]          sum of the weights of all segments of k that have started

all in units of e^log_scale[j] at their time j, which keeps the sum of ``mass`` at 1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import draw_index
from ishsmm_stream.batch.weights import draw_row, instantiate
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.online.recurring.survival import log_survival

_SMALLEST_SCALE = 1e-100
NO_STATE = -1


class Window(NamedTuple):
    """Work space for windows of up to ``length`` observations. First axis: states in slots."""

    theta: np.ndarray  # (slots, numbers)
    lam: np.ndarray  # (slots, numbers)
    log_density: np.ndarray  # (slots, length)
    pmf: np.ndarray  # (slots, length)
    survival: np.ndarray  # (slots, length)
    low: np.ndarray  # (slots,) F is zero outside low <= r < high
    high: np.ndarray  # (slots,)
    ended: np.ndarray  # (slots, length)
    entered: np.ndarray  # (slots, length)
    pending: np.ndarray  # (slots, length)
    scale: np.ndarray  # (slots,)
    mass: np.ndarray  # (slots,)
    slices: np.ndarray  # (length,)
    log_scale: np.ndarray  # (length + 1,)
    ends: np.ndarray  # (length + 1,) weights of where the segment from before the window ends, last: beyond it
    from_before: np.ndarray  # (length + 1,) its part of ``ended``, last: of its covering the window
    options: np.ndarray  # (slots * length + 1,)


def make_window(emission: Any, duration: Any, slots: int, length: int) -> Window:
    """Work space. Plain Python; memory that is not touched costs nothing."""
    return Window(
        theta=np.zeros((slots, emissions.params_size(emission))),
        lam=np.zeros((slots, durations.params_size(duration))),
        log_density=np.empty((slots, length)),
        pmf=np.empty((slots, length)),
        survival=np.empty((slots, length)),
        low=np.zeros(slots, dtype=np.int64),
        high=np.zeros(slots, dtype=np.int64),
        ended=np.empty((slots, length)),
        entered=np.empty((slots, length)),
        pending=np.empty((slots, length)),
        scale=np.empty(slots),
        mass=np.empty(slots),
        slices=np.empty(length),
        log_scale=np.empty(length + 1),
        ends=np.empty(length + 1),
        from_before=np.zeros(length + 1),
        options=np.empty(slots * length + 1),
    )


@kernel
def fill_slot(emission, duration, window, values, offset, length, k):
    """Tables of the state in slot ``k``; row ``offset`` of ``values`` is the window's first."""
    for j in range(length):
        window.log_density[k, j] = emissions.log_density(emission, window.theta[k], values, offset + j)
    window.low[k], window.high[k] = durations.tabulate(
        duration, window.lam[k], window.pmf[k, :length], window.survival[k, :length]
    )


@owning_kernel
def draw_slot(rng, emission, duration, window, k):
    """theta and lambda of a state without data."""
    stats = np.empty(emissions.stats_size(emission))
    emissions.clear(emission, stats)
    emissions.draw_parameters(emission, stats, rng, window.theta[k])
    dwells = np.empty(durations.stats_size(duration))
    durations.clear(duration, dwells)
    durations.draw_parameters(duration, dwells, -1, rng, window.lam[k])


@kernel
def draw_slices(rng, pi, slices, labels, begins, before):
    """u_j uniform below the probability of the step that the path takes at j; ``before``: the state ahead of it."""
    row = before + 1
    for j in range(labels.shape[0]):
        step = pi[row, labels[j]] if begins[j] else 1.0
        slices[j] = step * min(max(rng.random(), 1e-290), 1.0 - 1e-12)
        row = labels[j] + 1


@kernel
def _fill_ends(duration, lam, elapsed, length, ends):
    """Weights of where the segment that began before the window ends; their common factor does not matter."""
    for j in range(length):
        ends[j] = durations.log_pmf(duration, lam, elapsed + j - 1)
    ends[length] = log_survival(duration, lam, elapsed + length - 1)
    top = -np.inf
    for j in range(length + 1):
        top = max(top, ends[j])
    for j in range(length + 1):
        ends[j] = math.exp(ends[j] - top)


@kernel
def _clear_slot(window, k, length, j):
    """A state that exists from observation j on: no segment of it has started."""
    window.scale[k] = 1.0
    window.mass[k] = 0.0
    for s in range(length):
        window.pending[k, s] = 0.0
    for s in range(j + 1):
        window.ended[k, s] = 0.0
        window.entered[k, s] = 0.0


@kernel
def _rows_are_ready(ready, pi_tail, ended, cut, j, starts_here, count):
    """Whether every row that carries weight at j has been drawn and its tail is below the slice."""
    if starts_here:
        return ready[0] and pi_tail[0] <= cut
    for k in range(count):
        if ended[k, j] > 0.0 and not (ready[k + 1] and pi_tail[k + 1] <= cut):
            return False
    return True


@owning_kernel
def _make_rows_ready(
    rng, emission, duration, rules, weights, rows, window, values, offset, length, j, starts_here, count
):  # fmt: skip
    """Draw the rows that carry weight at j and split the tail until the slice cannot reach it.

    Returns how many states are instantiated, and whether there was room for them.
    """
    no_counts = np.zeros((0, 0), dtype=np.int64)
    for row in range(1 if starts_here else count + 1):
        if not starts_here and (row == 0 or not window.ended[row - 1, j] > 0.0):
            continue
        if not rows.ready[row]:
            draw_row(rng, rules, weights, rows, no_counts, row, count)
        while rows.pi_tail[row] > window.slices[j]:
            if count == window.theta.shape[0]:
                return count, False
            instantiate(rng, rules, weights, rows, count)
            draw_slot(rng, emission, duration, window, count)
            fill_slot(emission, duration, window, values, offset, length, count)
            _clear_slot(window, count, length, j)
            count += 1
    return count, True


@kernel
def _fill_entered(ended, entered, pi, cut, j, starts_here, count):
    """``entered[:, j]`` from ``ended[:, j]`` by the steps that the slice leaves."""
    for k in range(count):
        entered[k, j] = 0.0
    if starts_here:
        for k in range(count):
            if pi[0, k] > cut:
                entered[k, j] = 1.0
    else:
        for m in range(count):
            if ended[m, j] > 0.0:
                for k in range(count):
                    if pi[m + 1, k] > cut:
                        entered[k, j] += ended[m, j]


@kernel
def _start_segments(pmf, low, high, entered, pending, scale, mass, j, length, count):
    """The weight of segments that start at j goes to where they can end."""
    for k in range(count):
        if entered[k, j] > 0.0:
            mass[k] += entered[k, j]
            last = min(high[k], length - 1 - j)
            factor = entered[k, j] / scale[k]
            ends = pending[k, j + 1 + low[k] : j + 1 + last]
            weights = pmf[k, low[k] : last]
            for i in range(ends.shape[0]):  # from 0 and on views, so that the compiler vectorises it
                ends[i] += factor * weights[i]


@kernel
def _observe(log_density, pending, scale, mass, log_scale, j, before, weight_before, count):
    """Take observation j into the weights; returns that of the segment from before the window."""
    top = log_density[before, j] if weight_before > 0.0 else -np.inf
    for k in range(count):
        if mass[k] > 0.0:
            top = max(top, log_density[k, j])
    total = 0.0
    if weight_before > 0.0:
        weight_before *= math.exp(log_density[before, j] - top)
        total = weight_before
    for k in range(count):
        if mass[k] > 0.0:
            factor = math.exp(log_density[k, j] - top)
            mass[k] *= factor
            scale[k] *= factor
            total += mass[k]
    for k in range(count):
        mass[k] /= total
        scale[k] /= total
        if scale[k] < _SMALLEST_SCALE:
            for s in range(j + 1, pending.shape[1]):
                pending[k, s] *= scale[k]
            scale[k] = 1.0
    log_scale[j + 1] = log_scale[j] + top + math.log(total)
    return weight_before / total


@kernel
def forward(
    rng, emission, duration, rules, weights, rows, window, values, offset, length, before, elapsed, count
):  # fmt: skip
    """Forward filter; returns the states instantiated, and whether there was room for all that the slices reach.

    ``before``: the state of the segment that has lasted ``elapsed`` observations when the window begins, NO_STATE where
    the window begins with the stream.
    """
    ended, entered, pending, scale, mass = window.ended, window.entered, window.pending, window.scale, window.mass
    pmf, low, high, slices, from_before = window.pmf, window.low, window.high, window.slices, window.from_before
    log_density, log_scale = window.log_density, window.log_scale
    weight_before = 0.0
    window.ends[:] = 0.0
    if before != NO_STATE:
        weight_before = 1.0
        _fill_ends(duration, window.lam[before], elapsed, length, window.ends)
    log_scale[0] = 0.0
    for k in range(count):
        _clear_slot(window, k, length, -1)
    for j in range(length):
        starts_here = j == 0 and before == NO_STATE
        for k in range(count):
            ended[k, j] = pending[k, j] * scale[k]
        from_before[j] = weight_before * window.ends[j]
        if before != NO_STATE:
            ended[before, j] += from_before[j]
        if not _rows_are_ready(rows.ready, rows.pi_tail, ended, slices[j], j, starts_here, count):
            count, has_room = _make_rows_ready(
                rng, emission, duration, rules, weights, rows, window, values, offset, length, j, starts_here, count
            )
            if not has_room:
                return count, False
        _fill_entered(ended, entered, rows.pi, slices[j], j, starts_here, count)
        _start_segments(pmf, low, high, entered, pending, scale, mass, j, length, count)
        weight_before = _observe(log_density, pending, scale, mass, log_scale, j, before, weight_before, count)
    from_before[length] = weight_before * window.ends[length]
    return count, True


@kernel
def _draw_last(rng, window, length, count):
    """(state, start) of the last segment; start -1: the one from before the window; state -1: no path has weight."""
    options = window.options
    total = window.from_before[length]
    options[count * length] = total
    for k in range(count):
        log_likelihood = 0.0
        for s in range(length - 1, -1, -1):
            log_likelihood += window.log_density[k, s]
            weight = 0.0
            if window.entered[k, s] > 0.0 and length - 1 - s < window.high[k]:
                weight = window.entered[k, s] * window.survival[k, length - 1 - s]
                weight *= math.exp(log_likelihood + window.log_scale[s] - window.log_scale[length])
            options[k * length + s] = weight
            total += weight
    if not total > 0.0:
        return NO_STATE, -1
    chosen = draw_index(rng, options, count * length + 1)
    if chosen == count * length:
        return count, -1
    return chosen // length, chosen % length


@kernel
def _draw_previous(rng, window, pi, state, start, count):
    """The state that ends where this segment starts."""
    for m in range(count):
        window.options[m] = window.ended[m, start] if pi[m + 1, state] > window.slices[start] else 0.0
    return draw_index(rng, window.options, count)


@kernel
def _draw_start(rng, window, state, end, before):
    """Where the segment of ``state`` that ends just before ``end`` starts, -1: before the window."""
    options = window.options
    log_likelihood = 0.0
    for s in range(end - 1, -1, -1):
        log_likelihood += window.log_density[state, s]
        r = end - 1 - s
        weight = 0.0
        if window.low[state] <= r < window.high[state] and window.entered[state, s] > 0.0:
            weight = window.entered[state, s] * window.pmf[state, r]
            weight *= math.exp(log_likelihood + window.log_scale[s] - window.log_scale[end])
        options[s] = weight
    options[end] = window.from_before[end] if state == before else 0.0
    chosen = draw_index(rng, options, end + 1)
    return chosen if chosen < end else -1


@kernel
def backward(rng, pi, window, before, count, labels, begins):
    """Draw a path into ``labels`` and ``begins``, which stay as they are where no path has weight."""
    end = labels.shape[0]
    state, start = _draw_last(rng, window, end, count)
    if state == NO_STATE:
        return
    while True:
        if start < 0:
            state = before
        for j in range(max(start, 0), end):
            labels[j] = state
            begins[j] = j == start
        if start < 0 or (start == 0 and before == NO_STATE):
            return
        end = start
        state = _draw_previous(rng, window, pi, state, end, count)
        start = _draw_start(rng, window, state, end, before)
