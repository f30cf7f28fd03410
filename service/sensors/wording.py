"""A change in words that a person understands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from service.settings import Rule
from service.wire.messages import Segment

if TYPE_CHECKING:
    import ishsmm_stream as hs

# The noise is mentioned when it grew or shrank by this factor.
_NOISE_MATTERS = 1.1
# Beyond this factor its size says nothing more.
_NOISE_COUNTS = 1000.0
# The level is called unchanged when it moved by less than this share of the noise.
_LEVEL_MATTERS = 0.1
_MOST_CHANNELS = 3
_DIGITS_OF_LARGE = 4


def transform_words(rule: Rule) -> str:
    """What a rule does to values before its detector takes them; "none" where that is nothing."""
    steps = [*rule.transforms, *(["season"] if rule.season_settings else [])]
    return " ".join(steps) or "none"


_SPANS = (
    ("year", 31557600.0), ("month", 2629800.0), ("week", 604800.0), ("day", 86400.0), ("hour", 3600.0),
    ("minute", 60.0), ("second", 1.0),
)  # fmt: skip


def duration_words(seconds: float) -> str:
    """Return a duration in its largest fitting unit.

    >>> duration_words(12 * 86400.0), duration_words(5400.0), duration_words(0.2)
    ('12 days', '90 minutes', '1 second')
    """
    for name, size in _SPANS:
        if seconds >= 2.0 * size or name == "second":
            count = max(1, round(seconds / size))
            return f"{count:,} {name}{'s' if count > 1 else ''}"
    raise AssertionError("the last unit takes everything")


def frequency_words(period_s: float, record_s: float) -> str:
    """Return how often something like this happens; ``record_s``: how long the sensor has been watched.

    >>> frequency_words(12 * 86400.0, 40 * 86400.0), frequency_words(40 * 86400.0, 21 * 86400.0)
    ('about once in 12 days', 'not seen in 3 weeks of record')
    """
    if period_s > record_s:
        return f"not seen in {duration_words(record_s)} of record"
    return f"about once in {duration_words(period_s)}"


_REASON_WORDS = {
    "change": "changed", "level": "unusual level", "spike": "spike", "louder": "noisier than usual",
    "quieter": "quieter than usual", "stuck": "stuck at one value", "drift": "slow drift",
    "new_state": "in a new state", "new_transition": "new transition", "unusual_dwell": "unusual length of a visit",
}  # fmt: skip


def reason_words(reasons: Sequence[str]) -> str:
    """Return the reasons of an alarm in words.

    >>> reason_words(["level", "spike"])
    'unusual level, spike'
    """
    return ", ".join(_REASON_WORDS[reason] for reason in reasons)


def state_words(kind: str, name: str, state: hs.KnownState | None, reasons: Sequence[str]) -> str:
    """Return news about a state in words, such as ``state 312 again, visit 5, level 4.2``."""
    if kind == "spike":
        return "spike beyond all earlier readings"
    level = "" if state is None else f", level {state.mean:.3g}"
    if kind == "new_state" or "new_state" in reasons:
        return f"new state {name}{level}"
    visit = "" if state is None else f", visit {state.visits}"
    new = ", for the first time from the state before" if "new_transition" in reasons else ""
    return f"state {name} again{visit}{level}{new}"


def words(before: Segment | None, after: Segment | None, transform: str = "none") -> str:
    """What changed, such as ``level 4.1 -> 6.3, noise x1.2``. ``transform``: the rule's, since levels are in its units.

    >>> from service.wire.messages import segment
    >>> words(segment({"mean": 4.1, "sd": 1.0}), segment({"mean": 6.3, "sd": 1.2}))
    'level 4.1 -> 6.3, noise x1.2'
    >>> words(segment({"rate": 3.08}), segment({"rate": 1.01}))
    'rate 3.1 -> 1.0'
    """
    if after is None:
        return "a change"
    if before is None:
        return _alone(after, transform)
    parts = _levels(before, after, transform) + _noises(before, after) + _slopes(before, after)
    if not parts:
        parts = _most_moved(before, after)
    return ", ".join(parts) if parts else "a change in kind"


def _alone(after: Segment, transform: str) -> str:
    if after.level is None:
        return "a change"
    return f"{_level_name(after, transform)} now {_number(after.level, _decimals(abs(after.level)))}"


def _level_name(segment: Segment, transform: str) -> str:
    name = "rate" if "rate" in segment.parameters else "level"
    return name if transform == "none" else f"{transform} {name}"


def _levels(before: Segment, after: Segment, transform: str) -> list[str]:
    if before.level is not None and after.level is not None:
        return [_moved(_level_name(after, transform), before.level, after.level, after.noise)]
    channels = [name for name in after.parameters if name.startswith("mean[")]
    found = []
    for name in channels:
        old, new = before.parameters.get(name), after.parameters[name]
        if old is None or new is None:
            continue
        noise = after.parameters.get(f"sd{name.removeprefix('mean')}")
        # channels have units of their own, so that they are compared by their noise
        size = abs(new - old) / noise if noise else abs(new - old)
        label = "level" if transform == "none" else f"{transform} level"
        found.append((-size, name, _moved(f"{label}{name.removeprefix('mean')}", old, new, noise)))
    found.sort()
    return [text for _, _, text in found[:_MOST_CHANNELS]]


def _moved(name: str, old: float, new: float, noise: float | None) -> str:
    difference = abs(new - old)
    if difference == 0.0 or (noise is not None and difference < _LEVEL_MATTERS * noise):
        return f"{name} unchanged at {_number(new, _decimals(noise or abs(new)))}"
    decimals = _decimals(difference)
    return f"{name} {_number(old, decimals)} -> {_number(new, decimals)}"


def _noises(before: Segment, after: Segment) -> list[str]:
    if not before.noise or not after.noise:
        return []
    ratio = after.noise / before.noise
    if 1.0 / _NOISE_MATTERS < ratio < _NOISE_MATTERS:
        return []
    if ratio > _NOISE_COUNTS:
        return [f"noise more than x{_NOISE_COUNTS:g}"]
    if ratio < 1.0 / _NOISE_COUNTS:
        return [f"noise less than x{1.0 / _NOISE_COUNTS:g}"]
    return [f"noise x{ratio:.2g}" if ratio < 10.0 else f"noise x{ratio:.0f}"]


def _slopes(before: Segment, after: Segment) -> list[str]:
    """A drift that began, ended or turned."""
    old, new = before.parameters.get("drift") or 0.0, after.parameters.get("drift") or 0.0
    noise = after.noise or 0.0
    # a slope is worth a word when it carries the level beyond the noise within a hundred observations
    if abs(new - old) * 100.0 <= noise or new == old:
        return []
    return [f"drift {_number(old, _decimals(abs(new - old)))} -> {_number(new, _decimals(abs(new - old)))}"]


def _most_moved(before: Segment, after: Segment) -> list[str]:
    """For models without a level: the parameters that moved most."""
    moved = []
    for name, new in after.parameters.items():
        old = before.parameters.get(name)
        if old is not None and new is not None and old != new:
            decimals = _decimals(abs(new - old))
            moved.append((-abs(new - old), name, f"{name} {_number(old, decimals)} -> {_number(new, decimals)}"))
    return [text for _, _, text in sorted(moved)[:2]]


def _decimals(resolution: float) -> int:
    """Decimals that show two digits of a difference."""
    if not 0.0 < resolution < math.inf:
        return 1
    return max(0, 1 - math.floor(math.log10(resolution)))


def _number(value: float, decimals: int) -> str:
    """In full where that is short, else with an exponent.

    >>> _number(1234.5678, 1), _number(0.0000012, 7), _number(-0.01, 1)
    ('1234.6', '1.2e-06', '0.0')
    """
    if decimals > 6 or abs(value) >= 1e7:
        return f"{value:.{_DIGITS_OF_LARGE}g}"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text
