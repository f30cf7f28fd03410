"""``[alarms]``: how many alarms a sensor may raise, and how many false changes a day the fleet may announce.

An alarm means that something is unusual for its sensor; ``per_sensor`` is its budget and holds whatever the noise. A
change is announced when its probability exceeds a threshold, which rules without one take from a budget of falsely
announced changes in the whole fleet, ``CHANGES_PER_DAY``.

A detector's threshold is a probability, and what a probability costs depends on how often it is asked: 5,000 sensors at
1 Hz are asked 432 million times a day. The conversion rests on false alarms that ``benchmarks/fleet_alarms.py`` counts
on noise in which nothing changes. Where 1 - threshold is q, the worst noise (Student's t with 4 degrees of freedom)
stays below ``_WORST`` q^``_POWER`` a reading down to q = 1e-3: in whole days by a factor of eight or more, in the first
5,000 readings of a sensor, which are the worst, by 1.7 or more. What is stricter is extrapolated, and the promise is
for detectors that have settled: in 240 sensor-days of that noise one alarm, among a sensor's first readings, was raised
whatever the threshold.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from service.settings import budgets

_SECONDS_A_DAY = 86_400.0
_WORST, _POWER = 1e-3, 0.7
# beyond these the counts say nothing
STRICTEST, LOOSEST = 1.0 - 1e-9, 0.9
USUAL_INTERVAL = 1.0  # seconds between readings, where a rule does not say

CHANGES_PER_DAY = 5.0  # falsely announced changes, in the whole fleet

PerDay = Annotated[float, Meta(gt=0.0, le=1e6)]
SensorCount = Annotated[int, Meta(ge=1, le=100_000_000)]


class Critical(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The budget of sensors whose rule has ``labels.critical = true``: few, so that each speaks up sooner."""

    # alarms of each sensor
    per_sensor: str = "1 per day"
    false_alarms_per_day: PerDay = 1.0
    expected_sensors: SensorCount = 20

    def __post_init__(self) -> None:
        budgets.check(self.per_sensor)


class AlarmBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The budget of alarms, and, for announced changes, the fleet's budget of false ones."""

    # alarms of each sensor: at most so many on average, whatever its noise
    per_sensor: str = "1 per week"
    # readings over which habits fade: a behaviour that has gone on for longer is no longer unusual
    memory: Annotated[int, Meta(ge=1000, le=100_000_000)] = 10_000
    # raised alarms and incidents of each sink that has no at_most of its own, such as "20 per day"; None: all
    at_most: str | None = None
    # deprecated: announced changes that are false, and at_most if that is not given
    false_alarms_per_day: PerDay | None = None
    expected_sensors: SensorCount = 1000
    # for rules that have none: least change of the level in standard deviations of the noise; changes of the noise
    # alone are quiet too where it is above 0
    min_effect_sd: Annotated[float, Meta(ge=0.0)] = 0.0
    critical: Critical = Critical()

    def __post_init__(self) -> None:
        budgets.check(self.per_sensor)
        budgets.check(self.at_most, "at_most")

    @property
    def sinks_at_most(self) -> str | None:
        """The limit of sinks that have none of their own.

        >>> AlarmBudget(false_alarms_per_day=2.0).sinks_at_most, AlarmBudget().sinks_at_most
        ('2 per day', None)
        """
        if self.at_most is not None or self.false_alarms_per_day is None:
            return self.at_most
        return f"{max(self.false_alarms_per_day, 1e-9):.9f}".rstrip("0").rstrip(".") + " per day"


def threshold(false_alarms_per_day: float, sensors: int, interval_s: float | None) -> float:
    """The threshold at which so many sensors raise at most so many false alarms a day.

    >>> [f"{1 - threshold(5.0, sensors, 1.0):.1g}" for sensors in (1, 1000, 5000)]
    ['0.02', '9e-07', '9e-08']
    """
    readings = sensors * _SECONDS_A_DAY / (interval_s or USUAL_INTERVAL)
    rest = (false_alarms_per_day / readings / _WORST) ** (1.0 / _POWER)
    return float(min(max(1.0 - rest, LOOSEST), STRICTEST))
