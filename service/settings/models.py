"""``model`` of a rule: tables in the configuration, the library's models out of it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ishsmm_stream.model.catalogue import (
    CATEGORIES,
    DURATIONS,
    EMISSIONS,
    OFFERED_DURATIONS,
    OFFERED_EMISSIONS,
    PRESETS,
    PRIORS,
    WITH_STATES,
    EmissionEntry,
)
from service.settings.nearest import nearest

if TYPE_CHECKING:
    import ishsmm_stream as hs

# Names of presets, in the annotation of a field: msgspec checks them.
if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[tuple(PRESETS)]


class ModelTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model by its parts, each with the arguments that the library's constructor has.

    ``emission`` and ``duration`` are tables with ``family`` and its arguments. A hyperparameter is a number, which is
    held fixed, or its prior: {gamma = [shape, rate]} or {beta = [a, b]}.
    """

    kind: Kind
    emission: dict[str, Any] = msgspec.field(default_factory=lambda: {"family": "normal"})
    duration: dict[str, Any] | None = None
    states: int | None = None
    hyperparameters: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_family("emission", self.emission, OFFERED_EMISSIONS)
        if self.duration is not None:
            if not PRESETS[self.kind].has_duration:
                raise ValueError(f"duration has no meaning for kind = {self.kind!r}: it has no durations of its own")
            _check_family("duration", self.duration, OFFERED_DURATIONS)
        if PRESETS[self.kind].has_states:
            if self.states is None or self.states < 1:
                raise ValueError(f"states takes the number of states for kind = {self.kind!r}, got {self.states!r}")
        elif self.states is not None:
            raise ValueError(f"states is for {' and '.join(WITH_STATES)}; {self.kind} finds the number itself")

    @property
    def channels(self) -> int:
        """How many values a reading has."""
        mean = self.emission.get("mean")
        return len(mean) if self._emission_entry.has_channels and isinstance(mean, list) else 1

    @property
    def counts(self) -> bool:
        """Whether the emission is one of whole numbers."""
        return self._emission_entry.counts

    @property
    def _emission_entry(self) -> EmissionEntry:
        return EMISSIONS[self.emission["family"]]

    @property
    def counts_below(self) -> float | None:
        """For emissions of whole numbers the first one that is too large, else None."""
        if self._emission_entry.values == CATEGORIES:
            concentration = self.emission.get("concentration")
            return float(len(concentration) if isinstance(concentration, list) else self.emission["categories"])
        return math.inf if self.counts else None

    def build(self) -> hs.Model:
        """The library's model. ValueError names the key that it cannot take."""
        import ishsmm_stream as hs

        parts: list[Any] = [] if self.states is None else [self.states]
        parts.append(_part("emission", self.emission, getattr(hs.emissions, self._emission_entry.constructor)))
        if PRESETS[self.kind].has_duration:
            duration = self.duration or {"family": "poisson"}
            constructor = getattr(hs.durations, DURATIONS[duration["family"]].constructor)
            parts.append(_part("duration", duration, constructor))
        preset = getattr(hs, self.kind)
        known = list(PRESETS[self.kind].hyperparameters.values())
        for name in self.hyperparameters:
            if name not in known:
                raise ValueError(f"hyperparameters.{name} is unknown{nearest(name, known)}")
        given = {name: _hyperparameter(name, value) for name, value in self.hyperparameters.items()}
        try:
            model: hs.Model = preset(*parts, **given)
            return model
        except ValueError as error:
            raise ValueError(f"hyperparameters.{error}" if given else str(error)) from None


def _check_family(part: str, table: dict[str, Any], families: Sequence[str]) -> None:
    family = table.get("family")
    if family not in families:
        raise ValueError(f"{part}.family takes {' | '.join(families)}, got {family!r}{nearest(str(family), families)}")


def _part(part: str, table: dict[str, Any], constructor: Callable[..., Any]) -> Any:
    arguments = {name: value for name, value in table.items() if name != "family"}
    known = _arguments(constructor)
    for name in arguments:
        if name not in known:
            raise ValueError(f"{part}.{name} is unknown{nearest(name, [*known, 'family'])}")
    required = [name for name, parameter in known.items() if parameter.default is parameter.empty]
    for name in required:
        if name not in arguments:
            raise ValueError(f"{part}.{name} is missing: {table['family']} takes {', '.join(known)}")
    try:
        return constructor(**arguments)
    except ValueError as error:
        raise ValueError(f"{part}.{error}") from None


def _arguments(constructor: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    signature = inspect.signature(constructor.__new__ if isinstance(constructor, type) else constructor)
    return {name: parameter for name, parameter in signature.parameters.items() if name != "cls"}


def _hyperparameter(name: str, value: Any) -> Any:
    import ishsmm_stream as hs

    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dict) and len(value) == 1:
        ((prior, numbers),) = value.items()
        if prior in PRIORS and isinstance(numbers, list) and len(numbers) == 2:
            try:
                return getattr(hs.priors, PRIORS[prior])(*numbers)
            except ValueError as error:
                raise ValueError(f"hyperparameters.{name}.{prior}: {error}") from None
    raise ValueError(
        f"hyperparameters.{name} takes a number, {{gamma = [shape, rate]}} or {{beta = [a, b]}}, got {value!r}"
    )
