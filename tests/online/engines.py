"""The engine under test, built so that it drops nothing, and streams to feed it with."""

import numpy as np

from ishsmm_stream.model.durations import Fixed
from ishsmm_stream.model.emissions import family as emission_family
from ishsmm_stream.online import alarms, intake
from ishsmm_stream.online.renewal import smoothing
from ishsmm_stream.online.renewal.engine import RenewalEngine, Size

# Stands for the durations of a model whose hazard is learned; no kernel reads it.
NO_DURATION = Fixed(0)


def build(emission, duration, hazard, size):
    """An engine that remembers every start and every parent of ``size`` observations."""
    channels = emission_family.channels(emission) if type(emission) in emission_family.channels.bodies else 1
    size = Size(grid=len(hazard.prior), cap=size, lag=size, parents=size, channels=channels)
    return RenewalEngine(emission, duration, hazard, size, least_share=0.0)


def feed(engine, y, first=0):
    """Take y[first:] in; the rows before are looked back at. Returns the rows of events and of settled changes."""
    rows = np.ascontiguousarray(np.reshape(np.asarray(y, dtype=float), (len(y), -1)))
    before = intake.Intake(rows.shape[1], look_back=max(first, 1))
    before.recent = rows[:first]
    batch = intake.gather(intake.RAW, [before], [engine.slot_number], [alarms.make_alarm_state()], [rows[first:]])
    result = engine.extend(batch, alarms.AlarmPolicy(), False)
    engine.forget_answers()
    return result.events[: result.event_ends[0]], result.settled[: result.settled_ends[0]]


def last_start(engine):
    """P(the current segment started at s), one entry an observation."""
    starts, weights = engine.starts()
    result = np.zeros(engine.time)
    result[starts] = weights
    return result


def path(engine):
    """Starts of the most probable segmentation, 0 first."""
    return tuple(smoothing.most_probable_path(engine.filter).tolist())


def levels(rng, length, dwell, spread=3.0):
    """The level of a stream that jumps every ``dwell`` observations or so."""
    jumps = np.cumsum(rng.random(length) < 1.0 / dwell)
    return rng.normal(0.0, spread, jumps[-1] + 1)[jumps]
