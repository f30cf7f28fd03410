"""A model made from the command line: names of families, settings, and priors scaled to the data where none is set."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ishsmm_stream.commands._read import Series, require_whole_numbers
from ishsmm_stream.model import catalogue
from ishsmm_stream.model.catalogue import OFFERED_DURATIONS, OFFERED_EMISSIONS, PRESETS, RECURRING, WITH_STATES

if TYPE_CHECKING:
    from ishsmm_stream import Model

_MOST_CATEGORIES = 200


class Request(NamedTuple):
    """What the command line says about the model."""

    model: str
    emission: str | None
    duration: str | None
    states: int | None
    settings: Sequence[str]  # NAME=VALUE


class Built(NamedTuple):
    """A model, and all of its numbers by name as they were used."""

    model: Model
    settings: dict[str, Any]


def check_request(request: Request) -> None:
    """Raise ValueError for what is wrong whatever the data are."""
    from ishsmm_stream import _checks

    _checks.one_of("--model", request.model, [*PRESETS, RECURRING])
    if request.model == RECURRING:
        given = {
            "--emission": request.emission, "--duration": request.duration, "--states": request.states,
            "--set": request.settings,
        }  # fmt: skip
        for option, value in given.items():
            if value:
                raise ValueError(f"--model {RECURRING} needs no priors: leave {option} out")
        return
    if request.emission is not None:
        _checks.one_of("--emission", request.emission, OFFERED_EMISSIONS)
    if request.duration is not None:
        _checks.one_of("--duration", request.duration, OFFERED_DURATIONS)
        if not PRESETS[request.model].has_duration:
            raise ValueError(f"--model {request.model} has no durations of its own: leave --duration out")
    if PRESETS[request.model].has_states:
        if request.states is None:
            raise ValueError(f"--model {request.model} needs --states, the number of states")
        _checks.whole("--states", request.states, at_least=1)
    elif request.states is not None:
        raise ValueError(f"--states is for {' and '.join(WITH_STATES)}; {request.model} finds the number itself")
    for assignment in request.settings:
        _parse_setting(assignment)


def build_model(request: Request, series: Series, length: int | None = None) -> Built:
    """The model asked for, with defaults scaled to ``series`` where nothing is set.

    ``length``: that of the whole, where ``series`` is its beginning only.
    """
    import ishsmm_stream as hs

    check_request(request)
    if request.model == RECURRING:
        return _recurring(series)
    several = len(series.columns) > 1
    emission = request.emission or ("multivariate_normal" if several else "normal")
    if several and emission != "multivariate_normal":
        raise ValueError(f"--emission {emission} takes one column, got {', '.join(series.columns)}")
    preset = PRESETS[request.model]
    duration = request.duration or "poisson" if preset.has_duration else None
    given = _sorted_settings(request, emission, duration)

    emission_numbers = emission_defaults(emission, series)
    if isinstance(given["emission"].get("concentration"), tuple):  # one a category, which says how many there are
        del emission_numbers["categories"]
    emission_numbers |= given["emission"]
    parts = [
        _constructed("emission", getattr(hs.emissions, catalogue.EMISSIONS[emission].constructor), emission_numbers)
    ]
    settings: dict[str, Any] = {"emission": {"family": emission, **parts[0]._asdict()}, "duration": None}
    if duration is not None:
        numbers = duration_defaults(duration, length or len(series.values)) | given["duration"]
        parts.append(_constructed("duration", _constructor("durations", duration), numbers))
        settings["duration"] = {"family": duration, **parts[1]._asdict()}
    if request.states is not None:
        parts.insert(0, request.states)
        settings["states"] = request.states
    model = getattr(hs, request.model)(*parts, **given["model"])
    settings |= {name: _plain(getattr(model, field)) for field, name in preset.hyperparameters.items()}
    return Built(model, settings)


def _recurring(series: Series) -> Built:
    """The model without priors, in units of the data."""
    import ishsmm_stream as hs

    model = hs.recurring(series.values)
    settings = {
        "emission": {"family": "mean_reverting", **model.emission._asdict(), **dict(model.shared)},
        "duration": {"family": "negative_binomial", **model.duration._asdict()},
        "alpha1": model.alpha1,
        "c": model.c,
        "outliers": model.outliers._asdict() if model.outliers else None,
    }
    return Built(model, settings)


def _constructed(part: str, family: Callable[..., Any], numbers: dict[str, Any]) -> Any:
    try:
        return family(**numbers)
    except ValueError as error:
        raise ValueError(f"{part}.{error}") from None


def _plain(value: Any) -> Any:
    """A hyperparameter as JSON has it: a number, or its prior by name."""
    return {"prior": type(value).__name__.lower(), **value._asdict()} if hasattr(value, "_asdict") else value


# Settings


def _sorted_settings(request: Request, emission: str, duration: str | None) -> dict[str, dict[str, Any]]:
    """The settings by part: "emission", "duration" and "model"."""
    from ishsmm_stream import _checks

    known = [f"emission.{name}" for name in _setting_names("emissions", emission)]
    if duration is not None:
        known += [f"duration.{name}" for name in _setting_names("durations", duration)]
    known += PRESETS[request.model].hyperparameters.values()
    result: dict[str, dict[str, Any]] = {"emission": {}, "duration": {}, "model": {}}
    for assignment in request.settings:
        name, value = _parse_setting(assignment)
        _checks.one_of("--set", name, known)
        part, _, key = name.rpartition(".")
        result[part or "model"][key] = value
    return result


def _constructor(part: str, family: str) -> Callable[..., Any]:
    """Return what makes the prior of a family; ``part``: emissions or durations."""
    import ishsmm_stream as hs

    entries = catalogue.EMISSIONS if part == "emissions" else catalogue.DURATIONS
    constructor: Callable[..., Any] = getattr(getattr(hs, part), entries[family].constructor)
    return constructor


def _setting_names(part: str, family: str) -> list[str]:
    import inspect

    constructor = _constructor(part, family)
    names = inspect.signature(constructor.__new__ if isinstance(constructor, type) else constructor)
    return [name for name in names.parameters if name != "cls"]


def _parse_setting(assignment: str) -> tuple[str, Any]:
    name, equals, text = assignment.partition("=")
    if not equals or not name.strip() or not text.strip():
        raise ValueError(f"--set takes NAME=VALUE such as emission.shape=2, got {assignment!r}")
    try:
        return name.strip(), parse_value(text.strip())
    except ValueError as error:
        raise ValueError(f"--set {assignment}: {error}") from None


def parse_value(text: str) -> Any:
    """A number, true or false, numbers 1,2,3, a matrix 1,0;0,1, or a prior gamma(shape,rate) or beta(a,b).

    >>> parse_value("2"), parse_value("0.5,1"), parse_value("1,0;0,1"), parse_value("gamma(2,1)")
    (2, (0.5, 1), ((1, 0), (0, 1)), Gamma(shape=2.0, rate=1.0))
    """
    from ishsmm_stream import priors

    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    prior = re.fullmatch(r"(gamma|beta)\(([^,]+),([^,]+)\)", text, re.IGNORECASE)
    if prior:
        family = priors.Gamma if prior[1].lower() == "gamma" else priors.Beta
        return family(_number(prior[2]), _number(prior[3]))
    if ";" in text:
        return tuple(tuple(_number(cell) for cell in row.split(",")) for row in text.split(";"))
    if "," in text:
        return tuple(_number(cell) for cell in text.split(","))
    return _number(text)


def _number(text: str) -> float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is no number")


# Defaults


def emission_defaults(family: str, series: Series) -> dict[str, Any]:
    """Return the numbers of a weak prior in the units of the data."""
    entry = catalogue.EMISSIONS[family]
    if entry.counts:
        require_whole_numbers(series, family)
    numbers: dict[str, Any] = _constructor("emissions", family).weak_numbers(series.values)  # type: ignore[attr-defined]
    if numbers.get("categories", 0) > _MOST_CATEGORIES:
        raise ValueError(
            f"{series.source}: category {numbers['categories'] - 1} in column {series.columns[0]!r}; categories are "
            f"numbered from 0, at most {_MOST_CATEGORIES} of them"
        )
    return numbers


def duration_defaults(family: str, length: int) -> dict[str, Any]:
    """Priors under which segments last about a tenth of the series, from ten observations up."""
    typical = max(10.0, length / 10.0)
    if family == "negative_binomial":
        return {"size": 2.0, "a": typical / 2.0, "b": 2.0}  # E[r] = size a / (b - 1)
    if family in ("geometric", "delayed_geometric"):
        return {"a": 2.0, "b": typical}  # E[r] = b / (a - 1), after the delay
    return {"shape": 1.0, "scale": typical}
