"""Moves of whole segments and states: what the beam cannot do, which draws a trajectory given parameters.

Each is a Metropolis-Hastings step on the trajectory with theta, lambda and the rows integrated out, given the weights
and hyperparameters. Its target is ``log_target``. The parameters must be drawn anew afterwards.

A state that is not in use is one of the infinitely many in the tail. A move that needs one takes it with probability
gamma_j / gamma_+, and a move that leaves one without segments gives it back; both count in the ratio.

    split or merge   two segments are picked: one state becomes two, segment by segment, or two become one
                     (Dahl's sequentially allocated split and merge, 2005)
    relabel          one segment is given a state, in proportion to the target
    shift            the boundary between two segments moves
    cut or join      a piece of a segment, inside or at either end, becomes a segment of another state, or the opposite
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import draw_index, draw_log_gamma, log_add
from ishsmm_stream.batch import hierarchy, segments
from ishsmm_stream.batch.segments import segment_end
from ishsmm_stream.batch.weights import ALPHA1, TAIL_G, break_stick
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions

_FARTHEST_SHIFT = 8
_LARGEST_LOG_ODDS = 700.0


@owning_kernel
def log_target(emission, duration, rules, weights, y, starts, labels, count):
    """ln p(y, segments, labels | weights, hyperparameters), theta, lambda and the rows integrated out."""
    return (
        segments.log_data(emission, y, starts, labels, count)
        + segments.log_dwells(duration, y.shape[0], starts, labels, count)
        + hierarchy.log_labels(rules, weights, labels, count)
    )


@kernel
def _are_allowed(rules, labels):
    """Whether every state of the trajectory may follow the one before it."""
    for i in range(1, labels.shape[0]):
        if not rules.allowed[labels[i - 1] + 1, labels[i]]:
            return False
    return True


@kernel
def _is_accepted(rng, log_ratio):
    return math.log(1.0 - rng.random()) < log_ratio


@kernel
def _uses(labels, state):
    """How many segments a state has."""
    total = 0
    for i in range(labels.shape[0]):
        if labels[i] == state:
            total += 1
    return total


# States from the tail


@owning_kernel
def _take_state(rng, rules, weights, rows, count):
    """Instantiate a state of the tail, drawn with probability gamma_j / gamma_+.

    Returns (the state, ln of that probability, states instantiated); state -1 if there is no room.
    """
    before = weights.tail[TAIL_G]
    while count < weights.log_w.shape[0]:
        rest = weights.tail[TAIL_G]
        break_stick(rng, rules, weights, count)
        if rules.strikes_self:
            log_w = weights.log_w[count]
            alpha1 = weights.hyper[ALPHA1]
            others = alpha1 * -math.expm1(log_w)
            odds = draw_log_gamma(rng, alpha1 * math.exp(log_w)) - draw_log_gamma(rng, max(others, 1e-300))
            rows.self_odds[count + 1] = math.exp(min(odds, _LARGEST_LOG_ODDS))
        count += 1
        if math.log(1.0 - rng.random()) < weights.log_g[count - 1] - rest:
            return count - 1, weights.log_g[count - 1] - before, count
    return -1, 0.0, count


@kernel
def _log_taken(weights, state):
    """ln P(``_take_state`` takes this state) once it is given back."""
    return weights.log_g[state] - log_add(weights.tail[TAIL_G], weights.log_g[state])


# Split or merge


@kernel
def _add_block(emission, y, start, end, stats):
    emissions.begin_segment(emission, stats)
    for t in range(start, end):
        emissions.add(emission, stats, y, t)


@owning_kernel
def _allocate(rng, emission, duration, y, starts, members, first, second, is_second, draws):
    """Deal ``members`` out to two parts that begin with segments ``first`` and ``second``, one after the other.

    With ``draws`` the choices are drawn into ``is_second``, otherwise they are read from it. Returns ln P(choices).
    """
    stats = np.empty((2, emissions.stats_size(emission)))
    work = np.empty((2, emissions.stats_size(emission)))
    dwells = np.empty((2, durations.stats_size(duration)))
    known, with_it, scores = np.empty(2), np.empty(2), np.empty(2)  # ln marginals without and with a member
    sizes = np.ones(2)
    last = starts.shape[0] - 1
    length = y.shape[0]
    for part in range(2):
        i = first if part == 0 else second
        emissions.clear(emission, stats[part])
        durations.clear(duration, dwells[part])
        _add_block(emission, y, starts[i], segment_end(starts, i, length), stats[part])
        known[part] = emissions.log_marginal(emission, stats[part])
        if i < last:
            durations.add(duration, dwells[part], starts[i + 1] - starts[i] - 1)
    total = 0.0
    for n in range(members.shape[0]):
        i = members[n]
        end = segment_end(starts, i, length)
        for part in range(2):
            work[part] = stats[part]
            _add_block(emission, y, starts[i], end, work[part])
            with_it[part] = emissions.log_marginal(emission, work[part])
            scores[part] = with_it[part] - known[part] + math.log(sizes[part])
            if i < last:
                scores[part] += durations.log_predictive_pmf(duration, dwells[part], end - starts[i] - 1)
        norm = log_add(scores[0], scores[1])
        if draws:
            is_second[n] = rng.random() < math.exp(scores[1] - norm)
        part = 1 if is_second[n] else 0
        total += scores[part] - norm
        known[part] = with_it[part]
        if i < last:
            durations.add(duration, dwells[part], end - starts[i] - 1)
        stats[part] = work[part]
        sizes[part] += 1.0
    return total


@owning_kernel
def _members(rng, labels, a, b, first, second):
    """The other segments of two states in random order."""
    found = np.empty(labels.shape[0], dtype=np.int64)
    count = 0
    for i in range(labels.shape[0]):
        if (labels[i] == a or labels[i] == b) and i != first and i != second:
            found[count] = i
            count += 1
    for n in range(count - 1, 0, -1):
        other = int(rng.random() * (n + 1))
        found[n], found[other] = found[other], found[n]
    return found[:count].copy()


@owning_kernel
def split_or_merge(rng, emission, duration, rules, weights, rows, y, starts, labels, count, current):
    """Returns (ln target, states instantiated); ``labels`` change in place."""
    n = labels.shape[0]
    if n < 2:
        return current, count
    first = int(rng.random() * n)
    second = int(rng.random() * (n - 1))
    if second >= first:
        second += 1
    a, b = labels[first], labels[second]
    members = _members(rng, labels, a, b, first, second)
    is_second = np.zeros(members.shape[0], dtype=np.bool_)
    proposed = labels.copy()
    is_first_changed = rng.random() < 0.5  # whose part takes, or gives back, a state
    if a == b:
        fresh, log_taken, count = _take_state(rng, rules, weights, rows, count)
        if fresh < 0:
            return current, count
        log_q = _allocate(rng, emission, duration, y, starts, members, first, second, is_second, True)
        for m in range(members.shape[0]):
            if is_second[m] != is_first_changed:
                proposed[members[m]] = fresh
        proposed[first if is_first_changed else second] = fresh
        log_ratio = -log_q - log_taken
    else:
        gone, kept = (a, b) if is_first_changed else (b, a)
        for i in range(n):
            if proposed[i] == gone:
                proposed[i] = kept
        if not _are_allowed(rules, proposed):
            return current, count
        for m in range(members.shape[0]):
            is_second[m] = labels[members[m]] == b
        log_q = _allocate(rng, emission, duration, y, starts, members, first, second, is_second, False)
        log_ratio = log_q + _log_taken(weights, gone)
    after = log_target(emission, duration, rules, weights, y, starts, proposed, count)
    if _is_accepted(rng, log_ratio + after - current):
        labels[:] = proposed
        return after, count
    return current, count


# Relabel


@owning_kernel
def relabel(rng, emission, duration, rules, weights, rows, y, starts, labels, count, current):
    """Returns (ln target, states instantiated); ``labels`` change in place.

    A state that no other segment has is weighted by 1 / P(it is taken from the tail).
    """
    i = int(rng.random() * labels.shape[0])
    own = labels[i]
    is_alone = _uses(labels, own) == 1
    in_use = count
    extra, log_taken = own, 0.0
    if is_alone:
        log_taken = _log_taken(weights, own)
    else:
        extra, log_taken, count = _take_state(rng, rules, weights, rows, count)
        if extra < 0:
            return current, count
    targets = np.full(count, -np.inf)
    scores = np.full(count, -np.inf)
    top = -np.inf
    for k in range(count):
        if k < in_use or k == extra:
            labels[i] = k
            if k == own:
                targets[k] = current
            elif _are_allowed(rules, labels):
                targets[k] = log_target(emission, duration, rules, weights, y, starts, labels, count)
            scores[k] = targets[k] - (log_taken if k == extra else 0.0)
            top = max(top, scores[k])
    chosen = draw_index(rng, np.exp(scores - top), count)
    labels[i] = chosen
    return targets[chosen], count


# Shift


@owning_kernel
def shift(rng, emission, duration, rules, weights, y, starts, labels, count, current):
    """Returns ln target; ``starts`` change in place."""
    n = starts.shape[0]
    if n < 2:
        return current
    i = 1 + int(rng.random() * (n - 1))
    offset = 1 + int(rng.random() * _FARTHEST_SHIFT)
    if rng.random() < 0.5:
        offset = -offset
    before = starts[i]
    if not starts[i - 1] < before + offset < segment_end(starts, i, y.shape[0]):
        return current
    starts[i] = before + offset
    after = log_target(emission, duration, rules, weights, y, starts, labels, count)
    if _is_accepted(rng, after - current):
        return after
    starts[i] = before
    return current


# Cut or join

_INNER, _FRONT, _BACK = 0, 1, 2  # where a piece lies in the segment that it is cut from
_PLACES = 3


@owning_kernel
def _log_gains(emission, y, starts, labels, outer, inner, first, last):
    """What ``inner`` predicts better than ``outer`` of the observations ``first`` to ``last - 1``, one by one."""
    stats = np.empty((2, emissions.stats_size(emission)))
    for part in range(2):
        emissions.clear(emission, stats[part])
    for i in range(starts.shape[0]):
        if labels[i] == outer:
            _add_block(emission, y, starts[i], segment_end(starts, i, y.shape[0]), stats[0])
        elif labels[i] == inner:
            _add_block(emission, y, starts[i], segment_end(starts, i, y.shape[0]), stats[1])
    gains = np.empty(last - first)
    for t in range(first, last):
        gains[t - first] = emissions.log_predictive(emission, stats[1], y, t)
        gains[t - first] -= emissions.log_predictive(emission, stats[0], y, t)
    return gains


@owning_kernel
def _dwells_of(duration, length, starts, labels, state):
    """The statistics of a state's complete dwells."""
    stats = np.empty(durations.stats_size(duration))
    durations.clear(duration, stats)
    for i in range(starts.shape[0] - 1):
        if labels[i] == state:
            durations.add(duration, stats, starts[i + 1] - starts[i] - 1)
    return stats


@owning_kernel
def _draw_piece(rng, emission, duration, y, starts, labels, i, place, inner, known_start, known_end):
    """A piece of segment ``i`` for the state ``inner``: (start, end, ln P(it is drawn)).

    One end is drawn by how much better ``inner`` predicts the piece; the other is that of the segment, or uniform. With
    ``known_end`` > 0 nothing is drawn: the answer is about that piece.
    """
    begin, stop = starts[i], segment_end(starts, i, y.shape[0])
    dwells = _dwells_of(duration, y.shape[0], starts, labels, inner)
    start, log_start = begin, 0.0
    if place == _INNER:
        span = stop - begin - 2
        start = known_start if known_end > 0 else begin + 1 + int(rng.random() * span)
        log_start = -math.log(span)
    elif place == _BACK:
        start = begin + 1
    gains = _log_gains(emission, y, starts, labels, labels[i], inner, start, stop)
    size = stop - start if place == _BACK else stop - 1 - start
    scores = np.empty(size)  # by the piece's length - 1
    total, norm = 0.0, -np.inf
    for r in range(size):
        total += gains[gains.shape[0] - 1 - r] if place == _BACK else gains[r]
        scores[r] = total + durations.log_predictive_pmf(duration, dwells, r)
        norm = log_add(norm, scores[r])
    if known_end > 0:
        chosen = known_end - known_start - 1
    else:
        chosen = draw_index(rng, np.exp(scores - norm), size)
    if place == _BACK:
        start = stop - chosen - 1
    return start, start + chosen + 1, log_start + scores[chosen] - norm


@owning_kernel
def _with_piece(starts, labels, i, place, start, end, state):
    """The trajectory with y[start:end] of segment ``i`` given to ``state``."""
    n = starts.shape[0]
    more = 2 if place == _INNER else 1
    new_starts, new_labels = np.empty(n + more, dtype=np.int64), np.empty(n + more, dtype=np.int64)
    new_starts[:i], new_labels[:i] = starts[:i], labels[:i]
    new_starts[i + 1 + more :], new_labels[i + 1 + more :] = starts[i + 1 :], labels[i + 1 :]
    at = i
    if place != _FRONT:
        new_starts[at], new_labels[at] = starts[i], labels[i]
        at += 1
    new_starts[at], new_labels[at] = start, state
    if place != _BACK:
        new_starts[at + 1], new_labels[at + 1] = end, labels[i]
    return new_starts, new_labels


@kernel
def _can_join(labels, i, place):
    """Whether segment ``i`` can have been cut from its neighbours' state at this place."""
    if place != _FRONT and not (i > 0 and labels[i - 1] != labels[i]):
        return False
    if place != _BACK and not (i + 1 < labels.shape[0] and labels[i + 1] != labels[i]):
        return False
    return place != _INNER or labels[i - 1] == labels[i + 1]


@owning_kernel
def _without_piece(starts, labels, i, place):
    """The trajectory with segment ``i`` given to the state around it, and the index of the segment that has it."""
    n = starts.shape[0]
    less = 2 if place == _INNER else 1
    first = i if place == _FRONT else i - 1
    new_starts, new_labels = np.empty(n - less, dtype=np.int64), np.empty(n - less, dtype=np.int64)
    new_starts[: first + 1] = starts[: first + 1]
    new_labels[:first] = labels[:first]
    new_labels[first] = labels[i + 1] if place == _FRONT else labels[i - 1]
    new_starts[first + 1 :], new_labels[first + 1 :] = starts[first + 1 + less :], labels[first + 1 + less :]
    return new_starts, new_labels, first


@owning_kernel
def cut_or_join(rng, emission, duration, rules, weights, rows, y, starts, labels, count, current):
    """Returns (ln target, states instantiated, starts, labels).

    Either way a segment and a place are picked. A cut picks a state in use, or one of the tail, for the piece.
    """
    n = starts.shape[0]
    in_use = count
    i = int(rng.random() * n)
    place = int(rng.random() * _PLACES)
    log_taken = 0.0
    if rng.random() < 0.5:
        state = int(rng.random() * (in_use + 1))
        least = 3 if place == _INNER else 2
        if segment_end(starts, i, y.shape[0]) - starts[i] < least or state == labels[i]:
            return current, count, starts, labels
        if state == in_use:
            state, log_taken, count = _take_state(rng, rules, weights, rows, count)
            if state < 0:
                return current, count, starts, labels
        start, end, log_q = _draw_piece(rng, emission, duration, y, starts, labels, i, place, state, 0, 0)
        new_starts, new_labels = _with_piece(starts, labels, i, place, start, end, state)
        log_ratio = math.log(n * (in_use + 1.0) / new_starts.shape[0]) - log_q - log_taken
    else:
        if not _can_join(labels, i, place):
            return current, count, starts, labels
        state = labels[i]
        new_starts, new_labels, j = _without_piece(starts, labels, i, place)
        if _uses(labels, state) == 1:
            log_taken = _log_taken(weights, state)
            in_use -= 1
        end = segment_end(starts, i, y.shape[0])
        _, _, log_q = _draw_piece(rng, emission, duration, y, new_starts, new_labels, j, place, state, starts[i], end)
        log_ratio = log_q + log_taken - math.log(new_starts.shape[0] * (in_use + 1.0) / n)
    if not _are_allowed(rules, new_labels):
        return current, count, starts, labels
    after = log_target(emission, duration, rules, weights, y, new_starts, new_labels, count)
    if _is_accepted(rng, log_ratio + after - current):
        return after, count, new_starts, new_labels
    return current, count, starts, labels


@owning_kernel
def move_and_update(rng, emission, duration, rules, weights, rows, y, starts, labels, count, moves):
    """Try this many moves, each of a kind drawn at random, then update the hierarchy: one call costs less than two.

    Returns (starts, labels, states kept).
    """
    starts, labels = starts.copy(), labels.copy()
    count = hierarchy.compact(rules, weights, rows, labels, count)
    current = log_target(emission, duration, rules, weights, y, starts, labels, count)
    for _ in range(moves):
        kind = int(rng.random() * 4.0)
        if kind == 0:
            current, count = split_or_merge(
                rng, emission, duration, rules, weights, rows, y, starts, labels, count, current
            )
        elif kind == 1:
            current, count = relabel(rng, emission, duration, rules, weights, rows, y, starts, labels, count, current)
        elif kind == 2:
            current = shift(rng, emission, duration, rules, weights, y, starts, labels, count, current)
        else:
            current, count, starts, labels = cut_or_join(
                rng, emission, duration, rules, weights, rows, y, starts, labels, count, current
            )
        count = hierarchy.compact(rules, weights, rows, labels, count)
    return starts, labels, hierarchy.update_hierarchy(rng, rules, weights, rows, labels, count, False)
