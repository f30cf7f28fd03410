"""The predictor that needs no tuning: robust regressions whose priors go on learning.

A segment is one of several regressions of y_t on (1, y_{t-1}, position in the segment): a constant level, and a level
with autocorrelation and drift. Their weights, and the noise that segments share, are learned from the segments that
ended. A reading that fits nothing is an outlier: with probability ``outliers`` it comes from a broad Cauchy, and the
statistics take it with the weight that it is none.

Two rules keep the outlier branch from explaining a new level away: a segment's first reading always counts in full, and
where the Cauchy explains it better than not, the segment's level is expected around that reading.

Learning from ended segments is prequential: a newborn hypothesis takes the mean, by their weights, of what the
hypotheses it may follow have learned. That is an approximation (the exact sum over their histories does not stay
bounded); with ``pool`` = 0 and one family nothing is learned, and the filter is exact for the sequential density.

Numbers of all hypotheses stand side by side, one array a number, for vector instructions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.model.emissions import Normal
from ishsmm_stream.online import lattice
from ishsmm_stream.online.renewal import predictors, vectorised
from ishsmm_stream.online.validation import FLOAT, LARGEST_COUNT, Field, check, columns, require

_DIMENSION = 3
ABSURD = 1e5  # a move between two readings, in units of the standardised stream
JUMP_PRIOR = 4.0  # what the prior variance of levels counts, in segments
LARGEST_JUMP = 1e4  # squared, in units of s2: one enormous jump does not make the next one expected


class Adaptive(NamedTuple):
    """Priors, in units of the standardised stream. One entry a family in each tuple.

    noise variance s2 ~ InvGamma(shape, scale); coefficients ~ N((level, lag_mean, 0), s2 diag(variances)): a
    coefficient with variance 0 is held at its mean.
    """

    weights: tuple[float, ...]
    level: float
    level_variance: tuple[float, ...]
    lag_mean: tuple[float, ...]
    lag_variance: tuple[float, ...]
    drift_variance: tuple[float, ...]
    shape: float
    scale: float
    outliers: float
    outlier_scale: float
    pool: tuple[float, ...]  # the most that other segments' noise counts, as the shape of the variance's prior; 0: none
    family_prior: float  # what the families' weights count before any segment has ended, in segments
    dequantises: bool  # whether readings that are multiples of a step are moved by a part of it, see ``lattice``


OUTLIERS = 0.02

# Sets of constants of ``model="auto"``. Never change a set that was released: restored detectors continue under theirs.

FIRST = Adaptive(
    weights=(0.8, 0.2),
    level=0.0,
    level_variance=(10.0, 10.0),
    lag_mean=(0.0, 0.5),
    lag_variance=(0.0, 0.25),
    drift_variance=(0.0, 0.01),
    shape=1.0,
    scale=1.0,
    outliers=OUTLIERS,
    outlier_scale=20.0,
    pool=(100.0, 100.0),
    family_prior=4.0,
    dequantises=False,
)
"""The first set: chosen on synthetic streams and on 19 TCPD series, which it was fitted to.

F1 and covering are .797 and .721 on those series, but .738 and .658 on the same series reversed in time.
"""

SECOND = FIRST._replace(weights=(0.5, 0.5), outlier_scale=10.0, pool=(100.0, 5.0), family_prior=1.0)
"""The second set: chosen by ``benchmarks/choose_auto.py``, leaving out one of 15 groups of real series at a time.

The groups are five parts of TCPD, seven categories of NAB, a power transformer, room climate and a valve rig. All 15
choices are this set. Its gain over the first set on the group that was left out is -.000 to .092 nats per reading on
the unlabelled groups (standard deviation over candidates .001 to .044), positive on nine of ten. On the parts of TCPD
it is -.030 to .063 in the mean of F1 and covering (.012 to .024), positive on four of five, .022 on average. F1 and
covering are .792 and .740 on the TCPD series, .786 and .694 on the same series reversed in time.

The candidates and the rules of admission were found with all groups in sight, so expect less on new data.

Known cost: false alarms on rare 0/1 signals double. On 200 other streams they rise from 1.8 to 3.6 per 1,000 readings
if a tenth of the readings are 1, from 3.5 to 7.4 if a twentieth are. The admission rule (20 streams) missed it.

Level segments share their noise. Segments with autocorrelation and drift share less of it: on real sensors it varies.
"""

THIRD = SECOND._replace(dequantises=True)
"""The third set: the second one, with lattice-valued streams dequantised. Continuous streams give the same answers.

On 20 streams of 2,000 readings each, false changes per 1,000 fall from 7.8 to .05 on counts with mean .05, from 4.0 to
.05 and from 1.8 to .03 on 0/1 signals with 5 and 10 % ones. Their true changes are announced later: one from 10 to 40 %
ones after 30 readings in place of 14.
"""

CONSTANTS = {1: FIRST, 2: SECOND, 3: THIRD}
NEWEST = 3


def automatic(outliers: float, constants: int = NEWEST) -> Adaptive:
    """Return the priors of ``model="auto"`` for one channel: a set of ``CONSTANTS`` with this share of outliers."""
    return CONSTANTS[constants]._replace(outliers=outliers)


def with_outliers(emission: Any, outliers: float) -> Adaptive:
    """A Normal prior as it is, with an outlier branch whose Cauchy is 20 times as wide as the prior's noise."""
    if not isinstance(emission, Normal):
        raise ValueError(f"outliers are for emissions.Normal and model='auto', not for {type(emission).__name__}")
    noise = math.sqrt(emission.scale / emission.shape)
    return Adaptive(
        weights=(1.0,),
        level=emission.mean,
        level_variance=(1.0 / emission.mean_weight,),
        lag_mean=(0.0,),
        lag_variance=(0.0,),
        drift_variance=(0.0,),
        shape=emission.shape,
        scale=emission.scale,
        outliers=outliers,
        outlier_scale=20.0 * noise,
        pool=(0.0,),
        family_prior=4.0,
        dequantises=False,
    )


# Rows of a family's table, one column a hypothesis.
CENTRE = 0  # prior mean of the level
MEAN = 1  # posterior mean of the coefficients, 3 rows
ROOT = 4  # S with covariance S S' in units of s2, 9 rows
SHAPE, SCALE = 13, 14  # posterior of the noise variance
BASE_SHAPE, BASE_SCALE = 15, 16  # and its prior in this segment
SHARE = 17  # probability of the family given the segment's readings
POOLED_SHAPE, POOLED_SCALE, ENDED = 18, 19, 20  # the noise and the number of the segments that ended before this one
PRECISION = 21  # of the level's prior, in units of 1 / s2
RESIDUAL, PROJECTED, SPREAD, DENSITY = 22, 23, 26, 27  # room for one step: y - x'b, S'x (3 rows), x'SS'x, p(y)
_ROWS = 28
# Rows that families share.
START, SEEN = 0, 1  # first observation, readings so far
ORIGIN, JUMPS = 2, 3  # the level before this segment; squared jumps of level before it, in units of s2, added up
INLIER = 4  # room for one step: the probability that the reading is no outlier
_COMMON_ROWS = 5


class AdaptiveMemory(NamedTuple):
    """What hypotheses know. Few arrays: every one costs when a kernel calls another."""

    table: np.ndarray  # (families, rows, cap)
    common: np.ndarray  # (rows, cap)
    inherited: np.ndarray  # (3, families): pooled shape and scale and ended segments, as the next newborn takes them
    before: np.ndarray  # (2,): the level and the sum of squared jumps, as the next newborn takes them
    stream: np.ndarray  # (6,) numbers of the stream, see below
    scratch: vectorised.VectorScratch


# Observations seen, the last value that may be looked back at, values skipped since; the step of the lattice, the last
# reading, and the newest reading as it was predicted.
TIME, LAST, SKIPPED, STEP, READING, VALUE = range(6)


@predictors.make_memory.register(Adaptive)
def _make_memory(emission, cap):
    families = len(emission.weights)
    table = np.zeros((families, _ROWS, cap))
    table[:, [SHAPE, SCALE]] = 1.0
    stream = np.zeros(6)
    stream[READING] = np.nan
    return AdaptiveMemory(
        table=table,
        common=np.zeros((_COMMON_ROWS, cap)),
        inherited=np.zeros((3, families)),
        before=np.zeros(2),
        stream=stream,
        scratch=vectorised.make_scratch(cap),
    )


@predictors.slot_view.register(Adaptive)
def _slot_view(emission, memories, slot):
    return AdaptiveMemory(
        memories.table[slot],
        memories.common[slot],
        memories.inherited[slot],
        memories.before[slot],
        memories.stream[slot],
        vectorised.slot_view(memories.scratch, slot),
    )


@predictors.open_first.register(Adaptive)
def _open_first(emission, memory, position):
    memory.inherited[:] = 0.0
    memory.before[0] = emission.level
    memory.before[1] = 0.0
    predictors.open_next(emission, memory, position)


@kernel
def _set_priors(emission, table, jumps, position):
    """The priors of a segment's noise and level, by what the segments before it have taught."""
    ended = 0.0
    for f in range(table.shape[0]):
        ended += table[f, ENDED, position]
    for f in range(table.shape[0]):
        column = table[f, :, position]
        shape = min(emission.shape + column[POOLED_SHAPE], max(emission.pool[f], emission.shape))
        column[BASE_SHAPE] = shape
        column[BASE_SCALE] = shape * (emission.scale + column[POOLED_SCALE]) / (emission.shape + column[POOLED_SHAPE])
        column[PRECISION] = (JUMP_PRIOR + ended) / (JUMP_PRIOR * emission.level_variance[f] + jumps[position])


@kernel
def _set_all_priors(emission, table, jumps, count):
    for position in range(count):
        _set_priors(emission, table, jumps, position)


@predictors.open_next.register(Adaptive)
def _open_next(emission, memory, position):
    inherited = memory.inherited
    memory.common[START, position] = memory.stream[TIME]
    memory.common[SEEN, position] = 0.0
    memory.common[ORIGIN, position] = memory.before[0]
    memory.common[JUMPS, position] = memory.before[1]
    total = emission.family_prior
    for f in range(len(emission.weights)):
        memory.table[f, POOLED_SHAPE, position] = inherited[0, f]
        memory.table[f, POOLED_SCALE, position] = inherited[1, f]
        memory.table[f, ENDED, position] = inherited[2, f]
        total += inherited[2, f]
    _set_priors(emission, memory.table, memory.common[JUMPS], position)
    for f in range(len(emission.weights)):
        column = memory.table[f, :, position]
        level = memory.before[0] * (1.0 - emission.lag_mean[f])
        column[SHAPE] = column[BASE_SHAPE]
        column[SCALE] = column[BASE_SCALE]
        column[SHARE] = (emission.family_prior * emission.weights[f] + inherited[2, f]) / total
        column[CENTRE] = level
        column[MEAN] = level
        column[MEAN + 1] = emission.lag_mean[f]
        column[MEAN + 2] = 0.0
        for i in range(9):
            column[ROOT + i] = 0.0
        column[ROOT] = math.sqrt(1.0 / column[PRECISION])
        column[ROOT + 4] = math.sqrt(emission.lag_variance[f])
        column[ROOT + 8] = math.sqrt(emission.drift_variance[f])


@kernel
def _inherit(table, shares, count, free, lag_mean, lag_precision, drift_precision):
    """What the ended segments said, by their ``shares``: (half the readings less the coefficients that they paid for,
    half the squares around the fit, the number of segments)."""
    level, lag, drift, centre, share = table[MEAN], table[MEAN + 1], table[MEAN + 2], table[CENTRE], table[SHARE]
    shape, base_shape, scale, base_scale = table[SHAPE], table[BASE_SHAPE], table[SCALE], table[BASE_SCALE]
    pooled_shape, pooled_scale, ended = table[POOLED_SHAPE], table[POOLED_SCALE], table[ENDED]
    precision = table[PRECISION]
    sum_shape, sum_scale, sum_ended = 0.0, 0.0, 0.0
    for i in range(count):
        own_shape = shape[i] - base_shape[i] - 0.5 * free
        if own_shape > 0.0:
            level_moved, lag_moved = level[i] - centre[i], lag[i] - lag_mean
            moved = level_moved * level_moved * precision[i] + lag_moved * lag_moved * lag_precision
            moved += drift[i] * drift[i] * drift_precision
            own_scale = max(scale[i] - base_scale[i] - 0.5 * moved, 0.0)
            sum_shape += shares[i] * share[i] * own_shape
            sum_scale += shares[i] * share[i] * own_scale
        sum_shape += shares[i] * pooled_shape[i]
        sum_scale += shares[i] * pooled_scale[i]
        sum_ended += shares[i] * (ended[i] + share[i])
    return sum_shape, sum_scale, sum_ended


@kernel
def _inherit_level(table, origin, jumps, shares, total, count, before):
    """The level that the next segment leaves, and how far levels have jumped, by the hypotheses' ``shares``."""
    level, shape, scale = table[MEAN], table[SHAPE], table[SCALE]
    sum_level, sum_jumps = 0.0, 0.0
    for i in range(count):
        jump = level[i] - origin[i]
        sum_level += shares[i] * level[i]
        sum_jumps += shares[i] * (jumps[i] + min(jump * jump * shape[i] / scale[i], LARGEST_JUMP))
    before[0] = sum_level / total
    before[1] = sum_jumps / total


@kernel
def _precision(variance):
    """1 / variance; 0 for a coefficient that is held fixed and never moves."""
    return 1.0 / variance if variance > 0.0 else 0.0


@predictors.summarise.register(Adaptive)
def _summarise(emission, memory, shares, total, count):
    memory.inherited[:] = 0.0
    memory.before[0] = emission.level
    memory.before[1] = 0.0
    if emission.pool[0] <= 0.0 or not total > 0.0:
        return
    for f in range(len(emission.weights)):
        free = 1.0 + (emission.lag_variance[f] > 0.0) + (emission.drift_variance[f] > 0.0)
        sum_shape, sum_scale, sum_ended = _inherit(
            memory.table[f], shares, count, free, emission.lag_mean[f],
            _precision(emission.lag_variance[f]), _precision(emission.drift_variance[f]),
        )  # fmt: skip
        memory.inherited[0, f] = sum_shape / total
        memory.inherited[1, f] = sum_scale / total
        memory.inherited[2, f] = sum_ended / total
    _inherit_level(memory.table[0], memory.common[ORIGIN], memory.common[JUMPS], shares, total, count, memory.before)


@kernel
def _is_level(emission, f):
    """Whether a family has no coefficient but the level: the rest of S is zero then, and of S' x."""
    return emission.lag_variance[f] == 0.0 and emission.drift_variance[f] == 0.0


# Loops over hypotheses touch few arrays each: the compiler first makes sure that they do not overlap.


@kernel
def _project_column(intercept, slope, drift, start, time, lag, projected, count):
    """An entry of S' x from the column of S that it belongs to."""
    for i in range(count):
        projected[i] = intercept[i] + slope[i] * lag + drift[i] * (time - start[i])


@kernel
def _project(table, is_level, start, time, lag, value, count):
    """The residual of ``value`` and the spread x' V x of its prediction, V = S S', under every hypothesis."""
    first, second, third = table[PROJECTED], table[PROJECTED + 1], table[PROJECTED + 2]
    level, slope, drift = table[MEAN], table[MEAN + 1], table[MEAN + 2]
    spread, residual = table[SPREAD], table[RESIDUAL]
    for k in range(1 if is_level else 3):
        _project_column(
            table[ROOT + k], table[ROOT + 3 + k], table[ROOT + 6 + k], start, time, lag, table[PROJECTED + k], count
        )
    for i in range(count):
        spread[i] = first[i] * first[i] + second[i] * second[i] + third[i] * third[i]
    for i in range(count):
        residual[i] = value - level[i] - slope[i] * lag - drift[i] * (time - start[i])


@kernel
def _student_density(table, scratch, count):
    """The Student t density of the residual: 2 ``SHAPE`` degrees of freedom."""
    residual, spread, shape = table[RESIDUAL], table[SPREAD], table[SHAPE]
    scale, density, x = table[SCALE], table[DENSITY], scratch.x
    vectorised.gamma_ratio(shape, density, count)
    for i in range(count):
        wide = 2.0 * scale[i] * (1.0 + spread[i])
        density[i] /= math.sqrt(math.pi * wide)
        x[i] = min(1.0 + residual[i] * residual[i] / wide, 1e300)
    vectorised.log_from_one(scratch, count)
    for i in range(count):
        x[i] *= -(shape[i] + 0.5)
    vectorised.exp_below(scratch, count)
    for i in range(count):
        density[i] *= x[i]


@kernel
def _dequantised(stream, reading):
    """Return a reading moved by a part of its step, if the stream has one."""
    if not math.isnan(stream[READING]):
        stream[STEP] = lattice.refine(stream[STEP], reading - stream[READING])
    stream[READING] = reading
    step = stream[STEP]
    if step == lattice.CONTINUOUS:
        return reading
    return reading + (step if step > 0.0 else 1.0) * lattice.part_of_step(int(stream[TIME]))


@predictors.predict.register(Adaptive)
def _predict(emission, memory, y, row, count, likelihood):
    value = y[row, 0]
    likelihood[:count] = 1.0
    if math.isnan(value):
        return 0.0
    if emission.dequantises:
        value = _dequantised(memory.stream, value)
    memory.stream[VALUE] = value
    table, start, inlier = memory.table, memory.common[START], memory.common[INLIER]
    likelihood[:count] = 0.0
    for f in range(table.shape[0]):
        _project(table[f], _is_level(emission, f), start, memory.stream[TIME], memory.stream[LAST], value, count)
        _student_density(table[f], memory.scratch, count)
        density, share = table[f, DENSITY], table[f, SHARE]
        for i in range(count):
            likelihood[i] += share[i] * density[i]
    deviation = (value - emission.level) / emission.outlier_scale
    outlier = emission.outliers / (math.pi * emission.outlier_scale * (1.0 + deviation * deviation))
    usual = 1.0 - emission.outliers
    for i in range(count):
        likelihood[i] = usual * likelihood[i] + outlier
        inlier[i] = 1.0 - outlier / likelihood[i]
    for f in range(table.shape[0]):
        density, share = table[f, DENSITY], table[f, SHARE]
        for i in range(count):
            share[i] *= (usual * density[i] + outlier) / likelihood[i]
    return 0.0


@kernel
def _take_back(root, moved, projected, count):
    """An entry of S less what the reading has told about it."""
    for i in range(count):
        root[i] -= moved[i] * projected[i]


@kernel
def _regress(table, is_level, weight, scratch, count):
    """One step of recursive least squares in Potter's form, the reading counting with ``weight``: the covariance stays
    symmetric and positive whatever the rounding."""
    first, second, third = table[PROJECTED], table[PROJECTED + 1], table[PROJECTED + 2]
    spread, residual, shape, scale = table[SPREAD], table[RESIDUAL], table[SHAPE], table[SCALE]
    gain, moved, shrinkage = scratch.x, scratch.n, table[DENSITY]
    for i in range(count):
        kept = 1.0 / (1.0 + weight[i] * spread[i])
        gain[i] = weight[i] * kept
        shrinkage[i] = 1.0 + math.sqrt(kept)
    for k in range(1 if is_level else 3):
        mean, a, b, c = table[MEAN + k], table[ROOT + 3 * k], table[ROOT + 3 * k + 1], table[ROOT + 3 * k + 2]
        for i in range(count):
            moved[i] = (a[i] * first[i] + b[i] * second[i] + c[i] * third[i]) * gain[i]
        for i in range(count):
            mean[i] += moved[i] * residual[i]
            moved[i] /= shrinkage[i]
        for j in range(1 if is_level else 3):
            _take_back(table[ROOT + 3 * k + j], moved, table[PROJECTED + j], count)
    for i in range(count):
        shape[i] += 0.5 * weight[i]
        scale[i] += 0.5 * residual[i] * residual[i] * weight[i] / (1.0 + weight[i] * spread[i])


@kernel
def _begin_at_first_reading(table, inlier, i):
    """A segment's first reading counts in full; if it is far off, the level is expected around it."""
    if inlier[i] < 0.5:
        for f in range(table.shape[0]):
            table[f, CENTRE, i] += table[f, RESIDUAL, i]
            table[f, MEAN, i] += table[f, RESIDUAL, i]
            table[f, RESIDUAL, i] = 0.0
    inlier[i] = 1.0


@predictors.learn.register(Adaptive)
def _learn(emission, memory, y, row, count):
    memory.stream[TIME] += 1.0
    if math.isnan(y[row, 0]):
        return
    table, seen, inlier = memory.table, memory.common[SEEN], memory.common[INLIER]
    for i in range(count):
        if seen[i] == 0.0:
            _begin_at_first_reading(table, inlier, i)
        seen[i] += 1.0
    for f in range(table.shape[0]):
        _regress(table[f], _is_level(emission, f), inlier, memory.scratch, count)
    _look_back_at(memory.stream, memory.stream[VALUE])


@kernel
def _look_back_at(stream, value):
    """Autoregressions look back at the last value. An absurd one is skipped, twice in a row at most: as a regressor it
    would explain anything that follows."""
    if abs(value - stream[LAST]) <= ABSURD or stream[SKIPPED] >= 2.0:
        stream[LAST] = value
        stream[SKIPPED] = 0.0
    else:
        stream[SKIPPED] += 1.0


@predictors.level_and_noise.register(Adaptive)
def _level_and_noise(emission, memory, position):
    column = memory.table[0, :, position]
    return column[MEAN], math.sqrt(column[SCALE] / column[SHAPE])


# Rows that a snapshot leaves out follow from the others.
_KEPT_ROWS = [row for row in range(RESIDUAL) if row not in (BASE_SHAPE, BASE_SCALE, PRECISION)]


@predictors.pack.register(Adaptive)
def _pack(emission, memory, count):
    return {
        "table": memory.table[:, _KEPT_ROWS, :count],
        "common": memory.common[:INLIER, :count],
        "stream": memory.stream[:VALUE],
    }


# What is valid in the rows of a snapshot. The limits keep squares and products of two rows far from overflow.
_LARGEST, _LARGEST_SQUARE, _SMALLEST = 1e70, 1e130, 1e-110
_ROW_LIMITS = {
    **dict.fromkeys((CENTRE, *range(MEAN, SHAPE)), (-_LARGEST, _LARGEST)),
    SHAPE: (_SMALLEST, 1e41),
    SCALE: (_SMALLEST, _LARGEST_SQUARE),
    SHARE: (0.0, 1.001),
    POOLED_SHAPE: (0.0, 1e41),
    POOLED_SCALE: (0.0, _LARGEST_SQUARE),
    ENDED: (0.0, 1e16),
}
_VALID_ROWS = columns(*np.array([_ROW_LIMITS[row] for row in _KEPT_ROWS]).T)
_VALID_COMMON = columns([0.0, 0.0, -_LARGEST, 0.0], [LARGEST_COUNT, LARGEST_COUNT, _LARGEST, _LARGEST])
_READING = 1e31  # readings are cut at 1e30, or at 1e12 standard deviations
_STREAM_LOW = [0.0, -_READING, 0.0, lattice.CONTINUOUS, -_READING]
_STREAM_HIGH = [LARGEST_COUNT, _READING, LARGEST_COUNT, _READING, _READING]
_VALID_STREAM = {
    3: columns(_STREAM_LOW[:3], _STREAM_HIGH[:3]),  # of earlier sets of constants
    VALUE: columns(_STREAM_LOW, _STREAM_HIGH, nan=[READING]),
}


@predictors.check_packed.register(Adaptive)
def _check_packed(emission, count, arrays):
    families, numbers = len(emission.weights), len(arrays["stream"]) if arrays["stream"].ndim else 0
    require(numbers in _VALID_STREAM, "the stream has all of its numbers")
    fields = {
        "table": Field(FLOAT, (families, len(_KEPT_ROWS), count), columns=_VALID_ROWS, by_row=True),
        "common": Field(FLOAT, (INLIER, count), columns=_VALID_COMMON, by_row=True),
        "stream": Field(FLOAT, (numbers,), columns=_VALID_STREAM[numbers]),
    }
    check(arrays, fields)
    if emission.outliers == 0.0:  # no likelihood may be 0 then
        shares = arrays["table"][:, _KEPT_ROWS.index(SHARE)]
        require((shares.sum(axis=0) > 1e-6).all(), "every hypothesis has families to choose from")
    return set(fields)


@predictors.memory_bytes.register(Adaptive)
def _memory_bytes(emission, cap):
    return 8 * cap * (len(emission.weights) * _ROWS + _COMMON_ROWS + 2)


@predictors.unpack.register(Adaptive)
def _unpack(emission, memory, count, arrays):
    memory.table[:, _KEPT_ROWS, :count] = arrays["table"]
    memory.common[:INLIER, :count] = arrays["common"]
    stream = arrays["stream"]  # of earlier sets of constants: shorter
    memory.stream[: len(stream)] = stream
    _set_all_priors(emission, memory.table, memory.common[JUMPS], count)
