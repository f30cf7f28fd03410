"""The update of everything above the rows, and of the rows, given a trajectory. ``weights.py`` explains the symbols.

Departures from the paper (each shown by the joint-distribution tests, which fail with the paper's formula):
* gamma of a state has rate 1 + the sum of L_j over the rows j that can reach it. For left-to-right topologies the paper
  prints the sum over j > m where j < m is right.
* L_j has as rate the sum of gamma over V_j, and is absent where row j seats nobody.
* w, c and d are drawn given the tables with gamma integrated out; alpha0 and alpha1 have conjugate updates. The paper's
  Metropolis steps are not needed.
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import (
    SMALLEST_LOG,
    draw_log_beta,
    draw_log_gamma,
    draw_poisson,
    log_add,
    log_gamma,
    log_gamma_ratio,
    log_sigmoid,
)
from ishsmm_stream.batch.slice_sampler import STICK_CONCENTRATION, STICK_DISCOUNT, TILTED_BETA, slice_step
from ishsmm_stream.batch.weights import (
    ALPHA0,
    ALPHA1,
    FLAT,
    GAMMA_LEVEL,
    NO_GAMMA_LEVEL,
    RHO,
    TAIL_G,
    TAIL_W,
    C,
    D,
    break_stick,
    draw_row,
    prior_count,
    reset_weights,
    row_concentration,
    row_log_norm,
)

_SMALLEST_PRIOR = 1e-200  # of a row's Dirichlet law; below, logarithms are used

# Tables


@owning_kernel
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
        target = log_gamma_ratio(float(seated), concentration) - math.log(1.0 - rng.random())
        if log_gamma_ratio(float(customers), concentration) <= target:
            break
        below, above = seated, customers
        while above - below > 1:
            middle = below + (above - below) // 2
            if log_gamma_ratio(float(middle), concentration) <= target:
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
            counts[m + 1, m] = draw_poisson(rng, min(rate, 1e15))


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


# Weights and hyperparameters given the tables


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


@owning_kernel
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


@owning_kernel
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


@owning_kernel
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


@owning_kernel
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


@owning_kernel
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
                total += log_gamma(prior + counts[row, k])
                if prior > _SMALLEST_PRIOR:
                    total -= log_gamma(prior)
                else:  # Gamma(x) = 1 / x, and x may be zero for doubles
                    total += math.log(row_concentration(weights, row)) + weights.log_g[k] - log_norm
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


@owning_kernel
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


@owning_kernel
def log_labels(rules, weights, labels, count):
    """ln p(labels | gamma, hyperparameters), the rows integrated out."""
    return _log_transitions(rules, weights, count_transitions(labels, count))
