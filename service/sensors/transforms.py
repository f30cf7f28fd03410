"""A reading's values as its rule's detector takes them: transformed, and refused where the model has no place for them.

The detector refuses a whole window for one value that it cannot take, so each is looked at before. Transforms that
remember earlier readings come after a reading is accepted, see ``history``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from service.settings.rules import Rule
from service.settings.transforms import WITH_MEMORY
from service.wire.readings import BadRecord

Values = tuple[float, ...]
Preparation = Callable[[Values], Values]

# name: (function, what it takes, in words)
_TRANSFORMS: dict[str, tuple[Callable[[float], float], str]] = {
    "log": (math.log, "numbers above 0"),
    "log1p": (math.log1p, "numbers above -1"),
    "sqrt": (math.sqrt, "numbers from 0"),
}


def preparation(rule: Rule) -> Preparation | None:
    """The function that prepares the values of a reading, or None where they are taken as they are.

    It raises BadRecord with the reason ``out_of_domain`` or ``wrong_channels``. That a sensor with model = "auto" keeps
    its number of channels is for the caller to see to.
    """
    checks = [step for step in (_channels(rule), _whole_numbers(rule)) if step is not None]
    steps = checks + _transforms(rule)
    if not steps:
        return None

    def prepare(values: Values) -> Values:
        for step in steps:
            values = step(values)
        return values

    return prepare


def _channels(rule: Rule) -> Preparation | None:
    expected = rule.channels()
    if expected is None:
        return None

    def check(values: Values) -> Values:
        if len(values) != expected:
            raise BadRecord("wrong_channels", f"{len(values)} values, the rule's model takes {expected}")
        return values

    return check


def _transforms(rule: Rule) -> list[Preparation]:
    """The rule's transforms up to the first that remembers, which for counters begins with a check."""
    steps: list[Preparation] = []
    for name in rule.transforms:
        if name in WITH_MEMORY:
            return [*steps, _check_counter] if name == "counter_rate" else steps
        steps.append(_transform(name))
    return steps


def _transform(name: str) -> Preparation:
    function, takes = _TRANSFORMS[name]

    def transform(values: Values) -> Values:
        try:
            return tuple(map(function, values))
        except ValueError:
            raise BadRecord("out_of_domain", f"{name} takes {takes}, got {list(values)}") from None

    return transform


def _check_counter(values: Values) -> Values:
    if min(values) < 0.0:
        raise BadRecord("out_of_domain", f"counter_rate takes numbers from 0, got {list(values)}")
    return values


def _whole_numbers(rule: Rule) -> Preparation | None:
    below = rule.counts_below()
    if below is None:
        return None

    def check(values: Values) -> Values:
        for value in values:
            if not (0.0 <= value < below and value == math.floor(value)):
                most = "" if below == math.inf else f" to {below - 1:g}"
                raise BadRecord("out_of_domain", f"the rule's model takes whole numbers from 0{most}, got {value:g}")
        return values

    return check
