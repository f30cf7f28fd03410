"""The peaks among recent readings, and numbers of six digits."""

import math

import ishsmm_stream as hs


@hs.kernel
def find_extremes(values, kept):
    """Cut values into equal stretches, half as many as ``kept`` has entries, and write the places of the lowest and
    highest of each there, in order, once where they are the same. Returns how many there are."""
    stretches, written = kept.shape[0] // 2, 0
    for i in range(stretches):
        first, end = values.shape[0] * i // stretches, values.shape[0] * (i + 1) // stretches
        lowest = highest = first
        for place in range(first + 1, end):
            if values[place] < values[lowest]:
                lowest = place
            if values[place] > values[highest]:
                highest = place
        kept[written] = min(lowest, highest)
        written += 1
        if lowest != highest:
            kept[written] = max(lowest, highest)
            written += 1
    return written


_POWERS = tuple(10.0**exponent for exponent in range(23))  # all exact
_SPLIT = 134217729.0  # 2^27 + 1: Veltkamp's splitting of a double into two halves


@hs.kernel
def shorten(numbers):
    """Round numbers, in place, to six significant digits, to the last bit as ``messages.rounded`` does. Returns whether
    that was possible: numbers of the sizes that sensors measure are, 0 and 1e-16 to 1e15."""
    for i in range(numbers.shape[0]):
        number = numbers[i]
        size = abs(number)
        if size == 0.0:
            continue
        if not 1e-16 <= size < 1e15:
            return False
        if size < 1e5:
            k = 0
            while size * _POWERS[k] < 1e5:
                k += 1
            scaled = size * _POWERS[k]
            whole = math.floor(scaled)
            half = scaled - whole - 0.5
            if half == 0.0:  # the product may have been rounded to that; Dekker's product says to which side
                a, b = size * _SPLIT, _POWERS[k] * _SPLIT
                a, b = a - (a - size), b - (b - _POWERS[k])
                half = ((a * b - scaled) + a * (_POWERS[k] - b) + (size - a) * b) + (size - a) * (_POWERS[k] - b)
            if half > 0.0 or (half == 0.0 and whole % 2.0 == 1.0):
                whole += 1.0
            size = whole / _POWERS[k]
        else:
            k = 0
            while size >= 1e6 * _POWERS[k]:
                k += 1
            whole = math.floor(size / _POWERS[k])
            rest = size - whole * _POWERS[k]  # exact, as the quotient was rounded up where this is negative
            half = rest - 0.5 * _POWERS[k]
            if half > 0.0 or (half == 0.0 and whole % 2.0 == 1.0):
                whole += 1.0
            size = whole * _POWERS[k]
        numbers[i] = size if number > 0.0 else -size
    return True
