"""Beam sampling of the segments: slices, forward filter with states instantiated on the fly, backward draws.

A trajectory is a list of segments (start, state). One slice variable u_t per observation leaves finitely many steps
possible. With the temperature K, u_t = p_t Beta(1/K, K), where p_t is the probability of the step taken at t, so

    weight of a step = p_t x density of u_t  ∝  p_t^(1 - 1/K) (1 - u_t / p_t)^(K - 1)   if u_t < p_t, else 0

(the factor u_t^(1/K - 1) is common to every path and left out). Inside a segment p_t = 1 and the factor
(1 - u_t)^(K - 1) must stay. The paper prints the density of u_t with p_t in the numerator, where 1 / p_t is right; its
recursion is the right one.

Two slices: ``transition`` cuts pi only, p_t = pi_mk, and F_k(r) stays as a weight, so durations and transitions
separate and a segment's end is summed by one accumulator per state. ``paper`` cuts p_t = pi_mk F_k(r).

Forward variables, for states k and times t:

    ended[k, t]     weight of "a segment of k ends just before t", given the data before t; sums to 1 over k
    log_scale[t]    ln of what that sum was
    entered[k, t]   weight of "a segment of k starts at t" before its duration      (transition slice)
    pending[k, e]   weight of segments of k that will end just before e, divided by e^(cumulative[k, .] + offset[k])
    cumulative[k,t] ln likelihood of the data before t under state k
    opening[k, t]   the same, such that a segment from s up to e has cumulative[k, e] - opening[k, s]; the same array
                    unless the first observation of a segment has a density of its own

The factors (1 - u_t)^(K - 1) of the steps inside segments are left out for every t and divided out again where a
segment starts: what is common to all paths cancels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import draw_index
from ishsmm_stream.batch.weights import draw_row, instantiate

# What ``forward`` answers.
DONE, NEEDS_STATES = 0, 1

# Entries of ``pending`` are kept in this range by moving a state's offset. Duration tables stop at e^-300, so that no
# product is denormal, which would be slow.
_LARGEST_LOG_FACTOR = 200.0
_LARGEST_LOG_PENDING = 500.0
_LARGEST_GAIN = 40.0
_SMALLEST_FACTOR = 1e-170
_SMALLEST_PENDING = 1e-250
_SMALLEST_SUM = 1e-250
_LARGEST_SUM = 1e250


class Beam(NamedTuple):
    """Work space of one chain. First axis: states in slots; a slot beyond the instantiated ones holds a state that is
    ready to be instantiated: parameters drawn from their prior, its likelihood and duration tables filled in."""

    slices: np.ndarray  # (T,) u_t
    log_stay: np.ndarray  # (T,) (K - 1) ln(1 - u_t)
    cumulative: np.ndarray  # (slots, T + 1)
    opening: np.ndarray  # (slots, T + 1)
    pmf: np.ndarray  # (slots, table) F_k(r)
    survival: np.ndarray  # (slots, table) P(r' >= r)
    tempered_pmf: np.ndarray  # (slots, table) F_k(r)^(1 - 1/K), for the paper's slice
    low: np.ndarray  # (slots,) F_k is zero outside low <= r < high
    high: np.ndarray  # (slots,)
    ended: np.ndarray  # (slots, T)
    entered: np.ndarray  # (slots, T)
    pending: np.ndarray  # (slots, T)
    offset: np.ndarray  # (slots,)
    live: np.ndarray  # (slots,) pending entries are zero from here on
    log_scale: np.ndarray  # (T,)
    tempered: np.ndarray  # (slots + 1, slots) pi^(1 - 1/K)
    inverse: np.ndarray  # (slots + 1, slots) 1 / pi


def make_beam(length: int, slots: int, table: int, has_first_law: bool = False) -> Beam:
    """Work space for ``slots`` states. Memory that is not touched costs nothing."""
    cumulative = np.empty((slots, length + 1))
    return Beam(
        slices=np.empty(length),
        log_stay=np.empty(length),
        cumulative=cumulative,
        opening=np.empty((slots, length + 1)) if has_first_law else cumulative,
        pmf=np.empty((slots, table)),
        survival=np.empty((slots, table)),
        tempered_pmf=np.empty((slots, table)),
        low=np.zeros(slots, dtype=np.int64),
        high=np.zeros(slots, dtype=np.int64),
        ended=np.empty((slots, length)),
        entered=np.empty((slots, length)),
        pending=np.empty((slots, length)),
        offset=np.zeros(slots),
        live=np.zeros(slots, dtype=np.int64),
        log_scale=np.empty(length),
        tempered=np.zeros((slots + 1, slots)),
        inverse=np.zeros((slots + 1, slots)),
    )


def with_slots(beam: Beam, slots: int) -> Beam:
    """The same work space with room for more states."""
    grown = make_beam(len(beam.slices), slots, beam.pmf.shape[1], beam.opening is not beam.cumulative)
    for name in (
        "cumulative",
        "opening",
        "pmf",
        "survival",
        "low",
        "high",
        "ended",
        "entered",
        "pending",
        "offset",
        "live",
    ):
        old = getattr(beam, name)
        getattr(grown, name)[: len(old)] = old
    return grown._replace(slices=beam.slices, log_stay=beam.log_stay, log_scale=beam.log_scale)


def with_tables(beam: Beam, table: int) -> Beam:
    """The same work space with longer duration tables, to be filled anew."""
    shape = (len(beam.pmf), table)
    return beam._replace(pmf=np.empty(shape), survival=np.empty(shape), tempered_pmf=np.empty(shape))


# Slices


@kernel
def _draw_share(rng, temperature):
    """u_t / p_t ~ Beta(1/K, K), kept off 0 and 1 by less than any test could see.

    For a whole K it is the product of K variates Beta(1/K + i, 1) = U^(1 / (1/K + i)).
    """
    if temperature == 1.0:
        share = rng.random()
    elif temperature == math.floor(temperature) and temperature < 10.0:
        exponent = 0.0
        for i in range(int(temperature)):
            exponent += rng.standard_exponential() / (1.0 / temperature + i)
        share = math.exp(-exponent)
    else:
        share = rng.beta(1.0 / temperature, temperature)
    return min(max(share, 1e-290), 1.0 - 1e-12)


@owning_kernel
def draw_slices(rng, temperature, paper_slice, pi, pmf, starts, labels, last_r, slices, log_stay):
    """u_t given the trajectory. ``last_r``: the remaining count of the last segment, which the paper's slice cuts."""
    segments = starts.shape[0]
    length = slices.shape[0]
    row = 0
    for i in range(segments):
        state = labels[i]
        end = starts[i + 1] if i + 1 < segments else length
        step = pi[row, state]
        if paper_slice:
            r = end - starts[i] - 1 if i + 1 < segments else last_r
            step *= pmf[state, r]
        for t in range(starts[i], end):
            slices[t] = step * _draw_share(rng, temperature)
            log_stay[t] = 0.0
            if temperature != 1.0:
                log_stay[t] = (temperature - 1.0) * math.log1p(-slices[t])
            step = 1.0
        row = state + 1


@kernel
def _rest_power(share, temperature):
    """(1 - u/p)^(K - 1) at ``share`` = u/p."""
    if temperature == 1.0:
        return 1.0
    rest = 1.0 - share
    if temperature == 3.0:  # the usual one, without the general power
        return rest * rest
    return rest ** (temperature - 1.0)


# Forward


@kernel
def _entry_weights(rows, beam, temperature, t, state, first, last, count, room, out):
    """The paper's slice: weights of "a segment of ``state`` with remaining count r starts at t" for first <= r < last,
    summed over the states it comes from. ``room``: (2, count)."""
    cut = beam.slices[t]
    steps, factors = room[0], room[1]
    active = 0
    largest = 0.0
    for m in range(count if t > 0 else 1):
        row = m + 1 if t > 0 else 0
        weight = beam.ended[m, t] if t > 0 else 1.0
        if weight > 0.0 and cut < rows.pi[row, state]:
            steps[active] = rows.pi[row, state]
            factors[active] = weight * beam.tempered[row, state]
            largest = max(largest, steps[active])
            active += 1
    unstay = math.exp(-beam.log_stay[t])
    for r in range(first, last):
        total = 0.0
        duration = beam.pmf[state, r]
        if not cut < largest * duration:
            out[r - first] = 0.0
            continue
        for i in range(active):
            probability = steps[i] * duration
            if cut < probability:
                total += factors[i] * _rest_power(cut / probability, temperature)
        out[r - first] = total * beam.tempered_pmf[state, r] * unstay


@kernel
def _collect_ended(ended, log_scale, pending, cumulative, offset, live, scale, t, count):
    """Fill ``ended[:, t]`` and ``log_scale[t]`` from what is pending at t; 0 where nothing can end there.

    Otherwise returns the sum that was divided out, relative to log_scale[t - 1], and in ``scale`` what an entry of
    ``pending`` is worth relative to the same; -1 where that is beyond doubles.
    """
    reference = log_scale[t - 1]
    total = 0.0
    for k in range(count):
        value = 0.0
        if live[k] > t:
            scale[k] = math.exp(cumulative[k, t] + offset[k] - reference)
            if pending[k, t] > 0.0:
                value = pending[k, t] * scale[k]
        ended[k, t] = value
        total += value
    if _SMALLEST_SUM < total < _LARGEST_SUM:
        log_scale[t] = reference + math.log(total)
        for k in range(count):
            ended[k, t] /= total
        return total
    # Out of the range of doubles: the same with logarithms.
    top = -np.inf
    for k in range(count):
        ended[k, t] = -np.inf
        if live[k] > t and pending[k, t] > 0.0:
            ended[k, t] = math.log(pending[k, t]) + cumulative[k, t] + offset[k]
        top = max(top, ended[k, t])
    if top == -np.inf:
        log_scale[t] = reference
        for k in range(count):
            ended[k, t] = 0.0
        return 0.0
    total = 0.0
    for k in range(count):
        ended[k, t] = math.exp(ended[k, t] - top)
        total += ended[k, t]
    for k in range(count):
        ended[k, t] /= total
    log_scale[t] = top + math.log(total)
    return -1.0


@kernel
def _entry_factor(pending, log_scale, opening, offset, live, t, state):
    """The factor between a weight at t and its entry in ``pending``; moves the state's offset where it must."""
    exponent = log_scale[t] - opening[state, t] - offset[state]
    largest = 0.0
    for e in range(t + 1, live[state]):
        largest = max(largest, pending[state, e])
    if largest == 0.0:  # nothing is pending: start the scale here
        offset[state] += exponent
        return 1.0
    shift = 0.0
    if exponent > _LARGEST_LOG_FACTOR:
        shift = exponent
    elif exponent < -_LARGEST_LOG_FACTOR:
        shift = -min(-exponent, _LARGEST_LOG_PENDING - math.log(largest), 600.0)
    if shift != 0.0:
        rescale = math.exp(-shift)
        for e in range(t + 1, live[state]):
            pending[state, e] *= rescale
            if pending[state, e] < _SMALLEST_PENDING:
                pending[state, e] = 0.0
        offset[state] += shift
        exponent -= shift
    factor = math.exp(exponent)
    return factor if factor > _SMALLEST_FACTOR else 0.0


@kernel
def _extend_live(pending, live, state, t, end):
    """Entries of ``pending`` up to ``end`` count from now on."""
    for e in range(max(live[state], t + 1), end):
        pending[state, e] = 0.0
    live[state] = max(live[state], end)


@kernel
def _clear_slot(beam, state, t):
    """A state that exists from time t on: nothing pending, nothing ended, nothing entered before."""
    beam.live[state] = 0
    beam.offset[state] = 0.0
    for s in range(t + 1):
        beam.ended[state, s] = 0.0
        beam.entered[state, s] = 0.0


@kernel
def _rows_are_ready(rows, ended, cut, t, count):
    """Whether every row that carries weight at t has been drawn and no slice reaches its tail."""
    if t == 0:
        return rows.ready[0] and rows.pi_tail[0] <= cut
    for row in range(1, count + 1):
        if ended[row - 1, t] > 0.0 and not (rows.ready[row] and rows.pi_tail[row] <= cut):
            return False
    return True


@kernel
def _ready_rows(rng, rules, weights, rows, beam, t, count, filled, no_counts):
    """Draw the rows that carry weight at t and split the tail until no slice can reach it.

    Only those rows: the paper asks it of all, which no left-to-right topology can satisfy. Returns the states
    instantiated so far, or minus that number - 1 where slots ran out. ``no_counts`` is empty.
    """
    cut = beam.slices[t]
    for row in range(count + 1 if t > 0 else 1):
        if row > 0 and not beam.ended[row - 1, t] > 0.0:
            continue
        while True:
            if count >= rules.horizon[row]:
                if not rows.ready[row]:
                    draw_row(rng, rules, weights, rows, no_counts, row, count)
                if rows.pi_tail[row] <= cut:
                    break
            if count == filled:
                return -count - 1
            instantiate(rng, rules, weights, rows, count)
            _clear_slot(beam, count, t)
            count += 1
    return count


@kernel
def _temper(pi, ready, tempered, inverse, temperature, count):
    """Powers and reciprocals of pi, once for all time steps."""
    power = 1.0 - 1.0 / temperature
    for row in range(count + 1):
        if ready[row]:
            for k in range(count):
                tempered[row, k] = 0.0
                inverse[row, k] = np.inf
                if pi[row, k] > 0.0:
                    tempered[row, k] = math.exp(power * math.log(pi[row, k]))
                    inverse[row, k] = 1.0 / pi[row, k]


@kernel
def _temper_durations(beam, temperature, filled):
    """F^(1 - 1/K) for the paper's slice."""
    power = 1.0 - 1.0 / temperature
    for k in range(filled):
        for r in range(beam.low[k], beam.high[k]):
            beam.tempered_pmf[k, r] = math.exp(power * math.log(beam.pmf[k, r]))


@kernel
def _enter(pi, tempered, inverse, weight, cut, temperature, row, entering, count):
    """Add ``weight`` x the weight of the step from ``row`` to each state to ``entering``."""
    probabilities = pi[row, :count]
    if temperature == 1.0:
        for k in range(count):
            entering[k] += weight if cut < probabilities[k] else 0.0
    elif temperature == 3.0:  # the usual one, without branches or powers
        powers, reciprocals = tempered[row, :count], inverse[row, :count]
        for k in range(count):
            rest = max(1.0 - cut * reciprocals[k], 0.0)
            entering[k] += weight * powers[k] * rest * rest
    else:
        for k in range(count):
            if cut < probabilities[k]:
                rest = (1.0 - cut * inverse[row, k]) ** (temperature - 1.0)
                entering[k] += weight * tempered[row, k] * rest


@kernel
def _add_pending(pending, pmf, low, high, factor, state, t):
    """Segments of ``state`` that start at t: their weight goes to where they can end."""
    ends = pending[state, t + 1 + low : t + 1 + high]
    durations = pmf[state, low:high]
    for i in range(ends.shape[0]):  # from 0 and on views, so that the compiler vectorises it
        ends[i] += factor * durations[i]


class ForwardWork(NamedTuple):
    """Room for one step of ``forward``."""

    entering: np.ndarray  # (filled,)
    scale: np.ndarray  # (filled,)
    by_duration: np.ndarray  # (T,)
    room: np.ndarray  # (2, filled)
    no_counts: np.ndarray  # (0, 0)


@owning_kernel
def forward(rng, rules, weights, rows, beam, temperature, paper_slice, start, count, filled):
    """Forward filter from time ``start``; returns (answer, time, states instantiated).

    With NEEDS_STATES the caller fills more slots and calls again with the time and the count that were returned.
    """
    work = ForwardWork(
        np.empty(filled), np.empty(filled), np.empty(beam.slices.shape[0]), np.empty((2, filled)),
        np.zeros((0, 0), dtype=np.int64),
    )  # fmt: skip
    return _forward(rng, rules, weights, rows, beam, temperature, paper_slice, start, count, filled, work)


@kernel
def _forward(rng, rules, weights, rows, beam, temperature, paper_slice, start, count, filled, work):
    ended, entered, pending, pmf = beam.ended, beam.entered, beam.pending, beam.pmf
    cumulative, opening, log_scale, offset, live = (
        beam.cumulative, beam.opening, beam.log_scale, beam.offset, beam.live,
    )  # fmt: skip
    length = beam.slices.shape[0]
    entering, scale, by_duration = work.entering, work.scale, work.by_duration
    if start == 0:
        log_scale[0] = 0.0
        for k in range(count):
            _clear_slot(beam, k, 0)
    _temper(rows.pi, rows.ready, beam.tempered, beam.inverse, temperature, count)
    if paper_slice:
        _temper_durations(beam, temperature, filled)
    for t in range(start, length):
        cut = beam.slices[t]
        total = -1.0
        if t > 0:
            total = _collect_ended(ended, log_scale, pending, cumulative, offset, live, scale, t, count)
            if total == 0.0:
                for k in range(count):
                    entered[k, t] = 0.0
                continue
        if not _rows_are_ready(rows, ended, cut, t, count):
            ready = _ready_rows(rng, rules, weights, rows, beam, t, count, filled, work.no_counts)
            if ready < 0:
                return NEEDS_STATES, t, -ready - 1
            count = ready
            _temper(rows.pi, rows.ready, beam.tempered, beam.inverse, temperature, count)
        if paper_slice:
            for k in range(count):
                low, high = beam.low[k], min(beam.high[k], length - 1 - t)
                if low < high:
                    _entry_weights(rows, beam, temperature, t, k, low, high, count, work.room, by_duration)
                    factor = _entry_factor(pending, log_scale, opening, offset, live, t, k)
                    _extend_live(pending, live, k, t, t + 1 + high)
                    for r in range(low, high):
                        pending[k, t + 1 + r] += factor * by_duration[r - low]
            continue
        entering[:count] = 0.0
        if t == 0:
            _enter(rows.pi, beam.tempered, beam.inverse, 1.0, cut, temperature, 0, entering, count)
        else:
            for m in range(count):
                if ended[m, t] > 0.0:
                    weight = ended[m, t]
                    _enter(rows.pi, beam.tempered, beam.inverse, weight, cut, temperature, m + 1, entering, count)
        unstay = math.exp(-beam.log_stay[t])
        for k in range(count):
            entered[k, t] = entering[k] * unstay
            low, high = beam.low[k], min(beam.high[k], length - 1 - t)
            if entering[k] > 0.0 and low < high:
                gain = cumulative[k, t] - opening[k, t]  # 0 unless a first observation has a density of its own
                if total > 0.0 and live[k] > t + 1 and 1e-80 < scale[k] / total < 1e80 and abs(gain) < _LARGEST_GAIN:
                    factor = total / scale[k]
                    if gain != 0.0:
                        factor *= math.exp(gain)
                else:
                    factor = _entry_factor(pending, log_scale, opening, offset, live, t, k)
                _extend_live(pending, live, k, t, t + 1 + high)
                if factor > 0.0:
                    _add_pending(pending, pmf, low, high, factor * entered[k, t], k, t)
    return DONE, length, count


# Backward


@owning_kernel
def _draw_last_transition(rng, beam, count):
    """(state, start, ln P(drawn)) of the last segment under the transition slice; (-1, -1, 0) where no path has weight.

    Its weight is entered x P(r >= what was seen of it) x the likelihood since.
    """
    entered, survival, high = beam.entered, beam.survival, beam.high
    log_scale, cumulative, opening = beam.log_scale, beam.cumulative, beam.opening
    length = beam.slices.shape[0]
    span = 0
    for k in range(count):
        span = max(span, min(high[k], length))
    weights = np.zeros(count * span)
    exponents = np.empty(count * span)
    top = -np.inf
    for k in range(count):
        for t in range(max(0, length - high[k]), length):
            if entered[k, t] > 0.0:
                weight = entered[k, t] * survival[k, length - t - 1]
                if weight > 0.0:
                    i = k * span + t - (length - span)
                    weights[i] = weight
                    exponents[i] = log_scale[t] + cumulative[k, length] - opening[k, t]
                    top = max(top, exponents[i] + math.log(weight))
    if top == -np.inf:
        return -1, -1, 0.0
    total = 0.0
    for i in range(count * span):
        if weights[i] > 0.0:
            weights[i] *= math.exp(exponents[i] - top)
            total += weights[i]
    chosen = draw_index(rng, weights, count * span)
    return chosen // span, length - span + chosen % span, math.log(weights[chosen] / total)


@owning_kernel
def _draw_last_paper(rng, rows, beam, temperature, count):
    """(state, start, remaining count, ln P(drawn)) of the last segment under the paper's slice."""
    length = beam.slices.shape[0]
    options = 0
    for k in range(count):
        for t in range(length):
            options += max(0, beam.high[k] - max(length - t - 1, beam.low[k]))
    weights = np.empty(options)
    room = np.empty((2, count))
    top = -np.inf
    i = 0
    for k in range(count):
        for t in range(length):
            change = beam.log_scale[t] + beam.cumulative[k, length] - beam.opening[k, t]
            first = max(length - t - 1, beam.low[k])
            _entry_weights(rows, beam, temperature, t, k, first, beam.high[k], count, room, weights[i:])
            for _ in range(first, beam.high[k]):
                weights[i] = math.log(weights[i]) + change if weights[i] > 0.0 else -np.inf
                top = max(top, weights[i])
                i += 1
    if top == -np.inf:
        return -1, -1, -1, 0.0
    total = 0.0
    for i in range(options):
        weights[i] = math.exp(weights[i] - top)
        total += weights[i]
    chosen = draw_index(rng, weights, options)
    log_probability = math.log(weights[chosen] / total)
    for k in range(count):
        for t in range(length):
            first = max(length - t - 1, beam.low[k])
            here = max(0, beam.high[k] - first)
            if chosen < here:
                return k, t, first + chosen, log_probability
            chosen -= here
    return -1, -1, -1, 0.0


@kernel
def _draw_previous(rng, rows, beam, temperature, duration, state, start, count, weights):
    """(state, ln P(drawn)) of the segment that ends where this one starts.

    ``duration`` is F(r) under the paper's slice, else 1. ``weights`` is room.
    """
    cut = beam.slices[start]
    total = 0.0
    for m in range(count):
        weights[m] = 0.0
        probability = rows.pi[m + 1, state] * duration
        if beam.ended[m, start] > 0.0 and cut < probability:
            weights[m] = (
                beam.ended[m, start] * beam.tempered[m + 1, state] * _rest_power(cut / probability, temperature)
            )
            total += weights[m]
    chosen = draw_index(rng, weights, count)
    return chosen, math.log(weights[chosen] / total)


@kernel
def _draw_start(rng, rows, beam, temperature, paper_slice, state, end, count, room, one):
    """(start, ln P(drawn)) of the segment of ``state`` that ends just before ``end``; (-1, 0) if none has weight.

    The terms add up to ended[state, end].
    """
    target = rng.random() * beam.ended[state, end]
    chosen, probability = -1, 1.0
    for r in range(beam.low[state], min(beam.high[state], end)):
        t = end - r - 1
        if paper_slice:
            _entry_weights(rows, beam, temperature, t, state, r, r + 1, count, room, one)
            weight = one[0]
        else:
            weight = beam.entered[state, t] * beam.pmf[state, r]
        if weight > 0.0:
            change = beam.cumulative[state, end] - beam.opening[state, t]
            weight *= math.exp(change + beam.log_scale[t] - beam.log_scale[end])
            if weight > 0.0:
                chosen, probability = t, weight / beam.ended[state, end]
                target -= weight
                if target < 0.0:
                    break
    return chosen, math.log(probability)


@owning_kernel
def backward(rng, rows, beam, temperature, paper_slice, count, starts, labels):
    """Draw a trajectory into the back of ``starts`` and ``labels``, which have room for a segment at each observation.

    Returns the number of segments (none: no path had weight) and ln P(this trajectory | slices, parameters, y). The
    last segment's remaining count, which the paper's slice draws too, is drawn anew with the duration parameters.
    """
    r = -1
    if paper_slice:
        state, start, r, log_probability = _draw_last_paper(rng, rows, beam, temperature, count)
    else:
        state, start, log_probability = _draw_last_transition(rng, beam, count)
    if start < 0:
        return 0, 0.0
    weights, room, one = np.empty(count), np.empty((2, count)), np.empty(1)
    position = starts.shape[0]
    while True:
        position -= 1
        starts[position] = start
        labels[position] = state
        if start == 0:
            return starts.shape[0] - position, log_probability
        end = start
        duration = beam.pmf[state, r] if paper_slice else 1.0
        state, step = _draw_previous(rng, rows, beam, temperature, duration, state, end, count, weights)
        log_probability += step
        start, step = _draw_start(rng, rows, beam, temperature, paper_slice, state, end, count, room, one)
        log_probability += step
        if start < 0:
            return 0, 0.0
        r = end - start - 1


@owning_kernel
def draw_trajectory(
    rng,
    rules,
    weights,
    rows,
    beam,
    temperature,
    paper_slice,
    time,
    count,
    filled,
    starts,
    labels,
    new_starts,
    new_labels,
):
    """Slices given the trajectory, forward filter from ``time`` on, then a trajectory drawn backward.

    The paper's slices are drawn before, by the caller, who must see to tables that cover them. Returns (answer, time,
    count, segments, ln P(trajectory)): after NEEDS_STATES call again with more slots, the time and the count.
    """
    if time == 0 and not paper_slice:  # also where slots ran out at time 0: a second draw of the slices is as good
        draw_slices(rng, temperature, False, rows.pi, beam.pmf, starts, labels, -1, beam.slices, beam.log_stay)
    answer, time, count = forward(rng, rules, weights, rows, beam, temperature, paper_slice, time, count, filled)
    if answer == NEEDS_STATES:
        return answer, time, count, 0, 0.0
    found, log_probability = backward(rng, rows, beam, temperature, paper_slice, count, new_starts, new_labels)
    return answer, time, count, found, log_probability
