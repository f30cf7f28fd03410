"""A model made from the command line: names of families, settings, and priors scaled to the data where none is set."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ishsmm_stream.commands._read import Series, require_whole_numbers

if TYPE_CHECKING:
    import numpy as np

    from ishsmm_stream import Model

# name: the hyperparameters that --set takes for it
MODELS = {
    "ilr": ("alpha0", "alpha1", "c", "d"),
    "ied": ("alpha0", "alpha1", "c", "d"),
    "hdp_hsmm": ("alpha1", "c"),
    "hdp_hmm": ("alpha1", "c"),
    "sticky_hdp_hmm": ("alpha1_plus_kappa", "rho", "c"),
    "bayesian_hmm": ("alpha",),
    "bayesian_hsmm": ("alpha",),
}
WITHOUT_DURATION = ("hdp_hmm", "sticky_hdp_hmm", "bayesian_hmm")
WITH_STATES = ("bayesian_hmm", "bayesian_hsmm")
EMISSIONS = {
    "normal": "Normal",
    "poisson": "Poisson",
    "categorical": "Categorical",
    "multivariate_normal": "MultivariateNormal",
    "autoregressive": "Autoregressive",
}
DURATIONS = {
    "poisson": "Poisson",
    "negative_binomial": "NegativeBinomial",
    "geometric": "Geometric",
    "delayed_geometric": "DelayedGeometric",
}
# A presets' names for fields that Model calls otherwise.
_FIELDS = {"alpha": "alpha1", "alpha1_plus_kappa": "alpha1"}
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

    _checks.one_of("--model", request.model, MODELS)
    if request.emission is not None:
        _checks.one_of("--emission", request.emission, EMISSIONS)
    if request.duration is not None:
        _checks.one_of("--duration", request.duration, DURATIONS)
        if request.model in WITHOUT_DURATION:
            raise ValueError(f"--model {request.model} has no durations of its own: leave --duration out")
    if request.model in WITH_STATES:
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
    several = len(series.columns) > 1
    emission = request.emission or ("multivariate_normal" if several else "normal")
    if several and emission != "multivariate_normal":
        raise ValueError(f"--emission {emission} takes one column, got {', '.join(series.columns)}")
    duration = None if request.model in WITHOUT_DURATION else request.duration or "poisson"
    given = _sorted_settings(request, emission, duration)

    emission_numbers = emission_defaults(emission, series)
    if isinstance(given["emission"].get("concentration"), tuple):  # one a category, which says how many there are
        del emission_numbers["categories"]
    emission_numbers |= given["emission"]
    parts = [_constructed("emission", getattr(hs.emissions, EMISSIONS[emission]), emission_numbers)]
    settings: dict[str, Any] = {"emission": {"family": emission, **parts[0]._asdict()}, "duration": None}
    if duration is not None:
        numbers = duration_defaults(duration, length or len(series.values)) | given["duration"]
        parts.append(_constructed("duration", getattr(hs.durations, DURATIONS[duration]), numbers))
        settings["duration"] = {"family": duration, **parts[1]._asdict()}
    if request.states is not None:
        parts.insert(0, request.states)
        settings["states"] = request.states
    model = getattr(hs, request.model)(*parts, **given["model"])
    settings |= {name: _plain(getattr(model, _FIELDS.get(name, name))) for name in MODELS[request.model]}
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

    known = [f"emission.{name}" for name in _setting_names("emissions", EMISSIONS[emission])]
    if duration is not None:
        known += [f"duration.{name}" for name in _setting_names("durations", DURATIONS[duration])]
    known += MODELS[request.model]
    result: dict[str, dict[str, Any]] = {"emission": {}, "duration": {}, "model": {}}
    for assignment in request.settings:
        name, value = _parse_setting(assignment)
        _checks.one_of("--set", name, known)
        part, _, key = name.rpartition(".")
        result[part or "model"][key] = value
    return result


def _setting_names(part: str, family: str) -> list[str]:
    import inspect

    import ishsmm_stream as hs

    constructor = getattr(getattr(hs, part), family)
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
    """Weak priors in the units of the data.

    The variance inside segments is judged by the differences between neighbours, which changes touch only here and
    there; the spread of the segments' means by the variance of all of the data.
    """
    import numpy as np

    values = series.values
    if family == "poisson":
        require_whole_numbers(series, family)
        average = float(np.nanmean(values))
        return {"shape": 1.0, "rate": _rounded(1.0 / average) if average > 0.0 else 1.0}
    if family == "categorical":
        require_whole_numbers(series, family)
        categories = max(2, int(np.nanmax(values)) + 1)
        if categories > _MOST_CATEGORIES:
            raise ValueError(
                f"{series.source}: category {categories - 1} in column {series.columns[0]!r}; categories are numbered "
                f"from 0, at most {_MOST_CATEGORIES} of them"
            )
        return {"concentration": 1.0, "categories": categories}
    centres = [_rounded(float(np.nanmedian(column))) for column in values.T]
    noises = [_rounded(noise_variance(column)) for column in values.T]
    # sd of a segment's mean about the centre: that of the data, or some three times the noise where this is more
    weights = [noise / max(float(np.nanvar(column)), 1e-300) for noise, column in zip(noises, values.T, strict=True)]
    mean_weight = _rounded(min(0.1, *weights))
    if family == "multivariate_normal":
        channels = len(centres)
        scale = tuple(tuple(2.0 * noises[i] if i == j else 0.0 for j in range(channels)) for i in range(channels))
        return {"mean": tuple(centres), "mean_weight": mean_weight, "freedom": channels + 3.0, "scale": scale}
    if family == "autoregressive":
        level = float(np.nanmean(values**2)) / noises[0]
        return {
            "order": 1, "intercept_variance": _rounded(max(10.0, level)), "lag_variance": _rounded(1.0 / noises[0]),
            "shape": 2.0, "scale": noises[0],
        }  # fmt: skip
    return {"mean": centres[0], "mean_weight": mean_weight, "shape": 2.0, "scale": noises[0]}


def noise_variance(values: np.ndarray) -> float:
    """The variance of independent noise, by the median size of differences between neighbours.

    Where more than half of the differences are zero, by their mean square; 1 for a constant.
    """
    import numpy as np

    present = values[~np.isnan(values)]
    differences = np.diff(present)
    if len(differences) == 0:
        return 1.0
    # a difference of two has twice the variance; 1.4826 makes the median absolute value a standard deviation
    robust = 0.5 * (1.4826 * float(np.median(np.abs(differences)))) ** 2
    return robust or 0.5 * float(np.mean(differences**2)) or 1.0


def duration_defaults(family: str, length: int) -> dict[str, Any]:
    """Priors under which segments last about a tenth of the series, from ten observations up."""
    typical = max(10.0, length / 10.0)
    if family == "negative_binomial":
        return {"size": 2.0, "a": typical / 2.0, "b": 2.0}  # E[r] = size a / (b - 1)
    if family in ("geometric", "delayed_geometric"):
        return {"a": 2.0, "b": typical}  # E[r] = b / (a - 1), after the delay
    return {"shape": 1.0, "scale": typical}


def _rounded(value: float) -> float:
    """Three digits: a default is a rough guess and should look like one."""
    return float(f"{value:.3g}")
