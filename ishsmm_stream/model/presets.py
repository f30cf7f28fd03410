"""The models, one call each.

``alpha0, alpha1, c, d`` and their kin: a number is held fixed, a prior from ``priors`` is sampled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream.model import topology as topologies
from ishsmm_stream.model.durations import Fixed, NegativeBinomial
from ishsmm_stream.model.durations import family as duration_family
from ishsmm_stream.model.emissions import MeanReverting
from ishsmm_stream.model.emissions import family as emission_family
from ishsmm_stream.model.priors import Beta, Gamma, Outliers
from ishsmm_stream.model.topology import Topology
from ishsmm_stream.model.units import location_and_scale

# What stands above the transition rows.
GAMMA_PROCESS = "gamma process"  # sticks w, gamma weights, rows DP(alpha1 beta_m): the paper's construction
DIRICHLET_PROCESS = "Dirichlet process"  # sticks w, rows DP(alpha1 w): the HDP models
SYMMETRIC = "symmetric"  # rows Dir(alpha1 / K): the finite Bayesian models

Hyperparameter = float | Gamma | Beta

# Of ``recurring``, in batch and online, in units of the series: what the states share. And the law of their dwells.
PHIS = (-0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.995)
NOISES = tuple(4.0**power for power in range(3, -8, -1))
SPREADS = tuple(10.0 * 4.0**power for power in range(6))
_DWELL_SIZES = (0.5, 1.0, 2.0, 4.0, 8.0)
_DWELL = 20.0  # mean dwell for each unit of size, roughly
_OUTLIERS, _OUTLIER_WIDTH = 0.01, 10.0
_ROWS, _ABOVE = 4.0, 1.0  # concentrations of the rows, and of the law above them


@dataclass(frozen=True)
class Model:
    """A member of the family: emission x duration x topology x what stands above the transition rows.

    Made by the presets below; its fields may be read, and a changed copy made with ``dataclasses.replace``.
    """

    name: str
    emission: Any
    duration: Any
    topology: Topology
    hierarchy: str
    alpha0: Hyperparameter
    alpha1: Hyperparameter  # sticky: alpha1 + kappa
    c: Hyperparameter
    d: Hyperparameter
    rho: Hyperparameter = 0.0  # kappa / (alpha1 + kappa), the share of a row's prior mass on the state itself
    strikes_self: bool = False  # HDP-HSMM: self-transitions are drawn, struck out and the row renormalised
    # Numbers of ``emission`` that are unknown, the same in all states, and uniform on a grid: ((name, values), ...).
    shared: tuple[tuple[str, tuple[float, ...]], ...] = ()
    outliers: Outliers | None = None  # readings that belong to no state: they count as missing

    def __post_init__(self) -> None:
        if type(self.emission) not in emission_family.stats_size.bodies:
            raise ValueError(f"emission must be one of ishsmm_stream.emissions, got {self.emission!r}")
        if type(self.duration) not in duration_family.stats_size.bodies:
            raise ValueError(f"duration must be one of ishsmm_stream.durations, got {self.duration!r}")
        if not isinstance(self.topology, Topology):
            raise ValueError(f"topology must be one of ishsmm_stream.topology, got {self.topology!r}")
        for name in ("alpha0", "alpha1", "c"):
            _check_positive_hyperparameter(name, getattr(self, name))
        _check_shared(self)
        _check_outliers(self)
        _check_share("d", self.d)
        _check_share("rho", self.rho)

    @property
    def is_renewal(self) -> bool:
        """Whether no state returns: the posterior is then a renewal model with exact inference."""
        return self.topology.never_returns


def _check_positive_hyperparameter(name: str, value: Any) -> None:
    if isinstance(value, Beta):
        raise ValueError(f"{name} must be a positive number or priors.Gamma, got {value!r}")
    if not isinstance(value, Gamma):
        _checks.positive(name, value)


def _check_shared(model: Model) -> None:
    for name, values in model.shared:
        if name not in model.emission._fields or len(values) == 0:
            raise ValueError(
                f"shared takes pairs of a number of {type(model.emission).__name__} and at least one value, got "
                f"{(name, values)!r}; its numbers are {', '.join(model.emission._fields)}"
            )
        for value in values:
            emission_family.with_numbers(model.emission, **{name: value})
    if model.shared and model.is_renewal:
        raise ValueError(f"shared is for models whose states return, got model {model.name!r}")


def _check_outliers(model: Model) -> None:
    if model.outliers is None:
        return
    if not isinstance(model.outliers, Outliers):
        raise ValueError(f"outliers must be priors.Outliers, got {model.outliers!r}")
    looks_back = emission_family.look_back(model.emission) > 0 and not emission_family.has_first_law(model.emission)
    if looks_back or emission_family.channels(model.emission) != 1:
        raise ValueError(
            f"outliers are for one channel and segments that do not depend on each other, got {model.emission!r}"
        )
    if model.is_renewal:
        raise ValueError(f"outliers are for models whose states return, got model {model.name!r}")


def _check_share(name: str, value: Any) -> None:
    if isinstance(value, Gamma):
        raise ValueError(f"{name} must be a number in [0, 1) or priors.Beta, got {value!r}")
    if not isinstance(value, Beta) and not 0.0 <= _checks.number(name, value) < 1.0:
        raise ValueError(f"{name} must be a number in [0, 1) or priors.Beta, got {value!r}")


def structured(
    emission: Any,
    duration: Any,
    topology: Topology,
    *,
    alpha0: Hyperparameter = Gamma(1.0, 1.0),
    alpha1: Hyperparameter = Gamma(1.0, 1.0),
    c: Hyperparameter = Gamma(1.0, 1.0),
    d: Hyperparameter = 0.0,
    name: str = "structured",
) -> Model:
    """An infinite structured hidden semi-Markov model with any topology.

        w ~ PitmanYor sticks (c, d);  gamma_k ~ Gamma(alpha0 w_k, 1)
        beta_m = gamma restricted to V_m and normalised;  pi_m ~ DP(alpha1 beta_m)

    On a finite topology the sticks are w_k = 1 / K and ``c`` and ``d`` have no part.
    """
    return Model(name, emission, duration, topology, GAMMA_PROCESS, alpha0, alpha1, c, d)


def ied(emission: Any, duration: Any, **hyperparameters: Any) -> Model:
    """Infinite explicit-duration HMM: no self-transitions, states recur. Hyperparameters as in ``structured``."""
    return structured(emission, duration, topologies.no_self_transition(), name="ied", **hyperparameters)


def ilr(emission: Any, duration: Any, **hyperparameters: Any) -> Model:
    """Infinite left-to-right HMM: every segment is a new state, so changes of state are change points.

    The posterior of the segments does not depend on alpha0, alpha1, c, d (it is a renewal model), which is why they
    rarely need a thought here.
    """
    return structured(emission, duration, topologies.left_to_right(), name="ilr", **hyperparameters)


def hdp_hsmm(
    emission: Any, duration: Any, *, alpha1: Hyperparameter = Gamma(1.0, 1.0), c: Hyperparameter = Gamma(1.0, 1.0)
) -> Model:
    """HDP hidden semi-Markov model: w ~ GEM(c), rows DP(alpha1 w) with the self-transition struck out.

    Not a limit of the IED-HMM, as the paper says: struck-out rows are DP(alpha1 (1 - w_m) beta_m), the IED's are
    DP(alpha1 beta_m).
    """
    topology = topologies.no_self_transition()
    return Model("hdp_hsmm", emission, duration, topology, DIRICHLET_PROCESS, 1.0, alpha1, c, 0.0, strikes_self=True)


def hdp_hmm(emission: Any, *, alpha1: Hyperparameter = Gamma(1.0, 1.0), c: Hyperparameter = Gamma(1.0, 1.0)) -> Model:
    """HDP hidden Markov model: w ~ GEM(c), rows DP(alpha1 w), every observation its own step."""
    return Model("hdp_hmm", emission, Fixed(0), topologies.unrestricted(), DIRICHLET_PROCESS, 1.0, alpha1, c, 0.0)


def sticky_hdp_hmm(
    emission: Any,
    *,
    alpha1_plus_kappa: Hyperparameter = Gamma(1.0, 1.0),
    rho: Hyperparameter = Beta(10.0, 1.0),
    c: Hyperparameter = Gamma(1.0, 1.0),
) -> Model:
    """Sticky HDP-HMM: rows DP(alpha1 w + kappa delta_m), with rho = kappa / (alpha1 + kappa).

    The start row is DP((alpha1 + kappa) w).
    """
    topology = topologies.unrestricted()
    return Model(
        "sticky_hdp_hmm", emission, Fixed(0), topology, DIRICHLET_PROCESS, 1.0, alpha1_plus_kappa, c, 0.0, rho=rho
    )


def bayesian_hmm(states: int, emission: Any, *, alpha: Hyperparameter = Gamma(1.0, 1.0)) -> Model:
    """Finite Bayesian HMM with K = ``states`` states and rows Dir(alpha / K, ..., alpha / K)."""
    return Model("bayesian_hmm", emission, Fixed(0), topologies.finite(states), SYMMETRIC, 1.0, alpha, 1.0, 0.0)


def bayesian_hsmm(states: int, emission: Any, duration: Any, *, alpha: Hyperparameter = Gamma(1.0, 1.0)) -> Model:
    """Finite Bayesian HSMM: as ``bayesian_hmm`` without the diagonal, with explicit durations."""
    topology = topologies.finite(states, self_transition=False)
    return Model("bayesian_hsmm", emission, duration, topology, SYMMETRIC, 1.0, alpha, 1.0, 0.0)


def recurring(y: Any) -> Model:
    """States that return, without priors: the model that ``OnlineDetector("recurring")`` follows, in units of ``y``.

    An ``hdp_hsmm`` with ``emissions.MeanReverting``. Autocorrelation, noise level and spread of the levels are shared
    by the states and drawn from grids; dwells are negative binomial; one reading in a hundred may be an outlier.
    ``y`` is one channel of real numbers, with NaN where a reading is missing. Its median and median absolute deviation
    are the location and the scale of the priors. Readings are taken as they are: if they are multiples of a step
    (counts, 0/1), each value may become a state of its own.
    """
    series = _checks.series("y", y)
    emission_family.require_channels(series, 1, "recurring")
    known = series[~np.isnan(series)]
    location, scale = location_and_scale(known) if len(known) else (0.0, 0.0)
    square = scale * scale or 1.0
    emission = MeanReverting(mean=location, spread=SPREADS[0] * square, noise=0.25 * square)
    duration = NegativeBinomial(_DWELL_SIZES, a=_DWELL, b=1.0)
    shared = (
        ("phi", PHIS),
        ("noise", tuple(noise * square for noise in NOISES)),
        ("spread", tuple(spread * square for spread in SPREADS)),
    )
    model = hdp_hsmm(emission, duration, alpha1=_ROWS, c=_ABOVE)
    outliers = Outliers(_OUTLIERS, location, _OUTLIER_WIDTH * math.sqrt(square))
    return replace(model, name="recurring", shared=shared, outliers=outliers)
