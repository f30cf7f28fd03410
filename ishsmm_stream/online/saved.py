"""Checks of what a detector's snapshot holds beside its engine: the header, and arrays of the detector's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ishsmm_stream.online import rarity
from ishsmm_stream.online.snapshot import SnapshotError
from ishsmm_stream.online.validation import FLOAT, LARGEST_COUNT, Field, check, columns, is_number, is_whole, require

ARRAYS = {"places", "amounts_watched", "recent", "latest", "settled"}
ALL_ARRAYS = ARRAYS | {"location", "units", "held"}  # with those of a detector that has units

_STATUS = ("raised", "confirmed", "retracted")
_MOST_CHANNELS = 1 << 16
# Numbers of a model: beyond these limits its densities need not be numbers.
_SMALLEST, _LARGEST = 1e-100, 1e40
_MOST_NUMBERS, _DEEPEST = 100_000, 16


def _is_change(entry: Any) -> bool:
    return (
        type(entry) is list
        and len(entry) == 4
        and all(map(is_whole, entry[:3]))
        and type(entry[3]) is str
        and entry[3] in _STATUS
    )


def _is_episode(entry: Any) -> bool:
    if type(entry) is not list or len(entry) != 6:
        return False
    number, raised, cleared, period, reasons, change = entry
    return (
        is_whole(number)
        and is_whole(raised)
        and (cleared is None or is_whole(cleared))
        and is_number(period)
        and type(reasons) is list
        and all(type(reason) is str and reason in rarity.REASONS for reason in reasons)
        and is_whole(change, -1)
    )


def _is_list_of(is_entry: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(map(is_entry, value))


# What the entries of a header must be; those of later versions may be missing.
_HEADER: dict[str, Callable[[Any], bool]] = {
    "settings": lambda value: type(value) is dict,
    "time": is_whole,
    "channels": lambda value: is_whole(value, 1, _MOST_CHANNELS),
    "log_first": is_number,
    "counted": is_whole,
    "settled": is_whole,
    "alarms": _is_list_of(_is_change),
    "repeats": is_whole,
}
_LATER: dict[str, Callable[[Any], bool]] = {
    "unusual": _is_list_of(_is_episode),
    "constants": is_whole,
    "is_warm": lambda value: type(value) is bool,
}


def check_header(header: dict[str, Any]) -> None:
    """Raise SnapshotError unless a header has what a detector writes, and nothing else."""
    for name, is_valid in _HEADER.items():
        if name not in header:
            raise SnapshotError(f"the snapshot is not one of an OnlineDetector: its header has no {name!r}")
        if not is_valid(header[name]):
            raise SnapshotError(f"the snapshot's header has {name!r} = {_short(header[name])}, which cannot be")
    for name, value in header.items():
        if name in _HEADER:
            continue
        if name not in _LATER:
            raise SnapshotError(f"the snapshot's header has {_short(name)}, which this version does not know")
        if not _LATER[name](value):
            raise SnapshotError(f"the snapshot's header has {name!r} = {_short(value)}, which cannot be")
    _check_settings(header["settings"])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_settings(settings: dict[str, Any]) -> None:
    """Raise SnapshotError for numbers that no compiled function can take; the constructor checks the rest."""
    for name in ("min_dwell", "lag", "max_hypotheses", "chains", "move_every"):
        value = settings.get(name)
        require(value is None or is_whole(value), f"{name} is a whole number")
    policy = settings.get("alarm_policy")
    require(policy is None or (type(policy) is list and all(map(is_number, policy))), "a policy is made of numbers")
    numbers = _check_numbers([settings.get("model"), settings.get("hazard")], 0)
    require(numbers <= _MOST_NUMBERS, "a model is no larger than models are")


def _check_numbers(value: Any, depth: int) -> int:
    """Return how many numbers a model has; raise SnapshotError if one of them is out of range."""
    require(depth <= _DEEPEST, "a model is no deeper than models are")
    if type(value) in (int, float):
        require(value == 0 or _SMALLEST <= abs(value) <= _LARGEST, f"a model has no number {_short(value)}")
        return 1
    if type(value) is dict:
        return sum(_check_numbers(entry, depth + 1) for entry in value.values())
    return sum(_check_numbers(entry, depth + 1) for entry in value) if type(value) is list else 0


_VALID_CHANGE = columns([0.0] * 4, [LARGEST_COUNT, 1.001, LARGEST_COUNT, LARGEST_COUNT])


def check_lists(header: dict[str, Any], arrays: dict[str, np.ndarray], keep: int) -> None:
    """Raise SnapshotError unless the lists of a detector are no longer than it keeps."""
    settled = arrays["settled"]
    count = len(settled) if settled.ndim else 0
    check(arrays, {"settled": Field(FLOAT, (count, 4), columns=_VALID_CHANGE)})
    longest = max(count, len(header["alarms"]), len(header.get("unusual", ())))
    require(longest <= keep, f"no more than {keep} are kept")
    time = header["time"]
    require(count <= header["settled"] <= time, "change points are settled once")
    require(max(header["counted"], header["repeats"]) <= time, "nothing is counted that was not seen")


_LARGEST_READING = np.finfo(float).max


def check_rows(arrays: dict[str, np.ndarray], channels: int, look_back: int) -> None:
    """Raise SnapshotError unless the rows that are looked back at are readings."""
    fields = {
        "latest": Field(FLOAT, (channels,), -_LARGEST_READING, _LARGEST_READING, nan=True),
        "recent": Field(FLOAT, (look_back, channels), -1e31, 1e31, nan=True),
    }
    check(arrays, fields)
