"""Where a chain's path can go next, the rows integrated out, and how its states are born and retired.

Of the infinitely many states a chain knows those that it has visited; the rest is one lump, the tail. Given the
weights gamma and the transition counts C, the next state after s is

    k      with weight C_sk + alpha1 beta_sk (+ kappa where k = s)
    new    with weight alpha1 beta_s+

Only whether a state can follow itself tells the topologies apart: their states carry no order. A finite state space is
the same with the states that were not visited yet as its tail.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import log_add
from ishsmm_stream.batch.weights import ALPHA0, ALPHA1, GAMMA_LEVEL, RHO, TAIL_G, TAIL_W, C, D, make_rules
from ishsmm_stream.model.presets import Model
from ishsmm_stream.online.particles import counter_random


class StepRules(NamedTuple):
    """What kernels need to know of a model's transitions."""

    kind: int  # of hierarchy, as in batch.weights
    allows_self: bool
    strikes_self: bool  # HDP-HSMM
    states: int  # size of a finite state space, 0 for an infinite one


def make_step_rules(model: Model) -> StepRules:
    """A model's transitions; ValueError where its states carry an order. Plain Python."""
    finite = model.topology.states
    rules = make_rules(model, 3)
    among_states = rules.allowed[1:]
    off_diagonal = among_states[~np.eye(len(among_states), dtype=np.bool_)]
    diagonal = np.diag(among_states)
    exchangeable = model.topology.exchangeable or (finite is not None and bool(off_diagonal.all()))
    if model.is_renewal or not exchangeable or (diagonal != diagonal[0]).any():
        raise ValueError(
            f"the particle sampler needs a topology whose states recur and carry no order, got {model.topology.name!r} "
            f"of model {model.name!r}"
        )
    return StepRules(rules.kind, bool(diagonal[0]), model.strikes_self, finite or 0)


@kernel
def _log_norm(step_rules, log_g, tail, state, count):
    """ln of the sum of gamma over V_s. The HDP's w sum to one; the flat prior is not normalised over V_s."""
    if step_rules.kind != GAMMA_LEVEL:
        return 0.0
    total = tail[TAIL_G]
    for k in range(count):
        if step_rules.allows_self or k != state:
            total = log_add(total, log_g[k])
    return total


@kernel
def fill_log_row(step_rules, hyper, log_g, tail, counts, state, count, log_row):
    """ln P(next state = k | the segment of ``state`` has ended) for the ``count`` known states; the last entry of
    ``log_row`` is the new one's."""
    new = log_row.shape[0] - 1
    kappa = hyper[ALPHA1] * hyper[RHO]
    seen = kappa if step_rules.allows_self else 0.0
    largest = tail[TAIL_G]
    for k in range(count):
        if step_rules.allows_self or k != state:
            seen += counts[state + 1, k]
            largest = max(largest, log_g[k])
    # Where nothing was seen the row is proportional to gamma, of which nothing must be lost to underflow.
    log_unit = -largest
    if seen > 0.0:
        log_unit = math.log(hyper[ALPHA1] * (1.0 - hyper[RHO])) - _log_norm(step_rules, log_g, tail, state, count)
    total = math.exp(tail[TAIL_G] + log_unit)
    for k in range(count):
        log_row[k] = 0.0
        if step_rules.allows_self or k != state:
            log_row[k] = counts[state + 1, k] + math.exp(log_g[k] + log_unit)
            if k == state:
                log_row[k] += kappa
            total += log_row[k]
    log_total = math.log(total)
    for k in range(count):
        log_row[k] = math.log(log_row[k]) - log_total if log_row[k] > 0.0 else -np.inf
    log_row[new] = tail[TAIL_G] + log_unit - log_total


@kernel
def open_tail(stream, step_rules, hyper, tail):
    """All weight in the tail: no state is known."""
    tail[TAIL_W] = 0.0
    tail[TAIL_G] = 0.0
    if step_rules.kind == GAMMA_LEVEL:
        tail[TAIL_G] = counter_random.draw_log_gamma(stream, hyper[ALPHA0])


@kernel
def take_from_tail(stream, step_rules, hyper, log_w, log_g, tail, k, count):
    """The weights of a state, put into slot ``k``, that a step is known to have reached; ``count`` are known already.

    A state of the tail is reached in proportion to its gamma: its stick is as any (sticks are in size-biased order),
    and its share of gamma_+ is Beta(alpha0 w_new + 1, alpha0 w_+), where the 1 is what being reached adds.
    """
    if step_rules.states > 0:
        log_w[k] = -math.log(step_rules.states)
        left = step_rules.states - count - 1
        tail[TAIL_W] = math.log(left) + log_w[k] if left > 0 else -np.inf
    else:
        log_v, log_rest = counter_random.draw_log_beta(
            stream, math.log1p(-hyper[D]), math.log(hyper[C] + (count + 1) * hyper[D])
        )
        log_w[k] = tail[TAIL_W] + log_v
        tail[TAIL_W] += log_rest
    if step_rules.kind == GAMMA_LEVEL:
        log_alpha0 = math.log(hyper[ALPHA0])
        log_share, log_rest = counter_random.draw_log_beta(
            stream, math.log1p(math.exp(log_alpha0 + log_w[k])), log_alpha0 + tail[TAIL_W]
        )
        log_g[k] = tail[TAIL_G] + log_share
        tail[TAIL_G] += log_rest
    else:
        log_g[k] = log_w[k]
        tail[TAIL_G] = tail[TAIL_W]


@kernel
def give_to_tail(log_w, log_g, tail, k):
    """Forget a state: its weights go back to where they came from."""
    tail[TAIL_W] = log_add(tail[TAIL_W], log_w[k])
    tail[TAIL_G] = log_add(tail[TAIL_G], log_g[k])


@kernel
def drop_counts(counts, k, count):
    """Forget a state's transitions. What followed it counts from now on as having followed the start, so that every
    state that is left has been entered from somewhere."""
    for j in range(count):
        if j != k:
            counts[0, j] += counts[k + 1, j]
        counts[k + 1, j] = 0
    for row in range(count + 1):
        counts[row, k] = 0


@kernel
def least_likely_to_return(hyper, log_g, tail, counts, last_seen, before, count):
    """(slot, predicted probability) of the state least likely to come next among those last seen before ``before``,
    over all rows at once; slot -1 where there is none."""
    total = tail[TAIL_G]
    entries = 0.0
    for k in range(count):
        total = log_add(total, log_g[k])
        for row in range(count + 1):
            entries += counts[row, k]
    least, slot = np.inf, -1
    for k in range(count):
        if last_seen[k] < before:
            entered = hyper[ALPHA1] * math.exp(log_g[k] - total)
            for row in range(count + 1):
                entered += counts[row, k]
            if entered < least:
                least, slot = entered, k
    return slot, least / (entries + hyper[ALPHA1])
