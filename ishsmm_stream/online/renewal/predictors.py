"""What the run-length filter asks of an emission family: predictions of all hypotheses at once.

Any conjugate family serves: each hypothesis has the sufficient statistics of its own segment.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream._jit import by_family
from ishsmm_stream.model import emissions
from ishsmm_stream.model.emissions import autoregressive, family
from ishsmm_stream.online.validation import FLOAT, Field, check, require

CONJUGATE = (  # Normal has a faster predictor of its own
    emissions.MultivariateNormal,
    emissions.Poisson,
    emissions.Categorical,
    emissions.Autoregressive,
    emissions.Mixed,
)


@by_family
def make_memory(emission, cap):
    """Room for what ``cap`` hypotheses know: a NamedTuple of arrays. Plain Python."""


@by_family
def at(emission, memories, i):
    """The memory in room ``i`` of a block."""


@by_family
def open_first(emission, memory, position):
    """A hypothesis for the first segment of the stream."""


@by_family
def summarise(emission, memory, shares, total, count):
    """Note what the next segment can know from those before it: the hypotheses end with weights ``shares``."""


@by_family
def open_next(emission, memory, position):
    """A hypothesis for a segment that follows what ``summarise`` has noted."""


@by_family
def predict(emission, memory, y, row, count, likelihood):
    """Fill ``likelihood`` with p(y_row | each hypothesis) / e^top and return top."""


@by_family
def learn(emission, memory, y, row, count):
    """Take y_row into every hypothesis."""


@by_family
def level_and_noise(emission, memory, position):
    """The mean and the standard deviation of a hypothesis's segment; nan where the family has none."""


@by_family
def pack(emission, memory, count):
    """The arrays that the next observation depends on, for a snapshot. Plain Python."""


@by_family
def unpack(emission, memory, count, arrays):
    """Fill a new memory with what ``pack`` made. Plain Python."""


@by_family
def check_packed(emission, count, arrays):
    """Raise SnapshotError unless ``arrays`` can be what ``pack`` made of ``count`` hypotheses. Returns the names of the
    arrays. Plain Python."""


@by_family
def memory_bytes(emission, cap):
    """How much memory ``make_memory`` takes. Plain Python."""


class Conjugate(NamedTuple):
    """The memory of a conjugate family."""

    stats: np.ndarray  # (cap, numbers)


def _make_memory(emission: Any, cap: int) -> Conjugate:
    return Conjugate(np.zeros((cap, family.stats_size(emission))))


def _at(emission, memories, i):
    return Conjugate(memories.stats[i])


def _open_first(emission, memory, position):
    family.clear(emission, memory.stats[position])


def _summarise(emission, memory, shares, total, count):
    pass


def _predict(emission, memory, y, row, count, likelihood):
    top = -np.inf
    for i in range(count):
        likelihood[i] = family.log_predictive(emission, memory.stats[i], y, row)
        top = max(top, likelihood[i])
    for i in range(count):
        likelihood[i] = math.exp(likelihood[i] - top)
    return top


def _learn(emission, memory, y, row, count):
    for i in range(count):
        family.add(emission, memory.stats[i], y, row)


def _level_and_noise(emission, memory, position):
    return np.nan, np.nan


def _pack(emission, memory, count):
    return {"stats": memory.stats[:count]}


def _unpack(emission, memory, count, arrays):
    memory.stats[:count] = arrays["stats"]


def _check_packed(emission, count, arrays):
    check(arrays, {"stats": Field(FLOAT, (count, family.stats_size(emission)))})
    require(family.are_valid(emission, arrays["stats"]), "statistics are those of possible data")
    return {"stats"}


def _memory_bytes(emission, cap):
    return 8 * cap * family.stats_size(emission)


for _family in CONJUGATE:
    make_memory.register(_family)(_make_memory)
    at.register(_family)(_at)
    open_first.register(_family)(_open_first)
    summarise.register(_family)(_summarise)
    open_next.register(_family)(_open_first)
    predict.register(_family)(_predict)
    learn.register(_family)(_learn)
    level_and_noise.register(_family)(_level_and_noise)
    pack.register(_family)(_pack)
    unpack.register(_family)(_unpack)
    check_packed.register(_family)(_check_packed)
    memory_bytes.register(_family)(_memory_bytes)


@learn.register(emissions.Autoregressive, owning=True)
def _learn_autoregressive(emission, memory, y, row, count):
    work = np.empty(autoregressive.dimension(emission))  # once for all hypotheses
    for i in range(count):
        autoregressive.add_in_room(emission, memory.stats[i], y, row, work)
