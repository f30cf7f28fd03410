"""Several families side by side: every segment is of one of them, which one is inferred."""

# ruff: noqa: SIM113 (what literal_unroll gives cannot be enumerated in a kernel)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import literal_unroll

from ishsmm_stream import _checks
from ishsmm_stream._jit import kernel
from ishsmm_stream._special import draw_index, log_add
from ishsmm_stream.model.emissions import family


class _MixedFields(NamedTuple):
    families: tuple[Any, ...]
    weights: tuple[float, ...]


class Mixed(_MixedFields):
    """A segment's observations all come from one family f, chosen with probability p_f (``weights``, uniform if None).

    The marginal likelihood of a segment is m(block) = sum_f p_f m_f(block), so that the mixture is as conjugate as its
    families, and the prediction is ln m(block and y_t) - ln m(block). It follows from this definition also where y_t
    has a likelihood term in one family and none in another (an autoregression whose lags are missing): the family
    without a term takes part with a factor of 1. Every family must be able to produce the data, and densities are
    compared as they stand: a probability of a count against a density per unit of y.

    Statistics: ln p_f + ln m_f for every family, then the families' own statistics one after another.
    Parameter: the index of the family, then the families' parameters one after another; all but the chosen one's are 0.

    >>> from ishsmm_stream.model.emissions import Autoregressive, Normal
    >>> Mixed((Normal(), Autoregressive()), weights=(3, 1)).weights
    (0.75, 0.25)
    """

    __slots__ = ()

    def __new__(cls, families: Sequence[Any], weights: Sequence[float] | None = None) -> Mixed:
        checked = _checked_families(families)
        return super().__new__(cls, checked, _checked_weights(weights, len(checked)))


def _checked_families(families: Any) -> tuple[Any, ...]:
    # A single emission prior is a tuple too, of numbers.
    if not isinstance(families, (tuple, list)) or type(families) in family.log_marginal.bodies:
        raise ValueError(f"families must be a sequence of emission priors, got {families!r}")
    if len(families) < 2:
        raise ValueError(f"families must hold at least 2 emission priors, got {families!r}")
    for i, prior in enumerate(families):
        if isinstance(prior, Mixed):
            raise ValueError(f"families[{i}] is Mixed itself; put its families into this one")
        if type(prior) not in family.log_marginal.bodies:
            raise ValueError(f"families[{i}] must be an emission prior, got {prior!r}")
        if family.has_first_law(prior):
            raise ValueError(f"families[{i}] is {type(prior).__name__}, which cannot be one of several")
    channels = [family.channels(prior) for prior in families]
    if len(set(channels)) > 1:
        raise ValueError(f"families must have the same number of channels, got {channels}")
    return tuple(families)


def _checked_weights(weights: Any, count: int) -> tuple[float, ...]:
    if weights is None:
        return (1.0 / count,) * count
    try:
        values = [_checks.positive(f"weights[{i}]", value) for i, value in enumerate(weights)]
    except TypeError:
        raise ValueError(f"weights must be a sequence of numbers, one a family, got {weights!r}") from None
    if len(values) != count:
        raise ValueError(f"weights must hold one number a family, {count}, got {len(values)}: {weights!r}")
    total = math.fsum(values)
    if abs(total - 1.0) < 1e-12:  # left as they are: a copy of a prior is equal to it
        return tuple(values)
    return tuple(value / total for value in values)


@kernel
def _log_total(logs, count):
    """ln of the sum of the first ``count`` numbers given by their logarithms."""
    total = -np.inf
    for f in range(count):
        total = log_add(total, logs[f])
    return total


@family.stats_size.register(Mixed)
def _stats_size(prior):
    size = len(prior.weights)
    for member in literal_unroll(prior.families):
        size += family.stats_size(member)
    return size


@family.params_size.register(Mixed)
def _params_size(prior):
    size = 1
    for member in literal_unroll(prior.families):
        size += family.params_size(member)
    return size


@family.clear.register(Mixed)
def _clear(prior, stats):
    f = 0
    start = len(prior.weights)
    for member in literal_unroll(prior.families):
        end = start + family.stats_size(member)
        family.clear(member, stats[start:end])
        stats[f] = math.log(prior.weights[f])
        f += 1
        start = end


@family.add.register(Mixed)
def _add(prior, stats, y, t):
    f = 0
    start = len(prior.weights)
    for member in literal_unroll(prior.families):
        end = start + family.stats_size(member)
        own = stats[start:end]
        family.add(member, own, y, t)
        stats[f] = math.log(prior.weights[f]) + family.log_marginal(member, own)
        f += 1
        start = end


@family.log_predictive.register(Mixed)
def _log_predictive(prior, stats, y, t):
    before = _log_total(stats, len(prior.weights))
    after = -np.inf
    f = 0
    start = len(prior.weights)
    for member in literal_unroll(prior.families):
        end = start + family.stats_size(member)
        after = log_add(after, stats[f] + family.log_predictive(member, stats[start:end], y, t))
        f += 1
        start = end
    return after - before


@family.log_marginal.register(Mixed)
def _log_marginal(prior, stats):
    return _log_total(stats, len(prior.weights))


@family.draw_parameters.register(Mixed, owning=True)
def _draw_parameters(prior, stats, rng, params):
    count = len(prior.weights)
    total = _log_total(stats, count)
    weights = np.empty(count)
    for f in range(count):
        weights[f] = math.exp(stats[f] - total)
    chosen = draw_index(rng, weights, count)
    params[:] = 0.0
    params[0] = chosen
    f = 0
    start = count
    first = 1
    for member in literal_unroll(prior.families):
        end = start + family.stats_size(member)
        last = first + family.params_size(member)
        if f == chosen:
            family.draw_parameters(member, stats[start:end], rng, params[first:last])
        f += 1
        start = end
        first = last


@family.log_density.register(Mixed)
def _log_density(prior, params, y, t):
    result = 0.0
    f = 0
    first = 1
    for member in literal_unroll(prior.families):
        last = first + family.params_size(member)
        if f == params[0]:
            result = family.log_density(member, params[first:last], y, t)
        f += 1
        first = last
    return result


@family.simulate.register(Mixed)
def _simulate(prior, params, rng, y, t, position):
    f = 0
    first = 1
    for member in literal_unroll(prior.families):
        last = first + family.params_size(member)
        if f == params[0]:
            family.simulate(member, params[first:last], rng, y, t, position)
        f += 1
        first = last


@family.channels.register(Mixed)
def _channels(prior):
    return family.channels(prior.families[0])


@family.are_valid.register(Mixed)
def _are_valid(prior, stats):
    start = len(prior.weights)
    if not (family.within(stats[:, :start], -np.inf, 1e300) and (stats[:, :start] > -1e300).any(axis=1).all()):
        return False
    for member in prior.families:
        end = start + family.stats_size(member)
        if not family.are_valid(member, stats[:, start:end]):
            return False
        start = end
    return True


@family.check_data.register(Mixed)
def _check_data(prior, y):
    for member in prior.families:
        family.check_data(member, y)


@family.parameter_names.register(Mixed)
def _parameter_names(prior):
    names = ["family"]
    for f, member in enumerate(prior.families):
        names += [f"{f} {type(member).__name__} {name}" for name in family.parameter_names(member)]
    return tuple(names)


@family.describe.register(Mixed)
def _describe(prior, params):
    # the families that were not chosen have no parameters: NaN
    numbers = [params[0]]
    first = 1
    for f, member in enumerate(prior.families):
        last = first + family.params_size(member)
        if f == params[0]:
            numbers += family.describe(member, params[first:last])
        else:
            numbers += [math.nan] * len(family.parameter_names(member))
        first = last
    return tuple(numbers)


@family.location.register(Mixed)
def _location(prior, params, y, t, position):
    chosen = int(params[0])
    first = 1 + sum(family.params_size(member) for member in prior.families[:chosen])
    member = prior.families[chosen]
    return family.location(member, params[first : first + family.params_size(member)], y, t, position)


@family.is_segment_local.register(Mixed)
def _is_segment_local(prior):
    return any(family.is_segment_local(member) for member in prior.families)


@family.look_back.register(Mixed)
def _look_back(prior):
    return max(family.look_back(member) for member in prior.families)
