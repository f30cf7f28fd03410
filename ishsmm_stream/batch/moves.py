"""Moves of whole segments and states: what the beam cannot do, which draws a trajectory given parameters.

Each is a Metropolis-Hastings step on the trajectory with theta, lambda and the rows integrated out, given the weights
and hyperparameters. Its target is ``log_target``. The parameters must be drawn anew afterwards.

A state that is not in use is one of the infinitely many in the tail. A move that needs one takes it with probability
gamma_j / gamma_+, and a move that leaves one without segments gives it back; both count in the ratio.

    split or merge   two segments are picked: one state becomes two, segment by segment, or two become one
                     (Dahl's sequentially allocated split and merge, 2005)
    relabel          one segment is given a state, in proportion to the target
    shift            the boundary between two segments moves
    cut or join      a piece of a segment becomes a segment of another state, or the opposite
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import draw_log_gamma, log_add
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
    known = np.empty(2)
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
        scores = np.empty(2)
        for part in range(2):
            work[part] = stats[part]
            _add_block(emission, y, starts[i], end, work[part])
            scores[part] = emissions.log_marginal(emission, work[part]) - known[part] + math.log(sizes[part])
            if i < last:
                scores[part] += durations.log_predictive_pmf(duration, dwells[part], end - starts[i] - 1)
        norm = log_add(scores[0], scores[1])
        if draws:
            is_second[n] = rng.random() < math.exp(scores[1] - norm)
        part = 1 if is_second[n] else 0
        total += scores[part] - norm
        known[part] += scores[part] - math.log(sizes[part])
        if i < last:
            r = end - starts[i] - 1
            known[part] -= durations.log_predictive_pmf(duration, dwells[part], r)
            durations.add(duration, dwells[part], r)
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
    total = 0.0
    for k in range(count):
        total += math.exp(scores[k] - top)
    left = rng.random() * total
    chosen = own
    for k in range(count):
        left -= math.exp(scores[k] - top)
        if left < 0.0:
            chosen = k
            break
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


@kernel
def _can_join(labels, i):
    """Whether segment ``i`` lies between two segments of another state."""
    return 0 < i < labels.shape[0] - 1 and labels[i - 1] == labels[i + 1] != labels[i]


@kernel
def _count_joins(labels):
    total = 0
    for i in range(1, labels.shape[0] - 1):
        if _can_join(labels, i):
            total += 1
    return total


@owning_kernel
def _end_scores(emission, duration, y, starts, labels, outer, inner, piece, start):
    """ln P(where a piece ends) for a piece of segment ``piece`` that begins at ``start`` and is taken by ``inner``.

    Entry e - start - 1 is that of the end e. It is made of what the two states predict one observation at a time.
    """
    last = starts.shape[0] - 1
    length = y.shape[0]
    end = segment_end(starts, piece, length)
    stats = np.empty((2, emissions.stats_size(emission)))
    dwells = np.empty(durations.stats_size(duration))
    durations.clear(duration, dwells)
    for part in range(2):
        emissions.clear(emission, stats[part])
    for i in range(starts.shape[0]):
        stop = segment_end(starts, i, length)
        if labels[i] == outer:
            _add_block(emission, y, starts[i], stop, stats[0])
        elif labels[i] == inner:
            _add_block(emission, y, starts[i], stop, stats[1])
            if i < last:
                durations.add(duration, dwells, stop - starts[i] - 1)
    scores = np.empty(end - 1 - start)
    total = 0.0
    norm = -np.inf
    for t in range(start, end - 1):
        total += emissions.log_predictive(emission, stats[1], y, t) - emissions.log_predictive(emission, stats[0], y, t)
        scores[t - start] = total + durations.log_predictive_pmf(duration, dwells, t - start)
        norm = log_add(norm, scores[t - start])
    return scores - norm


@owning_kernel
def _with_piece(starts, labels, i, start, end, state):
    """The trajectory with y[start:end] of segment ``i`` given to ``state``."""
    n = starts.shape[0]
    new_starts, new_labels = np.empty(n + 2, dtype=np.int64), np.empty(n + 2, dtype=np.int64)
    new_starts[: i + 1], new_labels[: i + 1] = starts[: i + 1], labels[: i + 1]
    new_starts[i + 1], new_labels[i + 1] = start, state
    new_starts[i + 2], new_labels[i + 2] = end, labels[i]
    new_starts[i + 3 :], new_labels[i + 3 :] = starts[i + 1 :], labels[i + 1 :]
    return new_starts, new_labels


@owning_kernel
def _without_piece(starts, labels, i):
    """The trajectory with segment ``i`` given to the state around it."""
    n = starts.shape[0]
    new_starts, new_labels = np.empty(n - 2, dtype=np.int64), np.empty(n - 2, dtype=np.int64)
    new_starts[:i], new_labels[:i] = starts[:i], labels[:i]
    new_starts[i:], new_labels[i:] = starts[i + 2 :], labels[i + 2 :]
    return new_starts, new_labels


@owning_kernel
def cut_or_join(rng, emission, duration, rules, weights, rows, y, starts, labels, count, current):
    """Returns (ln target, states instantiated, starts, labels).

    A cut picks a segment, one of the states in use or one of the tail, where the piece begins, and where it ends.
    """
    n = starts.shape[0]
    in_use = count
    if rng.random() < 0.5:
        i = int(rng.random() * n)
        span = segment_end(starts, i, y.shape[0]) - starts[i] - 2  # places where a piece can begin
        state = int(rng.random() * (in_use + 1))
        if span < 1 or state == labels[i]:
            return current, count, starts, labels
        start = starts[i] + 1 + int(rng.random() * span)
        log_taken = 0.0
        if state == in_use:
            state, log_taken, count = _take_state(rng, rules, weights, rows, count)
            if state < 0:
                return current, count, starts, labels
        scores = _end_scores(emission, duration, y, starts, labels, labels[i], state, i, start)
        left = rng.random()
        at = scores.shape[0] - 1
        for e in range(scores.shape[0]):
            left -= math.exp(scores[e])
            if left < 0.0:
                at = e
                break
        new_starts, new_labels = _with_piece(starts, labels, i, start, start + at + 1, state)
        log_ratio = -scores[at] - log_taken + math.log(n * (in_use + 1.0) * span / _count_joins(new_labels))
    else:
        joins = _count_joins(labels)
        if joins == 0:
            return current, count, starts, labels
        left = int(rng.random() * joins)
        i = 1
        while left > 0 or not _can_join(labels, i):
            if _can_join(labels, i):
                left -= 1
            i += 1
        new_starts, new_labels = _without_piece(starts, labels, i)
        state, outer = labels[i], labels[i - 1]
        log_taken = 0.0
        if _uses(labels, state) == 1:
            log_taken = _log_taken(weights, state)
            in_use -= 1
        scores = _end_scores(emission, duration, y, new_starts, new_labels, outer, state, i - 1, starts[i])
        at = starts[i + 1] - starts[i] - 1
        span = segment_end(new_starts, i - 1, y.shape[0]) - new_starts[i - 1] - 2
        log_ratio = scores[at] + log_taken - math.log((n - 2) * (in_use + 1.0) * span / joins)
    if not _are_allowed(rules, new_labels):
        return current, count, starts, labels
    after = log_target(emission, duration, rules, weights, y, new_starts, new_labels, count)
    if _is_accepted(rng, log_ratio + after - current):
        return after, count, new_starts, new_labels
    return current, count, starts, labels


@owning_kernel
def move_segments(rng, emission, duration, rules, weights, rows, y, starts, labels, count, moves):
    """Try this many moves, each of a kind drawn at random. Returns (starts, labels, states instantiated)."""
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
    return starts, labels, count
