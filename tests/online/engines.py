"""The engine under test, built so that it drops nothing, and streams to feed it with."""

import numpy as np

from ishsmm_stream.model.durations import Fixed
from ishsmm_stream.model.emissions import family as emission_family
from ishsmm_stream.online import alarms
from ishsmm_stream.online.renewal import smoothing
from ishsmm_stream.online.renewal.engine import LeftToRight

# Stands for the durations of a model whose hazard is learned; no kernel reads it.
NO_DURATION = Fixed(0)


def build(emission, duration, hazard, size):
    """An engine that remembers every start and every parent of ``size`` observations."""
    channels = emission_family.channels(emission) if type(emission) in emission_family.channels.bodies else 1
    return LeftToRight(emission, duration, hazard, cap=size, lag=size, parents=size, least_share=0.0, channels=channels)


def feed(engine, y, first=0):
    """Take y[first:] in; the rows before are looked back at."""
    rows = np.ascontiguousarray(np.reshape(np.asarray(y, dtype=float), (len(y), -1)))
    is_still = np.zeros(len(rows) - first, dtype=np.bool_)
    return engine.extend(rows, is_still, first, alarms.AlarmPolicy(), alarms.make_watch())[:2]


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
