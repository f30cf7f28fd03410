"""One sensor: its detector, the times of its readings, and the messages about it.

The messages depend on the sensor's own readings and its rule alone. Windows end after a number of its own readings,
events are published as they were at the reading that caused them, and nothing depends on how readings were cut into
cycles. A track can be loaded from ``dump``ed bytes wherever it is needed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

import ishsmm_stream as hs
from service.sensors.arrival import judge
from service.sensors.history import History, Previous, remembers
from service.sensors.recent import downsample
from service.sensors.reordering import ReorderBuffer
from service.sensors.rules import PreparedRule
from service.sensors.wording import frequency_words, reason_words, state_words, words
from service.settings import Rule
from service.settings.sinks import ABOUT_STATES
from service.wire import messages
from service.wire.messages import MOST_GENERATIONS
from service.wire.readings import (
    EARLIEST,
    LATEST,
    MOST_VALUES,
    BadRecord,
    Reading,
    rfc3339,
)

# Number of observations whose times and values are kept: for the times of change points, the level before one, and
# plots.
REMEMBERED = 128
_STATUS = {"raised": "provisional", "relocated": "relocated", "confirmed": "confirmed", "retracted": "retracted"}
_SNAPSHOT_VERSION = 2  # version 1 can be read, too; it contains detectors of the first format
# The mean interval between readings: minimum weight of a new interval, and longest gap that counts, as a multiple of
# the mean.
_INTERVAL_RATE = 1e-3
_LONGEST_GAP = 10.0
_MOST_NEXT = 5  # states in a record that may come next
_QUARTER = 900_000_000  # of an hour, in microseconds: no time zone changes its hour within one


class Published(NamedTuple):
    """Messages about a sensor, in their order."""

    events: list[messages.Event]
    states: list[messages.StateRecord | messages.StateDictionary]


class RaisedAlarm(msgspec.Struct, array_like=True, frozen=True):
    """The open alarm, so that whatever ends its generation can clear it."""

    number: int
    index: int
    time: str | None


class _SavedTrack(msgspec.Struct, array_like=True, gc=False):
    """The saved form of a track. ``detector`` holds the detector's own snapshot."""

    version: int
    fingerprint: str
    generation: int
    accepted: int
    inserted: int
    newest: tuple[int, tuple[float, ...]] | None
    times: bytes
    values: bytes
    channels: int
    since_state: int
    window_began: int | None
    revisions: dict[int, int]
    detector: bytes
    earlier: int | None = None
    # Memory of the transforms; absent in data from before transforms had memory.
    previous: list[Previous | None] = []
    season: bytes = b""
    # Mean interval between readings in microseconds, the number of intervals in it, time of the last reading, and the
    # mean on which the budget in force is based. Absent in data from before alarm budgets.
    interval: tuple[float, int, int, float] | None = None
    acceptance: int = 0  # when the last acceptance in force was made, in microseconds
    open_alarm: RaisedAlarm | None = None
    promised: tuple[float, int] = (0.0, 0)  # alarms, and readings that are not counted in them yet
    set_aside: str = ""  # why its readings are dead letters; empty: they are not
    waiting: list[tuple[int, tuple[float, ...]]] = []  # readings that wait for older ones, by time
    # These two are always last, see ``service.sensors.envelope``.
    origin: bytes = b""
    checksum: bytes = b""


class Tally(NamedTuple):
    """The counts of a dumped track, for audits."""

    generation: int
    fingerprint: str
    accepted: int  # readings, including those that wait for older ones
    waiting: int
    inserted: int
    earlier: int | None  # readings of earlier generations; None: not known

    @property
    def final_index(self) -> int:
        """The index of the newest observation; -1 before the first."""
        return self.accepted - self.waiting + self.inserted - 1


AcceptedReading = tuple[int, tuple[float, ...], int]  # time, prepared values, steps missing before


class Rows(NamedTuple):
    """Readings in the form that a detector takes."""

    rows: np.ndarray  # (length, channels)
    times: np.ndarray  # (length,) int64
    closes: list[int]  # numbers of rows after which a publishing window closes
    hours: list[tuple[int, int]]  # stretches of rows: the end of each, and its hour of the week
    learned: int  # number of rows that came before the season was known


def _hours(times: list[int], zone: str) -> list[tuple[int, int]]:
    """Return the stretches of times that are in the same hour of the week: the end of each, and its hour."""
    quarters = [time // _QUARTER for time in (min(times), max(times))] if times else [0, 0]
    if quarters[0] == quarters[1]:  # nearly always
        return [(len(times), _hour(quarters[0], zone))]
    hours = hs.hours_of_week(np.array(times) / 1e6, zone)
    ends = [*(np.flatnonzero(np.diff(hours)) + 1).tolist(), len(times)]
    return [(end, int(hours[end - 1])) for end in ends]


@lru_cache(maxsize=4096)
def _hour(quarter: int, zone: str) -> int:
    return int(hs.hours_of_week([quarter * _QUARTER / 1e6], zone)[0])


class TrackError(ValueError):
    """The bytes are not a track of a supported version."""


class Track:
    """A sensor and its detector."""

    def __init__(self, sensor: str, prepared: PreparedRule, generation: int = 0, earlier: int | None = 0) -> None:
        self.sensor = sensor
        self.prepared = prepared
        self.rule = prepared.rule
        self.generation = generation
        self.detector = prepared.rule.detector()
        self.accepted = 0
        self.inserted = 0
        self.earlier = earlier  # readings of earlier generations; None: not known
        self.newest: Reading | None = None
        self.channels = 0
        self._times = np.empty(0, dtype=np.int64)  # of the latest observations, oldest first
        self._values = np.empty((0, 1))  # values of the latest observations, one row each
        self._since_state = 0  # readings since the window began
        self._window_began: int | None = None  # time of the window's first reading
        self._revisions: dict[int, int] = {}  # by change
        self._interval = 0.0  # mean between readings, microseconds; 0: not known
        self._budget_interval = 0.0  # the mean when the budget was last set
        self._intervals = 0  # number of intervals in the mean
        self._last_time: int | None = None  # of the newest reading that the detector has taken
        self._history = History(prepared.rule) if remembers(prepared.rule) else None
        self.acceptance = 0  # when the last acceptance in force was made, in microseconds
        self._open_alarm: RaisedAlarm | None = None
        self._promised = 0.0  # alarms that earlier budgets have allowed, including those of earlier generations
        self._read = 0  # readings since then, which count with the budget in force
        self.set_aside = ""  # why its readings are dead letters; empty: they are not
        self._waiting = ReorderBuffer()
        self.ended: messages.AlarmEvent | None = None  # clears the alarm that the previous generation left open

    @property
    def index(self) -> int:
        """The index of the newest observation, including inserted steps; -1 before the first."""
        return self.accepted + self.inserted - 1

    @property
    def has_readings(self) -> bool:
        """Whether this generation has received readings."""
        return self.newest is not None or len(self._waiting) > 0

    @property
    def _earlier_and_own(self) -> int | None:
        return None if self.earlier is None else self.earlier + self.accepted + len(self._waiting)

    # Readings in

    @property
    def reorders(self) -> bool:
        """Whether readings go through ``reorder`` in place of ``judge``."""
        return self.prepared.reorder_within is not None or len(self._waiting) > 0

    def reorder(self, reading: Reading, timestamp: int) -> list[tuple[Reading, int]]:
        """Hold a reading back until no older one is expected.

        Returns the readings that have waited long enough, in the order of their times. Each comes with the number of
        missing steps before it. Raises BadRecord if the reading is refused.
        """
        newest = self.newest
        if newest is not None and reading.time <= newest.time:
            return [(reading, self.judge(reading, timestamp))]  # too late to be put in order
        expected = self._waiting.channels or self.channels
        if expected and len(reading.values) != expected:
            raise BadRecord("wrong_channels", f"{len(reading.values)} values, earlier readings had {expected}")
        times = self.rule.time
        same = [one for one in self._waiting.at(reading.time) if judge(times, one, reading, timestamp).reason]
        reason = "duplicate" if same else judge(times, None, reading, timestamp).reason
        if reason is not None:
            raise BadRecord(reason, f"reading of {rfc3339(reading.time)}")
        released = self._waiting.add(reading, self.prepared.reorder_within or 0)
        return [(one, self.judge(one, -1)) for one in released]

    def judge(self, reading: Reading, timestamp: int) -> int:
        """Check a reading and note its time. Returns the number of missing steps before it. Raises BadRecord if it is
        refused.

        ``timestamp``: of its record, in milliseconds.
        """
        if self.channels and len(reading.values) != self.channels:
            raise BadRecord("wrong_channels", f"{len(reading.values)} values, earlier readings had {self.channels}")
        newest, prepared = self.newest, self.prepared
        is_next = newest is not None and reading.time > newest.time and not prepared.fills_gaps
        if is_next and (timestamp < 0 or reading.time <= timestamp * 1000 + prepared.most_ahead):
            # The shortcut for nearly every reading: the same result as `judge`, without the call.
            self.newest = reading
            self.channels = len(reading.values)
            return 0
        arrival = judge(self.rule.time, newest, reading, timestamp)
        if arrival.reason is not None:
            assert self.newest is not None or arrival.reason == "clock_ahead"
            against = f", the newest is of {rfc3339(self.newest.time)}" if self.newest else ""
            raise BadRecord(arrival.reason, f"reading of {rfc3339(reading.time)}{against}")
        self.newest = arrival.newest
        self.channels = len(reading.values)
        return arrival.missing

    def to_rows(self, accepted: Sequence[AcceptedReading]) -> Rows:
        """Convert accepted readings to rows for the detector."""
        rows: list[tuple[float, ...]] = []
        times: list[int] = []
        closes: list[int] = []
        learned = 0
        history, since, began = self._history, self._since_state, self._window_began
        most, most_wait = self.rule.window.readings, self.rule.window.max_wait_s * 1e6
        for time, values, missing in accepted:
            if missing:
                self._insert(rows, times, missing, time)
            if history is not None:
                values = history.take(time, values)
                if history.is_learning:
                    learned = len(rows) + 1
            rows.append(values)
            times.append(time)
            if began is None:
                began = time
            since += 1
            if since >= most or time - began >= most_wait:
                since, began = 0, None
                closes.append(len(rows))
        self._since_state, self._window_began = since, began
        self.accepted += len(accepted)
        hours = _hours(times, self.rule.time.zone)
        return Rows(np.array(rows, dtype=np.float64), np.array(times, dtype=np.int64), closes, hours, learned)

    @property
    def _is_learning(self) -> bool:
        """Whether the first period of its season is not over, so that its state is not known."""
        return self._history is not None and self._history.is_learning

    def _insert(self, rows: list[tuple[float, ...]], times: list[int], missing: int, time: int) -> None:
        """Insert steps without a reading, at times in between."""
        before = times[-1] if times else (int(self._times[-1]) if len(self._times) else time)
        for step in range(1, missing + 1):
            rows.append((math.nan,) * self.channels)
            times.append(before + (time - before) * step // (missing + 1))
        self.inserted += missing

    def remember(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Keep the latest observations that the detector has taken."""
        kept = max(0, REMEMBERED - len(times)) if len(self._times) else 0
        first = max(0, len(self._times) - kept)
        self._times = np.concatenate((self._times[first:], times[-REMEMBERED:]))
        self._values = np.concatenate((self._values[first:], rows[-REMEMBERED:])) if kept else rows[-REMEMBERED:].copy()
        self._learn_interval(rows, times)

    def _learn_interval(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Update the mean interval between readings. Inserted steps do not count, and gaps count little."""
        read = times[~np.isnan(rows[:, 0])] if np.isnan(rows[:, 0]).any() else times
        self._read += len(read)
        for time in read.tolist():
            if self._last_time is not None and time > self._last_time:
                gap = float(time - self._last_time)
                self._intervals += 1
                if self._interval > 0.0:
                    gap = min(gap, _LONGEST_GAP * self._interval)
                self._interval += max(_INTERVAL_RATE, 1.0 / self._intervals) * (gap - self._interval)
            if self._last_time is None or time > self._last_time:
                self._last_time = time

    def keep_budget(self) -> None:
        """Give the detector its budget in readings.

        Called when a publishing window closes, which depends on the sensor's own readings alone.
        """
        if self._interval != self._budget_interval:
            self._promised, self._read = self.promised, 0
            self._budget_interval = self._interval
            self._use_policy()

    def _use_policy(self) -> None:
        self.detector.use_policy(self.prepared.policy._replace(every=self.every))

    def messages_about(self, events: list[hs.Event]) -> list[messages.Event]:
        """Return the messages about events that the detector has just found."""
        state = self.detector.state
        assert state is not None
        return [self._message_about(event, state) for event in events]

    def _message_about(self, event: hs.Event, state: hs.StateEstimate) -> messages.Event:
        if event.kind in ("alarm", "cleared"):
            return self._alarm_event(event)
        if event.kind in ABOUT_STATES:
            return self._state_event(event)
        return self._change_event(event, state)

    def skip_published(self, events: list[hs.Event]) -> None:
        """Count the revisions of events whose messages were published before."""
        for event in events:
            self._revise(event)

    def _revise(self, event: hs.Event) -> int:
        """Return the revision number of an event's message, and note it."""
        if event.kind == "alarm":
            self._open_alarm = RaisedAlarm(event.alarm, event.index, self.place(event.index).time)
            return 0
        if event.kind == "cleared":
            self._open_alarm = None
            return 1
        if event.kind in ABOUT_STATES:
            return 0
        revision = self._revisions.get(event.alarm, -1) + 1
        if event.kind == "raised":
            # Nothing more is published about older changes.
            self._revisions = {}
        self._revisions[event.alarm] = revision
        return revision

    def accept(self, said: int, by: str, time: int) -> list[messages.Event]:
        """Accept the present behaviour as usual from the next reading on. Returns the messages about it.

        ``said``: when a person accepted it. ``time``: of the next reading.
        """
        self.acceptance = said
        cleared = [self._alarm_event(event) for event in self.detector.accept()]
        words = f"accepted by {by}" if by else "accepted"
        notice = self.notice(
            "accepted", time, f"{words}: its present behaviour is a habit from here on", self.index + 1
        )
        return [notice, *(msgspec.structs.replace(event, summary=words) for event in cleared)]

    def next_generation(self, generation: int) -> Track:
        """Return a new track of the same sensor."""
        track = Track(self.sensor, self.prepared, generation, self._earlier_and_own)
        if self._open_alarm is not None and self.newest is not None:
            at = messages.place(self.index, self.newest.time)
            track.ended = _ended(self.sensor, self.rule, self.generation, self._open_alarm, at)
        track._promised = self.promised
        return track

    # Messages out

    def _time_of(self, index: int) -> int | None:
        back = self.detector.time - 1 - index
        return int(self._times[-1 - back]) if 0 <= back < len(self._times) else None

    def place(self, index: int) -> messages.Place:
        """Return an observation's index, with its time if that is still kept."""
        return messages.place(index, self._time_of(index))

    def _change_event(self, event: hs.Event, state: hs.StateEstimate) -> messages.ChangeEvent:
        revision = self._revise(event)
        before = self._segment_before(event.index)
        after = messages.segment(state.parameters)
        if event.kind == "retracted":
            summary = "no change after all"
        else:
            summary = words(before, after, " ".join(self.rule.transforms) or "none")
        place = self.place(event.index)
        return messages.ChangeEvent(
            id=messages.event_id(self.sensor, self.generation, event.alarm),
            sensor=self.sensor,
            labels=self.rule.labels,
            generation=self.generation,
            revision=revision,
            status=_STATUS[event.kind],  # type: ignore[arg-type]
            index=event.index,
            time=place.time,
            probability=messages.rounded(event.probability),
            low=self.place(event.low),
            high=self.place(event.high),
            at=self.place(event.at),
            before=before,
            after=after,
            summary=summary,
            return_period=messages.rounded(event.return_period) if event.return_period > 0.0 else None,
        )

    def _alarm_event(self, event: hs.Event) -> messages.AlarmEvent:
        revision = self._revise(event)
        place = self.place(event.index)
        interval_s = self._interval / 1e6
        period_s = event.return_period * interval_s
        record_s = self.detector.rarity.readings * interval_s
        is_raised = event.kind == "alarm"
        frequency = frequency_words(period_s, record_s) if is_raised and interval_s > 0.0 else ""
        if is_raised:
            summary = reason_words(event.reasons) + (f", {frequency}" if frequency else "")
        else:
            summary = "usual again"
        return messages.AlarmEvent(
            id=messages.alarm_id(self.sensor, self.generation, event.alarm),
            sensor=self.sensor,
            labels=self.rule.labels,
            generation=self.generation,
            revision=revision,
            status="raised" if is_raised else "cleared",
            index=event.index,
            time=place.time,
            at=self.place(event.at),
            return_period=messages.rounded(event.return_period),
            return_period_s=messages.rounded(period_s) if interval_s > 0.0 else None,
            frequency=frequency,
            budget_s=self.budget_s,
            reasons=list(event.reasons),  # type: ignore[arg-type]
            change=None if event.change < 0 else messages.event_id(self.sensor, self.generation, event.change),
            summary=summary,
        )

    def _state_event(self, event: hs.Event) -> messages.StateEvent:
        known = next((one for one in self.detector.states if one.id == event.state), None)
        name = self._name_of(event.state)
        visits = None if known is None else known.visits
        return messages.StateEvent(
            id=messages.state_event_id(self.sensor, self.generation, event.kind, event.at),
            sensor=self.sensor,
            labels=self.rule.labels,
            generation=self.generation,
            status=event.kind,  # type: ignore[arg-type]
            index=event.index,
            time=self.place(event.index).time,
            at=self.place(event.at),
            state=event.state,
            name=name,
            visits=visits,
            probability=messages.rounded(event.probability),
            reasons=list(event.reasons),  # type: ignore[arg-type]
            summary=state_words(event.kind, name or str(event.state), known, event.reasons),
        )

    def _name_of(self, state: int) -> str | None:
        return self.rule.state_names.get(str(state))

    @property
    def every(self) -> float:
        """The budget in force: at most one alarm in this many readings, on average."""
        return _every(self.prepared, self._budget_interval)

    @property
    def interval_s(self) -> float:
        """The mean interval between readings on which the budget in force is based, in seconds; 0 if it is not known
        yet."""
        return self._budget_interval / 1e6

    @property
    def budget_s(self) -> float | None:
        """The promise: at most one alarm in this many seconds, on average; None if the interval is not known yet."""
        return messages.rounded(self.every * self.interval_s) if self.interval_s > 0.0 else None

    @property
    def promised(self) -> float:
        """The number of alarms that the budgets have allowed for all readings so far, including earlier generations."""
        return self._promised + self._read / self.every

    def _segment_before(self, index: int) -> messages.Segment | None:
        """Return level and noise of the readings before a change, as far as they are kept."""
        first = self.detector.time - len(self._values)
        settled = [change.index for change in self.detector.change_points if change.index < index]
        begin = max(first, settled[-1] if settled else 0)
        values = self._values[begin - first : max(begin, index) - first]
        values = values[~np.isnan(values).any(axis=1)]
        if not len(values):
            return None
        parameters: dict[str, float] = {}
        for channel in range(values.shape[1]):
            suffix = f"[{channel}]" if values.shape[1] > 1 else ""
            parameters[f"mean{suffix}"] = float(np.mean(values[:, channel]))
            parameters[f"sd{suffix}"] = float(np.std(values[:, channel], ddof=1)) if len(values) > 1 else math.nan
        if self.rule.counts_below() is not None:
            parameters = {"rate": parameters["mean"]}
        return messages.segment(parameters)

    def state_record(self, is_learning: bool | None = None) -> messages.StateRecord:
        """Return the sensor's state record. The sensor must have an observation.

        ``is_learning``: whether its season was unknown at the detector's last row; by default, whether it is unknown
        now.
        """
        detector = self.detector
        state = detector.state
        assert state is not None
        low, median, high = detector.run_length()
        is_learning = self._is_learning if is_learning is None else is_learning
        return messages.StateRecord(
            sensor=self.sensor,
            labels=self.rule.labels,
            generation=self.generation,
            index=detector.time - 1,
            time=rfc3339(int(self._times[-1])),
            state=None
            if is_learning
            else messages.State(
                id=state.id,
                name=self._name_of(state.id),
                since=self.place(state.since),
                probability=messages.rounded(state.probability),
                parameters=messages.rounded_parameters(state.parameters),
                visits=state.visits,
                readings=state.readings if self._states_return else UNSET,
                dwell=_rounded_dwell(state.dwell) if self._states_return else UNSET,
            ),
            run_length=messages.RunLength(low=low, median=median, high=high),
            change_probability=messages.rounded(detector.change_probability(self.rule.window.readings)),
            n_states=detector.n_states,
            return_period=messages.rounded(detector.rarity.return_period),
            constants=detector.constants,
            learning=detector.rarity.learning,
            promised=messages.rounded(self.promised) or 0.0,
            budget_s=self.budget_s,
            **(self._outlook() if self._states_return else {}),
            recent=self._recent(),
        )

    @property
    def _states_return(self) -> bool:
        """Whether the detector keeps a state dictionary."""
        return self.rule.model == "recurring"

    def _outlook(self) -> dict[str, Any]:
        """Return the fields of the state record that only a detector with a state dictionary fills."""
        novelty, remaining = self.detector.novelty, self.detector.remaining
        return {
            "novelty": None if novelty is None else messages.rounded(novelty),
            "next": [
                messages.LikelyState(one.id, messages.rounded(one.probability))
                for one in self.detector.next_states[:_MOST_NEXT]
            ],
            "remaining": None if remaining is None else messages.rounded(remaining),
        }

    def new_dictionary(self) -> messages.StateDictionary | None:
        """Return the state dictionary if the current visit began within about a window; None for other models.

        Called when a publishing window closes, which depends on the sensor's own readings alone.
        """
        state = self.detector.state if self._states_return else None
        if state is None or self.detector.time - state.since > 2 * self.rule.window.readings:
            return None
        known = self.detector.states
        total = sum(one.readings for one in known)
        return messages.StateDictionary(
            sensor=self.sensor,
            labels=self.rule.labels,
            generation=self.generation,
            index=self.detector.time - 1,
            time=rfc3339(int(self._times[-1])),
            states=[
                messages.KnownState(
                    id=one.id,
                    name=self._name_of(one.id),
                    level=messages.rounded(one.mean),
                    noise=messages.rounded(one.sd),
                    visits=one.visits,
                    readings=one.readings,
                    share=messages.rounded(one.readings / total) if total else None,
                    dwell=_rounded_dwell(one.dwell),
                    first_seen=one.first_seen,
                    last_seen=one.last_seen,
                )
                for one in known
            ],
            transitions=[list(one) for one in self.detector.transitions],
            interval_s=messages.rounded(self.interval_s) if self.interval_s > 0.0 else None,
        )

    def _recent(self) -> list[list[float | None]]:
        """Return a downsampled piece of the kept readings."""
        times, rows = self._times, self._values
        is_reading = ~np.isnan(rows[:, 0])  # not an inserted step
        return downsample(times, rows) if is_reading.all() else downsample(times[is_reading], rows[is_reading])

    def notice(self, kind: str, time: int, why: str, index: int | None = None) -> messages.Notice:
        """Return a notice: a message about the sensor that is no change point.

        ``index``: by default, of its newest observation.
        """
        if index is None:
            index = self.index
        return messages.Notice(
            sensor=self.sensor,
            labels=self.rule.labels,
            generation=self.generation,
            kind=kind,  # type: ignore[arg-type]
            index=index if index >= 0 else None,
            time=rfc3339(time),
            why=why,
        )

    # As bytes

    def dump(self) -> bytes:
        """Return the track as bytes."""
        saved = _SavedTrack(
            _SNAPSHOT_VERSION,
            self.prepared.fingerprint,
            self.generation,
            self.accepted,
            self.inserted,
            None if self.newest is None else (self.newest.time, self.newest.values),
            # Most sensors send at a regular interval, so that the differences are all alike.
            zlib.compress(np.diff(self._times, prepend=0).tobytes()),
            self._values.tobytes(),
            self.channels,
            self._since_state,
            self._window_began,
            self._revisions,
            self.detector.snapshot(),
            self.earlier,
            [] if self._history is None else self._history.previous,
            b"" if self._history is None else self._history.dump_season(),
            None
            if self._last_time is None
            else (self._interval, self._intervals, self._last_time, self._budget_interval),
            self.acceptance,
            self._open_alarm,
            (self._promised, self._read),
            self.set_aside,
            self._waiting.saved,
        )
        return msgspec.msgpack.encode(saved)

    @classmethod
    def load(cls, sensor: str, data: bytes, prepared: PreparedRule) -> Track:
        """Return the dumped track, or a new generation that has seen nothing if the rule now infers otherwise.

        Raises TrackError if the bytes cannot be read.
        """
        try:
            saved = msgspec.msgpack.decode(data, type=_SavedTrack)
        except msgspec.DecodeError as error:
            raise TrackError(f"the state of {sensor!r} cannot be read: {error}") from error
        if not 1 <= saved.version <= _SNAPSHOT_VERSION:
            raise TrackError(f"the state of {sensor!r} has version {saved.version}, this is {_SNAPSHOT_VERSION}")
        if (wrong := _first_wrong(saved)) is not None:
            raise TrackError(f"the state of {sensor!r} cannot be read: {wrong} cannot be")
        if saved.fingerprint != prepared.fingerprint:
            earlier = None if saved.earlier is None else saved.earlier + saved.accepted + len(saved.waiting)
            track = cls(sensor, prepared, saved.generation + 1, earlier)
            if saved.open_alarm is not None and saved.newest is not None:
                at = messages.place(saved.accepted + saved.inserted - 1, saved.newest[0])
                track.ended = _ended(sensor, prepared.rule, saved.generation, saved.open_alarm, at)
            promised, read = saved.promised
            track._promised = promised + read / _every(prepared, saved.interval[3] if saved.interval else 0.0)
            return track
        track = cls.__new__(cls)
        track.sensor, track.prepared, track.rule = sensor, prepared, prepared.rule
        track.generation, track.accepted, track.inserted = saved.generation, saved.accepted, saved.inserted
        track.newest = None if saved.newest is None else Reading(sensor, *saved.newest)
        track.channels, track.earlier = saved.channels, saved.earlier
        track._since_state, track._window_began = saved.since_state, saved.window_began
        track._revisions = saved.revisions
        track.acceptance, track._open_alarm, track.ended = saved.acceptance, saved.open_alarm, None
        track.set_aside = saved.set_aside
        track._waiting = ReorderBuffer.load(sensor, saved.waiting)
        track._promised, track._read = saved.promised
        track._interval, track._intervals, track._last_time, track._budget_interval = saved.interval or (
            0.0,
            0,
            None,
            0.0,
        )
        track._history = History(prepared.rule) if remembers(prepared.rule) else None
        try:
            track._times, track._values = _recent_of(saved)
            if track._history is not None:
                track._history.load(saved.previous, saved.season)
            track.detector = hs.OnlineDetector.restore(saved.detector)
            if track.detector.time != saved.accepted + saved.inserted:
                raise ValueError(f"{saved.accepted} + {saved.inserted} readings, {track.detector.time} in the detector")
        except (zlib.error, ValueError) as error:
            raise TrackError(f"the state of {sensor!r} cannot be read: {error}") from error
        track._use_policy()
        return track


_COUNTS = 2**53  # no sensor has this many readings


def _first_wrong(saved: _SavedTrack) -> str | None:
    """Return the name of the first field with an impossible value. The detector checks its own fields."""
    values = [one for _, one in (*saved.waiting, *filter(None, (saved.newest, *saved.previous)))]
    times = [time for time, _ in (*saved.waiting, *filter(None, (saved.newest, *saved.previous)))]
    mean, intervals, last_time, budget_mean = saved.interval or (0.0, 0, 0, 0.0)
    promised, read = saved.promised
    alarm = saved.open_alarm
    checks = {
        "generation": 0 <= saved.generation < MOST_GENERATIONS,
        "accepted": 0 <= saved.accepted < _COUNTS and 0 <= (saved.earlier or 0) < _COUNTS,
        "inserted": 0 <= saved.inserted < _COUNTS,
        "channels": 0 <= saved.channels <= MOST_VALUES and (saved.channels > 0) == (saved.newest is not None),
        "values": all(
            len(one) == (saved.channels or len(values[0])) and all(map(math.isfinite, one)) for one in values
        ),
        "times": all(EARLIEST <= one <= LATEST for one in (*times, saved.window_began or 0, last_time)),
        "since_state": 0 <= saved.since_state < _COUNTS,
        "revisions": all(0 <= one < _COUNTS for pair in saved.revisions.items() for one in pair),
        "interval": 0 <= intervals < _COUNTS and all(0.0 <= one < math.inf for one in (mean, budget_mean)),
        "acceptance": 0 <= saved.acceptance < _COUNTS,
        "open_alarm": alarm is None or (0 <= alarm.number < _COUNTS and 0 <= alarm.index < _COUNTS),
        "promised": 0.0 <= promised < math.inf and 0 <= read < _COUNTS,
    }
    return next((name for name, is_right in checks.items() if not is_right), None)


def _recent_of(saved: _SavedTrack) -> tuple[np.ndarray, np.ndarray]:
    """Return times and values of the latest observations. Raises ValueError or zlib.error if they are damaged."""
    unpacked = zlib.decompressobj().decompress(saved.times, 8 * REMEMBERED + 1)  # never more than is kept
    times = np.frombuffer(unpacked, dtype=np.int64).cumsum()
    values = np.frombuffer(saved.values, dtype=np.float64).reshape(-1, max(1, saved.channels))
    if len(times) != len(values) or len(times) > REMEMBERED or saved.channels < 0:
        raise ValueError(f"{len(times)} times and {len(values)} values, at most {REMEMBERED} of each belong together")
    return times, values


def _rounded_dwell(dwell: tuple[float, float, float] | None) -> list[float | None] | None:
    return None if dwell is None else [messages.rounded(quantile) for quantile in dwell]


def _every(prepared: PreparedRule, interval: float) -> float:
    """Return the budget in readings for a sensor with this mean interval in microseconds (0: not known)."""
    return prepared.budget.readings(interval / 1e6) if interval > 0.0 else prepared.policy.every


def _ended(sensor: str, rule: Rule, generation: int, alarm: RaisedAlarm, at: messages.Place) -> messages.AlarmEvent:
    """Return the message that clears an alarm whose generation is over."""
    return messages.AlarmEvent(
        id=messages.alarm_id(sensor, generation, alarm.number),
        sensor=sensor,
        labels=rule.labels,
        generation=generation,
        revision=1,
        status="cleared",
        index=alarm.index,
        time=alarm.time,
        at=at,
        return_period=None,
        return_period_s=None,
        frequency="",
        budget_s=None,
        reasons=[],
        change=None,
        summary="its detector started afresh",
    )


def tally(data: bytes) -> Tally:
    """Return the counts of a dumped track. Raises TrackError if the bytes are not a track."""
    try:
        saved = msgspec.msgpack.decode(data, type=_SavedTrack)
    except msgspec.DecodeError as error:
        raise TrackError(f"the state cannot be read: {error}") from error
    waiting = len(saved.waiting)
    return Tally(saved.generation, saved.fingerprint, saved.accepted + waiting, waiting, saved.inserted, saved.earlier)
