"""A histogram of a stream's own past, in which old values fade, and how surprising a value is against it.

Bins are a quarter octave wide and cover 14 octaves. The range follows the values, but half of those above 0 stay in
it: an absurd value does not hide the ordinary ones. Surprise is -log10 P(a value at least as large), beyond the
record by a generalised Pareto tail.
"""

from __future__ import annotations

import math

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.online.validation import SINGLE, Field, columns

BINS = 56  # four per octave
NO_BIN = -(1 << 40)  # of the value 0
_BIN_OF_HALF = 1022 << 2  # bins are counted from the one that begins at 1/2
# Sums beside the bins: the number of the first bin, the weight of all values and of those between 0 and the range, the
# top bin, the last bin that is ordinary.
BASE, TOTAL, BELOW, HIGHEST, CUT = range(5)
SUMS = 5
_HEADROOM = 12  # bins that stay free above the largest value when the range moves down
CUT_EVERY = 32  # values after which the ordinary range is to be found again
_LN10 = 2.302585092994046
_ORDINARY = 0.3  # tail probabilities above this count as ordinary,
NO_SURPRISE = 0.2  # with this surprise
_TAIL_SHARE, _TAIL_LEAST = 0.02, 10.0  # the top of the record that the Pareto tail is fitted to
_TAIL_PRIOR = 20.0  # shrinks the shape of a tail towards an exponential one
_LARGEST_SHAPE = 0.4
_SOFT_LIMIT, _HARD_LIMIT = 5.0, 9.0  # surprise beyond the first counts half, and never more than the second


def make_sums(*shape: int) -> np.ndarray:
    """Return the sums of empty histograms."""
    sums = np.zeros((*shape, SUMS), dtype=np.float32)
    sums[..., [HIGHEST, CUT]] = -1.0
    return sums


# A range that updates do not leave: weights may overflow, and the top bin may leave a range that moves up.
_VALID_SUMS = columns(
    [-5000.0, 0.0, 0.0, -1000.0, -1000.0],
    [5000.0, np.inf, np.inf, BINS - 1.0, 1000.0],
    whole=[BASE, HIGHEST, CUT],
)


def fields(*shape: int) -> tuple[Field, Field]:
    """Return what the bins and the sums of histograms in a snapshot must be."""
    bins = Field(SINGLE, (*shape, BINS), 0.0)
    return bins, Field(SINGLE, (*shape, SUMS), columns=_VALID_SUMS)


@kernel
def bin_number(value):
    """Return the bin of a positive value, a quarter octave, read off its exponent and two further bits."""
    return (np.float64(value).view(np.int64) >> 50) - _BIN_OF_HALF


@kernel
def _bin_edge(number):
    """Return the lower edge of a bin."""
    return np.int64((number + _BIN_OF_HALF) << 50).view(np.float64)


@kernel
def _move_up(bins, sums, wanted):
    """Move the range up by ``wanted`` bins, or by as many as leave half of the values above 0 in it."""
    left, shift = 0.0, 0
    for i in range(BINS):
        left += float(bins[i])
    least = 0.5 * (float(sums[BELOW]) + left)
    while shift < min(wanted, BINS) and left - float(bins[shift]) >= least:
        left -= float(bins[shift])
        sums[BELOW] += float(bins[shift])
        shift += 1
    for i in range(BINS):
        bins[i] = bins[i + shift] if i + shift < BINS else 0.0
    sums[BASE] += shift
    sums[HIGHEST] -= shift
    sums[CUT] = max(sums[CUT] - shift, -1.0)


@kernel
def _move_down(bins, sums, wanted):
    """Move the range down by ``wanted`` bins, or by as many as leave room for larger values."""
    shift = min(wanted, BINS - 1 - _HEADROOM - int(sums[HIGHEST]))
    if shift <= 0:
        return
    for i in range(BINS - 1, -1, -1):
        bins[i] = bins[i - shift] if i >= shift else 0.0
    sums[BASE] -= shift
    sums[HIGHEST] += shift
    if sums[CUT] >= 0.0:
        sums[CUT] += shift


@kernel
def add(bins, sums, number, weight):
    """Add a value of bin ``number``, which moves the range if it is outside."""
    sums[TOTAL] += weight
    if number == NO_BIN:
        return
    if sums[HIGHEST] < 0.0:
        sums[BASE] = number - BINS // 2
    place = number - int(sums[BASE])
    if place < 0:
        _move_down(bins, sums, -place)
    elif place >= BINS:
        _move_up(bins, sums, place - BINS + 1)
    place = min(number - int(sums[BASE]), BINS - 1)
    if place < 0:
        sums[BELOW] += weight
        return
    bins[place] += weight
    sums[HIGHEST] = max(sums[HIGHEST], place)


@kernel
def upper_edge(bins, sums, share):
    """Return a value that less than ``share`` of all values exceed: the upper edge of a bin, or 0 below the range."""
    most, above = share * float(sums[TOTAL]), 0.0
    for i in range(int(sums[HIGHEST]), -1, -1):
        above += float(bins[i])
        if above > most:
            return _bin_edge(int(sums[BASE]) + i + 1)
    return 0.0


@kernel
def add_run(bins, sums, longest):
    """Add the whole numbers 1 to ``longest``: a run that ended had each of these lengths."""
    least = 1.0
    while least <= longest:
        number = bin_number(least)
        following = min(math.ceil(_bin_edge(number + 1)), longest + 1.0)
        add(bins, sums, number, following - least)
        least = following


@kernel
def find_cut(bins, sums):
    """Find the highest bin in which a value is ordinary: most queries end there."""
    ordinary = _ORDINARY * (float(sums[TOTAL]) + 2.0) - 1.0
    above = 0.0
    i = int(sums[HIGHEST])
    while i >= 0 and above <= ordinary:
        above += float(bins[i])
        i -= 1
    sums[CUT] = i + 1 if above > ordinary else -1


@kernel
def halve(bins, sums):
    for i in range(BINS):
        bins[i] *= 0.5
    sums[TOTAL] *= 0.5
    sums[BELOW] *= 0.5


@kernel
def _limited(decades):
    if decades > _SOFT_LIMIT:
        decades = _SOFT_LIMIT + 0.5 * (decades - _SOFT_LIMIT)
    return min(decades, _HARD_LIMIT)


@kernel
def _beyond(bins, sums, value, least_excess):
    """Return the surprise of a value above everything on record, by a generalised Pareto tail fitted by moments.

    ``least_excess``: the least mean excess of the tail, if there is a natural one (a run grows by whole readings). Then
    a record that is too short for a fit has an exponential tail with this mean.
    """
    total, base = float(sums[TOTAL]), int(sums[BASE])
    wanted = max(_TAIL_LEAST, _TAIL_SHARE * total)
    count, first = 0.0, int(sums[HIGHEST]) + 1
    while first > 0 and count < wanted:
        first -= 1
        count += float(bins[first])
    if count < 0.5 * wanted:
        excess = value - _bin_edge(base + int(sums[HIGHEST]) + 1) if sums[HIGHEST] >= 0.0 else value
        decades = max(excess, 0.0) / (least_excess * _LN10) if least_excess > 0.0 else 0.0
        return math.log10(total + 2.0) + decades
    edge = _bin_edge(base + first)
    mean, square = 0.0, 0.0
    for i in range(first, int(sums[HIGHEST]) + 1):
        excess = 0.5 * (_bin_edge(base + i) + _bin_edge(base + i + 1)) - edge
        mean += float(bins[i]) * excess
        square += float(bins[i]) * excess * excess
    mean = max(mean / count, least_excess)
    variance = max(square / count - mean * mean, 1e-9 * mean * mean)
    shape = 0.5 * (1.0 - mean * mean / variance) * count / (count + _TAIL_PRIOR)
    shape = min(max(shape, 3.0 / count), _LARGEST_SHAPE)
    ratio = shape * (value - edge) / (mean * (1.0 - shape))
    return math.log10(total / count) + math.log10(1.0 + ratio) / shape


@kernel
def surprise(bins, sums, number, value, least_excess):
    """Return -log10 P(a value at least as large), limited."""
    total = float(sums[TOTAL])
    if number == NO_BIN or total <= 0.0:
        return NO_SURPRISE
    place = number - int(sums[BASE]) if sums[HIGHEST] >= 0.0 else BINS
    if place <= sums[CUT]:
        return NO_SURPRISE
    above = 0.0
    for i in range(max(place, 0), int(sums[HIGHEST]) + 1):
        above += float(bins[i])
    if place < 0:  # below the range, which is one bin
        above += float(sums[BELOW])
    if above + 1.0 > _ORDINARY * (total + 2.0):
        return NO_SURPRISE
    if above < 0.5:
        return _limited(_beyond(bins, sums, value, least_excess))
    return _limited(-math.log10((above + 1.0) / (total + 2.0)))


@kernel
def quiet_surprise(bins, sums, number):
    """Return -log10 P(a value at most as large), limited."""
    total = float(sums[TOTAL])
    if sums[HIGHEST] < 0.0:
        return NO_SURPRISE
    above = 0.0
    for i in range(max(number - int(sums[BASE]) + 1, 0), int(sums[HIGHEST]) + 1):
        above += float(bins[i])
    if number == NO_BIN:
        above += float(sums[BELOW])
    probability = (total - above + 1.0) / (total + 2.0)
    return NO_SURPRISE if probability > _ORDINARY else _limited(-math.log10(probability))
