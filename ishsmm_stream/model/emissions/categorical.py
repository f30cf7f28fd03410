"""Category numbers with a Dirichlet prior on their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._special import SMALLEST_LOG, draw_index, draw_log_gamma, log_add, log_gamma
from ishsmm_stream.model.emissions import family


class _CategoricalFields(NamedTuple):
    concentration: tuple[float, ...]


class Categorical(_CategoricalFields):
    """P(y = k) = p_k for k = 0, ..., C - 1, with p ~ Dirichlet(concentration).

    ``concentration`` is one number a category, or a single number together with the number of ``categories``.

    Statistics: the posterior concentrations (prior plus counts) and their sum.
    Parameter: ln p.

    >>> Categorical(0.5, categories=3)
    Categorical(concentration=(0.5, 0.5, 0.5))
    """

    __slots__ = ()

    def __new__(cls, concentration: float | Sequence[float], categories: int | None = None):
        return super().__new__(cls, _checked_concentration(concentration, categories))

    @classmethod
    def weak_numbers(cls, values: np.ndarray) -> dict[str, Any]:
        """Return the numbers of a weak prior for series like ``values`` (length, channels)."""
        return {"concentration": 1.0, "categories": max(2, int(np.nanmax(values)) + 1)}


def _checked_concentration(concentration: Any, categories: Any) -> tuple[float, ...]:
    if categories is not None:
        return (_checks.positive("concentration", concentration),) * _checks.whole("categories", categories, 2)
    try:
        values = list(concentration)
    except TypeError:
        raise ValueError(
            "concentration must be a sequence of numbers, one a category, or a number together with categories, "
            f"got {concentration!r}"
        ) from None
    if len(values) < 2:
        raise ValueError(f"concentration must hold at least 2 numbers, one a category, got {concentration!r}")
    return tuple(_checks.positive(f"concentration[{k}]", value) for k, value in enumerate(values))


@family.stats_size.register(Categorical)
def _stats_size(prior):
    return len(prior.concentration) + 1


@family.params_size.register(Categorical)
def _params_size(prior):
    return len(prior.concentration)


@family.clear.register(Categorical)
def _clear(prior, stats):
    categories = len(prior.concentration)
    total = 0.0
    for k in range(categories):
        stats[k] = prior.concentration[k]
        total += prior.concentration[k]
    stats[categories] = total


@family.add.register(Categorical)
def _add(prior, stats, y, t):
    value = y[t, 0]
    if not np.isnan(value):
        stats[int(value)] += 1.0
        stats[len(prior.concentration)] += 1.0


@family.log_predictive.register(Categorical)
def _log_predictive(prior, stats, y, t):
    value = y[t, 0]
    if np.isnan(value):
        return 0.0
    return math.log(stats[int(value)] / stats[len(prior.concentration)])


@family.log_marginal.register(Categorical)
def _log_marginal(prior, stats):
    categories = len(prior.concentration)
    total = 0.0
    result = 0.0
    for k in range(categories):
        total += prior.concentration[k]
        result += log_gamma(stats[k]) - log_gamma(prior.concentration[k])
    return result + log_gamma(total) - log_gamma(stats[categories])


@family.draw_parameters.register(Categorical)
def _draw_parameters(prior, stats, rng, params):
    categories = len(prior.concentration)
    total = -np.inf
    for k in range(categories):
        params[k] = draw_log_gamma(rng, stats[k])
        total = log_add(total, params[k])
    if total <= SMALLEST_LOG:  # concentrations so small that even the logarithms overflow: one category has it all
        params[draw_index(rng, stats, categories)] = 0.0
        total = 0.0
    for k in range(categories):
        params[k] -= total


@family.log_density.register(Categorical)
def _log_density(prior, params, y, t):
    value = y[t, 0]
    if np.isnan(value):
        return 0.0
    return params[int(value)]


@family.simulate.register(Categorical)
def _simulate(prior, params, rng, y, t, position):
    target = rng.random()
    category = 0
    for k in range(len(prior.concentration)):
        probability = math.exp(params[k])
        if probability > 0.0:
            category = k
            target -= probability
            if target < 0.0:
                break
    y[t, 0] = category


@family.are_valid.register(Categorical)
def _are_valid(prior, stats):
    return family.within(stats, 1e-300, 1e300)


@family.check_data.register(Categorical)
def _check_data(prior, y):
    family.require_channels(y, 1, "Categorical")
    values = y[:, 0]
    last = len(prior.concentration) - 1
    wrong = ~np.isnan(values) & ((values < 0.0) | (values > last) | (values != np.floor(values)))
    if wrong.any():
        t = int(np.argmax(wrong))
        raise ValueError(
            f"y[{t}] is {values[t]:g}, but this Categorical takes whole numbers from 0 to {last} (NaN where missing)"
        )


@family.parameter_names.register(Categorical)
def _parameter_names(prior):
    return tuple(f"probability[{k}]" for k in range(len(prior.concentration)))


@family.describe.register(Categorical)
def _describe(prior, params):
    return tuple(math.exp(value) for value in params)


@family.location.register(Categorical)
def _location(prior, params, y, t, position):
    return (sum(k * math.exp(value) for k, value in enumerate(params)),)
