"""The rule behind at_most: never more than promised, close to it in a flood, and the most unusual first."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from service.settings.budgets import parse
from service.sinks.allowance import Allowance, Limit, bar, decide, limit_of

DAY = 86_400.0
LIMIT = limit_of(parse("20 per day"))


def flood(per_day, days, tail=1.0, seed=0, allowance=None, start=0.0):
    """Alarms at random times: (time, ratio, whether it passed), and the allowance after them."""
    rng, state, now, seen = random.Random(seed), allowance or Allowance(), start, []
    while True:
        now += rng.expovariate(per_day / DAY)
        if now > start + days * DAY:
            return seen, state
        ratio = rng.random() ** (-1.0 / tail)
        state, passes = decide(LIMIT, state, ratio, now)
        seen.append((now, ratio, passes))


def most_in_a_period(seen, limit=LIMIT):
    times = [time for time, _, passes in seen if passes]
    return max(sum(first <= time < first + limit.period_s for time in times) for first in times)


@pytest.mark.parametrize("tail", [2.0, 1.0, 0.3])
@pytest.mark.parametrize("times_over", [2, 10, 100])
def test_in_a_flood_the_most_unusual_pass_and_no_more_than_promised(times_over, tail):
    """Six days, the first without its judgement on fairness: it begins with an allowance that is spent quickly.

    The tail is that of the ratios: 1 if return periods are exact, 0.3 if they are far too long.
    """
    n_sent, n_top, n_top_sent, n_first, n_first_sent = 0, 0, 0, 0, 0
    for seed in range(4):
        seen, _ = flood(20 * times_over, 6, tail, seed)
        assert most_in_a_period(seen) <= 20
        for day in range(1, 6):
            that_day = [(ratio, passes) for time, ratio, passes in seen if day * DAY <= time < (day + 1) * DAY]
            top = sorted(that_day, reverse=True)[:20]
            n_sent += sum(passes for _, passes in that_day)
            n_top, n_top_sent = n_top + 20, n_top_sent + sum(passes for _, passes in top)
            n_first, n_first_sent = n_first + 5, n_first_sent + sum(passes for _, passes in top[:5])
    assert 14.0 <= n_sent / 20 <= 20.0  # per day
    assert n_top_sent / n_top >= 0.65  # without a bar it would be 1 / times_over
    assert n_first_sent / n_first >= 0.85


def test_alarms_that_are_equally_unusual_leave_a_quarter_for_others():
    state, times = Allowance(), []
    for i in range(3000):
        state, passes = decide(LIMIT, state, 1e6, 86.4 * i)
        times += [86.4 * i] if passes else []
    assert 40 <= len(times) <= 48  # in three days
    assert decide(LIMIT, state, 2e6, 86.4 * 3000)[1]


def test_on_the_first_day_of_a_flood_the_promise_holds_too():
    seen, _ = flood(2000, 1)
    assert 15 <= sum(passes for _, _, passes in seen) <= 20


def test_after_quiet_everything_passes_until_half_is_spent():
    _, state = flood(2000, 3)
    assert bar(LIMIT, state, 3 * DAY + 60.0) > 10.0
    assert bar(LIMIT, state, 4 * DAY) == 1.0
    fresh = Allowance()
    for i in range(8):  # one every two hours
        fresh, passes = decide(LIMIT, fresh, 1.0, i * 7200.0)
        assert passes


def test_the_bar_rises_as_the_allowance_is_spent_and_falls_again():
    state, bars = Allowance(), []
    for i in range(30):
        bars.append(bar(LIMIT, state, 60.0 * i))
        state, _ = decide(LIMIT, state, 2.0**i, 60.0 * i)
    assert bars[:3] == [1.0] * 3
    assert all(later >= earlier for earlier, later in itertools.pairwise(bars))
    assert bars[20:] == [math.inf] * 10  # 20 are sent: nothing passes, however unusual
    assert decide(LIMIT, state, math.inf, 3600.0)[1] is False
    assert bar(LIMIT, state, DAY + 600.0) < math.inf


def test_a_clock_that_is_set_back_gives_nothing_back():
    state = Allowance()
    for i in range(40):
        state, _ = decide(LIMIT, state, 2.0 ** (i + 1), 1e6 + i)
    assert len(state.sent) == 20
    assert bar(LIMIT, state, 1e6 - 1e5) == math.inf


def test_one_message_may_be_the_whole_allowance():
    limit = Limit(1, DAY)
    state, first = decide(limit, Allowance(), 1.0, 0.0)
    state, second = decide(limit, state, 1e9, 3600.0)
    assert (first, second) == (True, False)
    assert decide(limit, state, 1.0, 3 * DAY)[1]


@pytest.mark.parametrize(("text", "most", "hours"), [("2.5 per day", 2, 19.2), ("1 per week", 1, 168.0)])
def test_a_limit_has_whole_messages_at_the_same_rate(text, most, hours):
    assert limit_of(parse(text)) == Limit(most, pytest.approx(hours * 3600.0))


def test_incidents_pass_while_anything_is_left():
    state, passed = Allowance(), 0
    for i in range(200):
        state, _ = decide(LIMIT, state, 5.0, 10.0 * i)
    for i in range(20):
        state, passes = decide(LIMIT, state, math.inf, 2000.0 + i)
        passed += passes
    assert 4 <= passed < 20
    assert len(state.sent) == 20
