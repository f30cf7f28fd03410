"""Streams whose states return, the labels that are published of them, and a filter that knows the truth."""

import math

import numpy as np
from scipy import stats

import ishsmm_stream as hs
from ishsmm_stream.online import alarms, rarity
from ishsmm_stream.online.particles.chains import TIME, make_chains, make_plan
from ishsmm_stream.online.particles.particle_filter import advance

# (means, mean dwells less one), unit noise: the paper's four states, and four that overlap
PAPER = ((-6.0, -2.0, 2.0, 6.0), (10.0, 20.0, 3.0, 7.0))
CLOSE = ((-2.0, -0.5, 0.8, 2.0), (40.0, 80.0, 30.0, 60.0))

MODEL = hs.ied(
    hs.emissions.Normal(mean=0.0, mean_weight=0.1, shape=1.0, scale=1.0), hs.durations.Poisson(shape=1.0, scale=100.0)
)
POLICY = alarms.AlarmPolicy()


def stream(means, rates, length, seed):
    """(y, states): dwells of 1 + Poisson(rate), every other state equally likely next."""
    rng = np.random.default_rng(seed)
    states: list[int] = []
    state = int(rng.integers(len(means)))
    while len(states) < length:
        states += [state] * (1 + int(rng.poisson(rates[state])))
        state = (state + int(rng.integers(1, len(means)))) % len(means)
    truth = np.array(states[:length])
    return rng.normal(np.array(means)[truth], 1.0)[:, np.newaxis], truth


def run(model, y, *, size, seed=0, lag=64, max_states=32, batch=None, look=None):
    """Chains that have seen ``y``, ``batch`` rows at a time; ``look(chains)`` is called after each batch."""
    plan = make_plan(model)
    chains = make_chains(model, size=size, lag=lag, max_states=max_states, seed=seed)
    alarm_state, tracker = alarms.make_alarm_state(), rarity.make_tracker(y.shape[1])
    batch = batch or len(y)
    for first in range(0, len(y), batch):
        last = min(first + batch, len(y))
        events = np.empty((alarms.MOST_EVENTS * batch, alarms.EVENT_NUMBERS))
        advance(plan, chains, y, first, last, POLICY, alarm_state, tracker, events)
        if look:
            look(chains)
    return chains


def uid_at(chains, back):
    """The state ``back`` observations before the last one: the uid of most weight."""
    uids = chains.recent_uid[:, (chains.clock[TIME] - 1 - back) % chains.recent_uid.shape[1]]
    found = np.unique(uids)
    return int(found[np.argmax([np.exp(chains.log_weight[uids == uid]).sum() for uid in found])])


def published_labels(model, y, *, back=20, **settings):
    """(at once, late): the id published with each observation, and the one published ``back`` observations later."""
    at_once, late = [], []

    def look(chains):
        at_once.append(uid_at(chains, 0))
        if len(at_once) > back:
            late.append(uid_at(chains, back))

    chains = run(model, y, batch=1, look=look, **settings)
    late += [uid_at(chains, b) for b in range(back - 1, -1, -1)]
    return np.array(at_once), np.array(late)


def informed_labels(means, rates, y, back=20):
    """(at once, late): the most probable states for one who knows the means and the dwells."""
    longest = int(max(rates) + 8.0 * math.sqrt(max(rates))) + 2
    r = np.arange(longest)
    hazard = np.array([np.minimum(1.0, stats.poisson.pmf(r, rate) / stats.poisson.sf(r - 1, rate)) for rate in rates])
    hazard[:, -1] = 1.0
    return _informed_filter(np.exp(-0.5 * (y - np.array(means)) ** 2), np.nan_to_num(hazard, nan=1.0), back)


def _informed_filter(likelihood, hazard, back):
    """Filter over (state, age), and backward messages over the last ``back`` observations."""
    length, states = likelihood.shape
    filtered = np.zeros((length, *hazard.shape))
    filtered[0, :, 0] = likelihood[0] / likelihood[0].sum()
    for t in range(1, length):
        ending = (filtered[t - 1] * hazard).sum(axis=1)
        filtered[t, :, 0] = (ending.sum() - ending) / (states - 1)
        filtered[t, :, 1:] = (filtered[t - 1] * (1.0 - hazard))[:, :-1]
        filtered[t] *= likelihood[t][:, np.newaxis]
        filtered[t] /= filtered[t].sum()
    messages = np.ones_like(filtered)  # what lies ahead of t, one observation further with every round
    for _ in range(back):
        weighted = likelihood[1:, :, np.newaxis] * messages[1:]
        entering = weighted[:, :, 0]
        messages[:-1] = hazard * ((entering.sum(axis=1, keepdims=True) - entering) / (states - 1))[:, :, np.newaxis]
        messages[:-1, :, :-1] += (1.0 - hazard[:, :-1]) * weighted[:, :, 1:]
        messages /= messages.max(axis=(1, 2), keepdims=True)
    return filtered.sum(axis=2).argmax(axis=1), (filtered * messages).sum(axis=2).argmax(axis=1)
