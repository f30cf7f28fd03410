"""What a detector says: change points, alarms, events, the state, a forecast."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ishsmm_stream.batch.change_points import ChangePoint

__all__ = ["Alarm", "ChangePoint", "Event", "Forecast", "StateEstimate"]


class StateEstimate(NamedTuple):
    """The state that a stream is in."""

    id: int  # the same number whenever the state returns
    since: int  # first observation of the current segment
    probability: float
    parameters: dict[str, float]
    visits: int  # segments of this state so far, the current one included


class Event(NamedTuple):
    """Something that happened to an alarm at observation ``at``."""

    kind: str  # raised, relocated, confirmed, retracted
    at: int
    alarm: int  # its permanent number, from 0
    index: int  # type: ignore[assignment]  # first observation of the new segment, as believed then
    probability: float  # that a change has happened
    low: int  # 5% and 95% quantiles of where
    high: int
    state: int  # id of the state then


class Alarm(NamedTuple):
    """A change that was announced."""

    number: int
    index: int  # type: ignore[assignment]  # refined until it is settled
    raised_at: int
    status: str  # raised, confirmed, retracted


class Forecast(NamedTuple):
    """Marginal predictions of the next observations: entry j belongs to the (j + 1)th from now; (h,), or (h, channels).

    By simulation, with outliers left out; the quantiles' own error is about 2% of the spread.
    """

    mean: np.ndarray
    median: np.ndarray
    low: np.ndarray  # 5% and 95% quantiles
    high: np.ndarray
