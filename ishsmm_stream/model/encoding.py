"""Models as plain data that JSON can hold, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ishsmm_stream.model import catalogue, durations, emissions, presets, priors
from ishsmm_stream.model.presets import Model

_KINDS = {
    kind.__name__ + group: kind
    for group, module, names in (
        ("Emission", emissions, [entry.constructor for entry in catalogue.EMISSIONS.values()]),
        ("Duration", durations, [entry.constructor for entry in catalogue.DURATIONS.values()]),
        ("Prior", priors, catalogue.PRIORS.values()),
    )
    for kind in (getattr(module, name) for name in names)
    if isinstance(kind, type)
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode(value: Any) -> Any:
    """A prior, a number or a tuple of them as plain data."""
    if type(value) in _NAMES:
        return {"kind": _NAMES[type(value)], "fields": [encode(field) for field in value]}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return plain(value)


def plain(value: Any) -> Any:
    """A number or an array of numpy's as Python's own."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def decode(value: Any) -> Any:
    """What ``encode`` was given."""
    if isinstance(value, dict):
        return _KINDS[value["kind"]](*(decode(field) for field in value["fields"]))
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    return value


def encode_model(model: Model) -> dict[str, Any]:
    """A model made by a preset as plain data."""
    if model.name not in catalogue.PRESETS:
        raise ValueError(
            f"a model made by {model.name!r} holds a function and cannot be written down; only presets can: "
            f"{', '.join(catalogue.PRESETS)}"
        )
    named = catalogue.PRESETS[model.name].arguments
    arguments = {argument: encode(getattr(model, field)) for field, argument in named.items()}
    if model.topology.states is not None:
        arguments["states"] = model.topology.states
    data = {"preset": model.name, "arguments": arguments}
    if _facts(decode_model(data)) != _facts(model):
        raise ValueError(f"the model is a changed copy of the preset {model.name!r} and cannot be written down")
    return data


def _facts(model: Model) -> tuple[Any, ...]:
    """What tells two models apart; topologies by their name."""
    fields = {name: value for name, value in vars(model).items() if name != "topology"}
    return (*fields.items(), model.topology.name, model.topology.states)


def decode_model(data: dict[str, Any]) -> Model:
    """What ``encode_model`` was given."""
    if data["preset"] not in catalogue.PRESETS:
        raise ValueError(f"there is no preset {data['preset']!r}")
    arguments = {name: decode(value) for name, value in data["arguments"].items()}
    model: Model = getattr(presets, data["preset"])(**arguments)
    return model
