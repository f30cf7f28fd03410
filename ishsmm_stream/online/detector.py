"""``OnlineDetector``: observations in, change points, states and alarms out, at constant cost."""

from __future__ import annotations

import copy
import threading
import warnings
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream.model import catalogue
from ishsmm_stream.model.emissions import Normal
from ishsmm_stream.model.emissions import family as emission_family
from ishsmm_stream.model.presets import Model
from ishsmm_stream.model.priors import Beta
from ishsmm_stream.online import alarms, build, change_points, episodes, intake, rarity, saved_detector, week
from ishsmm_stream.online.alarms import AlarmPolicy
from ishsmm_stream.online.build import AUTO
from ishsmm_stream.online.engine import Engine
from ishsmm_stream.online.in_use import alone
from ishsmm_stream.online.intake import CLIPPED, RAW, STANDARDISED, Batch, Intake
from ishsmm_stream.online.regimes import engine as regimes
from ishsmm_stream.online.regimes.engine import RegimesEngine
from ishsmm_stream.online.renewal import adaptive
from ishsmm_stream.online.results import (
    STATE_NEWS,
    AnnouncedChange,
    ChangePoint,
    Episode,
    Event,
    Forecast,
    KnownState,
    NextState,
    Rarity,
    StateEstimate,
    Transition,
)

# Rows that one call of the compiled loop takes: bounds its buffers.
_ROWS_AT_ONCE = 4096
# Purposes of random numbers.
_STATE, _FORECAST = 1, 2
_FORECAST_DRAWS = 2000
# Warm-up policy: never announces or raises.
_MUTED = AlarmPolicy()._replace(threshold=2.0)


class OnlineDetector:
    """Follows one stream. What it says depends on its settings, the seed and the values, never on how they are batched.

    ``model``: "auto", which fits itself to whatever is measured; "recurring", which does the same and knows states that
    return; or a model made by a preset.
    ``threshold``: the probability at which a change is announced; ``alarm_policy``: the whole policy instead, with the
    budget of alarms (``AlarmPolicy(every=1000)``: at most one alarm in 1,000 readings on average).
    ``prior``: "auto" reads the model's priors in units of the stream's first ``warm_up`` values (their median and
    spread), "model" takes them as they are; the default is "auto" for model="auto" only.
    ``hazard``: a Beta prior of a constant hazard that is learned, in place of the model's durations; segments then last
    at least ``min_dwell``.
    ``outliers``: the probability of a reading that belongs to no segment, for emissions.Normal and model="auto".
    ``lag``: how many observations back answers are still revised. ``max_hypotheses``: starts of the current segment
    that are held side by side (no state returns). ``chains``: weighted chains (states return; 20 with "recurring", else
    100). ``move_every`` is deprecated and does nothing.
    ``keep``: settled change points, announced changes and alarms that are remembered.

    Use a detector from one thread at a time: a call that finds another thread inside the same detector raises
    RuntimeError. Different detectors can be used from different threads.

    >>> import numpy as np
    >>> detector = OnlineDetector()
    >>> rng = np.random.default_rng(0)
    >>> events = detector.update_many(np.concatenate([rng.normal(0, 1, 200), rng.normal(5, 1, 100)]))
    >>> [(event.kind, event.at) for event in events]
    [('raised', 202), ('alarm', 203), ('confirmed', 222), ('cleared', 259)]
    >>> detector.change_points[0].index
    200
    """

    def __init__(
        self,
        model: Model | str = AUTO,
        *,
        seed: int = 0,
        threshold: float | None = None,
        alarm_policy: AlarmPolicy | None = None,
        prior: str | None = None,
        hazard: Beta | None = None,
        min_dwell: int | None = None,
        outliers: float | None = None,
        lag: int = 64,
        max_hypotheses: int = 32,
        chains: int | None = None,
        move_every: int = 0,
        keep: int = 100,
        warm_up: int = 10,
    ) -> None:
        self.model = model
        self.seed = _checks.whole("seed", seed, 0)
        self.threshold = threshold
        self.alarm_policy = alarm_policy
        self.prior = prior
        self.hazard = hazard
        self.min_dwell = min_dwell if min_dwell is None else _checks.whole("min_dwell", min_dwell, 1)
        self.outliers = outliers
        self.lag = _checks.whole("lag", lag, 8)
        self.max_hypotheses = _checks.whole("max_hypotheses", max_hypotheses, 2)
        default = regimes.CHAINS if model == build.RECURRING else build.CHAINS
        self.chains = _checks.whole("chains", default if chains is None else chains, 2)
        if _checks.whole("move_every", move_every, 0):
            warnings.warn(
                "move_every does nothing any more: more chains are as good and cost less",
                DeprecationWarning,
                stacklevel=2,
            )
        self.keep = _checks.whole("keep", keep, 1)
        self.warm_up = _checks.whole("warm_up", warm_up, 2)
        self._check_model()
        self._constants = adaptive.NEWEST
        self._policy = _policy(threshold, alarm_policy)
        self._alarm_state = alarms.make_alarm_state()
        self._announced: deque[AnnouncedChange] = deque(maxlen=self.keep)
        self._unusual: deque[Episode] = deque(maxlen=self.keep)
        self._settled: deque[ChangePoint] = deque(maxlen=self.keep)
        self._settled_ever = 0
        self._engine: Engine | None = None  # made with the first values, which have a number of channels
        self._intake = Intake(1)
        self._time = 0
        self._log_first = 0.0  # the engine's ln p of the first values
        self._counted = 0  # values since then
        self._lock = threading.RLock()  # held by the thread that is inside, see ``in_use``

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def _check_model(self) -> None:
        if isinstance(self.model, str):
            _checks.one_of("model", self.model, build.BY_NAME)
            if self.model == build.RECURRING:
                self._check_recurring()
        elif not isinstance(self.model, Model):
            raise ValueError(f"model must be 'auto' or made by a preset such as ishsmm_stream.ilr, got {self.model!r}")
        if self.prior is not None:
            _checks.one_of("prior", self.prior, (AUTO, "model"))
        if self.hazard is not None and not isinstance(self.hazard, Beta):
            raise ValueError(f"hazard must be ishsmm_stream.priors.Beta(a, b) or None, got {self.hazard!r}")
        if isinstance(self.model, Model) and not self.model.is_renewal and (self.hazard or self.outliers):
            raise ValueError("hazard and outliers are for models in which no state returns, such as ishsmm_stream.ilr")
        if self.outliers is not None and not 0.0 <= _checks.number("outliers", self.outliers) < 1.0:
            raise ValueError(f"outliers must be a probability below 1, got {self.outliers!r}")
        if isinstance(self.model, Model):
            self._check_emission(self.model.emission)
            if self.min_dwell is not None and self.hazard is None:
                raise ValueError(
                    "min_dwell goes with a learned hazard; give hazard=ishsmm_stream.priors.Beta(a, b) too"
                )

    def _check_recurring(self) -> None:
        for name in ("hazard", "min_dwell", "outliers"):
            if getattr(self, name) is not None:
                raise ValueError(f"model='recurring' learns its own {name}; leave it out")
        if self.prior == "model":
            raise ValueError("model='recurring' has no priors of its own; leave prior out")

    def _check_emission(self, emission: Any) -> None:
        if self.outliers and not isinstance(emission, Normal):
            raise ValueError(f"outliers are for emissions.Normal and model='auto', got {type(emission).__name__}")
        if self.prior == AUTO and catalogue.entry_of(emission).counts:
            raise ValueError(
                f"prior='auto' standardises values, which emissions.{type(emission).__name__} cannot take; use 'model'"
            )

    @alone
    def use_policy(self, alarm_policy: AlarmPolicy) -> None:
        """Announce changes and raise alarms by another policy from now on. What was inferred and announced stays."""
        self.threshold, self.alarm_policy = None, alarm_policy
        self._policy = _policy(None, alarm_policy)
        self._set_budget()

    def _set_budget(self) -> None:
        """Write the budget to the tracker."""
        if self._engine is not None:
            self._engine.tracker.floats[rarity.EVERY] = self._policy.every

    def _set_hour(self, hour: int) -> None:
        """Write the hour of the week in which the next rows were read to the tracker."""
        assert self._engine is not None
        self._engine.tracker.floats[rarity.HOUR] = hour

    # Observations in

    def update(self, y: Any, time: Any = None, zone: str = "UTC") -> list[Event]:
        """Take one observation in: a number, a sequence with one number a channel, NaN where missing."""
        times = None if time is None else np.reshape(np.asarray(time), 1)
        return self.update_many(np.reshape(np.asanyarray(y), (1, -1)), times, zone)

    @alone
    def update_many(self, values: Any, times: Any = None, zone: str = "UTC") -> list[Event]:
        """Take observations in, in order; the same as ``update`` one by one. Returns the events they caused.

        ``times``: of the observations, in seconds since the epoch or as numpy datetimes. With them alarms know what is
        usual at an hour of the day and of the week, in the time zone ``zone``; changes do not depend on them.
        """
        if times is None or np.size(values) == np.size(times) == 0:
            return self._take(values, stops=False)[1]
        rows, hours = _checks.series("values", values), week.hours_of_week(times, zone)
        if hours.shape != (len(rows),):
            raise ValueError(f"times has shape {hours.shape}, {len(rows)} values need as many times")
        found: list[Event] = []
        for first, last in week.stretches(hours):
            found += self._take(rows[first:last], stops=False, hour=int(hours[first]))[1]
        return found

    @alone
    def update_to_event(self, values: Any) -> tuple[int, list[Event]]:
        """Take observations in up to the first that causes events; returns how many were taken, and those events.

        What the detector says afterwards is what it said at the event, however the observations were batched.
        """
        return self._take(values, stops=True)

    def _take(self, values: Any, stops: bool, hour: int = week.NO_HOUR) -> tuple[int, list[Event]]:
        if np.size(values) == 0:
            return 0, []
        readings = _checks.series("values", values)
        if self._engine is None:
            self._prepare(readings.shape[1])
        if readings.shape[1] != self._intake.channels:
            raise ValueError(f"values have {readings.shape[1]} channels, the stream has {self._intake.channels}")
        if isinstance(self.model, Model):
            emission_family.check_data(self.model.emission, readings)
        taken, found = self._warm_up(readings, stops, hour) if self._intake.is_learning else (0, [])
        while taken < len(readings) and not (stops and found):
            self._set_hour(hour)
            some = readings[taken : taken + _ROWS_AT_ONCE]
            ((more, events),) = advance([self], [some], self._policy_in_units(), stops)
            taken += more
            found += events
        return taken, found

    def _warm_up(self, readings: np.ndarray, stops: bool, hour: int) -> tuple[int, list[Event]]:
        """Take readings until the units are known. Returns how many were taken, and the events they caused.

        Rows that were held back are taken in muted: no event could have been published at the time.
        """
        assert self._intake.scaling is not None
        rows, taken, is_muted = self._intake.scaling.take(readings)
        found: list[Event] = []
        while len(rows) and not (stops and found):
            self._set_hour(week.NO_HOUR if is_muted else hour)
            some, events = self._take_rows(rows[:_ROWS_AT_ONCE], is_muted, stops)
            found += events
            rows = rows[some:]
        taken -= len(rows)
        self._time += taken
        self._intake.count(readings[:taken])
        return taken, found

    def _take_rows(self, rows: np.ndarray, is_muted: bool, stops: bool = False) -> tuple[int, list[Event]]:
        """Feed the engine with rows of the warm-up, which are in its units already."""
        assert self._engine is not None
        if is_muted:
            self._engine.begin(rows)
        policy = _MUTED if is_muted else self._policy_in_units()
        ((taken, events),) = advance([self], [rows], policy, stops, units=RAW)
        if is_muted:
            self._log_first = self._engine.log_evidence
        return taken, events

    def _policy_in_units(self) -> AlarmPolicy:
        """Return the policy with its least effect in the units that the engine works in."""
        effect = self._policy.min_effect
        if effect == 0.0 or self._intake.scale[0] == 0.0:
            return self._policy
        return self._policy._replace(min_effect=effect / float(self._intake.scale[0]))

    @property
    def _batch_key(self) -> Hashable | None:
        """What detectors have in common that ``advance`` can serve together.

        None if this one is served alone: before the units are known, if it looks at several channels or back, or if the
        policy has a least effect, which depends on the units.
        """
        engine, intake = self._engine, self._intake
        if engine is None or intake.units != STANDARDISED or intake.is_learning or intake.look_back:
            return None
        if intake.channels != 1 or self._policy.min_effect != 0.0:
            return None
        key = engine.batch_key
        # budgets may differ: each tracker has its own
        return None if key is None else (key, self._policy._replace(every=0.0))

    def _adopt_batch(self, batch: Batch, i: int, taken: int, complete: int) -> None:
        """Take over entry ``i`` of a batch, of which ``taken`` rows were taken; ``complete`` of them have a value."""
        assert self._engine is not None
        self._engine.forget_answers()
        intake = self._intake
        if len(batch.slots) > 1 or batch.ints.base is not self._alarm_state.ints:  # else they are views
            self._alarm_state.ints[:] = batch.ints[i]
            self._alarm_state.floats[:] = batch.floats[i]
        if intake.look_back:
            intake.keep_recent(batch, i, taken)
        if batch.units == intake.units:  # else they are rows of the warm-up, which were counted as readings
            self._time += taken
            intake.record_last(batch, i)
        if batch.units == STANDARDISED:
            self._counted += complete

    def _keep(self, buffer: np.ndarray, settled: np.ndarray) -> list[Event]:
        """Keep the change points that were settled, and the changes and alarms of the events. Returns the events."""
        for row in settled:
            self._settled.append(change_points.change_point(row))
        self._settled_ever += len(settled)
        events = alarms.read_events(buffer)
        for event, row in zip(events, buffer, strict=True):
            self._note(event, int(row[alarms.E_BEFORE]))
        return events

    def _note(self, event: Event, before: int) -> None:
        """Update the lists by an event; ``before``: the start announced before this change."""
        if event.kind == "alarm":
            self._unusual.append(Episode(event.alarm, event.at, None, event.return_period, event.reasons, event.change))
        elif event.kind == "cleared":
            self._unusual[-1] = self._unusual[-1]._replace(cleared_at=event.at, change=event.change)
        elif event.kind == "raised":
            if self._announced and self._announced[-1].status != "retracted":
                self._announced[-1] = self._announced[-1]._replace(index=before)  # settled where it was refined to
            self._announced.append(AnnouncedChange(event.alarm, event.index, event.at, "raised"))
        elif event.kind not in STATE_NEWS:
            status = {"confirmed": "confirmed", "retracted": "retracted"}.get(event.kind)
            latest = self._announced[-1]
            self._announced[-1] = latest._replace(index=event.index, status=status or latest.status)

    @alone
    def accept(self) -> list[Event]:
        """Make the present behaviour a habit: what goes on now is no longer unusual.

        Returns the event that clears the open alarm, if there is one.
        """
        if self._engine is None:
            return []
        tracker = self._engine.tracker
        if not episodes.accept(tracker):
            return []
        number, index = int(tracker.ints[rarity.NEXT]) - 1, int(tracker.ints[rarity.INDEX])
        state = self.state
        event = Event(
            "cleared", self._time - 1, number, index, 0.0, index, index, state.id if state else 0,
            change=int(tracker.ints[rarity.BEHIND]),
        )  # fmt: skip
        self._note(event, 0)
        return [event]

    # The engine and its answers

    def _prepare(self, channels: int) -> None:
        """Make the engine for this many channels."""
        if isinstance(self.model, Model):
            expected = emission_family.channels(self.model.emission)
            if expected != channels:
                raise ValueError(f"values have {channels} channels, but the model's emission takes {expected}")
        self._engine = build.make_engine(self, channels)
        self._set_budget()
        if self.model == build.RECURRING:
            self._intake = Intake(channels, STANDARDISED, 0, self.warm_up)
            return
        emission = self._engine.emission
        units = RAW if catalogue.entry_of(emission).counts else CLIPPED
        if (self.prior or (AUTO if self.model == AUTO else "model")) == AUTO:
            units = STANDARDISED
        self._intake = Intake(channels, units, emission_family.look_back(emission), self.warm_up)

    def _preview(self) -> OnlineDetector:
        """Return this detector; while values are held back, a copy that took them in with the units known so far."""
        scaling = self._intake.scaling
        if scaling is None or not len(scaling.held):
            return self
        view = copy.deepcopy(self)
        assert view._intake.scaling is not None
        view._take_rows(view._intake.scaling.learn(), is_muted=True)
        return view

    def _engine_now(self) -> Engine | None:
        """Return the engine with all that was observed; None before the first observation."""
        engine = self._preview()._engine
        return engine if engine is not None and engine.time else None

    @property
    def time(self) -> int:
        """Observations seen."""
        return self._time

    @property
    def constants(self) -> int:
        """Number of the set of constants behind ``model="auto"`` with one channel; other models do not depend on it.

        A new detector has the newest set. A restored detector keeps the set that its snapshot was written with, so that
        an upgrade does not change its answers. Start a new detector to change to the newest set.
        """
        return self._constants

    @property
    @alone
    def change_points(self) -> tuple[ChangePoint, ...]:
        """The change points as believed now: the settled ones, the last ``keep`` of them, then those still revised."""
        engine = self._engine_now()
        return (*self._settled, *(engine.open_change_points() if engine else ()))

    @property
    def announced_changes(self) -> tuple[AnnouncedChange, ...]:
        """The last ``keep`` announced changes; the index of the latest is refined until the next is announced."""
        found = list(self._announced)
        if found and found[-1].status != "retracted":
            found[-1] = found[-1]._replace(index=int(self._alarm_state.ints[alarms.INDEX]))
        return tuple(found)

    @property
    def alarms(self) -> tuple[AnnouncedChange, ...]:
        """The announced changes, under their old name."""
        warnings.warn(
            "OnlineDetector.alarms lists announced changes: use announced_changes; alarms are in unusual",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.announced_changes

    @property
    def unusual(self) -> tuple[Episode, ...]:
        """The last ``keep`` alarms, the open one last."""
        return tuple(self._unusual)

    @property
    def rarity(self) -> Rarity:
        """How unusual the newest reading is for this stream."""
        if self._engine is None:
            return Rarity(0.0, (), 0, rarity.LEARNING)
        tracker = self._engine.tracker
        readings = rarity.readings_seen(tracker)
        return Rarity(
            float(tracker.floats[rarity.PERIOD]),
            rarity.reasons_of(int(tracker.floats[rarity.KINDS])),
            readings,
            max(0, rarity.LEARNING - readings),
        )

    @property
    def log_evidence(self) -> float:
        """ln p(values seen); with automatic priors, of those after the first values, which set the units."""
        if self._engine is None:
            return 0.0
        log_scale = self._intake.scaling.log_scale if self._intake.scaling is not None else 0.0
        return self._engine.log_evidence - self._log_first - self._counted * log_scale

    @property
    def discarded(self) -> float:
        """Mass of the hypotheses that were dropped to bound the work, added up over the stream."""
        return self._engine.discarded if self._engine else 0.0

    @property
    def effective_sample_size(self) -> float | None:
        """How many chains of equal weight would say as much, from 1 to ``chains``; None where there are no chains (the
        filter is exact), and before the first observation."""
        return self._engine.effective_sample_size if self._engine else None

    @property
    @alone
    def n_states(self) -> int:
        """How many states there have been; where none returns, one more than the change points."""
        view = self._preview()
        if view._engine is None or view._engine.time == 0:
            return 0
        return view._engine.n_states(view._settled_ever + len(view._engine.open_change_points()))

    @alone
    def run_length(self, *quantiles: float) -> tuple[int, ...]:
        """Quantiles of the number of observations in the current segment; 5%, 50% and 95% unless told otherwise."""
        asked = [_checks.number("quantile", q) for q in quantiles or (0.05, 0.5, 0.95)]
        if min(asked) < 0.0 or max(asked) > 1.0:
            raise ValueError(f"a quantile must lie between 0 and 1, got {quantiles!r}")
        engine = self._engine_now()
        return (0,) * len(asked) if engine is None else engine.starts().run_length(engine.time, asked)

    @alone
    def change_probability(self, last: int) -> float:
        """P(the current segment began within the ``last`` observations); the stream's own beginning is no change."""
        _checks.whole("last", last, 1)
        engine = self._engine_now()
        return 0.0 if engine is None else engine.starts().between(max(engine.time - last, 1))

    @property
    @alone
    def state(self) -> StateEstimate | None:
        """The state that the stream is in; None before the first observation."""
        view = self._preview()
        if view._engine is None or view._engine.time == 0:
            return None
        found = view._engine.state(list(view.change_points), lambda: view._generator(_STATE))
        return found._replace(parameters=view._in_units(found.parameters))

    @property
    @alone
    def states(self) -> tuple[KnownState, ...]:
        """The state dictionary, oldest state first: what the stream has been in. Empty unless ``model="recurring"``."""
        engine = self._engine_now()
        if not isinstance(engine, RegimesEngine):
            return ()
        view = self._preview()
        found = []
        for state in engine.states():
            numbers = view._in_units({"mean": state.mean, "sd": state.sd})
            found.append(state._replace(mean=numbers["mean"], sd=numbers["sd"]))
        return tuple(found)

    @property
    @alone
    def transitions(self) -> tuple[Transition, ...]:
        """How often the stream went from one known state to another. Empty unless ``model="recurring"``."""
        engine = self._engine_now()
        return tuple(engine.transitions()) if isinstance(engine, RegimesEngine) else ()

    @property
    @alone
    def recent_states(self) -> np.ndarray:
        """The id of the most probable state at each reading within the lag, oldest first; the last one is the newest.

        Empty unless ``model="recurring"``.
        """
        engine = self._engine_now()
        return engine.recent_states() if isinstance(engine, RegimesEngine) else np.zeros(0, dtype=np.int64)

    @property
    @alone
    def novelty(self) -> float | None:
        """P(the current state is new): it was first entered less than 20 readings ago.

        None during the first 300 readings, while the dictionary of 32 states is full, and for other models.
        """
        return self._engine.novelty() if isinstance(self._engine, RegimesEngine) else None

    @property
    @alone
    def next_states(self) -> tuple[NextState, ...]:
        """The states that may come next, most probable first. Empty unless ``model="recurring"``."""
        engine = self._engine_now()
        return tuple(engine.next_states()) if isinstance(engine, RegimesEngine) else ()

    @property
    @alone
    def remaining(self) -> float | None:
        """How many more readings the current state lasts with probability 1/2; None unless ``model="recurring"``."""
        engine = self._engine_now()
        return engine.remaining() if isinstance(engine, RegimesEngine) else None

    @alone
    def forecast(self, h: int = 1) -> Forecast:
        """What the next ``h`` observations will be: mean, median, 5% and 95% quantiles of each."""
        _checks.whole("h", h, 1)
        view = self._preview()
        if view._engine is None or view._engine.time == 0:
            raise ValueError("forecast needs at least one observation")
        paths = view._engine.simulate(h, _FORECAST_DRAWS, view._intake.recent, view._generator(_FORECAST))
        answers = np.stack([paths.mean(axis=0), *np.quantile(paths, [0.5, 0.05, 0.95], axis=0)])
        if view._intake.scaling is not None:
            with np.errstate(over="ignore"):  # at the ends of the doubles a forecast may lie beyond them
                answers = np.nan_to_num(answers * view._intake.scale + view._intake.location)
        return Forecast(*(answers[:, :, 0] if answers.shape[2] == 1 else answers))

    def _generator(self, purpose: int) -> np.random.Generator:
        """Random numbers for one answer: the same whenever it is asked for at the same time."""
        return np.random.default_rng([self.seed, self._time, purpose])

    def _in_units(self, parameters: dict[str, float]) -> dict[str, float]:
        """Levels and spreads as the stream is measured."""
        if self._intake.scaling is None:
            return parameters
        location, scale = self._intake.location, self._intake.scale  # 0 while all values were equal
        converted = {}
        for name, value in parameters.items():
            kind, _, channel = name.partition("[")
            i = int(channel[:-1]) if channel.endswith("]") and kind in ("mean", "sd") else 0
            if kind == "mean":
                value = value * scale[i] + location[i]
            elif kind in ("sd", "drift"):
                value = value * scale[i]
            converted[name] = float(value)
        return converted

    # Snapshots

    @alone
    def snapshot(self) -> bytes:
        """Return everything as bytes: ``restore`` continues from them."""
        return saved_detector.encode(self)

    @classmethod
    def restore(cls, data: bytes) -> OnlineDetector:
        """Return the detector of which ``data`` is a snapshot. Raises SnapshotError if they are anything else.

        All shapes, ranges and relations that compiled code relies on are checked, so that no bytes crash it. The
        checksum finds accidents. It does not stop somebody who writes other valid numbers: keep snapshots where only
        you can write.
        """
        return saved_detector.decode(cls, data)


def advance(
    detectors: Sequence[OnlineDetector],
    readings: Sequence[np.ndarray],
    policy: AlarmPolicy,
    stops: bool,
    units: int | None = None,
) -> list[tuple[int, list[Event]]]:
    """Feed readings (length, channels) to the engines of one detector, or of several with one ``_batch_key``.

    This is the one way into an engine. ``units``: how readings become rows, if not as usual. With ``stops`` each takes
    its readings up to the first that causes events. Returns how many each took, and its events.
    """
    first = detectors[0]
    assert first._engine is not None
    batch = intake.gather(
        first._intake.units if units is None else units,
        [detector._intake for detector in detectors],
        [detector._engine.slot_number for detector in detectors],  # type: ignore[union-attr]
        [detector._alarm_state for detector in detectors],
        readings,
    )
    result = first._engine.extend(batch, policy, stops)
    found: list[tuple[int, list[Event]]] = []
    first_event = first_settled = 0
    ends = zip(*(array.tolist() for array in result[:4]), strict=True)
    for i, (taken, complete, last_event, last_settled) in enumerate(ends):
        detector = detectors[i]
        caused: list[Event] = []
        detector._adopt_batch(batch, i, taken, complete)
        if last_event > first_event or last_settled > first_settled:
            caused = detector._keep(result.events[first_event:last_event], result.settled[first_settled:last_settled])
        found.append((taken, caused))
        first_event, first_settled = last_event, last_settled
    return found


def _policy(threshold: float | None, policy: AlarmPolicy | None) -> AlarmPolicy:
    if policy is None:
        return AlarmPolicy() if threshold is None else AlarmPolicy(threshold=threshold, retract=min(0.5, threshold))
    if not isinstance(policy, AlarmPolicy):
        raise ValueError(f"alarm_policy must be an AlarmPolicy, got {policy!r}")
    if threshold is not None:
        raise ValueError("give threshold or alarm_policy, not both")
    return policy
