"""A detector as a snapshot and back, with checks of everything that compiled code relies on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ishsmm_stream.model import encoding
from ishsmm_stream.model.presets import Model
from ishsmm_stream.online import alarms, build, rarity, snapshot
from ishsmm_stream.online.alarms import AlarmPolicy
from ishsmm_stream.online.change_points import change_point
from ishsmm_stream.online.renewal import adaptive
from ishsmm_stream.online.results import AnnouncedChange, Episode
from ishsmm_stream.online.snapshot import SnapshotError
from ishsmm_stream.online.validation import (
    FLOAT,
    LARGEST_COUNT,
    Field,
    check,
    columns,
    is_number,
    is_whole,
    refuse_others,
    require,
)

if TYPE_CHECKING:
    from ishsmm_stream.online.detector import OnlineDetector

_ARRAYS = {"places", "amounts_watched", "recent", "latest", "settled"}
_ALL_ARRAYS = _ARRAYS | {"location", "units", "held"}  # with those of a detector that has units

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


def _check_header(header: dict[str, Any]) -> None:
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
    for name in ("min_dwell", "lag", "max_hypotheses", "chains"):
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


def _check_lists(header: dict[str, Any], arrays: dict[str, np.ndarray], keep: int) -> None:
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


def _check_rows(arrays: dict[str, np.ndarray], channels: int, look_back: int) -> None:
    """Raise SnapshotError unless the rows that are looked back at are readings."""
    fields = {
        "latest": Field(FLOAT, (channels,), -_LARGEST_READING, _LARGEST_READING, nan=True),
        "recent": Field(FLOAT, (look_back, channels), -1e31, 1e31, nan=True),
    }
    check(arrays, fields)


_SETTINGS = (
    "model", "seed", "threshold", "alarm_policy", "prior", "hazard", "min_dwell", "outliers", "lag", "max_hypotheses",
    "chains", "keep", "warm_up",
)  # fmt: skip


def _setting(value: Any) -> Any:
    """Return an argument of the detector as plain data."""
    if isinstance(value, Model):
        return encoding.encode_model(value)
    return list(value) if isinstance(value, AlarmPolicy) else encoding.encode(value)


def encode(detector: OnlineDetector) -> bytes:
    """Return everything that a detector knows, as bytes."""
    intake, scaling, engine = detector._intake, detector._intake.scaling, detector._engine
    header: dict[str, Any] = {
        "settings": {name: _setting(getattr(detector, name)) for name in _SETTINGS},
        "time": detector._time,
        "channels": intake.channels,
        "log_first": detector._log_first,
        "counted": detector._counted,
        "settled": detector._settled_ever,
        "alarms": [list(change) for change in detector._announced],
        "unusual": [list(episode) for episode in detector._unusual],
        "repeats": intake.repeats,
        "constants": detector.constants,
    }
    state = detector._alarm_state
    arrays = {"places": state.ints, "amounts_watched": state.floats, "recent": intake.recent, "latest": intake.latest}
    arrays["settled"] = np.array(detector._settled, dtype=np.float64).reshape(-1, 4)
    if scaling is not None:
        header["is_warm"] = scaling.is_warm
        arrays |= {"location": scaling.location, "units": scaling.scale, "held": scaling.held}
    if engine is not None:
        arrays |= {f"engine.{name}": array for name, array in engine.arrays().items()}
        arrays |= {f"rarity.{name}": array for name, array in rarity.pack(engine.tracker).items()}
    return snapshot.write(header, arrays)


def decode(kind: type[OnlineDetector], data: bytes) -> OnlineDetector:
    """Return the detector of which ``data`` is a snapshot. Raises SnapshotError if they are anything else."""
    header, arrays = snapshot.read(data)
    try:
        with np.errstate(all="ignore"):
            return _decoded(kind, header, arrays)
    except SnapshotError:
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
        raise SnapshotError(f"the snapshot is not one of an OnlineDetector: {error!r}") from error


def _decoded(kind: type[OnlineDetector], header: dict[str, Any], arrays: dict[str, np.ndarray]) -> OnlineDetector:
    _check_header(header)
    settings = dict(header["settings"])
    model = settings.pop("model")
    policy = settings.pop("alarm_policy")
    prior = settings.pop("hazard")
    settings.pop("move_every", None)  # nothing moves any more
    detector = kind(
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
    _check_lists(header, arrays, detector.keep)
    alarms.check_alarm_state(arrays, detector._time, len(detector._announced))
    detector._alarm_state = alarms.AlarmState(arrays["places"], arrays["amounts_watched"])
    detector._settled.extend(change_point(row) for row in arrays["settled"])
    engine_arrays = {
        name.removeprefix("engine."): array for name, array in arrays.items() if name.startswith("engine.")
    }
    build.check_size(detector, header["channels"], engine_arrays)
    if engine_arrays:
        _load_engine(detector, engine_arrays, header, arrays)
    else:
        require(detector._time == 0, "a stream that has begun has an engine")
        _check_rows(arrays, 1, 0)
        refuse_others(arrays, _ARRAYS)
    return detector


def _load_engine(
    detector: OnlineDetector,
    engine_arrays: dict[str, np.ndarray],
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
) -> None:
    """Make the engine and what goes with it from a snapshot, after a check of the arrays."""
    detector._prepare(header["channels"])
    engine, intake = detector._engine, detector._intake
    assert engine is not None
    engine_time = engine.check_arrays(engine_arrays)
    _check_rows(arrays, intake.channels, min(intake.look_back, engine_time))
    held = 0
    if intake.scaling is not None:
        intake.scaling.load(arrays, header.get("is_warm"))
        held = len(intake.scaling.held)
    require(detector._time == engine_time + held, "the engine has seen all observations but those held back")
    engine.load(engine_arrays)
    known = _ARRAYS if intake.scaling is None else _ALL_ARRAYS
    others = [name for name in arrays if name not in known and not name.startswith("engine.")]
    if others:  # snapshots from before there was rarity have no record of it
        refuse_others(others, rarity.PACKED)
        rarity.check_packed(arrays, intake.channels, len(detector._unusual))
        rarity.unpack(engine.tracker, arrays)
        detector._set_budget()
    intake.recent, intake.latest, intake.repeats = arrays["recent"], arrays["latest"], header["repeats"]
