"""The weights above the transition rows and the rows themselves, drawn as their states are instantiated.

Row 0 is the start; row m + 1 belongs to state m. Of the infinitely many states the first M are instantiated, the rest
is one lump, the *tail*. Symbols of the paper:

    log_w, tail_w      ln w_k and ln of the tail's sum      (sticks; logit_v holds logit v_k)
    log_g, tail_g      ln gamma_k and ln gamma_+            (for the HDP models, which have no gamma level: again ln w)
    pi, log_pi_tail    transition probabilities, ln pi_m+
    hyper              alpha0, alpha1, c, d, rho            (sticky: hyper[ALPHA1] is alpha1 + kappa)

Everything that can underflow is kept as a logarithm: weights of 1e-300 and below are routine, not exceptional.

Departure from the paper (the joint-distribution test fails with the paper's formula): a new state's share of gamma_+ is
Beta(alpha0 w_new, alpha0 w_+), not the Beta(1, alpha0 w_+) of sticks over a diffuse base measure: ours is atomic, atoms
repeat.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import draw_log_beta, draw_log_gamma, log_add
from ishsmm_stream.model import presets
from ishsmm_stream.model.presets import Model
from ishsmm_stream.model.priors import Beta, Gamma

ALPHA0, ALPHA1, C, D, RHO = 0, 1, 2, 3, 4
HYPERPARAMETERS = ("alpha0", "alpha1", "c", "d", "rho")
TAIL_W, TAIL_G = 0, 1

GAMMA_LEVEL, NO_GAMMA_LEVEL, FLAT = 0, 1, 2
_KINDS = {presets.GAMMA_PROCESS: GAMMA_LEVEL, presets.DIRICHLET_PROCESS: NO_GAMMA_LEVEL, presets.SYMMETRIC: FLAT}


class Rules(NamedTuple):
    """What is fixed for a run: the kind of hierarchy, the topology and the hyperparameters' priors."""

    kind: int
    index_free: bool  # states carry no order: only those in use are kept
    finite: bool  # all states are instantiated, there is no tail
    strikes_self: bool
    allowed: np.ndarray  # (rows, states) bool
    reaches_tail: np.ndarray  # (rows,) bool
    horizon: np.ndarray  # (rows,) int: states that must be instantiated before the row can be drawn
    sampled: np.ndarray  # (5,) bool: which hyperparameters are sampled
    prior: np.ndarray  # (5, 2): their Gamma(shape, rate) or Beta(a, b)


class Weights(NamedTuple):
    """The level above the rows. Arrays are changed in place; entries from M on are meaningless."""

    hyper: np.ndarray  # (5,)
    logit_v: np.ndarray  # (states,)
    log_w: np.ndarray  # (states,)
    log_g: np.ndarray  # (states,)
    tail: np.ndarray  # (2,): ln w_+, ln gamma_+


class Rows(NamedTuple):
    """The transition rows. Arrays are changed in place; a row counts only where ``ready``."""

    pi: np.ndarray  # (rows, states)
    log_pi_tail: np.ndarray  # (rows,)
    pi_tail: np.ndarray  # (rows,)
    log_norm: np.ndarray  # (rows,): ln sum of gamma over V_m; does not change when the tail is split
    self_odds: np.ndarray  # (rows,): HDP-HSMM, pi_mm / (1 - pi_mm) of the entry that was struck out
    ready: np.ndarray  # (rows,) bool


def make_rules(model: Model, capacity: int) -> Rules:
    """A model's hierarchy as kernels read it, for at most ``capacity`` states."""
    tables = model.topology.tables(capacity)
    sampled = np.zeros(5, dtype=np.bool_)
    prior = np.zeros((5, 2))
    for i, name in enumerate(HYPERPARAMETERS):
        value = getattr(model, name)
        if isinstance(value, tuple):
            sampled[i] = True
            prior[i] = value
    kind = _KINDS[model.hierarchy]
    finite = model.topology.states is not None
    if kind != GAMMA_LEVEL:
        sampled[ALPHA0] = False
    if kind == FLAT or finite:
        sampled[C] = sampled[D] = False
    return Rules(
        kind=kind,
        index_free=model.topology.exchangeable,
        finite=finite,
        strikes_self=model.strikes_self,
        allowed=tables.allowed,
        reaches_tail=tables.reaches_tail,
        horizon=tables.horizon,
        sampled=sampled,
        prior=prior,
    )


def make_weights(model: Model, capacity: int) -> Weights:
    """Weights with nothing instantiated and every hyperparameter at its value or its prior's mean."""
    hyper = np.zeros(5)
    for i, name in enumerate(HYPERPARAMETERS):
        value = getattr(model, name)
        hyper[i] = value.mean if isinstance(value, (Gamma, Beta)) else value
    size = capacity if model.topology.states is None else model.topology.states
    return Weights(hyper, np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(2))


def make_rows(rules: Rules) -> Rows:
    """Rows with none ready."""
    rows, states = rules.allowed.shape
    return Rows(
        pi=np.zeros((rows, states)),
        log_pi_tail=np.zeros(rows),
        pi_tail=np.zeros(rows),
        log_norm=np.zeros(rows),
        self_odds=np.zeros(rows),
        ready=np.zeros(rows, dtype=np.bool_),
    )


# Instantiation


@owning_kernel
def reset_weights(rng, rules, weights):
    """Forget every state: the tail is all there is. Finite spaces instantiate all states at once."""
    weights.tail[TAIL_W] = 0.0
    weights.tail[TAIL_G] = 0.0
    if rules.kind == GAMMA_LEVEL:
        weights.tail[TAIL_G] = draw_log_gamma(rng, weights.hyper[ALPHA0])
    if not rules.finite:
        return 0
    states = rules.allowed.shape[1]
    weights.tail[:] = -np.inf
    for k in range(states):
        weights.log_w[k] = -math.log(states)
        weights.log_g[k] = weights.log_w[k]
        if rules.kind == GAMMA_LEVEL:
            weights.log_g[k] = draw_log_gamma(rng, weights.hyper[ALPHA0] / states)
    return states


@owning_kernel
def break_stick(rng, rules, weights, count):
    """Split state ``count`` off the tail in the weights above the rows."""
    hyper = weights.hyper
    log_v, log_rest = draw_log_beta(rng, math.log1p(-hyper[D]), math.log(hyper[C] + (count + 1) * hyper[D]))
    weights.logit_v[count] = log_v - log_rest
    weights.log_w[count] = weights.tail[TAIL_W] + log_v
    weights.tail[TAIL_W] += log_rest
    if rules.kind == GAMMA_LEVEL:
        log_alpha0 = math.log(hyper[ALPHA0])
        log_share, log_rest = draw_log_beta(rng, log_alpha0 + weights.log_w[count], log_alpha0 + weights.tail[TAIL_W])
        weights.log_g[count] = weights.tail[TAIL_G] + log_share
        weights.tail[TAIL_G] += log_rest
    else:
        weights.log_g[count] = weights.log_w[count]
        weights.tail[TAIL_G] = weights.tail[TAIL_W]


@kernel
def instantiate(rng, rules, weights, rows, count):
    """Instantiate state ``count``: break its stick, then split it off the tail of every row that reaches it."""
    break_stick(rng, rules, weights, count)
    for row in range(count + 1):
        if rows.ready[row]:
            if rules.reaches_tail[row]:
                log_base = math.log(row_concentration(weights, row)) - rows.log_norm[row]
                log_share, log_rest = draw_log_beta(
                    rng, log_base + weights.log_g[count], log_base + weights.tail[TAIL_G]
                )
                rows.pi[row, count] = math.exp(rows.log_pi_tail[row] + log_share)
                rows.log_pi_tail[row] += log_rest
                rows.pi_tail[row] = math.exp(rows.log_pi_tail[row])
            else:
                rows.pi[row, count] = 0.0
    rows.ready[count + 1] = False


# Rows


@kernel
def row_concentration(weights, row):
    """alpha1 of a row: what the row's prior has beside the mass on the state itself."""
    if row == 0:
        return weights.hyper[ALPHA1]
    return weights.hyper[ALPHA1] * (1.0 - weights.hyper[RHO])


@kernel
def row_log_norm(rules, weights, row, count):
    """ln of the sum of gamma over V_m. The HDP's w sum to one; the flat prior is not normalised over V_m."""
    if rules.kind != GAMMA_LEVEL:
        return 0.0
    total = -np.inf
    if rules.reaches_tail[row]:
        total = weights.tail[TAIL_G]
    for k in range(count):
        if rules.allowed[row, k]:
            total = log_add(total, weights.log_g[k])
    return total


@kernel
def prior_count(rules, weights, log_norm, row, k):
    """alpha1 beta_mk (+ kappa on the diagonal): the Dirichlet parameter of row m at state k.

    The struck-out diagonal of the HDP-HSMM counts here: its rows are drawn whole.
    """
    if not rules.allowed[row, k] and not (rules.strikes_self and k == row - 1):
        return 0.0
    count = row_concentration(weights, row) * math.exp(weights.log_g[k] - log_norm)
    if k == row - 1:
        count += weights.hyper[ALPHA1] * weights.hyper[RHO]
    return count


@kernel
def draw_row(rng, rules, weights, rows, counts, row, count):
    """pi_m ~ Dir(C_m + alpha1 beta_m) over the ``count`` instantiated states and the tail.

    ``counts`` has as many rows as there are states in use; a row beyond them is drawn from the prior.
    """
    log_norm = row_log_norm(rules, weights, row, count)
    rows.log_norm[row] = log_norm
    total = -np.inf
    struck = -np.inf
    for k in range(count):
        shape = prior_count(rules, weights, log_norm, row, k)
        if row < counts.shape[0] and k < counts.shape[1]:
            shape += counts[row, k]
        log_value = draw_log_gamma(rng, shape)
        rows.pi[row, k] = log_value
        if rules.strikes_self and k == row - 1:
            struck = log_value
            rows.pi[row, k] = -np.inf
        else:
            total = log_add(total, log_value)
    rows.log_pi_tail[row] = -np.inf
    if rules.reaches_tail[row]:
        shape = row_concentration(weights, row) * math.exp(weights.tail[TAIL_G] - log_norm)
        rows.log_pi_tail[row] = draw_log_gamma(rng, shape)
        total = log_add(total, rows.log_pi_tail[row])
    for k in range(count):
        rows.pi[row, k] = math.exp(rows.pi[row, k] - total)
    rows.log_pi_tail[row] -= total
    rows.pi_tail[row] = math.exp(rows.log_pi_tail[row])
    rows.self_odds[row] = math.exp(min(struck - total, 700.0))
    rows.ready[row] = True
