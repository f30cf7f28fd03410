"""Continuations of a stream from one chain: forecasts by simulation."""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import owning_kernel
from ishsmm_stream._special import draw_index
from ishsmm_stream.online.regimes import states, transitions
from ishsmm_stream.online.regimes.chains import GAP, LAST, shared


@owning_kernel
def _draw_level_and_noise(rng, sums, origin, phi, noise, spread):
    """(level, innovation variance) of a state given its readings."""
    kappa, level, a, b = states.posterior(sums, phi, noise, spread)
    s2 = b / rng.gamma(a, 1.0)
    return origin + level + math.sqrt(s2 / kappa) * rng.standard_normal(), s2


@owning_kernel
def _draw_next(rng, chains, i, options):
    """Draw the state after the current one; the number of states stands for a new one."""
    count, new = chains.count[i], transitions.new_probability(chains, i)
    for k in range(count):
        known = 0.0
        if k != chains.state[i]:
            known = (1.0 - new) * transitions.known_probability(chains, i, k)
        options[k] = known
    options[count] = new
    return draw_index(rng, options, count + 1)


@owning_kernel
def simulate(rng, chains, paths):
    """Fill each row of ``paths`` with a continuation of the stream. Hazards and transitions stay as they are."""
    empty = np.zeros(states.SUMS)
    options = np.empty(chains.uid.shape[1] + 1)
    for path in range(paths.shape[0]):
        i = draw_index(rng, chains.weight, chains.weight.shape[0])
        phi, noise, spread = shared(chains, i)
        own = chains.state[i]
        k = own
        level, s2 = _draw_level_and_noise(rng, chains.sums[i, k], chains.origin[i, k], phi, noise, spread)
        last, follows = chains.amounts[LAST], chains.follows[i]
        for step in range(paths.shape[1]):
            h = transitions.hazard(chains, i, chains.clock[GAP] if step == 0 else 0)
            if rng.random() < h:
                k = _draw_next(rng, chains, i, options)
                if k == chains.count[i]:  # a state that nobody knows: any known state may follow it
                    level, s2 = _draw_level_and_noise(rng, empty, 0.0, phi, noise, spread)
                else:
                    chains.state[i] = k
                    level, s2 = _draw_level_and_noise(rng, chains.sums[i, k], chains.origin[i, k], phi, noise, spread)
                follows = False
            if follows:
                last = level + phi * (last - level) + math.sqrt(s2) * rng.standard_normal()
            else:
                last = level + math.sqrt(s2 / (1.0 - phi * phi)) * rng.standard_normal()
            follows = True
            paths[path, step] = last
        chains.state[i] = own
