"""``OnlineDetector``: observations in, change points, states and alarms out, at constant cost."""

from __future__ import annotations

import copy
import threading
import warnings
from collections import deque
from collections.abc import Hashable
from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream.model import encoding
from ishsmm_stream.model.durations import Fixed
from ishsmm_stream.model.emissions import Autoregressive, Categorical, Mixed, MultivariateNormal, Normal, Poisson
from ishsmm_stream.model.emissions import family as emission_family
from ishsmm_stream.model.presets import Model
from ishsmm_stream.model.priors import Beta
from ishsmm_stream.online import alarms, episodes, rarity, saved, snapshot, week
from ishsmm_stream.online.alarms import AlarmPolicy, Watch
from ishsmm_stream.online.in_use import alone
from ishsmm_stream.online.recurring import engine as recurring
from ishsmm_stream.online.recurring.engine import Recurring
from ishsmm_stream.online.renewal import adaptive, hazard, smoothing
from ishsmm_stream.online.renewal import engine as left_to_right
from ishsmm_stream.online.renewal.engine import LeftToRight, Taken, Window
from ishsmm_stream.online.results import (
    AnnouncedChange,
    ChangePoint,
    Episode,
    Event,
    Forecast,
    Rarity,
    StateEstimate,
)
from ishsmm_stream.online.scaling import Scaling
from ishsmm_stream.online.stillness import REPEATS, Stillness
from ishsmm_stream.online.validation import LARGEST_STATE, refuse_others, require

AUTO = "auto"
# Rows that one call of the compiled loop takes: bounds its buffers.
_ROWS_AT_ONCE = 4096
# Priors of "auto" for several channels, in units of the standardised stream.
_LEVEL_WEIGHT = 0.1
_DEFAULT_HAZARD = Beta(1.0, 500.0)
_DEFAULT_MIN_DWELL = 4  # shorter excursions are outliers
# Purposes of random numbers.
_STATE, _FORECAST = 1, 2
_FORECAST_DRAWS = 2000
# Readings under priors that are given are cut here, so that their squares and products remain numbers.
_LIMIT = 1e30
# Warm-up policy: never announces or raises.
_MUTED = AlarmPolicy()._replace(threshold=2.0)
# Stands for the durations of a model whose hazard is learned.
_NO_DURATION = Fixed(0)
# How many parents of a start are remembered for smoothing, and the least share of one that is.
_PARENTS = 13
_LEAST_SHARE = 1e-3
_MAX_STATES = 16  # of a chain; the one least likely to return makes room


class OnlineDetector:
    """Follows one stream. What it says depends on its settings, the seed and the values, never on how they are batched.

    ``model``: "auto", which fits itself to whatever is measured, or a model made by a preset.
    ``threshold``: the probability at which a change is announced; ``alarm_policy``: the whole policy instead, with the
    budget of alarms (``AlarmPolicy(every=1000)``: at most one alarm in 1,000 readings on average).
    ``prior``: "auto" reads the model's priors in units of the stream's first ``warm_up`` values (their median and
    spread), "model" takes them as they are; the default is "auto" for model="auto" only.
    ``hazard``: a Beta prior of a constant hazard that is learned, in place of the model's durations; segments then last
    at least ``min_dwell``.
    ``outliers``: the probability of a reading that belongs to no segment, for emissions.Normal and model="auto".
    ``lag``: how many observations back answers are still revised. ``max_hypotheses``: starts of the current segment
    that are held side by side (no state returns). ``chains``: weighted chains, rejuvenated over the lag every
    ``move_every`` observations, 0: never (states recur).
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
        chains: int = 100,
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
        self.chains = _checks.whole("chains", chains, 2)
        self.move_every = _checks.whole("move_every", move_every, 0)
        self.keep = _checks.whole("keep", keep, 1)
        self.warm_up = _checks.whole("warm_up", warm_up, 2)
        self._check_model()
        self._constants = adaptive.NEWEST
        self._policy = _policy(threshold, alarm_policy)
        self._watch = alarms.make_watch()
        self._announced: deque[AnnouncedChange] = deque(maxlen=self.keep)
        self._unusual: deque[Episode] = deque(maxlen=self.keep)
        self._settled: deque[ChangePoint] = deque(maxlen=self.keep)
        self._settled_ever = 0
        self._engine: LeftToRight | Recurring | None = None
        self._scaling: Scaling | None = None
        self._recent = np.empty((0, 1))  # rows that an autoregression looks back at
        self._stillness = Stillness(1)
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
            _checks.one_of("model", self.model, (AUTO,))
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

    def _check_emission(self, emission: Any) -> None:
        if self.outliers and not isinstance(emission, Normal):
            raise ValueError(f"outliers are for emissions.Normal and model='auto', got {type(emission).__name__}")
        if self.prior == AUTO and isinstance(emission, (Poisson, Categorical)):
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
        """Let the tracker know the budget."""
        if self._engine is not None:
            self._engine.tracker.floats[rarity.EVERY] = self._policy.every

    def _set_hour(self, hour: int) -> None:
        """Let the tracker know the hour of the week in which the next rows were read."""
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
        raw = rows = _checks.series("values", values)
        if self._engine is None:
            self._prepare(rows.shape[1])
        assert self._engine is not None
        if rows.shape[1] != self._recent.shape[1]:
            raise ValueError(f"values have {rows.shape[1]} channels, the stream has {self._recent.shape[1]}")
        if isinstance(self.model, Model):
            emission_family.check_data(self.model.emission, rows)
        length = len(rows)
        repeats = self._stillness.repeats(raw)
        self._time += length
        muted = 0
        if self._scaling is not None:
            rows, muted = self._scaling.take(raw)
        elif self._is_real:
            rows = np.clip(raw, -_LIMIT, _LIMIT)
        if self._scaling is not None and self._scaling.is_warm and muted == 0:
            is_still = repeats > REPEATS
        else:
            is_still = np.zeros(len(rows), dtype=np.bool_)
            if muted:  # the first values count whatever they are
                is_still[muted:] = repeats[length - (len(rows) - muted) :] > REPEATS
        found: list[Event] = []
        while len(rows):
            # what was held back is caught up on in silence: nobody could have been told at the time
            mute = muted > 0
            take = min(_ROWS_AT_ONCE, muted if mute else len(rows))
            policy = _MUTED if mute else self._policy_in_units()
            self._set_hour(week.NO_HOUR if mute else hour)
            taken, events = self._advance(rows[:take], is_still[:take], policy, stops)
            found += events
            rows, is_still = rows[taken:], is_still[taken:]
            muted -= taken if mute else 0
            if stops and found:
                break
        left = len(rows)
        self._time -= left
        self._stillness.go_on(raw[length - left - 1], repeats[length - left - 1])
        return length - left, found

    def _policy_in_units(self) -> AlarmPolicy:
        """The policy with its least effect in the units that the engine works in."""
        if self._scaling is None or self._policy.min_effect == 0.0 or self._scaling.scale[0] == 0.0:
            return self._policy
        return self._policy._replace(min_effect=self._policy.min_effect / float(self._scaling.scale[0]))

    def _advance(
        self, rows: np.ndarray, is_still: np.ndarray, policy: AlarmPolicy, stops: bool = False
    ) -> tuple[int, list[Event]]:
        assert self._engine is not None
        if policy is _MUTED and isinstance(self._engine, LeftToRight):
            self._engine.begin(rows)
        earlier = len(self._recent)
        y = np.concatenate([self._recent, rows]) if earlier else rows
        buffer, settled, end = self._engine.extend(y, is_still, earlier, policy, self._watch, stops)
        rows, y = rows[: end - earlier], y[:end]
        if policy is _MUTED:
            self._log_first = self._engine.log_evidence
        elif self._scaling is not None:
            self._counted += _checks.count_complete(rows)
        if self._look_back:
            self._recent = y[-self._look_back :].copy()
        return len(rows), self._keep(buffer, settled)

    def _keep(self, buffer: np.ndarray, settled: np.ndarray) -> list[Event]:
        """Keep the change points that were settled, and the alarms in step with the events, which it returns."""
        for row in settled:
            self._settled.append(smoothing.change_point(row))
        self._settled_ever += len(settled)
        events = alarms.read_events(buffer)
        for event, row in zip(events, buffer, strict=True):
            self._note(event, int(row[alarms.E_BEFORE]))
        return events

    def _note(self, event: Event, before: int) -> None:
        """Keep the lists in step with the events; ``before``: the start announced before this change."""
        if event.kind == "alarm":
            self._unusual.append(Episode(event.alarm, event.at, None, event.return_period, event.reasons, event.change))
        elif event.kind == "cleared":
            self._unusual[-1] = self._unusual[-1]._replace(cleared_at=event.at, change=event.change)
        elif event.kind == "raised":
            if self._announced and self._announced[-1].status != "retracted":
                self._announced[-1] = self._announced[-1]._replace(index=before)  # settled where it was refined to
            self._announced.append(AnnouncedChange(event.alarm, event.index, event.at, "raised"))
        else:
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

    # Many detectors at once

    @property
    def _kind(self) -> Hashable | None:
        """What it has in common with the detectors that one compiled call can serve together with it; None where it is
        served alone: before it has learned its units, if it looks at several channels or back, or if its policy has a
        least effect, which comes in those units."""
        if (
            isinstance(self._engine, LeftToRight)
            and self._scaling is not None
            and self._scaling.is_warm
            and self._look_back == 0
            and self._recent.shape[1] == 1
            and self._policy.min_effect == 0.0
        ):
            engine = self._engine
            # budgets may differ: each tracker has its own
            return id(engine.room.block), id(engine.hazard), engine.duration, self._policy._replace(every=0.0)
        return None

    def _went_on(self, window: Window, taken: Taken, i: int, events: np.ndarray, settled: np.ndarray) -> list[Event]:
        """Take over what entry ``i`` of a window says; returns the events."""
        assert isinstance(self._engine, LeftToRight)
        assert self._scaling is not None
        self._time += int(taken.readings[i])
        self._counted += int(taken.complete[i])
        self._scaling.scale[0] = window.scale[i]
        self._stillness.go_on(window.latest[i], window.repeats[i])
        self._watch.places[:] = window.places[i]
        self._watch.amounts[:] = window.amounts[i]
        self._engine.forget_answers()
        return self._keep(events, settled) if len(events) or len(settled) else []

    # What it is made of

    def _prepare(self, channels: int) -> None:
        """Build the engine for this many channels."""
        if isinstance(self.model, Model):
            expected = emission_family.channels(self.model.emission)
            if expected != channels:
                raise ValueError(f"values have {channels} channels, but the model's emission takes {expected}")
        self._engine = self._make_engine(channels)
        self._set_budget()
        self._look_back = _look_back(self._engine.emission)
        self._is_real = not isinstance(self._engine.emission, (Poisson, Categorical))
        self._recent = np.empty((0, channels))
        self._stillness = Stillness(channels)
        if (self.prior or (AUTO if self.model == AUTO else "model")) == AUTO:
            self._scaling = Scaling(channels, self.warm_up)

    def _make_engine(self, channels: int) -> LeftToRight | Recurring:
        if isinstance(self.model, Model) and not self.model.is_renewal:
            return Recurring(
                self.model,
                chains=self.chains,
                lag=self.lag,
                max_states=_MAX_STATES,
                move_every=self.move_every,
                seed=self.seed,
            )
        learned = self.hazard or (_DEFAULT_HAZARD if self.model == AUTO else None)
        duration = self.model.duration if isinstance(self.model, Model) else _NO_DURATION
        return LeftToRight(
            self._emission(channels),
            duration,
            hazard.learned_hazard(learned, self._min_dwell()) if learned else hazard.duration_hazard(duration),
            cap=self.max_hypotheses,
            lag=self.lag,
            parents=_PARENTS,
            least_share=_LEAST_SHARE,
            channels=channels,
        )

    def _emission(self, channels: int) -> Any:
        if isinstance(self.model, Model):
            return (
                adaptive.with_outliers(self.model.emission, float(self.outliers))
                if self.outliers
                else self.model.emission
            )
        if channels == 1:
            outliers = adaptive.OUTLIERS if self.outliers is None else float(self.outliers)
            return adaptive.automatic(outliers, self._constants)
        identity = tuple(tuple(float(i == j) for j in range(channels)) for i in range(channels))
        return MultivariateNormal((0.0,) * channels, _LEVEL_WEIGHT, float(channels + 2), identity)

    def _min_dwell(self) -> int:
        if self.min_dwell is not None:
            return self.min_dwell
        return _DEFAULT_MIN_DWELL if self.model == AUTO else 1

    # What it says

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

    def _caught_up(self) -> OnlineDetector:
        """Itself; while first values are held back, a copy that has taken them in with the units known so far."""
        if self._scaling is None or not len(self._scaling.held):
            return self
        view = copy.deepcopy(self)
        assert view._scaling is not None
        rows, view._scaling.held = view._scaling.held, view._scaling.held[:0]
        view._scaling.learn(rows)
        view._advance(view._scaling.take(rows)[0], np.zeros(len(rows), dtype=np.bool_), _MUTED)
        return view

    def _view(self) -> LeftToRight | Recurring | None:
        """The engine with all that was observed; None before the first observation."""
        engine = self._caught_up()._engine
        return engine if engine is not None and engine.time else None

    @property
    @alone
    def change_points(self) -> tuple[ChangePoint, ...]:
        """The change points as believed now: the settled ones, the last ``keep`` of them, then those still revised."""
        engine = self._view()
        return (*self._settled, *(engine.open_change_points() if engine else ()))

    @property
    def announced_changes(self) -> tuple[AnnouncedChange, ...]:
        """The last ``keep`` announced changes; the index of the latest is refined until the next is announced."""
        found = list(self._announced)
        if found and found[-1].status != "retracted":
            found[-1] = found[-1]._replace(index=int(self._watch.places[alarms.INDEX]))
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
        log_scale = self._scaling.log_scale if self._scaling is not None else 0.0
        return self._engine.log_evidence - self._log_first - self._counted * log_scale

    @property
    def discarded(self) -> float:
        """Mass of the hypotheses that were dropped to bound the work, added up over the stream."""
        return self._engine.discarded if self._engine else 0.0

    @property
    def effective_sample_size(self) -> float | None:
        """How many chains of equal weight would say as much, from 1 to ``chains``; None where there are no chains (the
        filter is exact), and before the first observation."""
        return self._engine.effective_sample_size if isinstance(self._engine, Recurring) else None

    @property
    @alone
    def n_states(self) -> int:
        """How many states there have been; where none returns, one more than the change points."""
        view = self._caught_up()
        if view._engine is None or view._engine.time == 0:
            return 0
        return view._engine.n_states(view._settled_ever + len(view._engine.open_change_points()))

    @alone
    def run_length(self, *quantiles: float) -> tuple[int, ...]:
        """Quantiles of the number of observations in the current segment; 5%, 50% and 95% unless told otherwise."""
        asked = [_checks.number("quantile", q) for q in quantiles or (0.05, 0.5, 0.95)]
        if min(asked) < 0.0 or max(asked) > 1.0:
            raise ValueError(f"a quantile must lie between 0 and 1, got {quantiles!r}")
        engine = self._view()
        return (0,) * len(asked) if engine is None else engine.starts().run_length(engine.time, asked)

    @alone
    def change_probability(self, last: int) -> float:
        """P(the current segment began within the ``last`` observations); the stream's own beginning is no change."""
        _checks.whole("last", last, 1)
        engine = self._view()
        return 0.0 if engine is None else engine.starts().between(max(engine.time - last, 1))

    @property
    @alone
    def state(self) -> StateEstimate | None:
        """The state that the stream is in; None before the first observation."""
        view = self._caught_up()
        if view._engine is None or view._engine.time == 0:
            return None
        found = view._engine.state(list(view.change_points), lambda: view._generator(_STATE))
        return found._replace(parameters=view._in_units(found.parameters))

    @alone
    def forecast(self, h: int = 1) -> Forecast:
        """What the next ``h`` observations will be: mean, median, 5% and 95% quantiles of each."""
        _checks.whole("h", h, 1)
        view = self._caught_up()
        if view._engine is None or view._engine.time == 0:
            raise ValueError("forecast needs at least one observation")
        paths = view._engine.simulate(h, _FORECAST_DRAWS, view._recent, view._generator(_FORECAST))
        answers = np.stack([paths.mean(axis=0), *np.quantile(paths, [0.5, 0.05, 0.95], axis=0)])
        if view._scaling is not None:
            with np.errstate(over="ignore"):  # at the ends of the doubles a forecast may lie beyond them
                answers = np.nan_to_num(answers * view._scaling.scale + view._scaling.location)
        return Forecast(*(answers[:, :, 0] if answers.shape[2] == 1 else answers))

    def _generator(self, purpose: int) -> np.random.Generator:
        """Random numbers for one answer: the same whenever it is asked for at the same time."""
        return np.random.default_rng([self.seed, self._time, purpose])

    def _in_units(self, parameters: dict[str, float]) -> dict[str, float]:
        """Levels and spreads as the stream is measured."""
        if self._scaling is None:
            return parameters
        location, scale = self._scaling.location, self._scaling.scale  # 0 while all values were equal
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
        """Everything as bytes: ``restore`` goes on from them as if nothing had happened."""
        header = {"settings": self._settings(), "time": self._time, "channels": self._recent.shape[1]}
        header |= {"log_first": self._log_first, "counted": self._counted, "settled": self._settled_ever}
        header["alarms"] = [list(change) for change in self._announced]
        header["unusual"] = [list(episode) for episode in self._unusual]
        header["repeats"] = self._stillness.count
        header["constants"] = self._constants
        arrays = {"places": self._watch.places, "amounts_watched": self._watch.amounts, "recent": self._recent}
        arrays["latest"] = self._stillness.latest
        arrays["settled"] = np.array(self._settled, dtype=np.float64).reshape(-1, 4)
        if self._scaling is not None:
            header["is_warm"] = self._scaling.is_warm
            arrays |= {
                "location": self._scaling.location,
                "units": self._scaling.scale,
                "held": self._scaling.held,
            }
        if self._engine is not None:
            arrays |= {f"engine.{name}": array for name, array in self._engine.arrays().items()}
            arrays |= {f"rarity.{name}": array for name, array in rarity.pack(self._engine.tracker).items()}
        return snapshot.write(header, arrays)

    @classmethod
    def restore(cls, data: bytes) -> OnlineDetector:
        """Return the detector of which ``data`` is a snapshot. Raises SnapshotError if they are anything else.

        All shapes, ranges and relations that compiled code relies on are checked, so that no bytes crash it. The
        checksum finds accidents. It does not stop somebody who writes other valid numbers: keep snapshots where only
        you can write.
        """
        header, arrays = snapshot.read(data)
        try:
            with np.errstate(all="ignore"):
                return cls._from_snapshot(header, arrays)
        except snapshot.SnapshotError:
            raise
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            MemoryError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise snapshot.SnapshotError(f"the snapshot is not one of an OnlineDetector: {error!r}") from error

    @classmethod
    def _from_snapshot(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> OnlineDetector:
        saved.check_header(header)
        settings = dict(header["settings"])
        model = settings.pop("model")
        policy = settings.pop("alarm_policy")
        prior = settings.pop("hazard")
        detector = cls(
            model if isinstance(model, str) else encoding.decode_model(model),
            alarm_policy=AlarmPolicy(*policy) if policy else None,
            hazard=encoding.decode(prior),
            **settings,
        )
        detector._constants = header.get("constants", 1)  # the first set had no number
        if detector._constants not in adaptive.CONSTANTS:
            raise ValueError(f"constants {detector._constants!r} are unknown; the snapshot is from a newer version")
        detector._time = header["time"]
        detector._log_first, detector._counted = header["log_first"], header["counted"]
        detector._settled_ever = header["settled"]
        detector._announced.extend(AnnouncedChange(*change) for change in header["alarms"])
        detector._unusual.extend(
            Episode(number, raised, cleared, period, tuple(reasons), change)
            for number, raised, cleared, period, reasons, change in header.get("unusual", ())
        )
        saved.check_lists(header, arrays, detector.keep)
        alarms.check_watch(arrays, detector._time, len(detector._announced))
        detector._watch = Watch(arrays["places"], arrays["amounts_watched"])
        detector._settled.extend(smoothing.change_point(row) for row in arrays["settled"])
        engine_arrays = {
            name.removeprefix("engine."): array for name, array in arrays.items() if name.startswith("engine.")
        }
        if engine_arrays:
            detector._load_engine(engine_arrays, header, arrays)
        else:
            require(detector._time == 0, "a stream that has begun has an engine")
            detector._check_engine(header["channels"], None)
            saved.check_rows(arrays, 1, 0)
            refuse_others(arrays, saved.ARRAYS)
        return detector

    def _check_engine(self, channels: int, arrays: dict[str, np.ndarray] | None) -> int:
        """Raise SnapshotError unless a snapshot's arrays can be those of the engine, and its settings fit into memory.

        Returns the engine's time. Makes the engine if there are arrays.
        """
        # "auto" has a matrix for each hypothesis of several channels
        require(8 * self.max_hypotheses * channels**2 <= LARGEST_STATE, f"there cannot be {channels} channels")
        if isinstance(self.model, Model) and not self.model.is_renewal:
            recurring.check_size(
                self.model, arrays, size=self.chains, lag=self.lag, max_states=_MAX_STATES, move_every=self.move_every
            )
            if arrays is None:
                return 0
            self._prepare(channels)
            assert isinstance(self._engine, Recurring)
            return self._engine.check_arrays(arrays)
        sizes = {"grid": hazard.GRID_SIZE if self.hazard or self.model == AUTO else 1, "parents": _PARENTS}
        sizes |= {"cap": self.max_hypotheses, "lag": self.lag, "channels": channels}
        if arrays is None:
            left_to_right.check_size(self._emission(channels), **sizes)
            return 0
        engine_time = left_to_right.check_arrays(self._emission(channels), arrays, **sizes)
        self._prepare(channels)
        return engine_time

    def _load_engine(
        self, engine_arrays: dict[str, np.ndarray], header: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> None:
        """Make the engine and what goes with it from a snapshot, after a check of the arrays."""
        channels = header["channels"]
        engine_time = self._check_engine(channels, engine_arrays)
        assert self._engine is not None
        saved.check_rows(arrays, channels, min(self._look_back, engine_time))
        held = 0
        if self._scaling is not None:
            self._scaling.load(arrays, header.get("is_warm"))
            held = len(self._scaling.held)
        require(self._time == engine_time + held, "the engine has seen all observations but those held back")
        self._engine.load(engine_arrays)
        known = saved.ARRAYS if self._scaling is None else saved.ALL_ARRAYS
        others = [name for name in arrays if name not in known and not name.startswith("engine.")]
        if others:  # snapshots from before there was rarity go on without a record
            refuse_others(others, rarity.PACKED)
            rarity.check_packed(arrays, channels, len(self._unusual))
            rarity.unpack(self._engine.tracker, arrays)
            self._set_budget()
        self._recent = arrays["recent"]
        self._stillness.go_on(arrays["latest"], header["repeats"])

    def _settings(self) -> dict[str, Any]:
        settings = {
            "model": self.model if isinstance(self.model, str) else encoding.encode_model(self.model),
            "seed": self.seed,
            "threshold": self.threshold,
            "alarm_policy": list(self.alarm_policy) if self.alarm_policy else None,
            "prior": self.prior,
            "hazard": encoding.encode(self.hazard),
            "min_dwell": self.min_dwell,
            "outliers": self.outliers,
            "lag": self.lag,
            "max_hypotheses": self.max_hypotheses,
            "chains": self.chains,
            "move_every": self.move_every,
            "keep": self.keep,
            "warm_up": self.warm_up,
        }
        return {name: encoding.plain(value) for name, value in settings.items()}


def _policy(threshold: float | None, policy: AlarmPolicy | None) -> AlarmPolicy:
    if policy is None:
        return AlarmPolicy() if threshold is None else AlarmPolicy(threshold=threshold, retract=min(0.5, threshold))
    if not isinstance(policy, AlarmPolicy):
        raise ValueError(f"alarm_policy must be an AlarmPolicy, got {policy!r}")
    if threshold is not None:
        raise ValueError("give threshold or alarm_policy, not both")
    return policy


def _look_back(emission: Any) -> int:
    """How many earlier rows a family reads."""
    if isinstance(emission, Autoregressive):
        return emission.order
    if isinstance(emission, Mixed):
        return max(_look_back(member) for member in emission.families)
    return 0
