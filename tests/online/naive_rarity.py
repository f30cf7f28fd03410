"""A plain twin of ``ishsmm_stream.online.rarity``: dictionaries, lists and one value at a time, nothing clever."""

import math

import numpy as np

BINS = 56
FACTORS = (1.0, 0.3, 0.1, 0.03, 0.01)


def quarter_octave(value):
    """Return the number of a value's bin: octaves are cut in four equal parts, bin 0 begins at 1/2."""
    mantissa, exponent = math.frexp(value)
    return 4 * exponent + int((mantissa - 0.5) * 8.0)


def lower_edge(number):
    octave, part = divmod(number, 4)
    return math.ldexp(0.5 + part / 8.0, octave)


def limited(surprise):
    return min(surprise if surprise <= 5.0 else 5.0 + (surprise - 5.0) / 2.0, 9.0)


class Histogram:
    """Values by their bin, with a range of BINS bins. Values below the range are counted as one, and so are zeros."""

    def __init__(self, least_excess=0.0):
        self.least_excess = least_excess
        self.bins = {}
        self.below = self.zeros = 0.0
        self.base = None
        self.cut = None  # values up to this bin are ordinary; found again every 32 values

    @property
    def total(self):
        return self.zeros + self.below + sum(self.bins.values())

    def add(self, value):
        number = quarter_octave(value) if value > 0.0 else None
        if number is None:
            self.zeros += 1.0
            return
        if self.base is None:
            self.base = number - BINS // 2
        if number < self.base and self.bins:  # down, but 12 bins above the largest value stay free
            self.base = max(number, min(self.base, max(self.bins) + 13 - BINS))
        half = (self.below + sum(self.bins.values())) / 2.0
        while number >= self.base + BINS and self.weight_from(self.base + 1) >= half:
            self.below += self.bins.pop(self.base, 0.0)
            self.base += 1
        number = min(number, self.base + BINS - 1)
        if number < self.base:
            self.below += 1.0
        else:
            self.bins[number] = self.bins.get(number, 0.0) + 1.0

    def upper_edge(self, share):
        beyond = [i for i in self.bins if self.weight_from(i) > share * self.total]
        return lower_edge(max(beyond) + 1) if beyond else 0.0

    def find_cut(self):
        ordinary = [i for i in self.bins if self.weight_from(i) > 0.3 * (self.total + 2.0) - 1.0]
        self.cut = max(ordinary, default=None)

    def halve(self):
        self.bins = {number: weight / 2.0 for number, weight in self.bins.items()}
        self.below /= 2.0
        self.zeros /= 2.0

    def weight_from(self, number):
        return sum(weight for i, weight in self.bins.items() if i >= number)

    def surprise(self, value):
        """Return -log10 P(at least this large)."""
        if value <= 0.0 or self.total == 0.0:
            return 0.2
        number = quarter_octave(value)
        if self.cut is not None and number <= self.cut:
            return 0.2
        above = self.weight_from(number)
        if self.base is not None and number < self.base:
            above += self.below
        if above + 1.0 > 0.3 * (self.total + 2.0):
            return 0.2
        if above < 0.5:
            return limited(self.beyond(value))
        return limited(-math.log10((above + 1.0) / (self.total + 2.0)))

    def beyond(self, value):
        """Return the surprise by a Pareto tail that has the moments of the top 2 % of the record, at least 10."""
        wanted = max(10.0, 0.02 * self.total)
        first = max((i for i in self.bins if self.weight_from(i) >= wanted), default=None)
        if first is None:  # all that there is
            if sum(self.bins.values()) < 0.5 * wanted:
                top = lower_edge(max(self.bins) + 1) if self.bins else 0.0
                survival = math.exp(-max(value - top, 0.0) / self.least_excess) if self.least_excess else 1.0
                return math.log10(self.total + 2.0) - math.log10(max(survival, 1e-300))
            first = self.base
        edge, count = lower_edge(first), self.weight_from(first)
        top = [((lower_edge(i) + lower_edge(i + 1)) / 2.0 - edge, w) for i, w in self.bins.items() if i >= first]
        mean = sum(w * excess for excess, w in top) / count
        square = sum(w * excess**2 for excess, w in top) / count
        mean = max(mean, self.least_excess)
        variance = max(square - mean**2, 1e-9 * mean**2)
        shape = (1.0 - mean**2 / variance) / 2.0 * count / (count + 20.0)
        shape = min(max(shape, 3.0 / count), 0.4)
        survival = count / self.total * (1.0 + shape * (value - edge) / (mean * (1.0 - shape))) ** (-1.0 / shape)
        return -math.log10(survival)

    def quiet_surprise(self, value):
        """Return -log10 P(at most this large)."""
        if not self.bins:
            return 0.2
        number = quarter_octave(value) if value > 0.0 else -math.inf
        below = self.zeros + (self.below if value > 0.0 else 0.0)
        below += sum(weight for i, weight in self.bins.items() if i <= number)
        probability = (below + 1.0) / (self.total + 2.0)
        return 0.2 if probability > 0.3 else limited(-math.log10(probability))


class Level:
    """Histograms, record of peaks and return period of one level of the ladder."""

    def __init__(self, histograms, peaks_apart, prior, bin_prior, learning, memory, record_memory):
        self.histograms = histograms
        self.peaks_apart, self.prior, self.bin_prior, self.learning = peaks_apart, prior, bin_prior, learning
        self.memory, self.record_memory = memory, record_memory
        self.seen = self.age = self.record_age = 0
        self.recorded = 0.0
        self.record = [0.0] * 64
        self.peak, self.peak_at = 0.0, 0
        self.accepted = None

    def rate(self, factor, worth):
        """Of an average; after an acceptance the plain mean of what came since, until that is slower."""
        if not self.accepted:
            return factor
        return max(factor, 1.0 / (self.seen - self.accepted + worth))

    def rank(self, statistics, loudness):
        """Return the surprises, and the mean surprise of those in ``loudness`` at being so small."""
        surprises = [h.surprise(x) for h, x in zip(self.histograms, statistics, strict=True)]
        quiet = [self.histograms[i].quiet_surprise(statistics[i]) for i in loudness]
        for i, (histogram, x) in enumerate(zip(self.histograms, statistics, strict=True)):
            if i != 8 or x == 0.0:  # a run joins the record when it ends
                histogram.add(x)
            if self.seen < 32 or self.seen % 32 == 0:
                histogram.find_cut()
        self.age += 1
        if self.age >= math.log(2.0) * self.memory:
            self.age = 0
            for histogram in self.histograms:
                histogram.halve()
        return surprises, mean(quiet)

    def judge(self, score):
        """Return the return period of a score, in steps of the level, and keep the score."""
        period = 0.0
        if score >= 0.8:
            place = min(int((score - 0.5) / 0.125), 63)
            higher = sum(self.record[place:]) + self.record[place - 1] * self.bin_prior / (
                self.bin_prior + self.recorded
            )
            prior_period = 10.0 ** (1.63 + 0.61 * score)
            log_period = math.log10((self.prior + self.recorded) / (self.prior / prior_period + higher))
            log_period += max(1.0, 2.0 * (log_period - 3.0)) * math.log10(self.seen / (self.seen + self.learning))
            period = 10.0**log_period
        self.keep(score)
        return period

    def keep(self, score):
        self.recorded += 1.0
        self.record_age += 1
        if self.record_age >= math.log(2.0) * self.record_memory:
            self.record_age = 0
            self.recorded /= 2.0
            self.record = [weight / 2.0 for weight in self.record]
        is_over = self.seen - self.peak_at > self.peaks_apart
        if is_over and self.peak >= 0.5:
            self.record[min(int((self.peak - 0.5) / 0.125), 63)] += 1.0
        if is_over or score > self.peak:
            self.peak, self.peak_at = score, self.seen


def mean(values):
    return sum(values) / len(values)


class Readings:
    """Level 0."""

    def __init__(self, memory):
        histograms = [Histogram(least_excess=2.0 if i == 8 else 0.0) for i in range(12)]
        self.level = Level(histograms, 100, 1e4, 1e5, 300, memory, 4e6)
        self.limit = math.inf  # of deviations from the habit that averages count
        self.counted = None
        self.previous = None
        self.averages = self.habit = self.local = None
        self.loudness = [0.0, 0.0]
        self.run = 0
        self.fit = [0.0] * 5

    def residual(self, v, y):
        """Return the residual of an AR(1) fit that forgets by .999 and learns from ``y``, as far as ``v`` counts."""
        x, self.counted = self.counted, y
        if x is None:
            return 0.0
        weight, mean_x, mean_y, variance, covariance = self.fit
        slope = covariance / variance if variance > 0.0 else 0.0
        residual = v - mean_y - slope * (x - mean_x) if weight > 0.0 else 0.0
        weight = 0.999 * weight + 1.0
        new_x, new_y = mean_x + (x - mean_x) / weight, mean_y + (y - mean_y) / weight
        variance = 0.999 * variance + (x - mean_x) * (x - new_x)
        covariance = 0.999 * covariance + (x - mean_x) * (y - new_y)
        self.fit = [weight, new_x, new_y, variance, covariance]
        return residual

    def accept(self):
        self.level.accepted = self.level.seen
        self.averages = [self.averages[1]] * 5
        self.habit = self.local = self.averages[1]

    def take(self, v, usual):
        """Return the return period, and what counts of the reading less the usual and of the residual's size."""
        rest = v - usual
        self.level.seen += 1
        seen = self.level.seen
        if seen == 1:
            self.averages, self.habit, self.local = [rest] * 5, rest, rest
        counts = self.habit + min(max(rest - self.habit, -self.limit), self.limit)
        e = abs(self.residual(v, counts + usual))
        if v != self.previous:
            for x in range(1, self.run - 1):
                self.level.histograms[8].add(float(x))
            self.run = 0
        self.run += 1
        self.previous = v
        self.averages = [
            average + self.level.rate(f, 6.0) * (counts - average)
            for average, f in zip(self.averages, FACTORS, strict=True)
        ]
        rates = [max(f, 1.0 / max(seen - 1, 1)) for f in (0.1, 0.03)]
        size = min(e, 2.0 * self.limit)
        self.loudness = [own + rate * (size - own) for own, rate in zip(self.loudness, rates, strict=True)]
        statistics = [
            abs(rest - self.habit),
            *(abs(average - self.habit) for average in self.averages[1:]),
            e,
            *self.loudness,
            max(0.0, self.run - 2.0),
            *(abs(average - self.local) for average in self.averages[1:4]),
        ]
        s, quieter = self.level.rank(statistics, (6, 7))
        if seen < 32 or seen % 32 == 0:
            if seen >= 64:
                self.limit = 8.0 * self.level.histograms[0].upper_edge(0.01) or math.inf
            elif seen >= 4:
                self.limit = 32.0 * self.loudness[1] or math.inf
        self.habit += self.level.rate(max(3e-4, 1.0 / seen), 6.0) * (counts - self.habit)
        self.local += self.level.rate(max(0.01, 1.0 / seen), 6.0) * (counts - self.local)
        scores = {
            "level": max(mean(s[0:3]), mean(s[2:5]), mean(s[9:12])),
            "spike": max(s[0], s[5]) - 1.5,
            "louder": mean(s[6:8]) - 0.8,
            "quieter": quieter - 0.8,
            "stuck": s[8] - 0.8 if self.run <= seen / 2 and seen >= 500 else 0.0,
        }
        return self.level.judge(max(scores.values())), counts, size


class Blocks:
    """Level 1 or 2: means of 32 values of the level below."""

    def __init__(self, number, memory):
        size = 32.0**number
        self.level = Level([Histogram() for _ in range(6)], 30, 3e3, 3e3, 200, 0.3 * memory, 4e6 / size)
        self.factor = size * (0.5, 0.32)[number - 1]
        self.waiting = []
        self.averages = self.habit = self.local = self.loudness = None
        self.period = 0.0
        self.worth = 6.0 / size

    def accept(self, present):
        self.level.accepted = self.level.seen
        self.averages, self.habit, self.local = [present] * 3, present, present
        self.waiting = [(present, size) for _, size in self.waiting]

    def take(self, value, size):
        """Take one value of the level below in; return the means of a block when it is full, else None."""
        self.waiting.append((value, size))
        if len(self.waiting) < 32:
            return None
        value, size = (sum(parts) / 32.0 for parts in zip(*self.waiting, strict=True))
        self.waiting = []
        self.level.seen += 1
        seen = self.level.seen
        if seen == 1:
            self.averages, self.habit, self.local, self.loudness = [value] * 3, value, value, size
        self.averages = [
            average + self.level.rate(f, self.worth) * (value - average)
            for average, f in zip(self.averages, FACTORS[:3], strict=True)
        ]
        self.loudness += 0.3 * (size - self.loudness)
        statistics = [
            *(abs(average - self.habit) for average in self.averages),
            *(abs(average - self.local) for average in self.averages[:2]),
            self.loudness,
        ]
        s, quieter = self.level.rank(statistics, (5,))
        self.habit += self.level.rate(max(2e-3, 1.0 / seen), self.worth) * (value - self.habit)
        self.local += self.level.rate(max(0.03, 1.0 / seen), self.worth) * (value - self.local)
        score = max(mean(s[0:3]), mean(s[3:5]) - 0.32, s[5] - 0.8, quieter - 0.8)
        self.period = max(0.0, (self.level.judge(score) - 200.0) * self.factor)
        return value, size


class Week:
    """What is usual by hour of the day and by stretch of four hours of the week."""

    def __init__(self):
        self.day, self.stretch = [0.0] * 24, [0.0] * 42
        self.hour, self.values, self.now = None, [], 0.0
        self.deviations, self.foreseen = [], []
        self.baseline = None
        self.agreed = self.squares = 0.0

    def profile(self, hour):
        return self.day[hour % 24] + self.stretch[hour // 4]

    def usual(self, hour):
        if hour is None or hour < 0:
            return 0.0
        if hour != self.hour:
            if self.hour is not None:
                self.learn(self.hour, mean(self.values))
            share = self.agreed / self.squares if self.squares > 0.0 else 0.0
            self.now = min(max(share, 0.0), 1.0) * self.profile(hour)
            self.hour, self.values = hour, []
        return self.now

    def learn(self, hour, average):
        n = len(self.deviations)
        self.baseline = average if n == 0 else self.baseline
        deviation, foreseen = average - self.baseline, self.profile(hour)
        if n > 0:
            own, told = deviation - self.deviations[-1], foreseen - self.foreseen[-1]
            self.agreed = (1.0 - 1.0 / 336.0) * self.agreed + own * told
            self.squares = (1.0 - 1.0 / 336.0) * self.squares + told**2
        self.deviations.append(deviation)
        self.foreseen.append(foreseen)
        self.baseline += deviation / min(n + 1, 336)
        # kept in single precision
        before = self.day[hour % 24]
        self.day[hour % 24] = float(np.float32(before + (deviation - before) / min(n // 24 + 1, 30)))
        in_stretch = 4 * (n // 168) + hour % 4 + 1
        rest = deviation - self.day[hour % 24]
        before = self.stretch[hour // 4]
        self.stretch[hour // 4] = float(np.float32(before + (rest - before) / min(in_stretch + 2, 24)))


class Channel:
    """One channel: return periods of its three levels."""

    def __init__(self, memory):
        self.readings = Readings(memory)
        self.blocks = [Blocks(1, memory), Blocks(2, memory)]
        self.week = Week()

    def accept(self):
        self.readings.accept()
        for level in self.blocks:
            level.accept(self.readings.habit)

    def take(self, value, hour):
        usual = self.week.usual(hour)
        period, *full = self.readings.take(value, usual)
        if hour is not None and hour >= 0:
            self.week.values.append(full[0] + usual)
        for level in self.blocks:
            full = level.take(*full)
            if full is None:
                break
        return [period, *(level.period for level in self.blocks)]


class Tracker:
    """Channels with one budget: the return period of the most unusual one, divided by their number."""

    def __init__(self, channels, memory):
        self.channels = [Channel(memory) for _ in range(channels)]

    def accept(self):
        for channel in self.channels:
            channel.accept()

    def observe(self, row, hour=None):
        """Return the return periods of the three levels; None if the row has no value."""
        found = [c.take(v, hour) for c, v in zip(self.channels, row, strict=True) if not math.isnan(v)]
        if not found:
            return None
        return [max(periods) / len(self.channels) for periods in zip(*found, strict=True)]
