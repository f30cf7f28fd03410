"""News about states: which one was entered, whether it is new, whether a visit is unusually long or short.

An entry is announced when the state's probability reaches ``_ENTERED``. A new state is announced when P(new) exceeds
the policy's ``new_state`` and its level is unlike all known ones. It raises an alarm as long as the stream has alarms
left: there are three at first, and one more for each ``every`` readings. So a sensor that meets new states all the time
keeps to its budget, and one that seldom does loses nothing. The alarm stays open while the stream is in that state, and
clears soon after it was left.

A visit is unusual if the state's own law of dwells says that one so long, or so short, comes once in N readings:
N = (readings per visit) / (2 P(as long, or as short)). It raises an alarm when N reaches ten times the budget.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel
from ishsmm_stream.online import alarms, episodes, rarity
from ishsmm_stream.online.alarms import write_event
from ishsmm_stream.online.regimes import beliefs, dwells, states
from ishsmm_stream.online.regimes.chains import (
    DWELL_LOGS,
    DWELL_N,
    DWELL_SUM,
    FIRST_SEEN,
    READINGS,
    VISITS,
)

# Entries of Watch.ints and Watch.floats.
STATE, SINCE, ALARMED, DWELL_TOLD, SPIKE_AT, NEWEST = range(6)
ALARMS_LEFT, JUMP_FROM, HIGHEST, LOWEST = range(4)
NONE = -1

LEARNING = 300  # readings of the cold start, in which every state is new
_ENTERED = 0.9
_MOST_ALARMS = 3.0
_DWELL_SHARE = 0.1  # of the budget is for unusual visits
_LOOKS = 16  # at a visit while it doubles in length, to save time
_SPIKE = 0.5  # P(outlier) of a reading beyond all earlier ones that is reported
_MARGIN = 0.05  # how far beyond them, as a share of their range


class Watch(NamedTuple):
    """What has been announced."""

    ints: np.ndarray  # (6,) state, start of its visit, the state that raised an alarm, the one whose visit was called
    # long, reading of the last spike, the newest state that was announced as new
    floats: np.ndarray  # (4,) alarms that are left, level at the last change, largest and smallest reading


def make_watch() -> Watch:
    """Return a watch that has announced nothing."""
    return Watch(np.array([NONE, 0, NONE, NONE, NONE, NONE]), np.array([_MOST_ALARMS, np.nan, -np.inf, np.inf]))


@kernel
def novelty(chains, t, apart):
    """P(the current state is new); only states that are ``apart`` from all others count if that is asked."""
    mass = 0.0
    for i in range(chains.weight.shape[0]):
        is_in_new = chains.weight[i] > 0.0 and beliefs.is_new(chains, i, t)
        if is_in_new and (not apart or beliefs.is_apart(chains, i)):
            mass += chains.weight[i]
    return min(mass, 1.0)


@kernel
def _new_state(chains, newest, t, max_states, threshold):
    """Return the name of the new state that is to be announced after reading ``t``; -1 if there is none.

    ``newest``: the one that was announced last. States that were born shortly after it are the same in other chains.
    """
    if novelty(chains, t, True) <= threshold or beliefs.full_mass(chains, max_states) >= 0.5:
        return -1
    best = -1
    for i in range(chains.weight.shape[0]):
        is_candidate = chains.weight[i] > 0.0 and beliefs.is_new(chains, i, t) and beliefs.is_apart(chains, i)
        if is_candidate and (best < 0 or chains.weight[i] > chains.weight[best]):
            best = i
    uid = chains.uid[best, chains.state[best]]
    return uid if newest == NONE or uid > newest + beliefs.YOUNG else -1


@kernel
def _event(events, written, kind, t, uid, index, probability, period, reasons):
    return write_event(events, written, kind, t, 0, index, probability, index, index, uid, 0, period, reasons, -1)


@kernel
def _visit_period(chains, i, k, length, is_long):
    """Return in how many readings a visit this unusual comes once, to any state."""
    readings = visits = 0
    for j in range(chains.count[i]):
        readings += chains.life[i, j, READINGS]
        visits += chains.life[i, j, VISITS]
    share = 2.0 * dwells.tail(chains, i, k, length, is_long)
    return readings / visits / max(share, 1e-12)


@kernel
def _short_visit(chains, i, uid, length):
    """Return in how many readings a visit as short as the last one, to ``uid``, comes once; 0 if unknown."""
    for k in range(chains.count[i]):
        if chains.uid[i, k] == uid:
            own = chains.dwells[i, k]
            # judged by the visits before
            n, total, logs = own[DWELL_N] - 1.0, own[DWELL_SUM] - length, own[DWELL_LOGS] - math.log(length)
            if n < dwells.LEAST_VISITS or total < n or length * n > total:
                return 0.0
            kept = own[DWELL_N], own[DWELL_SUM], own[DWELL_LOGS]
            own[DWELL_N], own[DWELL_SUM], own[DWELL_LOGS] = n, total, logs
            period = _visit_period(chains, i, k, length, False)
            own[DWELL_N], own[DWELL_SUM], own[DWELL_LOGS] = kept
            return period
    return 0.0


@kernel
def _long_visit(chains, i, k, length):
    """Return in how many readings a visit as long as the current one comes once; 0 if unknown or not looked at now."""
    own = chains.dwells[i, k]
    if length % max(length // _LOOKS, 1) != 0:
        return 0.0
    if own[DWELL_N] < dwells.LEAST_VISITS or length * own[DWELL_N] < own[DWELL_SUM]:
        return 0.0
    return _visit_period(chains, i, k, length, True)


@kernel
def _is_first_move(chains, i, uid, before):
    """Whether chain ``i`` came from ``before`` to its current state for the first time."""
    for k in range(chains.count[i]):
        if chains.uid[i, k] == before:
            return chains.moves[i, k, chains.state[i]] <= 1.0
    return False


@kernel
def _announce_entry(chains, i, watch, uid, mass, t, is_learning, events, written):
    """Announce the state ``uid``, which the stream has entered. Returns the return period of the visit that ended."""
    ints = watch.ints
    since, before = chains.run_start[i], ints[STATE]
    period, reasons = 0.0, 0
    if chains.life[i, chains.state[i], FIRST_SEEN] >= since:
        reasons = rarity.NEW_STATE
    elif before != NONE and _is_first_move(chains, i, uid, before):
        reasons = rarity.NEW_TRANSITION
    if before != NONE and not is_learning and since > ints[SINCE]:
        period = _short_visit(chains, i, before, since - ints[SINCE])
    ints[STATE], ints[SINCE] = uid, since
    ints[DWELL_TOLD] = NONE
    if before != NONE:
        written = _event(events, written, alarms.ENTERED, t, uid, since, mass, 0.0, reasons)
    return period, written


@kernel
def follow(chains, watch, policy, tracker, rows, row, t, max_states, uid, mass, change, index, period, events, written):
    """Announce entries and spikes after reading ``t``, and raise alarms. Returns how many rows of ``events`` are used.

    ``uid`` and ``mass``: the most probable state. ``change``, ``index`` and ``period``: see ``episodes.follow``.
    """
    ints, floats = watch.ints, watch.floats
    y = rows[row, 0]
    is_learning = tracker.ints[rarity.CLOCK] < LEARNING
    is_quiet = is_learning or policy.threshold > 1.0
    i = beliefs.heaviest_chain(chains, uid)
    news, news_period = 0, 0.0
    if not math.isnan(y):
        floats[ALARMS_LEFT] = min(_MOST_ALARMS, floats[ALARMS_LEFT] + 1.0 / tracker.floats[rarity.EVERY])
        if ints[STATE] != uid and mass >= _ENTERED:
            short, written = _announce_entry(chains, i, watch, uid, mass, t, is_learning, events, written)
            if _DWELL_SHARE * short >= tracker.floats[rarity.EVERY]:
                news, news_period = news | rarity.DWELL, _DWELL_SHARE * short
        elif ints[STATE] == uid and mass >= _ENTERED and ints[DWELL_TOLD] != uid and not is_learning:
            long = _DWELL_SHARE * _long_visit(chains, i, chains.state[i], t - ints[SINCE] + 1)
            if long >= tracker.floats[rarity.EVERY]:
                news, news_period = news | rarity.DWELL, long
                ints[DWELL_TOLD] = uid
        newest = -1 if is_quiet else _new_state(chains, ints[NEWEST], t, max_states, policy.new_state)
        if newest >= 0:
            ints[NEWEST] = newest
            probability = novelty(chains, t, True)
            written = _event(events, written, alarms.NEW_STATE, t, newest, newest, probability, 0.0, rarity.NEW_STATE)
            if floats[ALARMS_LEFT] >= 1.0:
                news, news_period = news | rarity.NEW_STATE, max(news_period, tracker.floats[rarity.EVERY])
        margin = _MARGIN * (floats[HIGHEST] - floats[LOWEST])
        is_record = y > floats[HIGHEST] + margin or y < floats[LOWEST] - margin
        floats[HIGHEST], floats[LOWEST] = max(floats[HIGHEST], y), min(floats[LOWEST], y)
        outlier = beliefs.outlier_mass(chains)
        if is_record and not is_quiet and outlier > _SPIKE and ints[SPIKE_AT] != t - 1:
            ints[SPIKE_AT] = t
            written = _event(events, written, alarms.SPIKE, t, uid, t, outlier, 0.0, rarity.SPIKE)
    if is_quiet:
        news = 0
    was_open = tracker.ints[rarity.OPEN]
    is_in_it = ints[ALARMED] != NONE and abs(uid - ints[ALARMED]) <= beliefs.YOUNG  # it may have another name meanwhile
    written = episodes.follow(
        policy, tracker, rows, row, t, change, index, period, uid, events, written, news, news_period,
        is_in_it, ints[ALARMED] != NONE and not is_in_it,
    )  # fmt: skip
    if news & rarity.NEW_STATE and tracker.ints[rarity.OPEN] == 1:
        if was_open != 1:
            floats[ALARMS_LEFT] -= 1.0
        ints[ALARMED] = ints[NEWEST]
    elif tracker.ints[rarity.OPEN] != 1:
        ints[ALARMED] = NONE
    return written


@kernel
def jump(chains, watch, uid):
    """Return by how many standard deviations the level moved since the last announced change; nan at the first one."""
    i = beliefs.heaviest_chain(chains, uid)
    k = chains.state[i]
    level, sd = chains.prepared[i, k, states.LEVEL], math.sqrt(chains.prepared[i, k, states.ENTRY_V])
    before = watch.floats[JUMP_FROM]
    watch.floats[JUMP_FROM] = level
    return abs(level - before) / sd
