"""What stands above the transition rows, and the rows themselves: weights, tables, hyperparameters.

Row 0 is the start; row m + 1 belongs to state m. Of the infinitely many states the first M are instantiated, the rest
is one lump, the *tail*. Symbols of the paper:

    log_w, tail_w      ln w_k and ln of the tail's sum      (sticks; logit_v holds logit v_k)
    log_g, tail_g      ln gamma_k and ln gamma_+            (for the HDP models, which have no gamma level: again ln w)
    pi, log_pi_tail    transition probabilities, ln pi_m+
    hyper              alpha0, alpha1, c, d, rho            (sticky: hyper[ALPHA1] is alpha1 + kappa)

Everything that can underflow is kept as a logarithm: weights of 1e-300 and below are routine, not exceptional.

Departures from the paper (each shown by the joint-distribution tests, which fail with the paper's formula):
* gamma of a state has rate 1 + the sum of L_j over the rows j that can reach it. For left-to-right topologies the paper
  prints the sum over j > m where j < m is right.
* L_j has as rate the sum of gamma over V_j, and is absent where row j seats nobody.
* A new state's share of gamma_+ is Beta(alpha0 w_new, alpha0 w_+), not the Beta(1, alpha0 w_+) of sticks over a
  diffuse base measure: ours is atomic, atoms repeat.
* w, c and d are drawn given the tables with gamma integrated out; alpha0 and alpha1 have conjugate updates. The paper's
  Metropolis steps are not needed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream._special import SMALLEST_LOG, draw_log_beta, draw_log_gamma, log_add, log_gamma, log_sigmoid
from ishsmm_stream.batch.slice_sampler import STICK_CONCENTRATION, STICK_DISCOUNT, TILTED_BETA, slice_step
from ishsmm_stream.model import presets
from ishsmm_stream.model.presets import Model
from ishsmm_stream.model.priors import Beta, Gamma

ALPHA0, ALPHA1, C, D, RHO = 0, 1, 2, 3, 4
HYPERPARAMETERS = ("alpha0", "alpha1", "c", "d", "rho")

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


TAIL_W, TAIL_G = 0, 1


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


@kernel
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


@kernel
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


# The blocked update of everything above the rows


@kernel
def _log_rising(start, concentration):
    """ln Gamma(start + concentration) - ln Gamma(start), the leading terms where lgamma would cancel."""
    if start > 1e7 * (1.0 + concentration):
        return concentration * math.log(start) + 0.5 * concentration * (concentration - 1.0) / start
    return log_gamma(start + concentration) - log_gamma(start)


@kernel
def draw_tables(rng, customers, concentration):
    """CRT: how many tables ``customers`` open in a Chinese restaurant; none where there are no customers.

    The first customer opens a table, customer j + 1 another one with probability concentration / (concentration + j).
    Beyond a few hundred customers the next opening is found by inversion: none opens one from j to n - 1 with
    probability Gamma(n) Gamma(a + j) / (Gamma(j) Gamma(a + n)).
    """
    if customers == 0:
        return 0
    tables = 1
    for seated in range(1, min(customers, 300)):
        if rng.random() * (concentration + seated) < concentration:
            tables += 1
    seated = 300
    while seated < customers:
        # the opening comes after the largest n with ln P(none up to n) >= ln U
        target = _log_rising(float(seated), concentration) - math.log(1.0 - rng.random())
        if _log_rising(float(customers), concentration) <= target:
            break
        below, above = seated, customers
        while above - below > 1:
            middle = below + (above - below) // 2
            if _log_rising(float(middle), concentration) <= target:
                below = middle
            else:
                above = middle
        tables += 1
        seated = above
    return tables


@kernel
def _add_struck_transitions(rng, rows, counts):
    """HDP-HSMM: the self-transitions that were drawn and struck out before each departure, a geometric number."""
    for m in range(counts.shape[1]):
        departures = 0
        for k in range(counts.shape[1]):
            departures += counts[m + 1, k]
        if departures > 0:
            # a sum of geometric numbers is Poisson with a gamma rate; beyond 1e15 the odds are 1 for doubles
            rate = rng.standard_gamma(float(departures)) * rows.self_odds[m + 1]
            counts[m + 1, m] = rng.poisson(min(rate, 1e15))


@kernel
def _seat(rng, rules, weights, log_norm, counts, tables):
    """l_mk ~ CRT(C_mk, alpha1 beta_mk). Returns the tables that the sticky mass kappa opened itself, taken out of
    ``tables``, and the number of all tables in the rows of states."""
    overrides = 0
    seated = 0
    count = counts.shape[1]
    for row in range(count + 1):
        for k in range(count):
            concentration = prior_count(rules, weights, log_norm[row], row, k)
            opened = draw_tables(rng, counts[row, k], concentration)
            if row > 0:
                seated += opened
                if k == row - 1 and weights.hyper[RHO] > 0.0:
                    sticky = weights.hyper[ALPHA1] * weights.hyper[RHO] / concentration
                    for _ in range(opened):
                        if rng.random() < sticky:
                            overrides += 1
                            opened -= 1
            tables[row, k] = opened
    return overrides, seated


@kernel
def _log_exposure(rng, rules, log_norm, tables, exposure):
    """Lambda_k = ln(1 + sum of L_j over the rows j that reach k), L_j ~ Gamma(l_j., rate sum of gamma over V_j).

    The last entry of ``exposure`` is the tail's.
    """
    count = tables.shape[1]
    exposure[:] = 0.0
    for row in range(count + 1):
        total = 0
        for k in range(count):
            total += tables[row, k]
        if total > 0:
            log_l = draw_log_gamma(rng, float(total)) - log_norm[row]
            for k in range(count):
                if rules.allowed[row, k]:
                    exposure[k] = log_add(exposure[k], log_l)
            if rules.reaches_tail[row]:
                exposure[count] = log_add(exposure[count], log_l)


@kernel
def _update_sticks(rng, rules, weights, exposure, seats, facts):
    """w given the top tables t_k and the exposures, gamma integrated out, one stick at a time.

    Each stick is Beta(a_k, b_k) tilted by e^(-tilt v): in order, a_k = 1 - d + t_k and b_k = c + k d + t_{>k}; with the
    order forgotten (w_1..w_K, w_+) ~ Dir(t_k - d, c + K d), whose sticks have a_k = t_k - d, b_k the sum of the rest.
    """
    alpha0, c, d = weights.hyper[ALPHA0], weights.hyper[C], weights.hyper[D]
    count = seats.shape[0]
    log_before = np.empty(count)  # ln prod_{i<k} (1 - v_i)
    running = 0.0
    for k in range(count):
        log_before[k] = running
        running += log_sigmoid(-weights.logit_v[k])
    later = c + count * d if rules.index_free else 0.0
    rest = exposure[count]  # the mean exposure of what lies behind stick k
    for k in range(count - 1, -1, -1):
        if rules.index_free:
            facts[0] = seats[k] - d
            facts[1] = later
            later += seats[k] - d
        else:
            facts[0] = 1.0 - d + seats[k]
            facts[1] = c + (k + 1) * d + later
            later += seats[k]
        facts[2] = alpha0 * math.exp(log_before[k]) * (exposure[k] - rest)
        weights.logit_v[k] = slice_step(rng, TILTED_BETA, weights.logit_v[k], facts)
        v = math.exp(log_sigmoid(weights.logit_v[k]))
        rest = v * exposure[k] + (1.0 - v) * rest


@kernel
def _weights_from_sticks(weights, count):
    running = 0.0
    for k in range(count):
        weights.log_w[k] = running + log_sigmoid(weights.logit_v[k])
        running += log_sigmoid(-weights.logit_v[k])
    weights.tail[TAIL_W] = running


@kernel
def _sticks_from_weights(weights, count):
    rest = weights.tail[TAIL_W]
    for k in range(count - 1, -1, -1):
        weights.logit_v[k] = weights.log_w[k] - rest
        rest = log_add(rest, weights.log_w[k])


@kernel
def _update_stick_prior(rng, rules, weights, count, facts):
    """c and d given the sticks; c is conjugate where d = 0."""
    hyper = weights.hyper
    if not (rules.sampled[C] or rules.sampled[D]):
        return
    if rules.sampled[C] and not rules.sampled[D] and hyper[D] == 0.0:
        shape = rules.prior[C, 0] + count
        hyper[C] = rng.standard_gamma(shape) / (rules.prior[C, 1] - weights.tail[TAIL_W])
        return
    facts[:] = 0.0
    facts[0] = 0.0 if rules.index_free else 1.0
    facts[1] = count
    if rules.index_free:
        for k in range(count):
            facts[2] += weights.log_w[k]
        facts[3] = weights.tail[TAIL_W]
    else:
        for k in range(count):
            facts[2] += log_sigmoid(weights.logit_v[k])
            facts[3] += log_sigmoid(-weights.logit_v[k])
            facts[4] += (k + 1) * log_sigmoid(-weights.logit_v[k])
    if rules.sampled[C]:
        facts[5] = hyper[D]
        facts[6] = rules.prior[C, 0]
        facts[7] = rules.prior[C, 1]
        hyper[C] = math.exp(slice_step(rng, STICK_CONCENTRATION, math.log(hyper[C]), facts))
    if rules.sampled[D]:
        facts[5] = hyper[C]
        facts[6] = rules.prior[D, 0]
        facts[7] = rules.prior[D, 1]
        logit = math.log(hyper[D]) - math.log1p(-hyper[D])
        hyper[D] = math.exp(log_sigmoid(slice_step(rng, STICK_DISCOUNT, logit, facts)))


@kernel
def _update_gamma_level(rng, rules, weights, log_norm, tables, facts):
    """w, c, d, alpha0 and gamma of the gamma-process hierarchy."""
    count = tables.shape[1]
    hyper = weights.hyper
    exposure = np.empty(count + 1)
    _log_exposure(rng, rules, log_norm, tables, exposure)
    column = np.zeros(count, dtype=np.int64)
    seats = np.zeros(count)
    top = 0.0
    for k in range(count):
        for row in range(count + 1):
            column[k] += tables[row, k]
        seats[k] = draw_tables(rng, column[k], hyper[ALPHA0] * math.exp(weights.log_w[k]))
        top += seats[k]
    if not rules.finite:
        _update_sticks(rng, rules, weights, exposure, seats, facts)
        _weights_from_sticks(weights, count)
        _update_stick_prior(rng, rules, weights, count, facts)
    if rules.sampled[ALPHA0]:
        # exposure is about 1 / w where w is tiny, so the product is not: it is made of logarithms
        rate = rules.prior[ALPHA0, 1]
        if exposure[count] > 0.0:
            rate += math.exp(weights.tail[TAIL_W] + math.log(exposure[count]))
        for k in range(count):
            if exposure[k] > 0.0:
                rate += math.exp(weights.log_w[k] + math.log(exposure[k]))
        hyper[ALPHA0] = rng.standard_gamma(rules.prior[ALPHA0, 0] + top) / rate
    for k in range(count):
        shape = hyper[ALPHA0] * math.exp(weights.log_w[k]) + column[k]
        weights.log_g[k] = max(draw_log_gamma(rng, shape) - exposure[k], SMALLEST_LOG)
    shape = hyper[ALPHA0] * math.exp(weights.tail[TAIL_W])
    weights.tail[TAIL_G] = -np.inf
    if not rules.finite:
        weights.tail[TAIL_G] = max(draw_log_gamma(rng, shape) - exposure[count], SMALLEST_LOG)


@kernel
def _update_top_process(rng, rules, weights, tables, facts):
    """w and c of the HDP models: (w_1..w_K, w_+) ~ Dir(l_.1..l_.K, c)."""
    count = tables.shape[1]
    weights.tail[TAIL_W] = draw_log_gamma(rng, weights.hyper[C])
    total = weights.tail[TAIL_W]
    for k in range(count):
        column = 0
        for row in range(count + 1):
            column += tables[row, k]
        weights.log_w[k] = draw_log_gamma(rng, float(column))
        total = log_add(total, weights.log_w[k])
    for k in range(count):
        weights.log_w[k] -= total
        weights.log_g[k] = weights.log_w[k]
    weights.tail[TAIL_W] -= total
    _update_stick_prior(rng, rules, weights, count, facts)
    weights.tail[TAIL_G] = weights.tail[TAIL_W]


@kernel
def _update_row_concentration(rng, rules, weights, counts, tables_opened, overrides, seated):
    """alpha1 (sticky: alpha1 + kappa, then rho): conjugate given eta_m ~ Beta(mass of row m, C_m.)."""
    hyper = weights.hyper
    if rules.sampled[ALPHA1]:
        count = counts.shape[1]
        rate = rules.prior[ALPHA1, 1]
        for row in range(count + 1):
            total = 0
            reachable = 0
            for k in range(count):
                total += counts[row, k]
                reachable += rules.allowed[row, k]
            if total > 0:
                # A flat row has mass alpha1 / K at each state that it can reach, the others alpha1 in all.
                mass = reachable / count if rules.kind == FLAT else 1.0
                log_eta, _ = draw_log_beta(rng, math.log(hyper[ALPHA1] * mass), math.log(float(total)))
                rate -= mass * log_eta
        hyper[ALPHA1] = rng.standard_gamma(rules.prior[ALPHA1, 0] + tables_opened) / rate
    if rules.sampled[RHO]:
        log_rho, _ = draw_log_beta(
            rng, math.log(rules.prior[RHO, 0] + overrides), math.log(rules.prior[RHO, 1] + seated - overrides)
        )
        hyper[RHO] = min(math.exp(log_rho), 1.0 - 1e-12)


@kernel
def resample_hierarchy(rng, rules, weights, rows, counts):
    """One update of everything above and in the rows, given the transition counts C (paper: l, L, w, gamma, pi and the
    hyperparameters). ``counts`` has a row more than columns; one column for every instantiated state."""
    count = counts.shape[1]
    if rules.strikes_self:
        _add_struck_transitions(rng, rows, counts)
    log_norm = np.empty(count + 1)
    for row in range(count + 1):
        log_norm[row] = row_log_norm(rules, weights, row, count)
    tables = np.zeros((count + 1, count), dtype=np.int64)
    overrides, seated = _seat(rng, rules, weights, log_norm, counts, tables)
    opened = overrides
    for row in range(count + 1):
        for k in range(count):
            opened += tables[row, k]
    facts = np.zeros(8)
    if rules.kind == GAMMA_LEVEL:
        _update_gamma_level(rng, rules, weights, log_norm, tables, facts)
    elif rules.kind == NO_GAMMA_LEVEL:
        _update_top_process(rng, rules, weights, tables, facts)
    _update_row_concentration(rng, rules, weights, counts, opened, overrides, seated)


@kernel
def resample_rows(rng, rules, weights, rows, counts):
    """pi of every state that was left, and of the start. The other rows are drawn when the beam comes to them."""
    count = counts.shape[1]
    rows.ready[:] = False
    for row in range(count + 1):
        for k in range(count):
            if counts[row, k] > 0:
                draw_row(rng, rules, weights, rows, counts, row, count)
                break


# Between sweeps


@kernel
def compact(rules, weights, rows, labels, count):
    """Forget the instantiated states that no segment uses; return how many are left.

    Forgetting is marginalising: their weights go back to the tail. Where states carry no order all unused ones go;
    otherwise only those behind the last one in use (and behind what its row must know one by one).
    """
    if rules.finite:
        return count
    used = np.zeros(count, dtype=np.bool_)
    for i in range(labels.shape[0]):
        used[labels[i]] = True
    if not rules.index_free:
        keep = 0
        for k in range(count):
            if used[k]:
                keep = max(keep, k + 1, rules.horizon[k + 1])
        keep = min(keep, count)
        for k in range(keep, count):
            weights.tail[TAIL_W] = log_add(weights.tail[TAIL_W], weights.log_w[k])
            weights.tail[TAIL_G] = log_add(weights.tail[TAIL_G], weights.log_g[k])
        return keep
    new = np.zeros(count, dtype=np.int64)
    keep = 0
    for k in range(count):
        if used[k]:
            new[k] = keep
            weights.log_w[keep] = weights.log_w[k]
            weights.log_g[keep] = weights.log_g[k]
            rows.self_odds[keep + 1] = rows.self_odds[k + 1]
            keep += 1
        else:
            weights.tail[TAIL_W] = log_add(weights.tail[TAIL_W], weights.log_w[k])
            weights.tail[TAIL_G] = log_add(weights.tail[TAIL_G], weights.log_g[k])
    for i in range(labels.shape[0]):
        labels[i] = new[labels[i]]
    _sticks_from_weights(weights, keep)
    return keep


@kernel
def count_transitions(labels, count):
    """C_mk: how often state k follows state m in the segments; row 0 counts the first segment's state."""
    counts = np.zeros((count + 1, count), dtype=np.int64)
    counts[0, labels[0]] = 1
    for i in range(1, labels.shape[0]):
        counts[labels[i - 1] + 1, labels[i]] += 1
    return counts


@kernel
def _log_transitions(rules, weights, counts):
    """ln p(labels | gamma, hyperparameters), the rows integrated out."""
    count = counts.shape[1]
    total = 0.0
    for row in range(count + 1):
        log_norm = row_log_norm(rules, weights, row, count)
        mass = 0.0
        customers = 0
        if rules.reaches_tail[row]:
            mass = row_concentration(weights, row) * math.exp(weights.tail[TAIL_G] - log_norm)
        for k in range(count):
            if rules.strikes_self and k == row - 1:
                continue  # a struck-out row is Dirichlet over what is left
            prior = prior_count(rules, weights, log_norm, row, k)
            mass += prior
            if counts[row, k] > 0:
                customers += counts[row, k]
                total += log_gamma(prior + counts[row, k]) - log_gamma(prior)
        if customers > 0:
            total += log_gamma(mass) - log_gamma(mass + customers)
    return total


@kernel
def refresh_left_to_right(rng, rules, weights, labels):
    """Draw the indices of a left-to-right path anew, with the weights, from the prior; return the states instantiated.

    Given its segments a left-to-right path says nothing about w, gamma or which indices it visits, so this is an exact
    Gibbs step. It takes away the bottleneck that no index may be free between two neighbours. -1: out of room.
    """
    count = reset_weights(rng, rules, weights)
    here = -1
    for i in range(labels.shape[0]):
        total = weights.tail[TAIL_G]
        for k in range(here + 1, count):
            total = log_add(total, weights.log_g[k])
        target = rng.random()
        chosen = -1
        for k in range(here + 1, count):
            target -= math.exp(weights.log_g[k] - total)
            if target < 0.0:
                chosen = k
                break
        while chosen < 0:
            if count == weights.log_w.shape[0]:
                return -1
            before = weights.tail[TAIL_G]
            break_stick(rng, rules, weights, count)
            if math.log(1.0 - rng.random()) < weights.log_g[count] - before:
                chosen = count
            count += 1
        labels[i] = chosen
        here = chosen
    return count


@kernel
def update_hierarchy(rng, rules, weights, rows, labels, count, refresh_indices):
    """Everything above the trajectory but its parameters; returns the states kept, -1 where they ran out of room.

    ``labels`` are renumbered in place where states are forgotten or, left-to-right, their indices drawn anew.
    """
    if refresh_indices:
        count = refresh_left_to_right(rng, rules, weights, labels)
        if count < 0:
            return -1
    else:
        count = compact(rules, weights, rows, labels, count)
    counts = count_transitions(labels, count)
    resample_hierarchy(rng, rules, weights, rows, counts)
    resample_rows(rng, rules, weights, rows, counts)
    return count


@kernel
def log_labels(rules, weights, labels, count):
    """ln p(labels | gamma, hyperparameters), the rows integrated out."""
    return _log_transitions(rules, weights, count_transitions(labels, count))
