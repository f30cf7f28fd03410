"""``[[rules]]``: what is done with the sensors whose names match a pattern."""

from __future__ import annotations

import fnmatch
import hashlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ishsmm_stream.model.catalogue import PRESETS
from service.settings import alarm_budget, budgets
from service.settings.models import ModelTable
from service.settings.times import Seconds, TimePolicy
from service.settings.transforms import Season, Transforms, season_of, steps_of

if TYPE_CHECKING:
    import ishsmm_stream as hs

EVERY_SENSOR = "*"
_LABELS_THAT_ARE_TEXT = ("site", "unit")


class DetectorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of ``ishsmm_stream.OnlineDetector`` under their own names; None leaves the choice to it."""

    seed: int = 0
    # [a, b] of the Beta prior of a constant hazard
    hazard: tuple[float, float] | None = None
    min_dwell: int | None = None
    outliers: float | None = None
    # the bounds from above keep one sensor from taking a worker's memory
    lag: Annotated[int, Meta(ge=8, le=10_000)] = 64
    max_hypotheses: Annotated[int, Meta(ge=2, le=10_000)] = 32
    chains: Annotated[int, Meta(ge=2, le=10_000)] | None = None
    move_every: int = 0  # deprecated: does nothing
    keep: Annotated[int, Meta(ge=1, le=10_000)] = 100
    warm_up: Annotated[int, Meta(ge=2, le=10_000)] = 10


class FalseAlarmRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of ``AlarmPolicy.from_false_alarms``: both per the same time."""

    false_alarms: float
    changes: float


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of ``AlarmPolicy.from_costs``."""

    false_alarm: float
    delay: float
    per_minute: float = 1.0
    effect: float = 1.0


class Alarms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When an alarm is raised (``per_sensor``, ``memory``), and when a change is announced, confirmed and retracted: a
    threshold, or what it follows from. Without them the fleet's settings hold."""

    # alarms of each sensor, such as "1 per week"
    per_sensor: str | None = None
    memory: Annotated[int, Meta(ge=1000, le=100_000_000)] | None = None
    threshold: float | None = None
    rate: FalseAlarmRate | None = None
    costs: Costs | None = None
    # a budget of its own in place of the fleet's, for so many sensors; without them, for as many as the fleet's
    false_alarms_per_day: alarm_budget.PerDay | None = None
    expected_sensors: alarm_budget.SensorCount | None = None
    retract: float | None = None
    confirm_after: int = 20
    min_segment: int = 10
    # least change of the level, in units of the (transformed) values and in standard deviations of the noise
    min_effect: float = 0.0
    min_effect_sd: float | None = None
    # probability of a new state from which it is announced, for model = "recurring"
    new_state: float = 0.5

    def __post_init__(self) -> None:
        budgets.check(self.per_sensor)
        budget = ("false_alarms_per_day", "expected_sensors")
        given = [name for name in ("threshold", "rate", "costs", *budget) if getattr(self, name) is not None]
        if len(given) > 1 and given != list(budget):
            raise ValueError(f"{' and '.join(given)} are given, which say the same thing: keep one of them")

    def under(self, shared: alarm_budget.AlarmBudget, is_critical: bool, interval_s: float | None) -> Alarms:
        """These with what they leave open taken from the fleet's budget."""
        budget = shared.critical if is_critical else shared
        given = {
            "min_effect_sd": shared.min_effect_sd if self.min_effect_sd is None else self.min_effect_sd,
            "per_sensor": self.per_sensor or budget.per_sensor,
            "memory": self.memory or shared.memory,
        }
        if self.threshold is not None or self.rate is not None or self.costs is not None:
            return msgspec.structs.replace(self, **given)
        threshold = alarm_budget.threshold(
            self.false_alarms_per_day or budget.false_alarms_per_day or alarm_budget.CHANGES_PER_DAY,
            self.expected_sensors or budget.expected_sensors,
            interval_s,
        )
        return msgspec.structs.replace(
            self, threshold=threshold, false_alarms_per_day=None, expected_sensors=None, **given
        )

    @property
    def budget(self) -> budgets.Budget:
        """The budget of alarms of each sensor."""
        return budgets.parse(self.per_sensor or alarm_budget.AlarmBudget().per_sensor)

    def policy(self) -> hs.AlarmPolicy:
        """The library's policy, with the budget of a sensor that has a reading every second."""
        import ishsmm_stream as hs

        rest: dict[str, Any] = {
            "confirm_after": self.confirm_after, "min_segment": self.min_segment,
            "min_effect": self.min_effect, "min_effect_sd": self.min_effect_sd or 0.0,
            "every": self.budget.readings(alarm_budget.USUAL_INTERVAL), "memory": self.memory or 10_000,
            "new_state": self.new_state,
        }  # fmt: skip
        if self.retract is not None:
            rest["retract"] = self.retract
        if self.rate is not None:
            return hs.AlarmPolicy.from_false_alarms(**msgspec.structs.asdict(self.rate), **rest)
        if self.costs is not None:
            return hs.AlarmPolicy.from_costs(**msgspec.structs.asdict(self.costs), **rest)
        if self.threshold is None:
            return hs.AlarmPolicy(**rest)
        # as the library does where only a threshold is given
        return hs.AlarmPolicy(threshold=self.threshold, **{"retract": min(0.5, self.threshold), **rest})


class Window(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a state record is published: after so many readings, or when their own times span so long."""

    readings: Annotated[int, Meta(ge=1)] = 60
    max_wait_s: Seconds = 60.0


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is done with the sensors that ``match``. The first rule that matches a sensor is its own."""

    match: Annotated[str, Meta(min_length=1)] = EVERY_SENSOR
    # "recurring": as "auto", with states that are known again when they return
    model: Literal["auto", "recurring"] | ModelTable = "auto"
    prior: Literal["auto", "model"] | None = None
    # one, or several in their order
    transform: Transforms = "none"
    # a cycle that is learned and taken away, after the transforms: "1d", or a table
    season: str | Season | None = None
    detector_settings: DetectorSettings = msgspec.field(name="detector", default=DetectorSettings())
    alarms: Alarms = Alarms()
    window: Window = Window()
    time: TimePolicy = TimePolicy()
    # site, unit and critical have a meaning for the tools; others are handed on
    labels: dict[str, str | bool] = msgspec.field(default_factory=dict)
    # what people call the states of models in which they return, by their number
    state_names: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _LABELS_THAT_ARE_TEXT:
            if not isinstance(self.labels.get(name, ""), str):
                raise ValueError(f"labels.{name} takes a text, got {self.labels[name]!r}")
        if not isinstance(self.labels.get("critical", False), bool):
            raise ValueError(f"labels.critical takes true or false, got {self.labels['critical']!r}")
        for number in self.state_names:
            if not (number.isascii() and number.isdecimal()):
                raise ValueError(f"state_names takes the numbers of states from 0 as keys, got {number!r}")
        if self.state_names and not self.states_return:
            raise ValueError("state_names takes a model in which states return, such as model = 'recurring'")
        counts = isinstance(self.model, ModelTable) and self.model.counts
        if self.transforms and counts:
            raise ValueError(f"transform takes 'none' where the emission counts, got {self.transform!r}")
        if self.season_settings is not None and counts:
            raise ValueError("season takes an emission that does not count")

    def matches(self, sensor: str) -> bool:
        """Whether the rule's pattern fits the whole name; ``*`` also matches ``/``."""
        return fnmatch.fnmatchcase(sensor, self.match)

    @property
    def transforms(self) -> tuple[str, ...]:
        """The transforms in their order."""
        return steps_of(self.transform)

    @property
    def season_settings(self) -> Season | None:
        """The season in full."""
        return season_of(self.season)

    def under(self, shared: alarm_budget.AlarmBudget) -> Rule:
        """The rule with the alarm policy that it has in a fleet."""
        is_critical = self.labels.get("critical", False) is True
        return msgspec.structs.replace(self, alarms=self.alarms.under(shared, is_critical, self.time.interval_s))

    @property
    def states_return(self) -> bool:
        """Whether the model knows states again when they return."""
        return self.model == "recurring" if isinstance(self.model, str) else PRESETS[self.model.kind].states_return

    def channels(self) -> int | None:
        """How many values a reading must have; None where any number will do."""
        if self.model == "recurring":
            return 1
        return None if isinstance(self.model, str) else self.model.channels

    def counts_below(self) -> float | None:
        """For models of whole numbers the first one that is too large, else None."""
        return None if isinstance(self.model, str) else self.model.counts_below

    def policy(self) -> hs.AlarmPolicy:
        """The rule's alarm policy."""
        try:
            return self.alarms.policy()
        except ValueError as error:
            raise ValueError(f"alarms.{error}") from None

    def detector(self) -> hs.OnlineDetector:
        """A new detector for a sensor of this rule."""
        import ishsmm_stream as hs

        try:
            model = self.model if isinstance(self.model, str) else self.model.build()
        except ValueError as error:
            raise ValueError(f"model.{error}") from None
        arguments = msgspec.structs.asdict(self.detector_settings)
        policy = self.policy()
        try:
            hazard, _ = arguments.pop("hazard"), arguments.pop("move_every")
            arguments["hazard"] = None if hazard is None else hs.priors.Beta(*hazard)
            return hs.OnlineDetector(model, prior=self.prior, alarm_policy=policy, **arguments)
        except ValueError as error:
            raise ValueError(f"detector.{error}") from None

    def inference_fingerprint(self) -> str:
        """A short hash of everything that determines inference.

        A sensor whose rule has another fingerprint than its detector was made with starts a new generation. The alarm
        policy, labels, windows and time policy have no part in it: they may change under a running detector. Numbers
        that are written out count as equal to the same ones taken by default.
        """
        detector = self.detector()
        parts: list[Any] = [detector.model] if isinstance(detector.model, str) else _model_parts(detector.model)
        settings = msgspec.structs.asdict(self.detector_settings)
        del settings["keep"]  # how much is remembered for display
        settings["chains"] = detector.chains
        names = self.transforms
        transform: Any = names[0] if len(names) == 1 else names or "none"
        parts += [self.prior, transform, sorted(settings.items())]
        season = self.season_settings
        if season is not None:
            parts.append((season.period_s, season.bins))
        return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _model_parts(model: hs.Model) -> list[Any]:
    topology = model.topology
    numbers = [model.alpha0, model.alpha1, model.c, model.d, model.rho]
    return [model.name, model.emission, model.duration, topology.name, topology.states, numbers]


IMPLIED = Rule()
