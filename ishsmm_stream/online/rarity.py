"""How unusual the newest reading is for this stream: the return period of what just happened.

Every statistic is ranked against the stream's own past, so a return period of N readings means "this stream does
something like this about once in N readings", whatever its noise. Nothing here looks at the posterior.

**Statistics.** v is a reading and e the residual of a recursive AR(1) fit. A *habit* is a slow exponentially weighted
moving average (EWMA), *local* a faster one. Three levels of a ladder look at single readings and at means of 32 and of
1,024 readings, so that budgets from a thousand to a million readings are served by one tracker:

    level 0        |EWMA_f(v) - habit| for f = 1, .3, .1, .03, .01; |e|; EWMA_f(|e|) for f = .1, .03; the length of a
                   run of equal values; |EWMA_f(v) - local| for f = .3, .1, .03
    levels 1, 2    |EWMA_f(v) - habit| for f = 1, .3, .1; |EWMA_f(v) - local| for f = 1, .3; EWMA_.3(mean |e|)

If the hour of the week is given, v is a reading less what is usual at this hour (see ``week``); residuals and runs do
not depend on it. Averages and the fit count a reading at most 8 times as far from the habit as 99 % of the readings on
record, so that one absurd reading does not spoil them; single readings are ranked as they are.

**Surprise.** Each statistic has a histogram of its own past with bins of a quarter octave, in which old values fade.
The surprise s = -log10 P(at least this large), beyond the record by a generalised Pareto tail. Kinds of behaviour
combine statistics, and z is the largest of their scores: a mean of surprises less an offset that makes them comparable.

**Return period.** T(z) = (m0 + n) / (m0 / T0(z) + k(z)): a pooled prior T0 = 10^(1.63 + .61 z) at first, and with time
the stream's own record, in which k(z) counts earlier peaks that were at least as high. The largest T of the three
levels is the answer. All constants were chosen on the public series that docs/benchmarks.md names.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.online import histogram, week
from ishsmm_stream.online.histogram import (
    BINS,
    CUT_EVERY,
    NO_BIN,
    add,
    add_run,
    bin_number,
    find_cut,
    halve,
    quiet_surprise,
    surprise,
    upper_edge,
)
from ishsmm_stream.online.validation import FLOAT, LARGEST_COUNT, SINGLE, WHOLE, Field, check, columns, require

LEVELS = 3
BLOCK = 32  # readings of a block of level 1, and blocks of level 1 in one of level 2
# Histograms of level 0, in this order; then those of levels 1 and 2.
HABIT, RESIDUAL, LOUDNESS, RUN, LOCAL, _LEVEL_0 = 0, 5, 6, 8, 9, 12
BLOCK_HABIT, BLOCK_LOCAL, BLOCK_LOUDNESS, _LEVEL_1 = 0, 3, 5, 6
HISTOGRAMS = _LEVEL_0 + 2 * _LEVEL_1

# Kinds of behaviour, as bits.
REASONS = (
    "change", "level", "spike", "louder", "quieter", "stuck", "drift", "new_state", "new_transition", "unusual_dwell",
)  # fmt: skip
CHANGE, LEVEL, SPIKE, LOUDER, QUIETER, STUCK, DRIFT, NEW_STATE, NEW_TRANSITION, DWELL = (1 << i for i in range(10))

# Smoothing
_FACTORS = (1.0, 0.3, 0.1, 0.03, 0.01)
_HABIT_RATE = 3e-4
_LOCAL_RATE = 0.01
_BLOCK_HABIT_RATE = 2e-3
_BLOCK_LOCAL_RATE = 0.03
_FIT_MEMORY = 0.999  # of the AR(1) fit
# Fading: weights are halved each time that memory times ln 2 has passed, so that they stay short in a snapshot. A
# policy's memory is in readings; blocks are fewer and last longer.
_LN2 = 0.6931471805599453
_LONGEST_MEMORY = 8e6  # so that weights, which are float32, count every value
_BLOCK_MEMORY = 0.3  # memory of a block level, in blocks, as a share of it
# Limit of the deviations that averages count
_LIMIT_SHARE, _LIMIT_FACTOR = 0.01, 8.0  # of the record that may be beyond it, and how far above these
_LIMIT_FROM = 64  # readings; before, by the size of residuals so far:
_EARLY_FACTOR, _EARLY_FROM = 32.0, 4
# Offsets of kinds
_ONE_SIDED = 0.8
_RUN_EXCESS = 2.0  # least mean excess of a run: coarse readings often repeat
_SINGLE = 1.5  # one reading by itself
_BLOCK_LOCAL_OFFSET = 0.32
_SAME_KIND = 0.25  # kinds whose score is this close to the largest are reasons too
# Return period
_LEAST_SCORE = 0.8
_SCORE_BINS, _SCORE_FROM, _SCORE_WIDTH = 64, 0.5, 0.125
_PRIOR_OFFSET, _PRIOR_SLOPE = 1.63, 0.61
_RECORD_MEMORY = 4e6  # readings over which the record of peaks fades
_BLOCK_TERM = 200.0  # keeps the slow levels from spending a small budget
_WEIGHTS = (1.0, 0.5, 0.32)
_ACCEPTED_READINGS = 6.0  # that the present level rests on when it is accepted: those of an EWMA with factor .3
LEARNING = 500  # readings before rarity can be judged


class _Ladder(NamedTuple):
    """Constants of a level, in its own steps."""

    peaks_apart: float
    prior: float  # m0
    bin_prior: float  # the bin below counts in part while the record is short
    learning: float


READINGS = _Ladder(100.0, 1e4, 1e5, 300.0)
_BLOCKS = _Ladder(30.0, 3e3, 3e3, 200.0)

# Numbers of a channel. Averages of level 0: of v by five factors, of |e| by two factors; of a block level: of v by
# three factors, of |e|.
_V, _ABS_E, _HABIT, _LOCAL = 0, 5, 7, 8
_FIT = 9  # AR(1): weight, mean before, mean, variance before, covariance
_PREVIOUS, _RUN = 14, 15
_B_V, _B_ABS_E, _B_HABIT, _B_LOCAL, _B_SUM, _B_ABS_SUM, _B_COUNT = 0, 3, 4, 5, 6, 7, 8
_B_SIZE = 9
_BLOCKS_AT = 16
SEEN_AT = _BLOCKS_AT + 2 * _B_SIZE  # steps seen of each level, and the next ones likewise
_AGE_AT = SEEN_AT + LEVELS  # steps since histograms were last halved,
_RECORD_AGE_AT = _AGE_AT + LEVELS  # and since the record was
RECORDED_AT = _RECORD_AGE_AT + LEVELS  # steps in the record, faded
_PEAK_AT = RECORDED_AT + LEVELS  # the highest score of late,
_PEAK_TIME_AT = _PEAK_AT + LEVELS  # and when it was
_PERIOD_AT = _PEAK_TIME_AT + LEVELS  # return period of the newest step,
_KINDS_AT = _PERIOD_AT + LEVELS  # and its reasons
_ACCEPTED_AT = _KINDS_AT + LEVELS  # steps seen when the present behaviour was last accepted; 0: never
_LIMIT_AT = _ACCEPTED_AT + LEVELS  # deviation from the habit beyond which a reading counts no further; 0: none
_COUNTED_AT = _LIMIT_AT + 1  # the last reading as far as it counted
_STATISTIC_AT = _COUNTED_AT + 1  # room for one reading: statistics,
_SURPRISE_AT = _STATISTIC_AT + _LEVEL_0  # and their surprise
NUMBERS = _SURPRISE_AT + _LEVEL_0

# Whole numbers of an episode: the next alarm's number, whether it is open, readings so far, readings at the raise,
# readings that were low, latched levels as bits, the change behind it, its index, and the raises of the latest three.
MOST_AT_ONCE = 3  # alarms in ``every`` readings
NEXT, OPEN, CLOCK, OPENED, LOW_FOR, LATCHED, BEHIND, INDEX, LATEST = range(9)
INTS = LATEST + MOST_AT_ONCE
# Other numbers: the return period of the newest change, that of the newest reading with its reasons, the budget (the
# policy's ``every``) and the hour of the week (-1: not given). The last two are here so that detectors with budgets and
# times of their own can share a compiled call.
CHANGE_PERIOD, PERIOD, KINDS, EVERY, HOUR = range(5)
FLOATS = 5


class Tracker(NamedTuple):
    """The memory of a stream, with one row per channel unless stated otherwise."""

    numbers: np.ndarray  # (channels, NUMBERS)
    histograms: np.ndarray  # (channels, HISTOGRAMS, BINS) float32
    sums: np.ndarray  # (channels, HISTOGRAMS, 5) float32
    record: np.ndarray  # (channels, LEVELS, 64) float32: peaks by their score
    profile: np.ndarray  # (channels, PROFILE) float32: the usual course of a week, see ``week``,
    hours: np.ndarray  # (channels, 10): and the hours that it comes from
    periods: np.ndarray  # (LEVELS,) return periods of all channels together, as of the newest reading
    kinds: np.ndarray  # (LEVELS,) int64: the reasons behind them, as bits
    jumps: np.ndarray  # (BINS,) float32: a histogram of announced changes by their jump
    jump_sums: np.ndarray  # (5,) float32
    ints: np.ndarray  # (INTS,) int64: the open alarm, see ``episodes``
    floats: np.ndarray  # (FLOATS,)


# What is valid in a snapshot. Averages of a stream of counts have no limits; the record and its times do.
_LARGEST_SCORE = 100.0
_ALL_REASONS = 2 ** len(REASONS) - 1
_NUMBERS_LOW, _NUMBERS_HIGH = np.full(_STATISTIC_AT, -np.inf), np.full(_STATISTIC_AT, np.inf)
for _first, _last, _low, _high in (
    (_RUN, _RUN + 1, 0.0, LARGEST_COUNT),
    (SEEN_AT, _PEAK_AT, 0.0, LARGEST_COUNT),
    (_PEAK_AT, _PEAK_TIME_AT, -_LARGEST_SCORE, _LARGEST_SCORE),
    (_PEAK_TIME_AT, _PERIOD_AT, 0.0, LARGEST_COUNT),
    (_PERIOD_AT, _KINDS_AT, 0.0, np.inf),
    (_KINDS_AT, _ACCEPTED_AT, 0.0, _ALL_REASONS),
    (_ACCEPTED_AT, _LIMIT_AT, 0.0, LARGEST_COUNT),
    (_BLOCKS_AT + _B_COUNT, _BLOCKS_AT + _B_COUNT + 1, 0.0, BLOCK),
    (_BLOCKS_AT + _B_SIZE + _B_COUNT, _BLOCKS_AT + _B_SIZE + _B_COUNT + 1, 0.0, BLOCK),
):
    _NUMBERS_LOW[_first:_last], _NUMBERS_HIGH[_first:_last] = _low, _high
_LEAST_NUMBERS = _ACCEPTED_AT  # in earlier snapshots
_VALID_INTS = columns(
    [-1 if place == BEHIND else 0 for place in range(INTS)],
    [{OPEN: 2, LATCHED: 2**LEVELS - 1}.get(place, LARGEST_COUNT) for place in range(INTS)],
)
_FLOATS_LOW, _FLOATS_HIGH = [0.0, 0.0, 0.0, 0.0, week.NO_HOUR], [np.inf, np.inf, _ALL_REASONS, np.inf, 167.0]
_LEAST_FLOATS = KINDS + 1


@functools.lru_cache(maxsize=64)
def _fields(channels: int, numbers: int, floats: int) -> dict[str, Field]:
    histograms, sums = histogram.fields(channels, HISTOGRAMS)
    jumps, jump_sums = histogram.fields()
    unlimited = np.flatnonzero(_NUMBERS_LOW[:numbers] == -np.inf).tolist()
    # denormal statistics can have a score that is nan, which ``_return_period`` and ``_keep_peak`` pass over
    scores = [*range(_PEAK_AT, _PEAK_TIME_AT), *range(_PERIOD_AT, _KINDS_AT)]
    valid_numbers = columns(_NUMBERS_LOW[:numbers], _NUMBERS_HIGH[:numbers], nan=unlimited + scores)
    valid_floats = columns(_FLOATS_LOW[:floats], _FLOATS_HIGH[:floats])
    return {
        "numbers": Field(FLOAT, (channels, numbers), columns=valid_numbers),
        "histograms": histograms,
        "sums": sums,
        "record": Field(SINGLE, (channels, LEVELS, _SCORE_BINS), 0.0),
        "periods": Field(FLOAT, (LEVELS,), 0.0),
        "kinds": Field(WHOLE, (LEVELS,), 0, _ALL_REASONS),
        "jumps": jumps,
        "jump_sums": jump_sums,
        "ints": Field(WHOLE, (INTS,), columns=_VALID_INTS),
        "floats": Field(FLOAT, (floats,), columns=valid_floats),
    }


def tracker_bytes(channels: int) -> int:
    """Return how much memory a tracker takes."""
    return channels * (8 * NUMBERS + 4 * HISTOGRAMS * (BINS + 5) + 4 * LEVELS * _SCORE_BINS + 4 * week.PROFILE)


def make_tracker(channels: int) -> Tracker:
    """Return a tracker that has seen nothing."""
    tracker = Tracker(
        numbers=np.zeros((channels, NUMBERS)),
        histograms=np.zeros((channels, HISTOGRAMS, BINS), dtype=np.float32),
        sums=histogram.make_sums(channels, HISTOGRAMS),
        record=np.zeros((channels, LEVELS, _SCORE_BINS), dtype=np.float32),
        profile=np.zeros((channels, week.PROFILE), dtype=np.float32),
        hours=np.zeros((channels, week.NUMBERS)),
        periods=np.zeros(LEVELS),
        kinds=np.zeros(LEVELS, dtype=np.int64),
        jumps=np.zeros(BINS, dtype=np.float32),
        jump_sums=histogram.make_sums(),
        ints=np.zeros(INTS, dtype=np.int64),
        floats=np.zeros(FLOATS),
    )
    tracker.floats[EVERY] = 1000.0
    tracker.floats[HOUR] = -1.0
    tracker.numbers[:, [_PREVIOUS, _COUNTED_AT]] = np.nan
    return tracker


@kernel
def slot_view(trackers, slot):
    """Return the tracker in a slot of a slab."""
    return Tracker(
        trackers.numbers[slot],
        trackers.histograms[slot],
        trackers.sums[slot],
        trackers.record[slot],
        trackers.profile[slot],
        trackers.hours[slot],
        trackers.periods[slot],
        trackers.kinds[slot],
        trackers.jumps[slot],
        trackers.jump_sums[slot],
        trackers.ints[slot],
        trackers.floats[slot],
    )


# Return periods


@kernel
def _return_period(ladder, record, score, recorded, seen):
    """Return T of a score, in steps of its level."""
    if not score >= _LEAST_SCORE:  # nan too: it has no place in the record
        return 0.0
    place = min(int((score - _SCORE_FROM) / _SCORE_WIDTH), _SCORE_BINS - 1)
    higher = 0.0
    for i in range(place, _SCORE_BINS):
        higher += float(record[i])
    higher += float(record[place - 1]) * ladder.bin_prior / (ladder.bin_prior + recorded)
    expected = ladder.prior * 10.0 ** -(_PRIOR_OFFSET + _PRIOR_SLOPE * score)
    period = math.log10((ladder.prior + recorded) / (expected + higher))
    # a short record says the less about a period the longer that is
    period += max(1.0, 2.0 * (period - 3.0)) * math.log10(seen / (seen + ladder.learning))
    return 10.0**period


@kernel
def _keep_peak(ladder, numbers, record, level, score, memory):
    """Take the level's newest score into its record of peaks, which fades over ``memory`` steps."""
    numbers[RECORDED_AT + level] += 1.0
    numbers[_RECORD_AGE_AT + level] += 1.0
    if numbers[_RECORD_AGE_AT + level] >= _LN2 * memory:
        numbers[_RECORD_AGE_AT + level] = 0.0
        numbers[RECORDED_AT + level] *= 0.5
        for i in range(_SCORE_BINS):
            record[i] *= 0.5
    since = numbers[SEEN_AT + level] - numbers[_PEAK_TIME_AT + level]
    peak = numbers[_PEAK_AT + level]
    if since <= ladder.peaks_apart and score <= peak:
        return
    if since > ladder.peaks_apart and peak >= _SCORE_FROM:
        record[min(int((peak - _SCORE_FROM) / _SCORE_WIDTH), _SCORE_BINS - 1)] += 1.0
    numbers[_PEAK_AT + level] = score
    numbers[_PEAK_TIME_AT + level] = numbers[SEEN_AT + level]


@kernel
def _mean(numbers, first, last):
    total = 0.0
    for i in range(first, last):
        total += numbers[_SURPRISE_AT + i]
    return total / (last - first)


@kernel
def _kinds_near(score, level, spike, louder, quieter, stuck, level_kind):
    """Return the kinds whose score is close to the largest one, as bits."""
    least = score - _SAME_KIND
    kinds = 0
    kinds |= level_kind if level >= least else 0
    kinds |= SPIKE if spike >= least else 0
    kinds |= LOUDER if louder >= least else 0
    kinds |= QUIETER if quieter >= least else 0
    kinds |= STUCK if stuck >= least else 0
    return kinds


# One reading


@kernel
def _share_since(numbers, level):
    """Return the weight of the newest step in a mean that began when the present behaviour was accepted; 0: never."""
    accepted = numbers[_ACCEPTED_AT + level]
    if accepted == 0.0:
        return 0.0
    return 1.0 / (numbers[SEEN_AT + level] - accepted + _ACCEPTED_READINGS / float(BLOCK) ** level)


@kernel
def _counted(numbers, rest):
    """Return a reading as far as averages count it."""
    habit, limit = numbers[_HABIT], numbers[_LIMIT_AT]
    if limit > 0.0:
        return habit + min(max(rest - habit, -limit), limit)
    return rest


@kernel
def _find_limit(numbers, bins, sums):
    """Find the limit of the deviations that averages count."""
    seen = numbers[SEEN_AT]
    if seen >= _LIMIT_FROM:
        numbers[_LIMIT_AT] = _LIMIT_FACTOR * upper_edge(bins, sums, _LIMIT_SHARE)
    elif seen >= _EARLY_FROM:
        numbers[_LIMIT_AT] = _EARLY_FACTOR * numbers[_ABS_E + 1]


@kernel
def _residual(numbers, value, counted):
    """Return the residual of the AR(1) fit, which then learns from the reading as far as it counts."""
    before, fit = numbers[_COUNTED_AT], numbers[_FIT : _FIT + 5]
    numbers[_COUNTED_AT] = counted
    if math.isnan(before):
        return 0.0
    slope = fit[4] / fit[3] if fit[3] > 0.0 else 0.0
    from_before, from_mean = before - fit[1], counted - fit[2]
    residual = value - fit[2] - slope * from_before if fit[0] > 0.0 else 0.0
    fit[0] = _FIT_MEMORY * fit[0] + 1.0
    fit[1] += from_before / fit[0]
    fit[2] += from_mean / fit[0]
    fit[3] = _FIT_MEMORY * fit[3] + from_before * (before - fit[1])
    fit[4] = _FIT_MEMORY * fit[4] + from_before * (counted - fit[2])
    return residual


@kernel
def _rank(numbers, histograms, sums, first, count, level, loudness, memory):
    """Fill the surprises of a level's statistics and take the statistics into their histograms.

    Returns the mean surprise of the statistics from ``loudness`` on, up to two, at being so small.
    """
    seen = numbers[SEEN_AT + level]
    refresh = seen < CUT_EVERY or seen % CUT_EVERY == 0.0
    quiet, quiets = 0.0, min(2, count - loudness)
    for i in range(count):
        bins, own = histograms[first + i], sums[first + i]
        value = numbers[_STATISTIC_AT + i]
        number = bin_number(value) if value > 0.0 else NO_BIN
        least_excess = _RUN_EXCESS if level == 0 and i == RUN else 0.0
        numbers[_SURPRISE_AT + i] = surprise(bins, own, number, value, least_excess)
        if loudness <= i < loudness + quiets:
            quiet += quiet_surprise(bins, own, number)
        if not (level == 0 and i == RUN and value > 0.0):
            add(bins, own, number, 1.0)
        if refresh:
            find_cut(bins, own)
    numbers[_AGE_AT + level] += 1.0
    if numbers[_AGE_AT + level] >= _LN2 * min(memory, _LONGEST_MEMORY):
        numbers[_AGE_AT + level] = 0.0
        for i in range(count):
            halve(histograms[first + i], sums[first + i])
    return quiet / quiets


@kernel
def _observe_reading(numbers, histograms, sums, record, value, usual, memory):
    """Level 0 of one channel: returns the reading less what is usual and the size of its residual, both as far as
    averages count them, the return period and its reasons.

    ``usual``: at this hour; averages look at readings less this.
    """
    numbers[SEEN_AT] += 1.0
    seen = numbers[SEEN_AT]
    rest = value - usual
    if seen == 1.0:
        numbers[_V : _V + 5] = rest
        numbers[_HABIT] = rest
        numbers[_LOCAL] = rest
    counted = _counted(numbers, rest)
    residual = abs(_residual(numbers, value, counted + usual))
    if value == numbers[_PREVIOUS]:
        numbers[_RUN] += 1.0
    else:  # a run joins the record when it ends, so that it is not compared with itself
        add_run(histograms[RUN], sums[RUN], numbers[_RUN] - 2.0)
        numbers[_RUN] = 1.0
    numbers[_PREVIOUS] = value
    since = _share_since(numbers, 0)
    for i in range(5):
        numbers[_V + i] += max(_FACTORS[i], since) * (counted - numbers[_V + i])
    loudness = min(residual, 2.0 * numbers[_LIMIT_AT]) if numbers[_LIMIT_AT] > 0.0 else residual
    share = 1.0 / max(seen - 1.0, 1.0)  # the first reading has no residual; a start from 0 would look quiet for ever
    numbers[_ABS_E] += max(0.1, share) * (loudness - numbers[_ABS_E])
    numbers[_ABS_E + 1] += max(0.03, share) * (loudness - numbers[_ABS_E + 1])

    statistic = numbers[_STATISTIC_AT : _STATISTIC_AT + _LEVEL_0]
    statistic[HABIT] = abs(rest - numbers[_HABIT])
    for i in range(1, 5):
        statistic[HABIT + i] = abs(numbers[_V + i] - numbers[_HABIT])
    statistic[RESIDUAL] = residual
    statistic[LOUDNESS] = numbers[_ABS_E]
    statistic[LOUDNESS + 1] = numbers[_ABS_E + 1]
    statistic[RUN] = max(0.0, numbers[_RUN] - 2.0)
    for i in range(3):
        statistic[LOCAL + i] = abs(numbers[_V + 1 + i] - numbers[_LOCAL])
    quieter = _rank(numbers, histograms, sums, 0, _LEVEL_0, 0, LOUDNESS, memory) - _ONE_SIDED
    if seen < CUT_EVERY or seen % CUT_EVERY == 0.0:
        _find_limit(numbers, histograms[HABIT], sums[HABIT])
    numbers[_HABIT] += max(_HABIT_RATE, 1.0 / seen, since) * (counted - numbers[_HABIT])
    numbers[_LOCAL] += max(_LOCAL_RATE, 1.0 / seen, since) * (counted - numbers[_LOCAL])

    surprises = numbers[_SURPRISE_AT : _SURPRISE_AT + _LEVEL_0]
    level = max(_mean(numbers, HABIT, HABIT + 3), _mean(numbers, HABIT + 2, HABIT + 5))
    level = max(level, _mean(numbers, LOCAL, LOCAL + 3))
    spike = max(surprises[HABIT], surprises[RESIDUAL]) - _SINGLE
    louder = _mean(numbers, LOUDNESS, LOUDNESS + 2) - _ONE_SIDED
    # a stream that was constant for most of its life is not stuck, and a short record has no say about runs
    is_constant = numbers[_RUN] > 0.5 * seen
    stuck = 0.0 if is_constant or seen < LEARNING else surprises[RUN] - _ONE_SIDED
    score = max(level, spike, louder, quieter, stuck)
    period = _return_period(READINGS, record, score, numbers[RECORDED_AT], seen)
    kinds = _kinds_near(score, level, spike, louder, quieter, stuck, LEVEL)
    _keep_peak(READINGS, numbers, record, 0, score, _RECORD_MEMORY)
    return counted, loudness, period, kinds


@kernel
def _observe_block(numbers, histograms, sums, record, level, value, loudness, memory):
    """A block level of one channel: returns the return period, in blocks, and its reasons."""
    own = numbers[_BLOCKS_AT + (level - 1) * _B_SIZE : _BLOCKS_AT + level * _B_SIZE]
    first = _LEVEL_0 + (level - 1) * _LEVEL_1
    numbers[SEEN_AT + level] += 1.0
    seen = numbers[SEEN_AT + level]
    if seen == 1.0:
        own[_B_V : _B_V + 3] = value
        own[_B_HABIT] = value
        own[_B_LOCAL] = value
        own[_B_ABS_E] = loudness
    since = _share_since(numbers, level)
    for i in range(3):
        own[_B_V + i] += max(_FACTORS[i], since) * (value - own[_B_V + i])
    own[_B_ABS_E] += 0.3 * (loudness - own[_B_ABS_E])
    statistic = numbers[_STATISTIC_AT : _STATISTIC_AT + _LEVEL_1]
    for i in range(3):
        statistic[BLOCK_HABIT + i] = abs(own[_B_V + i] - own[_B_HABIT])
    for i in range(2):
        statistic[BLOCK_LOCAL + i] = abs(own[_B_V + i] - own[_B_LOCAL])
    statistic[BLOCK_LOUDNESS] = own[_B_ABS_E]
    memory *= _BLOCK_MEMORY
    quieter = _rank(numbers, histograms, sums, first, _LEVEL_1, level, BLOCK_LOUDNESS, memory) - _ONE_SIDED
    own[_B_HABIT] += max(_BLOCK_HABIT_RATE, 1.0 / seen, since) * (value - own[_B_HABIT])
    own[_B_LOCAL] += max(_BLOCK_LOCAL_RATE, 1.0 / seen, since) * (value - own[_B_LOCAL])

    drift = _mean(numbers, BLOCK_HABIT, BLOCK_HABIT + 3)
    drift = max(drift, _mean(numbers, BLOCK_LOCAL, BLOCK_LOCAL + 2) - _BLOCK_LOCAL_OFFSET)
    louder = numbers[_SURPRISE_AT + BLOCK_LOUDNESS] - _ONE_SIDED
    score = max(drift, louder, quieter)
    period = _return_period(_BLOCKS, record, score, numbers[RECORDED_AT + level], seen)
    kinds = _kinds_near(score, drift, -1.0, louder, quieter, -1.0, DRIFT)
    _keep_peak(_BLOCKS, numbers, record, level, score, _RECORD_MEMORY / float(BLOCK) ** level)
    return period, kinds


@kernel
def _observe_channel(numbers, histograms, sums, record, value, usual, memory):
    """Take one value of a channel in: afterwards its return periods and reasons are up to date. Returns the value as
    far as averages count it.

    A block level keeps those of its last block until the next one is full.
    """
    value, loudness, period, kinds = _observe_reading(numbers, histograms, sums, record[0], value, usual, memory)
    counted = value + usual
    numbers[_PERIOD_AT] = period
    numbers[_KINDS_AT] = kinds
    for level in range(1, LEVELS):
        own = numbers[_BLOCKS_AT + (level - 1) * _B_SIZE : _BLOCKS_AT + level * _B_SIZE]
        own[_B_SUM] += value
        own[_B_ABS_SUM] += loudness
        own[_B_COUNT] += 1.0
        if own[_B_COUNT] < BLOCK:
            return counted
        value, loudness = own[_B_SUM] / BLOCK, own[_B_ABS_SUM] / BLOCK
        own[_B_SUM] = 0.0
        own[_B_ABS_SUM] = 0.0
        own[_B_COUNT] = 0.0
        period, kinds = _observe_block(numbers, histograms, sums, record[level], level, value, loudness, memory)
        numbers[_PERIOD_AT + level] = max(0.0, float(BLOCK) ** level * (period - _BLOCK_TERM) * _WEIGHTS[level])
        numbers[_KINDS_AT + level] = kinds
    return counted


@kernel
def observe(tracker, rows, row, memory):
    """Take one row in: afterwards ``periods`` and ``kinds`` are up to date. Returns whether any channel had a value.

    ``memory``: readings over which habits fade. Missing values are passed over: a channel without a value does not
    count in this row. Channels share one budget, so the return period of the most unusual one is divided by their
    number.
    """
    channels = rows.shape[1]
    any_value = False
    for channel in range(channels):
        any_value = any_value or not math.isnan(rows[row, channel])
    if not any_value:
        return False
    tracker.periods[:] = 0.0
    tracker.kinds[:] = 0
    for channel in range(channels):
        value = rows[row, channel]
        if math.isnan(value):
            continue
        numbers = tracker.numbers[channel]
        hour, hours = tracker.floats[HOUR], tracker.hours[channel]
        usual = week.usual(hours, tracker.profile[channel], hour)
        counted = _observe_channel(
            numbers, tracker.histograms[channel], tracker.sums[channel], tracker.record[channel], value, usual, memory
        )
        week.learn(hours, counted, hour)
        for level in range(LEVELS):
            period = numbers[_PERIOD_AT + level] / channels
            if period > tracker.periods[level]:
                tracker.periods[level] = period
                tracker.kinds[level] = int(numbers[_KINDS_AT + level])
    return True


@kernel
def accept(tracker):
    """Make the present level the habit: all averages start from here, as means of what comes until they are as slow
    as they were."""
    for channel in range(tracker.numbers.shape[0]):
        numbers = tracker.numbers[channel]
        present = numbers[_V + 1]
        numbers[_V : _V + 5] = present
        numbers[_HABIT] = present
        numbers[_LOCAL] = present
        for level in range(LEVELS):
            numbers[_ACCEPTED_AT + level] = numbers[SEEN_AT + level]
        for level in range(1, LEVELS):
            own = numbers[_BLOCKS_AT + (level - 1) * _B_SIZE : _BLOCKS_AT + level * _B_SIZE]
            own[_B_V : _B_V + 3] = present
            own[_B_HABIT] = present
            own[_B_LOCAL] = present
            own[_B_SUM] = own[_B_COUNT] * present


def readings_seen(tracker: Tracker) -> int:
    """Return how many readings the channel with the longest record has had."""
    return int(tracker.numbers[:, SEEN_AT].max())


def reasons_of(kinds: int) -> tuple[str, ...]:
    """Return the names of reasons given as bits."""
    return tuple(name for i, name in enumerate(REASONS) if kinds >> i & 1)


def pack(tracker: Tracker) -> dict[str, np.ndarray]:
    """Return copies of the arrays that the next reading depends on, without room for one reading."""
    arrays = {name: array.copy() for name, array in tracker._asdict().items()}
    arrays["numbers"] = arrays["numbers"][:, :_STATISTIC_AT].copy()
    return arrays


def unpack(tracker: Tracker, arrays: dict[str, np.ndarray]) -> None:
    """Fill a new tracker with what ``pack`` made, its names prefixed with "rarity."."""
    for name, array in tracker._asdict().items():
        if name in ("profile", "hours") and f"rarity.{name}" not in arrays:
            continue  # earlier snapshots have no usual week,
        saved = arrays[f"rarity.{name}"]
        if name in ("numbers", "floats"):
            array[..., : saved.shape[-1]] = saved  # and fewer numbers
        else:
            array[...] = saved


PACKED = {f"rarity.{name}" for name in Tracker._fields}


def check_packed(arrays: dict[str, np.ndarray], channels: int, remembered: int) -> None:
    """Raise SnapshotError unless ``arrays`` can be what ``pack`` made, its names prefixed with "rarity.".

    ``remembered``: alarms that the detector remembers.
    """
    numbers, floats = ((arrays[f"rarity.{name}"].shape or (0,))[-1] for name in ("numbers", "floats"))
    require(_LEAST_NUMBERS <= numbers <= _STATISTIC_AT and _LEAST_FLOATS <= floats <= FLOATS, "rarity has its numbers")
    check(arrays, _fields(channels, numbers, floats), "rarity.")
    require(arrays["rarity.ints"][OPEN] != 1 or remembered, "an open alarm is remembered")
    if "rarity.hours" in arrays or "rarity.profile" in arrays:  # earlier snapshots have no usual week
        check(arrays, week.fields(channels), "rarity.")
