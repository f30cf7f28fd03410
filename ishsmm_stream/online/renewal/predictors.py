"""What the run-length filter asks of an emission family: predictions of all hypotheses at once.

The bodies here are the defaults, which serve any conjugate family: each hypothesis has the sufficient statistics of its
own segment. A family with a faster way registers its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import by_family_or_default
from ishsmm_stream.model import emissions
from ishsmm_stream.model.emissions import autoregressive, family
from ishsmm_stream.online.validation import FLOAT, Field, check, require


class ConjugateMemory(NamedTuple):
    """The memory of a conjugate family."""

    stats: np.ndarray  # (cap, numbers)


@by_family_or_default
def make_memory(emission, cap):
    """Make space for what ``cap`` hypotheses know: a NamedTuple of arrays. Plain Python."""
    return ConjugateMemory(np.zeros((cap, family.stats_size(emission))))


@by_family_or_default
def slot_view(emission, memories, slot):
    """Return the memory in a slot of a slab."""
    return ConjugateMemory(memories.stats[slot])


@by_family_or_default
def statistics(emission, memory):
    """Return the family's statistics of each hypothesis, (cap, numbers). Plain Python."""
    return memory.stats


@by_family_or_default
def open_first(emission, memory, position):
    """Open a hypothesis for the first segment of the stream."""
    family.clear(emission, memory.stats[position])


@by_family_or_default
def summarise(emission, memory, shares, total, count):
    """Note what the next segment can know from those before it: the hypotheses end with weights ``shares``."""


@by_family_or_default
def open_next(emission, memory, position):
    """Open a hypothesis for a segment that follows what ``summarise`` has noted."""
    open_first(emission, memory, position)


@by_family_or_default
def predict(emission, memory, y, row, count, likelihood):
    """Fill ``likelihood`` with p(y_row | each hypothesis) / e^top and return top."""
    top = -np.inf
    for i in range(count):
        likelihood[i] = family.log_predictive(emission, memory.stats[i], y, row)
        top = max(top, likelihood[i])
    for i in range(count):
        likelihood[i] = math.exp(likelihood[i] - top)
    return top


@by_family_or_default
def learn(emission, memory, y, row, count):
    """Take y_row into every hypothesis."""
    for i in range(count):
        family.add(emission, memory.stats[i], y, row)


@learn.register(emissions.Autoregressive, owning=True)
def _learn_autoregressive(emission, memory, y, row, count):
    scratch = np.empty(autoregressive.dimension(emission))  # once for all hypotheses
    for i in range(count):
        autoregressive.add_with_scratch(emission, memory.stats[i], y, row, scratch)


@by_family_or_default
def level_and_noise(emission, memory, position):
    """Return the mean and the standard deviation of a hypothesis's segment; NaN if the family has none."""
    return np.nan, np.nan


@by_family_or_default
def pack(emission, memory, count):
    """Return the arrays that the next observation depends on, for a snapshot. Plain Python."""
    return {"stats": memory.stats[:count]}


@by_family_or_default
def unpack(emission, memory, count, arrays):
    """Fill a new memory with what ``pack`` made. Plain Python."""
    memory.stats[:count] = arrays["stats"]


@by_family_or_default
def check_packed(emission, count, arrays):
    """Raise SnapshotError unless ``arrays`` can be what ``pack`` made of ``count`` hypotheses.

    Returns the names of the arrays. Plain Python.
    """
    check(arrays, {"stats": Field(FLOAT, (count, family.stats_size(emission)))})
    require(family.are_valid(emission, arrays["stats"]), "statistics are those of possible data")
    return {"stats"}


@by_family_or_default
def memory_bytes(emission, cap):
    """Return how much memory ``make_memory`` takes. Plain Python."""
    return 8 * cap * family.stats_size(emission)
