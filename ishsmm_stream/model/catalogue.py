"""The one list of what models are made of: emission families, duration families and presets, by name.

Commands, the service's settings, snapshots and detectors read it. It is plain data and imports neither numpy nor numba,
so that names can be listed before anything is compiled. To add an emission family, write its file, import it in
``emissions/__init__.py`` and add an entry here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Kinds of values.
REAL, COUNTS, CATEGORIES = "real", "counts", "categories"


class EmissionEntry(NamedTuple):
    """An emission family."""

    constructor: str  # its name in ishsmm_stream.emissions
    values: str = REAL
    has_channels: bool = False  # whether it models several channels, one for each entry of ``mean``
    is_offered: bool = True  # whether commands and settings take its name; others are made in Python only

    @property
    def counts(self) -> bool:
        """Whether the values are whole numbers, which cannot be transformed or standardised."""
        return self.values != REAL


class DurationEntry(NamedTuple):
    """A duration family."""

    constructor: str  # its name in ishsmm_stream.durations
    is_offered: bool = True


class PresetEntry(NamedTuple):
    """A preset of ``ishsmm_stream``; its name is that of the function."""

    hyperparameters: dict[str, str]  # its arguments, by the field of ``Model`` that holds them
    has_duration: bool = True
    has_states: bool = False  # whether it takes the number of states
    states_return: bool = True  # the engine of weighted particles follows it online, else the renewal engine

    @property
    def arguments(self) -> dict[str, str]:
        """All arguments but the number of states, by the field of ``Model`` that holds them."""
        parts = ("emission", "duration") if self.has_duration else ("emission",)
        return {**{part: part for part in parts}, **self.hyperparameters}


EMISSIONS = {
    "normal": EmissionEntry("Normal"),
    "poisson": EmissionEntry("Poisson", COUNTS),
    "categorical": EmissionEntry("Categorical", CATEGORIES),
    "multivariate_normal": EmissionEntry("MultivariateNormal", has_channels=True),
    "autoregressive": EmissionEntry("Autoregressive"),
    "mean_reverting": EmissionEntry("MeanReverting", is_offered=False),
    "mixed": EmissionEntry("Mixed", is_offered=False),
}
DURATIONS = {
    "poisson": DurationEntry("Poisson"),
    "negative_binomial": DurationEntry("NegativeBinomial"),
    "geometric": DurationEntry("Geometric"),
    "delayed_geometric": DurationEntry("DelayedGeometric"),
    "fixed": DurationEntry("Fixed", is_offered=False),
}
PRIORS = {"gamma": "Gamma", "beta": "Beta"}  # of hyperparameters

_STRUCTURED = {"alpha0": "alpha0", "alpha1": "alpha1", "c": "c", "d": "d"}
PRESETS = {
    "ilr": PresetEntry(_STRUCTURED, states_return=False),
    "ied": PresetEntry(_STRUCTURED),
    "hdp_hsmm": PresetEntry({"alpha1": "alpha1", "c": "c"}),
    "hdp_hmm": PresetEntry({"alpha1": "alpha1", "c": "c"}, has_duration=False),
    "sticky_hdp_hmm": PresetEntry({"alpha1": "alpha1_plus_kappa", "rho": "rho", "c": "c"}, has_duration=False),
    "bayesian_hmm": PresetEntry({"alpha1": "alpha"}, has_duration=False, has_states=True),
    "bayesian_hsmm": PresetEntry({"alpha1": "alpha"}, has_states=True),
}

RECURRING = "recurring"  # the model without priors: of ``fit``, and of online detectors

OFFERED_EMISSIONS = [name for name, entry in EMISSIONS.items() if entry.is_offered]
OFFERED_DURATIONS = [name for name, entry in DURATIONS.items() if entry.is_offered]
WITH_STATES = [name for name, entry in PRESETS.items() if entry.has_states]

_BY_CONSTRUCTOR = {entry.constructor: entry for entry in EMISSIONS.values()}


def entry_of(emission: Any) -> EmissionEntry:
    """Return the entry of an emission prior; that of real values for priors that are not listed."""
    name = type(emission).__name__
    return _BY_CONSTRUCTOR.get(name, EmissionEntry(name))
