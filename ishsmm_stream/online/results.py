"""What a detector says: change points, alarms, events, the state, a forecast."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ishsmm_stream.batch.change_points import ChangePoint

__all__ = [
    "Alarm", "AnnouncedChange", "ChangePoint", "Episode", "Event", "Forecast", "KnownState", "NextState", "Rarity",
    "StateEstimate", "Transition",
]  # fmt: skip


class StateEstimate(NamedTuple):
    """The state that a stream is in."""

    id: int  # the same number whenever the state returns
    since: int  # first observation of the current segment
    probability: float
    parameters: dict[str, float]
    visits: int  # segments of this state so far, the current one included
    readings: int = 0  # in all of its visits; 0 if the model does not count them
    dwell: tuple[float, float, float] | None = None  # usual length of a visit: 5 %, 50 % and 95 % quantiles


class KnownState(NamedTuple):
    """An entry of the state dictionary: a state that the stream has been in."""

    id: int  # the same number whenever the state returns
    mean: float
    sd: float  # of the readings about the mean
    visits: int
    readings: int  # in all of its visits
    first_seen: int
    last_seen: int
    dwell: tuple[float, float, float] | None  # usual length of a visit, as in ``StateEstimate``; None before one ended


class Transition(NamedTuple):
    """How often the stream went from one state to another."""

    before: int
    after: int
    count: int  # type: ignore[assignment]


class NextState(NamedTuple):
    """A state that may come next."""

    id: int | None  # None: a new one
    probability: float


STATE_NEWS = ("entered", "new_state", "spike")  # kinds of events that are about states


class Event(NamedTuple):
    """Something that observation ``at`` caused: news of a change, of an alarm, or of a state.

    Changes and alarms are numbered apart; news of states has the number 0. With ``model="recurring"`` a stream that
    goes to another state causes "entered", with "new_state" or "new_transition" among its reasons if it is one. A state
    unlike all that the stream has been in causes "new_state", and an outlier beyond all earlier readings "spike".
    """

    # changes: raised, relocated, confirmed, retracted; alarms: alarm, cleared; states: entered, new_state, spike
    kind: str
    at: int
    alarm: int  # the permanent number, from 0, of the change or the alarm
    index: int  # type: ignore[assignment]  # changes: first observation of the new segment, as believed then
    probability: float  # that a change has happened; of an alarm 0
    low: int  # 5% and 95% quantiles of where
    high: int
    state: int  # id of the state then
    return_period: float = 0.0  # in readings: how seldom this stream does something like this
    reasons: tuple[str, ...] = ()  # of an alarm, as in ``Rarity``; of an entry, see above
    change: int = -1  # the number of the change; of an alarm, that of the change behind it, -1 if there is none


class Rarity(NamedTuple):
    """How unusual the newest reading is for its stream."""

    return_period: float  # in readings
    reasons: tuple[str, ...]  # some of: change, level, spike, louder, quieter, stuck, drift, new_state, unusual_dwell
    readings: int  # how many the judgement rests on
    learning: int  # readings still to come before it can be relied on; until then only very clear changes alarm


class AnnouncedChange(NamedTuple):
    """A change that was announced."""

    number: int
    index: int  # type: ignore[assignment]  # refined until it is settled
    raised_at: int
    status: str  # raised, confirmed, retracted


Alarm = AnnouncedChange  # its old name


class Episode(NamedTuple):
    """An alarm from its raise to its clear."""

    number: int
    raised_at: int
    cleared_at: int | None  # None while it is open
    return_period: float  # when it was raised
    reasons: tuple[str, ...]
    change: int  # the number of the change behind it, -1 if there is none


class Forecast(NamedTuple):
    """Marginal predictions of the next observations: entry j belongs to the (j + 1)th from now; (h,), or (h, channels).

    By simulation, with outliers left out; the quantiles' own error is about 2% of the spread.
    """

    mean: np.ndarray
    median: np.ndarray
    low: np.ndarray  # 5% and 95% quantiles
    high: np.ndarray
